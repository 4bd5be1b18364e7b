"""What the benchmark of learning inside a run plays and makes of it, without an engine."""

import asyncio
from collections import Counter
from pathlib import Path
from types import SimpleNamespace

import pytest

from justitia.local.records import InferenceRecord, RunRecord
from justitia.predictor.recordings import NUM_SHELVES, RecordedInference, RecordedRun
from justitia.sim.loop import play
from justitia.sim.scenario import InferencePlan, RunPlan, Segment

FOLDER = Path(__file__).resolve().parents[2] / "bench" / "learning"


@pytest.fixture(scope="module")
def workload(load):
    return load("workload")


@pytest.fixture(scope="module")
def comparing(load):
    return load("comparing")


@pytest.fixture(scope="module")
def replay(load):
    return load("replay")


def recorded(seed, application, tokens=100):
    inferences = tuple(
        RecordedInference(
            stage="s", prompt_tokens=tokens + place, cached_tokens=60, output_tokens=20 + seed % 9
        )
        for place in range(3)
    )
    return RecordedRun(
        application=application, task_seed=seed, prompt=f"text {seed}", inferences=inferences
    )


RUNS = [recorded(seed, name) for name in "abc" for seed in range(10 * NUM_SHELVES)]


def size(workload, judged, before=6, lengths=4):
    return workload.Size(judged=judged, before=before, lengths=lengths)


# -- what is played ----------------------------------------------------------


def test_what_is_played_before_shares_no_text_with_what_is_judged(workload):
    judged, before = workload.chosen(RUNS, 13, size(workload, judged=5))
    assert {run.shelf for run in judged} == {13 % NUM_SHELVES}
    assert 13 % NUM_SHELVES not in {run.shelf for run in before}
    assert Counter(run.application for run in judged) == dict.fromkeys("abc", 5)
    assert Counter(run.application for run in before) == dict.fromkeys("abc", 6)
    assert judged == workload.chosen(RUNS, 13, size(workload, judged=5))[0]


def test_more_runs_than_were_recorded_are_refused(workload):
    with pytest.raises(SystemExit, match="a: 10 recorded runs where 11 are wanted"):
        workload.chosen(RUNS, 1, size(workload, judged=11))


def test_runs_are_lengthened_and_nothing_of_them_is_cached(workload):
    longer = workload.longer(recorded(3, "a"), 4)
    assert [each.prompt_tokens for each in longer.inferences] == [400, 404, 408]
    assert {each.output_tokens for each in longer.inferences} == {4 * 23}
    assert {each.cached_tokens for each in longer.inferences} == {0}


def test_runs_arrive_in_a_third_of_the_time_that_serving_them_takes(workload):
    runs = [recorded(seed, "a", tokens=150) for seed in range(100)]
    scenario = workload.scenario_of(runs, 1, 4)
    assert play(scenario, "fcfs").duration_s / scenario.runs[-1].arrival_s == pytest.approx(
        3.0, rel=0.1
    )


def test_the_arrivals_name_runs_by_their_place(workload):
    scenario = workload.scenario_of(RUNS[:20], 1, 2)
    arrivals = workload.workload_of(scenario, 2.0).arrivals
    assert [each.task_seed for each in arrivals] == list(range(20))
    assert [each.arrival_s for each in arrivals] == [2 * run.arrival_s for run in scenario.runs]
    assert [each.application for each in arrivals] == [run.application for run in scenario.runs]


def test_a_runs_declared_cost_is_equally_wrong_in_every_play(workload):
    scenario = workload.scenario_of(RUNS[:20], 1, 2)
    wrong = workload.costs_of(scenario, "error:0.53")
    assert wrong == workload.costs_of(scenario, "error:0.53")
    exact = workload.costs_of(scenario, "exact")
    assert sum(each != right for each, right in zip(wrong, exact, strict=True)) >= 19
    assert workload.costs_of(scenario, None) == [None] * 20


