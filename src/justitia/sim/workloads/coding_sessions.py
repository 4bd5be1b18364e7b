"""Sessions of coding agents: turns of calls with tools between them, on a context that grows.

Drawn from a table of statistics of Weka's trace of coding agents (github.com/callanjfox/
kv-cache-tester, ``traces/``, Apache-2.0: 710 sessions, 49,334 calls), or read from that trace
itself. A run is a turn: a user's question and all calls until the next one. Turns come when they
would in a session that is served at once, whether the turn before has ended or not.

The engine is synthetic: an H200 with a model of Llama-3.1-8B's shape, and the memory that is left
beside the weights for the KV cache, 845,000 tokens.
"""

import json
import random
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Final

from justitia.core.errors import InvalidValueError
from justitia.sim.scenario import (
    ApplicationPlan,
    EnginePlan,
    InferencePlan,
    RunPlan,
    Scenario,
    Segment,
    in_order,
)
from justitia.sim.workloads.readers.options import ReadOptions
from justitia.sim.workloads.readers.registry import read_trace
from justitia.sim.workloads.spread import Spread, fixed

_WEKA: Final = "Weka kv-cache-tester: median and 90th percentile; bounds synthetic"
APPLICATION: Final = "coding-agent"

#: 2 x (8.03e9 - 0.53e9 of the embedding) bytes of weights; 32 layers x 8 heads x 128 x 2 x 2 bytes
#: of keys and values a token. The H200: 4.8 TB/s, 989 TFLOP/s, 141 GB at 90 %.
ENGINE: Final = EnginePlan(
    blocks=52_800,
    max_model_len_tokens=262_144,
    max_num_batched_tokens=8192,
    step_time=json.dumps(
        {
            "weights_bytes": 15.0e9,
            "kv_bytes_per_token": 131_072,
            "flops_per_token": 15.0e9,
            "flops_per_pair": 4 * 4096 * 32,
            "bandwidth_bytes_s": 4.8e12,
            "flops_s": 989e12,
            "layers": 32,
        }
    ),
)

#: What all sessions have in common: the tools and the system's instructions.
INSTRUCTIONS: Final = fixed(14_947, "Weka kv-cache-tester: median of tool and system tokens")
#: What a session adds to that in its first prompt, which has 24,386 tokens in the median.
FIRST: Final = Spread(9_439, 0.8, 500, 60_000, source="Weka kv-cache-tester: median; synthetic")
#: Tokens of a prompt that the one before had not, the answer to that one among them.
NEW: Final = Spread(
    705,
    1.6,
    64,
    65_000,
    own=0.9,
    source="Weka kv-cache-tester: median; spread between those of its 90th and 99th percentiles",
)
OUTPUT: Final = Spread(216, 1.11, 20, 4_000, own=0.8, source=_WEKA)
CALLS: Final = Spread(2, 1.67, 1, 40, own=1.0, source=_WEKA)
TURNS: Final = Spread(4, 1.46, 1, 20, own=1.0, source=_WEKA)
TOOL_S: Final = Spread(9, 2.05, 1, 120, own=1.0, source=_WEKA)
THINK_S: Final = Spread(25, 2.5, 3, 300, own=1.0, source=_WEKA)
#: Of a call, where only the time of the next turn depends on it.
CALL_S: Final = fixed(6, "Weka kv-cache-tester: median of api_time, 5.7 s")

STATISTICS: Final = {
    "instructions, tokens": INSTRUCTIONS,
    "rest of the first prompt, tokens": FIRST,
    "new in a prompt, tokens": NEW,
    "output, tokens": OUTPUT,
    "calls in a turn": CALLS,
    "turns in a session": TURNS,
    "tool, s": TOOL_S,
    "user between turns, s": THINK_S,
    "call, s": CALL_S,
}
"""The table that sessions are drawn from."""


