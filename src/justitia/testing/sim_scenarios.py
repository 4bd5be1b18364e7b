"""Small random scenarios of the simulator, and engines that can be looked into."""

from dataclasses import dataclass, field
from fractions import Fraction
from typing import Any

from hypothesis import strategies as st

from justitia.core.policies import Policy
from justitia.sim.engine import Engine
from justitia.sim.fast.engine import FastEngine
from justitia.sim.loop import MakeEngine
from justitia.sim.scenario import (
    ApplicationPlan,
    EnginePlan,
    InferencePlan,
    RunPlan,
    Scenario,
    Segment,
    in_order,
)
from justitia.sim.step_models import step_time_of

#: Coefficients that are powers of 2: sums of step times are exact, whatever their order.
EXACT_STEP_TIME = (
    '{"floor_s": 0.0078125, "compute_s": 0.00390625, "per_token_s": 0.000030517578125,'
    ' "per_sequence_s": 0.0, "per_kv_token_s": 9.5367431640625e-07, "per_prefill_pair_s": 0.0}'
)
#: Every step takes this long, so that times are steps.
STEP_S = 2.0**-7
EVEN_STEP_TIME = (
    '{"floor_s": 0.0078125, "compute_s": 0.0, "per_token_s": 0.0, "per_sequence_s": 0.0,'
    ' "per_kv_token_s": 0.0, "per_prefill_pair_s": 0.0}'
)
BLOCK_SIZE_TOKENS = 4
TICK_S = 2.0**-10


def inference(prompt: int | tuple[Segment, ...], output: int, **others: Any) -> InferencePlan:
    """Make an inference; a number is the length of a prompt that nobody shares."""
    segments = prompt if isinstance(prompt, tuple) else (Segment("", prompt),)
    return InferencePlan(prompt=segments, output_tokens=output, **others)


def run(run_id: str, *inferences: InferencePlan, at_s: float = 0.0, application: str = "") -> Any:
    """Make a run; prompts without a name get one of their own."""
    named = []
    for place, each in enumerate(inferences):
        prompt = tuple(
            segment if segment.stream else Segment(f"{run_id}/{place}/{number}", segment.tokens)
            for number, segment in enumerate(each.prompt)
        )
        named.append(
            InferencePlan(
                prompt=prompt,
                output_tokens=each.output_tokens,
                after=each.after,
                pause_s=each.pause_s,
                output_stream=each.output_stream,
            )
        )
    return RunPlan(id=run_id, application=application, arrival_s=at_s, inferences=tuple(named))


def engine(**others: Any) -> EnginePlan:
    """Make a small engine in which times are steps."""
    plan: dict[str, Any] = {
        "blocks": 40,
        "block_size_tokens": BLOCK_SIZE_TOKENS,
        "max_num_batched_tokens": 64,
        "step_time": EVEN_STEP_TIME,
    }
    return EnginePlan(**(plan | others))


def scenario(*runs: RunPlan, engines: tuple[EnginePlan, ...] = (), **others: Any) -> Scenario:
    """Make a scenario."""
    return Scenario(engines=engines or (engine(),), runs=in_order(runs), **others)


@st.composite
def prompts(draw: st.DrawFn, /) -> tuple[Segment, ...]:
    """Prompts of up to 32 tokens, some of which begin alike."""
    shared = draw(st.lists(st.tuples(st.sampled_from("ab"), st.integers(1, 10)), max_size=2))
    own = draw(st.integers(1, 12))
    return (*(Segment(stream, tokens) for stream, tokens in shared), Segment("", own))


@st.composite
def run_plans(
    draw: st.DrawFn, /, name: str, *, has_stages: bool, has_pauses: bool, has_sharing: bool
) -> Any:
    """Runs of up to 5 inferences, in stages or all at once."""
    calls = []
    for place in range(draw(st.integers(1, 5))):
        prompt = draw(prompts()) if has_sharing else (Segment("", draw(st.integers(1, 24))),)
        after: tuple[int, ...] = ()
        if has_stages and place:
            after = tuple(draw(st.lists(st.integers(0, place - 1), max_size=2, unique=True)))
        pause_s = draw(st.sampled_from([0, 0, 3, 50])) * TICK_S if has_pauses else 0.0
        output = draw(st.integers(0, 24))
        calls.append(inference(prompt, output, after=after, pause_s=pause_s))
    at_s = draw(st.integers(0, 400)) * TICK_S
    return run(name, *calls, at_s=at_s, application=draw(st.sampled_from(["x", "y"])))


@st.composite
def scenarios(
    draw: st.DrawFn,
    /,
    *,
    has_stages: bool = True,
    has_pauses: bool = True,
    has_sharing: bool = True,
    max_engines: int = 2,
    max_runs: int = 6,
    step_time: str = EXACT_STEP_TIME,
    **fixed: Any,
) -> Scenario:
    """Scenarios in which KV cache, places and tokens of a step are short. ``fixed``: of engines."""
    plan = {
        "blocks": draw(st.sampled_from([14, 20, 40])),
        "max_num_seqs": draw(st.sampled_from([1, 3, 100])),
        "max_num_batched_tokens": draw(st.sampled_from([2, 7, 64])),
        "watermark": draw(st.sampled_from([0.0, 0.0, 0.1])),
        "has_prefix_cache": draw(st.booleans()),
        "step_time": step_time,
    }
    number = draw(st.integers(1, max_engines))
    names = [f"r{place}" for place in range(draw(st.integers(1, max_runs)))]
    kind = {"has_stages": has_stages, "has_pauses": has_pauses, "has_sharing": has_sharing}
    runs = [draw(run_plans(name, **kind)) for name in names]
    return scenario(
        *runs,
        engines=(engine(**(plan | fixed)),) * number,
        applications=(ApplicationPlan(name="x", weight=draw(st.sampled_from([0.5, 1, 3]))),),
    )


@dataclass
class Workshop:
    """Makes fast engines of a class and keeps them."""

    kind: type[FastEngine] = FastEngine
    is_stepwise: bool = False
    engines: list[FastEngine] = field(default_factory=list)

    @property
    def make(self) -> MakeEngine:
        """What ``play`` takes as ``make_engine``."""

        def make(engine_id: str, plan: EnginePlan, policy: Policy) -> Engine:
            step_time = step_time_of(plan.step_time)
            made = self.kind(engine_id, plan, policy, step_time, is_stepwise=self.is_stepwise)
            self.engines.append(made)
            return made

        return make


def steps(seconds: float) -> Fraction:
    """Turn a time into steps of an engine whose steps are even."""
    return Fraction(seconds) / Fraction(STEP_S)