def test_where_means_are_the_estimates_they_know_no_run_that_is_judged(comparing):
    for plan in comparing.plans_of(0.53, has_history=True):
        names = list(plan.plays)
        if plan.is_learning or None in plan.plays.values():
            assert names[0] == "before"
            assert len(names) == 2
            assert len(set(plan.plays.values())) == 1
    names = [name for plan in comparing.plans_of(0.53, has_history=False) for name in plan.plays]
    assert names == ["exact", "again", "fixed", "before", "learning"]


# -- how a run is replayed ---------------------------------------------------


class Engine:
    """Answers each inference after as many seconds as it has output tokens; says when it came."""

    def __init__(self, off_by=0):
        self.came_s = {}
        self.calls = []
        self.off_by = off_by
        self.completions = self

    async def create(self, *, prompt, extra_body, **others):
        wanted = extra_body["vllm_xargs"]["emulated_output_tokens"]
        self.came_s[len(prompt)] = asyncio.get_running_loop().time()
        self.calls.append((tuple(prompt), others))
        await asyncio.sleep(wanted)
        return SimpleNamespace(
            usage=SimpleNamespace(prompt_tokens=len(prompt), completion_tokens=wanted + self.off_by)
        )


def run_plan(*inferences):
    return RunPlan(
        id="r",
        application="a",
        arrival_s=0.0,
        inferences=tuple(
            InferencePlan(prompt=(Segment(f"s{tokens}", tokens),), output_tokens=out, after=after)
            for tokens, out, after in inferences
        ),
    )


@pytest.mark.looptime
async def test_an_inference_goes_out_when_all_that_it_waits_for_have_ended(replay):
    engine = Engine()
    run = replay.Replay(base_url="", model="m", application="a", run_id="x", client=engine)
    began_s = asyncio.get_running_loop().time()
    await run.replay(run_plan((10, 5, ()), (20, 7, ()), (30, 2, (0,)), (40, 1, (1, 2))))
    came_s = {tokens: at_s - began_s for tokens, at_s in engine.came_s.items()}
    assert came_s == {10: 0, 20: 0, 30: 5, 40: 7}
    assert [each.output_tokens for each in run.inferences] == [5, 7, 2, 1]
    assert max(each.finished_at_s for each in run.inferences) - began_s == 8


@pytest.mark.looptime
async def test_two_runs_of_one_plan_share_no_prompt_and_carry_their_headers(replay):
    engine = Engine()
    for run_id in ("x", "y"):
        run = replay.Replay(base_url="", model="m", application="a", run_id=run_id, client=engine)
        await run.replay(run_plan((64, 1, ())))
    (one, first), (other, _) = engine.calls
    assert one[:16] != other[:16]
    assert first["extra_headers"] == {"x-justitia-run-id": "x", "x-justitia-application": "a"}


@pytest.mark.looptime
async def test_an_answer_of_another_length_fails_its_run(replay):
    run = replay.Replay(
        base_url="", model="m", application="a", run_id="x", client=Engine(off_by=1)
    )
    with pytest.raises(ExceptionGroup) as caught:
        await run.replay(run_plan((10, 5, ())))
    assert "(10, 6) tokens" in str(caught.value.exceptions[0])


def test_the_end_of_a_run_is_its_last_answer(replay):
    inferences = tuple(
        InferenceRecord(
            stage="",
            prompt_tokens=1,
            cached_tokens=0,
            output_tokens=1,
            started_at_s=2.0,
            finished_at_s=at_s,
        )
        for at_s in (7.0, 5.0)
    )
    record = RunRecord(
        run_id="r",
        application="a",
        task_seed=0,
        arrived_at_s=2.0,
        finished_at_s=7.1,  # EndRun has been answered
        inferences=inferences,
    )
    assert replay.seen_jct_s(record) == 5.0


def test_times_of_a_slower_engine_are_told_in_those_of_the_gpu(replay):
    real = replay.Played(
        jct_s={3: 8.0},
        rho={3: 1.5},
        believed_kvtt={3: 9},
        true_kvtt={3: 10},
        duration_s=60.0,
        steps=100,
        preemptions=0,
        moves=2,
        late_s=0.2,
    ).paced(2.0)
    assert (real.jct_s, real.rho) == ({3: 4.0}, {3: 1.5})
    assert (real.duration_s, real.step_s, real.late_s) == (30.0, 0.3, 0.1)


