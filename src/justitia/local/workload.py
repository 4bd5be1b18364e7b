"""Make a workload of agent runs and play it against a server.

The mix follows the paper (section V): many small runs, some middling, few large; arrivals come in
bursts. The same seed gives the same arrivals and tasks, so policies are compared on equal work.
"""

import asyncio
import random
import uuid
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Protocol

import openai

from justitia.apportionment import by_largest_remainders
from justitia.local.agents import Agent, Llm, Task
from justitia.local.records import InferenceRecord, RunRecord

# Shares of runs, small 66 %, middling 26 %, large 8 %. The paper's mix is 72/26/2 in 300 runs; a
# workload of some thirty runs needs a larger share to hold a large run at all.
DEFAULT_MIX: Mapping[str, float] = MappingProxyType(
    {
        "kbqa-verification": 0.15,
        "code-checking": 0.15,
        "alfworld-interaction": 0.12,
        "equation-verification": 0.12,
        "fact-verification": 0.12,
        "plan-and-execute": 0.13,
        "self-consistency": 0.13,
        "document-merging": 0.04,
        "map-reduce-summarization": 0.04,
    }
)

# Task seeds below are the recorder's, so that no predictor is judged on what it learnt from.
FIRST_TASK_SEED = 10_000

# Runs of a burst on average, and how much shorter the gaps within one are than between bursts.
_RUNS_PER_BURST = 3
_GAP_WITHIN_BURST = 0.05


@dataclass(frozen=True, slots=True)
class Arrival:
    """One run to come, in seconds after the workload begins."""

    arrival_s: float
    application: str
    task_seed: int


@dataclass(frozen=True, slots=True)
class Workload:
    """Runs in order of arrival."""

    seed: int
    window_s: float
    arrivals: tuple[Arrival, ...]


class RunHooks(Protocol):
    """Called around each run; when one raises, its run is recorded as failed."""

    async def on_start(self, run_id: str, application: str, prompt: str) -> None:
        """Before the run's first inference."""

    async def on_end(self, run_id: str) -> None:
        """After its last one, also of a run that failed."""


class NoHooks:
    """Tells nobody."""

    async def on_start(self, run_id: str, application: str, prompt: str) -> None:
        """Do nothing."""

    async def on_end(self, run_id: str) -> None:
        """Do nothing."""


def make_workload(
    *,
    seed: int,
    num_runs: int,
    window_s: float,
    mix: Mapping[str, float] = DEFAULT_MIX,
) -> Workload:
    """Draw ``num_runs`` arrivals within ``window_s`` seconds.

    Applications come in the exact shares of ``mix`` (largest remainders), in random order. Arrivals
    come in bursts: gaps between bursts are exponential, within a burst twenty times shorter.

    Raises:
        ValueError: ``num_runs`` < 1, ``window_s`` < 0, or a share is negative or all are 0.
    """
    if num_runs < 1 or not window_s >= 0:
        raise ValueError(f"need num_runs >= 1 and window_s >= 0, got {num_runs} and {window_s}")
    rng = random.Random(seed)  # noqa: S311 - repeatable, not secret
    applications = _apportion(mix, num_runs)
    rng.shuffle(applications)
    times_s = _bursty_times_s(rng, num_runs, window_s)
    arrivals = (
        Arrival(round(at_s, 3), application, FIRST_TASK_SEED + seed * 1000 + index)
        for index, (at_s, application) in enumerate(zip(times_s, applications, strict=True))
    )
    return Workload(seed, window_s, tuple(arrivals))


