import asyncio
import itertools
import random
from dataclasses import dataclass, field

import pytest

from justitia.local.agents import Agent
from justitia.local.records import RunRecord
from justitia.local.workload import (
    DEFAULT_MIX,
    FIRST_TASK_SEED,
    Arrival,
    NoHooks,
    Workload,
    make_workload,
    play,
)


@dataclass(frozen=True)
class StubTask:
    prompt: str
    duration_s: float


@dataclass(frozen=True)
class StubUsage:
    stage: str = "only"
    prompt_tokens: int = 10
    cached_tokens: int = 2
    output_tokens: int = 3
    started_at_s: float = 0.0
    finished_at_s: float = 0.0


@dataclass
class StubLlm:
    inferences: list = field(default_factory=list)


def stub_agent(run=None, durations_s=None):
    async def sleep_for_its_duration(llm, task):
        await asyncio.sleep(task.duration_s)
        now_s = asyncio.get_running_loop().time()
        llm.inferences.append(StubUsage(started_at_s=now_s - task.duration_s, finished_at_s=now_s))
        return "done"

    def make_task(seed: int):
        rng = random.Random(seed)
        return StubTask(f"task {rng.random()}", durations_s or rng.randint(1, 5))

    return Agent("a", lambda **_: StubLlm(), make_task, run or sleep_for_its_duration)


def stub_workload(*arrivals_s):
    arrivals = (Arrival(at_s, "a", index) for index, at_s in enumerate(arrivals_s))
    return Workload(0, 10.0, tuple(arrivals))


async def play_stub(workload, agent, **kwargs):
    return await play(
        workload, base_url="http://127.0.0.1:9/v1", model="m", agents={"a": agent}, **kwargs
    )


class RecordingHooks:
    def __init__(self):
        self.calls = []

    async def on_start(self, run_id, application, prompt):
        self.calls.append(("start", run_id, application, prompt))

    async def on_end(self, run_id):
        self.calls.append(("end", run_id))


@pytest.mark.looptime
async def test_runs_start_at_their_arrival_and_are_recorded_in_that_order():
    records = await play_stub(stub_workload(0.0, 2.0, 7.0), stub_agent(durations_s=4))
    assert [(r.arrived_at_s, r.finished_at_s, r.jct_s) for r in records] == [
        pytest.approx((0.0, 4.0, 4.0)),
        pytest.approx((2.0, 6.0, 4.0)),
        pytest.approx((7.0, 11.0, 4.0)),
    ]
    assert [r.task_seed for r in records] == [0, 1, 2]
    assert records[1].inferences[0].started_at_s == pytest.approx(2.0)
    assert len({r.run_id for r in records}) == 3


@pytest.mark.looptime
async def test_hooks_are_told_of_start_and_end_also_of_a_failed_run():
    async def fail(_llm, _task):
        raise RuntimeError("the model is gone")

    hooks, told = RecordingHooks(), []
    [record] = await play_stub(
        stub_workload(0.0), stub_agent(fail), hooks=hooks, on_progress=lambda *n: told.append(n)
    )
    assert [call[:2] for call in hooks.calls] == [("start", record.run_id), ("end", record.run_id)]
    assert hooks.calls[0][3].startswith("task ")
    assert record.error == "RuntimeError: the model is gone"
    assert told == [(1, 1)]


@pytest.mark.looptime
async def test_a_failure_touches_no_other_run():
    async def fail_the_second(_llm, task):
        await asyncio.sleep(1)
        if task.prompt == second_prompt:
            raise ValueError("nonsense")
        return "done"

    agent = stub_agent(fail_the_second)
    second_prompt = agent.task(1).prompt
    records = await play_stub(stub_workload(0.0, 0.0, 0.0), agent)
    assert [r.error for r in records] == [None, "ValueError: nonsense", None]


@pytest.mark.looptime
async def test_a_failing_hook_is_recorded_as_its_runs_failure():
    class Broken(NoHooks):
        async def on_end(self, run_id):
            assert run_id
            raise ConnectionError("scheduler away")

    [record] = await play_stub(stub_workload(0.0), stub_agent(), hooks=Broken())
    assert record.error == "ConnectionError: scheduler away"
    assert len(record.inferences) == 1


@pytest.mark.looptime
async def test_cancelling_leaves_no_task_behind():
    before = asyncio.all_tasks()
    ended = []

    async def run_for_ever(_llm, _task):
        try:
            await asyncio.Event().wait()
        finally:
            ended.append(1)

    playing = asyncio.create_task(
        play_stub(stub_workload(0.0, 1.0, 50.0), stub_agent(run_for_ever))
    )
    await asyncio.sleep(5)
    playing.cancel()
    with pytest.raises(asyncio.CancelledError):
        await playing
    assert ended == [1, 1]
    assert asyncio.all_tasks() == before


def test_equal_seeds_give_equal_workloads():
    first, again = (make_workload(seed=5, num_runs=40, window_s=60) for _ in range(2))
    assert first == again
    assert first != make_workload(seed=6, num_runs=40, window_s=60)


def test_arrivals_are_ordered_fill_the_window_and_come_in_bursts():
    workload = make_workload(seed=1, num_runs=300, window_s=100)
    times_s = [arrival.arrival_s for arrival in workload.arrivals]
    assert times_s == sorted(times_s)
    assert times_s[0] == 0
    assert times_s[-1] == 100
    gaps_s = sorted(b - a for a, b in itertools.pairwise(times_s))
    mean_s = 100 / 299
    assert gaps_s[150] < mean_s / 4  # the median of exponential gaps would be 0.69 of their mean
    assert gaps_s[-1] > 3 * mean_s


def test_the_mix_is_kept_to_the_run_and_task_seeds_are_the_benchmarks_own():
    workload = make_workload(seed=2, num_runs=100, window_s=10)
    applications = [arrival.application for arrival in workload.arrivals]
    assert {name: applications.count(name) for name in DEFAULT_MIX} == {
        name: round(100 * share) for name, share in DEFAULT_MIX.items()
    }
    seeds = [arrival.task_seed for arrival in workload.arrivals]
    assert len(set(seeds)) == 100
    assert min(seeds) >= FIRST_TASK_SEED


@pytest.mark.parametrize(
    "arguments",
    [
        {"num_runs": 0},
        {"window_s": -1},
        {"window_s": float("nan")},
        {"mix": {"a": -1.0, "b": 2.0}},
        {"mix": {"a": 0.0}},
        {"mix": {}},
    ],
    ids=str,
)
def test_a_workload_that_makes_no_sense_is_refused(arguments):
    with pytest.raises(ValueError, match=r"need|shares"):
        make_workload(**{"seed": 1, "num_runs": 3, "window_s": 1.0, **arguments})


@pytest.mark.looptime
async def test_a_record_comes_back_from_its_line():
    [record] = await play_stub(stub_workload(1.0), stub_agent())
    assert RunRecord.from_json(record.to_json()) == record
    assert "\n" not in record.to_json()


@pytest.mark.parametrize("line", ["", "{}", "[]", '{"run_id": 1}', "null", "nonsense"])
def test_a_broken_line_is_refused(line):
    with pytest.raises(ValueError, match=r"not a run record|Expecting"):
        RunRecord.from_json(line)
