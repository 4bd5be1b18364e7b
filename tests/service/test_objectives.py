"""The one judge of fairness objectives, and the gauges that alerts read (FK14)."""

import pytest

from justitia.api.v1 import admin_pb2
from justitia_scheduler.objectives import MIN_RUNS, WINDOW_S, RecentFairness, Verdict

CHAT = {"pool": "default", "application": "chat"}


def recent(*ratios, at_s=0.0):
    fairness = RecentFairness()
    for ratio in ratios:
        fairness.note(ratio, at_s)
    return fairness


def judge(fairness, now_s, *, max_ratio=2.0, for_s=0.0):
    return fairness.judge(now_s, max_ratio=max_ratio, for_s=for_s)


def test_nine_runs_are_too_few_and_ten_are_judged():
    few = recent(*[9.0] * (MIN_RUNS - 1))
    assert judge(few, 1) is Verdict.TOO_FEW_RUNS
    few.note(9.0, 1)
    assert judge(few, 1) is Verdict.MISSED


def test_one_slow_run_of_ten_decides_nothing_and_two_do():
    assert judge(recent(*[1.0] * 9, 50.0), 1) is Verdict.MET
    assert judge(recent(*[1.0] * 8, 50.0, 50.0), 1) is Verdict.MISSED


@pytest.mark.parametrize(
    "max_ratio",
    [
        pytest.param(1.0, id="the least that is legal"),
        pytest.param(1.37, id="between the edges of the histogram"),
        pytest.param(123.0, id="beyond the last edge"),
        pytest.param(1e9, id="huge"),
    ],
)
def test_any_legal_objective_is_judged_exactly(max_ratio):
    assert judge(recent(*[max_ratio] * 10), 1, max_ratio=max_ratio) is Verdict.MET
    above = max_ratio * (1 + 1e-12)
    assert judge(recent(*[above] * 10), 1, max_ratio=max_ratio) is Verdict.MISSED


def test_an_objective_is_missed_only_after_its_time_above_and_met_again_at_once():
    fairness = recent(*[3.0] * 10)
    assert judge(fairness, 0, for_s=300) is Verdict.MET
    assert judge(fairness, 299, for_s=300) is Verdict.MET
    assert judge(fairness, 300, for_s=300) is Verdict.MISSED
    for _ in range(90):
        fairness.note(1.0, 301)
    assert judge(fairness, 301, for_s=300) is Verdict.MET
    assert judge(fairness, 302, max_ratio=0.5, for_s=300) is Verdict.MET  # the time starts anew


def test_without_an_objective_there_is_no_verdict():
    assert judge(recent(*[50.0] * 10), 1, max_ratio=0) is Verdict.NO_OBJECTIVE


def test_what_was_long_ago_is_not_held_against_today():
    fairness = recent(*[50.0] * 20)
    assert fairness.ratio(WINDOW_S - 1) == 50
    assert fairness.ratio(WINDOW_S) is None
    assert judge(fairness, WINDOW_S) is Verdict.TOO_FEW_RUNS


def test_memory_is_bounded_and_the_latest_runs_count():
    fairness = recent(*[50.0] * 5000)
    for _ in range(1000):
        fairness.note(1.0, 1)
    assert fairness.ratio(1) == 1
    assert len(fairness._settled) == len(fairness._ordered) == 1000


def settle(bench, *ratios):
    for ratio in ratios:
        bench.pool.objectives.note("chat", ratio)
    bench.pool.show_gauges()


def shown(bench):
    names = ("objective_ratio", "recent_p90_ratio", "objective_met")
    return tuple(bench.metric(f"justitia_fairness_{name}", **CHAT) for name in names)


async def test_gauges_show_the_objective_the_compared_number_and_the_verdict(bench):
    await bench.declare("chat", objective_max_ratio=2)
    bench.pool.show_gauges()
    assert shown(bench) == (2, None, None)
    settle(bench, *[2.5] * 10)
    assert shown(bench) == (2, 2.5, 1)
    bench.clock.advance(301)
    bench.pool.show_gauges()
    assert shown(bench) == (2, 2.5, 0)
    await bench.declare("chat")
    bench.pool.show_gauges()
    assert shown(bench) == (None, 2.5, None)


async def test_the_api_and_the_gauge_say_the_same_in_every_second(bench):
    await bench.declare("chat", objective_max_ratio=2, objective_for_s=3)
    said = []
    for ratios in ((), [2.5] * 10, (), (), (), (), [1.0] * 90):
        settle(bench, *ratios)
        answer = await bench.admin.ListApplications(admin_pb2.ListApplicationsRequest())
        verdict = answer.applications[0].status.objective_verdict
        said.append((verdict, shown(bench)[2]))
        bench.clock.advance(1)
    few, met, missed = (
        (admin_pb2.OBJECTIVE_VERDICT_TOO_FEW_RUNS, None),
        (admin_pb2.OBJECTIVE_VERDICT_MET, 1),
        (admin_pb2.OBJECTIVE_VERDICT_MISSED, 0),
    )
    assert said == [few, met, met, met, missed, missed, met]


async def test_runs_settled_by_the_service_reach_the_judge(bench, finished):
    await bench.declare("chat", objective_max_ratio=2)
    engine = bench.engine()
    await engine.join()
    for number in range(10):
        run_id = f"r{number}"
        await bench.start(run_id, "chat", cost_kvtt=100)
        bench.clock.advance(2)
        await engine.report({"run_id": run_id, "useful_kvtt": 200}, finished=[finished(run_id)])
        await bench.until(lambda run_id=run_id: bench.pool.core.run(run_id).num_finished)
        await bench.end_after_grace(run_id)
    bench.pool.show_gauges()
    objective, p90, is_met = shown(bench)
    assert objective == 2
    assert p90 > 0
    assert is_met == (p90 <= 2)


async def test_a_deleted_application_takes_its_objective_with_it(bench):
    await bench.declare("chat", objective_max_ratio=2)
    settle(bench, *[5.0] * 10)
    assert None not in shown(bench)
    await bench.admin.DeleteApplication(admin_pb2.DeleteApplicationRequest(name="chat"))
    settle(bench, *[5.0] * 10)
    assert shown(bench) == (None, None, None)
    await bench.declare("chat", objective_max_ratio=2)
    bench.pool.show_gauges()
    assert shown(bench) == (2, None, None)
    assert bench.metric("justitia_applications", pool="default") == 1


async def test_a_pools_counters_are_there_before_their_first_event(bench):
    names = ("bound_violations", "refused_runs", "unknown_application_runs", "over_limit_runs")
    for name in names:
        assert bench.metric(f"justitia_{name}_total", pool="default") == 0, name
