"""Whole plays: several engines, routing, what is refused, and what comes out."""

import pytest

from justitia.core.errors import InvalidValueError
from justitia.sim.loop import PlaySettings, play
from justitia.sim.results import rank_correlation
from justitia.sim.router import Routing
from justitia.sim.scenario import ApplicationPlan, Scenario
from justitia.testing.sim_scenarios import (
    STEP_S,
    Workshop,
    engine,
    inference,
    run,
    scenario,
    steps,
)

TWO = (engine(), engine())


def ends(played):
    return {each.run_id: steps(each.finished_at_s) for each in played.runs}


@pytest.mark.parametrize("routing", list(Routing))
def test_two_engines_share_what_comes(routing):
    runs = [run(f"r{n}", inference(30, 50)) for n in range(4)]
    plan = scenario(*runs, engines=(engine(max_num_seqs=2),) * 2)
    played = play(plan, "fcfs", PlaySettings(routing=routing))
    assert ends(played) == dict.fromkeys(["r0", "r1", "r2", "r3"], 50)
    assert [each.steps for each in played.engines] == [50, 50]


def test_the_least_loaded_engine_is_the_one_whose_kv_cache_is_used_least():
    runs = [run("big", inference(100, 50)), *(run(f"r{n}", inference(10, 9)) for n in range(5))]
    workshop = Workshop()
    play(scenario(*runs, engines=TWO), "fcfs", make_engine=workshop.make)
    assert [each.totals.prompt_tokens for each in workshop.engines] == [100, 50]


def test_a_pinned_run_stays_on_its_engine():
    runs = [run(f"r{n}", inference(10, 9), inference(10, 9)) for n in range(3)]
    plan = scenario(*runs, engines=TWO, engine_of_run={f"r{n}": 1 for n in range(3)})
    assert [each.prompt_tokens for each in play(plan, "fcfs").engines] == [0, 60]


def test_all_engines_of_a_pool_share_one_virtual_time():
    """Two equal crowds, one on each engine: a late run of the same size is behind neither."""
    crowd = [run(f"c{n}", *(inference(8, 40) for _ in range(8))) for n in range(4)]
    late = run("late", *(inference(8, 40) for _ in range(4)), at_s=4 * STEP_S)
    pins = {f"c{n}": n % 2 for n in range(4)} | {"late": 1}
    small = (engine(blocks=24),) * 2
    plan = scenario(*crowd, late, engines=small, engine_of_run=pins)
    fair, first = (ends(play(plan, policy))["late"] for policy in ("justitia", "fcfs"))
    assert fair < first


def test_a_heavier_application_is_served_first():
    runs = [
        run(f"{name}{n}", *(inference(10, 30) for _ in range(6)), application=name)
        for n in range(3)
        for name in ("light", "heavy")
    ]
    weights = (ApplicationPlan(name="heavy", weight=10),)
    played = play(scenario(*runs, engines=(engine(blocks=20),), applications=weights), "justitia")
    by_name = {
        name: [r.jct_s for r in played.runs if r.application == name] for name in ("light", "heavy")
    }
    assert max(by_name["heavy"]) < min(by_name["light"])


def test_a_run_without_company_has_a_fair_ratio_of_one():
    played = play(scenario(run("a", inference(10, 30))), "justitia")
    assert played.runs[0].ratio == 1.0
    assert played.runs[0].queue_wait_s == 0.0
    assert played.runs[0].waiting_s == 0.0


def test_nobody_is_measured_against_less_than_its_own_critical_path():
    """In the fluid system the heavy run would get nearly all of what the big one makes, at once."""
    runs = [run("big", inference(100, 30)), run("heavy", inference(4, 10), application="heavy")]
    weights = (ApplicationPlan(name="heavy", weight=1000),)
    heavy = play(scenario(*runs, applications=weights), "justitia").runs[1]
    assert steps(heavy.jct_s) == steps(heavy.reference_jct_s) == 10


def test_waiting_is_told_apart_from_computing():
    plan = scenario(
        run("a", inference(4, 10)), run("b", inference(4, 10)), engines=(engine(max_num_seqs=1),)
    )
    second = play(plan, "fcfs").runs[1]
    assert steps(second.queue_wait_s) == steps(second.waiting_s) == 10
    assert steps(second.jct_s) == 20


def test_plays_of_one_scenario_can_be_compared():
    runs = [
        run("big", *(inference(10, 40) for _ in range(20))),
        run("small", inference(4, 2), at_s=STEP_S),
    ]
    plan = scenario(*runs, engines=(engine(blocks=20),))
    first, fair = play(plan, "fcfs"), play(plan, "justitia")
    against = fair.against(first)
    assert against.mean_jct_quotient < 1
    assert against.share_not_later >= 0.5
    assert against.worst < 1.2
    assert fair.summarize(lambda each: each.run_id == "small").num_runs == 1
    assert fair.finish_order == ["small", "big"]
    with pytest.raises(InvalidValueError, match="same runs"):
        fair.against(play(scenario(runs[0]), "fcfs"))


def test_rank_correlation():
    assert rank_correlation("abcd", "abcd") == 1
    assert rank_correlation("abcd", "dcba") == -1
    assert rank_correlation("a", "a") == 1


def test_a_scenario_without_runs_is_over_at_once():
    played = play(scenario(), "justitia")
    assert played.runs == ()
    assert played.summarize().num_runs == 0


@pytest.mark.parametrize(
    ("plan", "problem"),
    [
        (scenario(run("a", inference(150, 11))), "run a: inference 0: takes 161 tokens"),
        (scenario(run("a", inference(4, 1)), run("a", inference(4, 1))), "run a: comes twice"),
        (scenario(run("a", inference(4, 1)), engine_of_run={"a": 1}), "run a: engine"),
        (Scenario(engines=(), runs=()), "engines: must list at least one"),
        (
            Scenario(
                engines=TWO,
                runs=(run("a", inference(4, 1), at_s=1.0), run("b", inference(4, 1))),
            ),
            "run b: arrival_s: runs must be in order",
        ),
        (scenario(engines=(engine(step_time="abacus"),)), "step_time: must be one of a100"),
    ],
)
def test_what_can_never_be_played_is_refused(plan, problem):
    with pytest.raises(InvalidValueError, match=problem):
        play(plan, "fcfs")


def test_an_unknown_policy_is_refused():
    with pytest.raises(InvalidValueError, match="policy: must be one of"):
        play(scenario(), "lottery")