# -- what comes of it --------------------------------------------------------


def test_ratios_are_taken_to_the_reference_of_the_play_with_exact_costs(comparing):
    exact = comparing.Times({0: 1.0, 1: 3.0, 2: 4.0}, {0: 1.0, 1: 2.0})
    row = comparing.measures(comparing.Times({0: 1.2, 1: 5.0}, {0: 9.0, 1: 9.0}), exact)
    assert row["mean_jct_over_exact"] == pytest.approx(6.2 / 4.0)
    assert row["worst_rho_ps"] == pytest.approx(2.5)
    assert row["p90_rho_ps"] == pytest.approx(2.5)
    assert row["share_harmed"] == pytest.approx(0.5)
    assert row["share_later"] == pytest.approx(1.0)
    assert comparing.measures(exact, exact)["share_later"] == 0.0


def played(jct_s, *, rho=2.0, duration_s=10.0, believed_kvtt=15.0, errors=()):
    return SimpleNamespace(
        jct_s=jct_s,
        rho=dict.fromkeys(jct_s, rho),
        believed_kvtt=dict.fromkeys(jct_s, believed_kvtt),
        true_kvtt=dict.fromkeys(jct_s, 10.0),
        errors=list(errors),
        duration_s=duration_s,
        steps=100,
        step_s=duration_s / 100,
        moves=3,
        late_s=0.02,
    )


def simulated(jcts_s, duration_s=8.0):
    return SimpleNamespace(
        runs=[SimpleNamespace(jct_s=jct_s, reference_jct_s=jct_s) for jct_s in jcts_s],
        duration_s=duration_s,
        engines=[SimpleNamespace(steps=100)],
    )


def test_a_seeds_figures_name_ways_and_say_what_was_late_and_what_failed(comparing):
    plays = {
        "exact": played({0: 1.0, 1: 3.0}),
        "again": played({0: 1.0, 1: 3.2}),
        "fixed": played({0: 2.0, 1: 4.0}, duration_s=12.0),
        "before": played({0: 1.0}, errors=["TimeoutError"]),
        "learning": played({0: 1.0, 1: 3.4}),
    }
    by_simulator = {name: simulated([1.0, 2.0]) for name in plays if name != "before"}
    by_simulator["fixed"] = simulated([1.5, 3.0])
    figures = comparing.figures_of_seed(plays, by_simulator)
    assert figures["mean_jct_over_exact"] == pytest.approx(1.1)
    assert figures["mean_jct_over_exact_again"] == pytest.approx(1.05)
    assert figures["mean_jct_over_exact_fixed"] == pytest.approx(1.5)
    assert figures["mean_jct_over_exact_fixed_simulated"] == pytest.approx(1.5)
    assert figures["worst_rho_ps"] == pytest.approx(3.4 / 1.5)
    assert figures["seen_error"] == pytest.approx(0.5)
    assert figures["step_over_simulated"] == pytest.approx(1.5)
    assert figures["time_over_simulated"] == pytest.approx(1.5)
    assert figures["latest_arrival_ms"] == pytest.approx(20.0)
    assert figures["failed_runs"] == 1
    assert figures["unsettled_runs"] == 0


def test_figures_are_medians_and_what_failed_is_added_up(comparing):
    rows = [
        {"worst_rho_ps": worst, "worst_rho_ps_fixed": 4.0, "failed_runs": failed}
        for worst, failed in ((1.0, 1), (9.0, 0), (1.2, 2))
    ]
    assert comparing.figures_of(rows) == {
        "worst_rho_ps": 1.2,
        "worst_rho_ps_fixed": 4.0,
        "failed_runs": 3,
        "worst_rho_ps_by_seed": [1.0, 9.0, 1.2],
        "worst_rho_ps_fixed_by_seed": [4.0, 4.0, 4.0],
    }