def coding_sessions(
    *, seed: int, num_sessions: int = 40, window_s: float = 300.0, engine: EnginePlan = ENGINE
) -> Scenario:
    """Draw sessions that begin within a window; each turn is a run.

    Raises:
        InvalidValueError: there is no session, or the window is not a finite number >= 0.
    """
    if num_sessions < 1 or not 0 <= window_s < float("inf"):
        raise InvalidValueError(
            "num_sessions and window_s",
            f"must be >= 1 and finite >= 0, got {num_sessions} and {window_s}",
        )
    runs: list[RunPlan] = []
    for number in range(num_sessions):
        rng = random.Random(f"{seed}/session/{number}")  # noqa: S311 - repeatable, not secret
        begin_s = rng.uniform(0.0, window_s)
        runs += _Session(f"session-{number:03}", rng, engine.max_model_len_tokens).turns(begin_s)
    return Scenario(
        engines=(engine,),
        runs=in_order(runs),
        applications=(ApplicationPlan(name=APPLICATION),),
        seed=seed,
        about=f"{num_sessions} sessions of coding agents within {window_s:g} s, seed {seed}",
    )


def recorded_sessions(
    *,
    path: str,
    seed: int,
    num_runs: int = 200,
    window_s: float = 600.0,
    max_pause_s: float = 120.0,
    engine: EnginePlan = ENGINE,
) -> Scenario:
    """Read the first turns of Weka's trace (format ``weka-csv``), sessions beginning at random.

    Turns with a call that the engine's context does not hold are left out; pauses are cut.

    Raises:
        InvalidValueError: the file is no such trace, or nothing of it fits.
        OSError: it cannot be read.
    """
    options = ReadOptions(
        seed=seed,
        application=APPLICATION,
        window_s=window_s,
        max_pause_s=max_pause_s,
        max_runs=num_runs,
        engines=(engine,),
    )
    scenario = read_trace("weka-csv", Path(path), options).scenario
    fitting = tuple(
        run
        for run in scenario.runs
        if all(
            call.prompt_tokens + call.output_tokens <= engine.max_model_len_tokens
            for call in run.inferences
        )
    )
    if not fitting:
        raise InvalidValueError("path", f"no turn of {path} fits the engine's context")
    return replace(scenario, runs=fitting)


@dataclass
class _Session:
    name: str
    rng: random.Random
    most_tokens: int

    def __post_init__(self) -> None:
        # How much larger than others the numbers of the session as a whole are.
        self._common = self.rng.gauss(0, 1)
        self._prompt = [
            Segment(f"{APPLICATION}/instructions", self._draw(INSTRUCTIONS)),
            Segment(f"{self.name}/first", self._draw(FIRST)),
        ]

    def _draw(self, spread: Spread) -> int:
        return spread.draw(self.rng, self._common)

    def turns(self, begin_s: float) -> Iterator[RunPlan]:
        """Draw the turns; the session ends early where its context is full."""
        at_s = begin_s
        for number in range(self._draw(TURNS)):
            run_id = f"{self.name}/{number}"
            calls = tuple(self._calls(run_id))
            if not calls:
                return
            yield RunPlan(
                id=run_id, application=APPLICATION, arrival_s=round(at_s, 6), inferences=calls
            )
            at_s += sum(call.pause_s + self._draw(CALL_S) for call in calls)
            at_s += self._draw(THINK_S)

    def _calls(self, run_id: str) -> Iterator[InferencePlan]:
        for place in range(self._draw(CALLS)):
            output_tokens = self._draw(OUTPUT)
            prompt_tokens = sum(segment.tokens for segment in self._prompt)
            if prompt_tokens + output_tokens > self.most_tokens:
                return
            stream = f"{run_id}/answer-{place}"
            yield InferencePlan(
                prompt=tuple(self._prompt),
                output_tokens=output_tokens,
                after=(place - 1,) if place else (),
                pause_s=float(self._draw(TOOL_S)) if place else 0.0,
                output_stream=stream,
            )
            # The next prompt goes on with the answer, and a tool's result or a question.
            own_tokens = max(1, self._draw(NEW) - output_tokens)
            self._prompt += [
                Segment(stream, output_tokens),
                Segment(f"{run_id}/input-{place}", own_tokens),
            ]