async def play(
    workload: Workload,
    *,
    base_url: str,
    model: str,
    agents: Mapping[str, Agent],
    hooks: RunHooks | None = None,
    on_progress: Callable[[int, int], None] | None = None,
) -> list[RunRecord]:
    """Start every run at its arrival time and return their records in order of arrival.

    Each run is a task of its own. A run that fails is recorded with its error and touches no
    other. Cancelling this call cancels every run and waits for them. ``on_progress`` receives the
    number of runs that ended and of all runs.

    Raises:
        KeyError: the workload names an application that ``agents`` lacks.
    """
    # Tasks are made beforehand: making one reads files and would delay the others' arrivals.
    tasks = [agents[a.application].task(a.task_seed) for a in workload.arrivals]
    async with openai.AsyncOpenAI(base_url=base_url, api_key="none") as client:
        player = _Player(
            base_url=base_url,
            model=model,
            agents=agents,
            hooks=hooks or NoHooks(),
            client=client,
            on_progress=on_progress or (lambda _done, _all: None),
            num_runs=len(tasks),
            began_at_s=asyncio.get_running_loop().time(),
        )
        async with asyncio.TaskGroup() as group:
            plays = [
                group.create_task(player.play_run(arrival, task))
                for arrival, task in zip(workload.arrivals, tasks, strict=True)
            ]
    return [played.result() for played in plays]


@dataclass(kw_only=True)
class _Player:
    base_url: str
    model: str
    agents: Mapping[str, Agent]
    hooks: RunHooks
    client: openai.AsyncOpenAI
    on_progress: Callable[[int, int], None]
    num_runs: int
    began_at_s: float
    num_ended: int = 0

    async def play_run(self, arrival: Arrival, task: Task) -> RunRecord:
        await asyncio.sleep(self.began_at_s + arrival.arrival_s - self._now_s())
        arrived_at_s = self._now_s()
        run_id = f"{arrival.application}-{uuid.uuid4().hex[:12]}"
        agent = self.agents[arrival.application]
        llm = agent.make_llm(
            base_url=self.base_url,
            model=self.model,
            application=arrival.application,
            run_id=run_id,
            client=self.client,
        )
        error = await self._serve(agent, task, run_id, llm)
        record = RunRecord(
            run_id=run_id,
            application=arrival.application,
            task_seed=arrival.task_seed,
            arrived_at_s=arrived_at_s - self.began_at_s,
            finished_at_s=self._now_s() - self.began_at_s,
            inferences=self._inferences(llm),
            error=error,
        )
        self.num_ended += 1
        self.on_progress(self.num_ended, self.num_runs)
        return record

    async def _serve(self, agent: Agent, task: Task, run_id: str, llm: Llm) -> str | None:
        """Run the agent between its hooks; return what went wrong, if anything did."""
        error: str | None = None
        try:
            await self.hooks.on_start(run_id, agent.application, task.prompt)
            await agent.run(llm, task)
        except Exception as problem:  # noqa: BLE001 - any failure of an agent is its own, recorded
            error = _describe(problem)
        try:
            await self.hooks.on_end(run_id)
        except Exception as problem:  # noqa: BLE001 - as above
            error = error or _describe(problem)
        return error

    def _inferences(self, llm: Llm) -> tuple[InferenceRecord, ...]:
        return tuple(
            InferenceRecord(
                stage=usage.stage,
                prompt_tokens=usage.prompt_tokens,
                cached_tokens=usage.cached_tokens,
                output_tokens=usage.output_tokens,
                started_at_s=usage.started_at_s - self.began_at_s,
                finished_at_s=usage.finished_at_s - self.began_at_s,
            )
            for usage in llm.inferences
        )

    @staticmethod
    def _now_s() -> float:
        return asyncio.get_running_loop().time()


def _describe(problem: Exception) -> str:
    return f"{type(problem).__name__}: {problem}"[:500]


def _apportion(mix: Mapping[str, float], num_runs: int) -> list[str]:
    """Give each application its share of ``num_runs`` by largest remainders."""
    total = sum(mix.values())
    if total <= 0 or min(mix.values()) < 0:
        raise ValueError(f"the shares of a mix are >= 0 and not all 0, got {dict(mix)}")
    return by_largest_remainders(mix, num_runs)


def _bursty_times_s(rng: random.Random, num_runs: int, window_s: float) -> list[float]:
    times = [0.0]
    for _ in range(num_runs - 1):
        in_burst = rng.random() < 1 - 1 / _RUNS_PER_BURST
        times.append(times[-1] + rng.expovariate(1.0) * (_GAP_WITHIN_BURST if in_burst else 1.0))
    return [window_s * at / times[-1] if times[-1] > 0 else 0.0 for at in times]
