"""What is known of runs before they run."""

import statistics

import pytest

from justitia.core.cost import paper_cost_kvtt
from justitia.core.errors import InvalidValueError
from justitia.core.estimates import Source
from justitia.sim.cost_units import UNITS, cost_of
from justitia.sim.estimators import make_estimator, sigma_of
from justitia.sim.known_prefixes import KnownPrefixes
from justitia.sim.scenario import Segment
from justitia.sim.workloads.generate import generate
from justitia.testing.sim_scenarios import engine, inference, run, scenario

RUNS = [run(f"r{n}", inference(30, 10), inference(10, 5), application="x") for n in range(2000)]


def estimator(name, seed=0):
    return make_estimator(name, scenario(*RUNS[:1], seed=seed))


def test_exact_is_the_sum_of_the_closed_form():
    assert estimator("exact").run(RUNS[0]).cost_kvtt == sum(range(30, 40)) + sum(range(10, 15))
    assert estimator("exact").inference(RUNS[0], 1) == sum(range(10, 15))


def test_unscaled_the_paper_and_tokens_have_formulas_of_their_own():
    expected = paper_cost_kvtt(30, 10) + paper_cost_kvtt(10, 5)
    assert estimator("raw:paper").run(RUNS[0]).cost_kvtt == expected
    assert estimator("raw:tokens").run(RUNS[0]).cost_kvtt == 30 + 20 + 10 + 10


@pytest.mark.parametrize("unit", sorted(UNITS))
def test_all_units_give_the_runs_of_a_scenario_the_same_total(unit):
    """Otherwise a comparison of units would be one of their scales: V counts kvtt."""
    plan = generate(seed=11, num_runs=40)
    total = sum(make_estimator(unit, plan).run(each).cost_kvtt for each in plan.runs)
    exact = sum(make_estimator("exact", plan).run(each).cost_kvtt for each in plan.runs)
    assert total == pytest.approx(exact, rel=1e-6)


def cost_of_one(unit, prompt, output, cached=0, **shape):
    plan = scenario(run("r", inference(prompt, output)), engines=(engine(**shape),))
    return cost_of(unit, plan, is_scaled=False)(plan.runs[0].inferences[0], cached)


def test_a_step_counts_its_dominant_share():
    """160 KV tokens, 64 of a step: a token computed counts 2.5. 64 x 2.5, then 70 against 15, 71"""
    assert cost_of_one("dominant", 70, 2) == 160 + 70 + 71
    assert cost_of_one("dominant", 64, 1) == 160, "a full step, whatever it holds"
    assert cost_of_one("dominant", 10, 1) == 25, "10 of 64 tokens are more than 10 of 160"
    assert cost_of_one("dominant", 10, 1, cached=8) == 10, "2 of 64 are less"


def test_one_token_of_a_small_budget_can_be_the_dominant_share():
    """160 KV tokens, 8 of a step: each counts 20. 5 tokens: 100; then 20 until 21 are held."""
    assert cost_of_one("dominant", 5, 18, max_num_batched_tokens=8) == 100 + 15 * 20 + 21 + 22


def test_seconds_are_kvtt_where_all_steps_take_as_long():
    assert cost_of_one("seconds", 70, 20) == cost_of_one("exact", 70, 20)


def test_seconds_charge_a_prefill_for_the_longer_step():
    """One sequence of 100 tokens is half of 200: two fill it. Decoding takes 2 x 1, with 99 more
    tokens 2 + 99 + 1.
    """
    step = '{"floor_s": 0, "compute_s": 0, "per_token_s": 0, "per_sequence_s": 0,'
    linear = step + ' "per_kv_token_s": 0, "per_prefill_pair_s": 0, "scale": 1}'
    per_token = linear.replace('"per_token_s": 0', '"per_token_s": 1')
    shape = {"blocks": 50, "max_num_batched_tokens": 128, "step_time": per_token}
    assert cost_of_one("seconds", 100, 1, **shape) == pytest.approx(100 * (2 + 100) / 2)
    assert cost_of_one("seconds", 100, 1, cached=96, **shape) == pytest.approx(100 * (2 + 4) / 2)
    assert cost_of_one("seconds", 100, 1, **(shape | {"step_time": linear})) == 100, "no time"


def test_an_error_comes_on_top_of_any_unit_and_is_the_same_under_each():
    plan = scenario(*RUNS[:9])
    quotients = [
        make_estimator(f"{unit}+error:0.5", plan).run(RUNS[3]).cost_kvtt
        / make_estimator(unit, plan).run(RUNS[3]).cost_kvtt
        for unit in ("exact", "tokens", "raw:paper", "cached")
    ]
    assert quotients == pytest.approx([quotients[0]] * 4, rel=0.02)
    assert quotients[0] != pytest.approx(1.0, abs=0.01)
    assert make_estimator("exact+error:0.5", plan).run(RUNS[3]) == make_estimator(
        "error:0.5", plan
    ).run(RUNS[3])


def turn(run_id, before, new, output=4):
    """A session's turn: what was there, what is new, and an answer that has a name."""
    prompt = (Segment("session", before), Segment(f"{run_id}/new", new))
    return run(run_id, inference(prompt, output, output_stream=f"{run_id}/answer"))


def test_what_the_cache_will_hold_costs_no_prefill():
    """80 tokens of the session are 20 blocks: the second turn computes 8 of 88 tokens, in a step
    instead of two.
    """
    first, second = turn("one", 80, 6), turn("two", 80, 8)
    plan = scenario(first, second)
    cached, exact = make_estimator("cached", plan), make_estimator("exact", plan)
    assert cached.run(first) == exact.run(first)
    assert exact.run(second).cost_kvtt - cached.run(second).cost_kvtt == 64
    assert exact.inference(second, 0) - cached.inference(second, 0) == 64
    cached.learn(second, 1)
    without = scenario(first, second, engines=(engine(has_prefix_cache=False),))
    alone = make_estimator("cached", without)
    assert [alone.run(each) for each in (first, second)] == [
        exact.run(each) for each in (first, second)
    ]


def test_other_units_are_charged_less_for_what_is_cached_too():
    """The total stays that of kvtt, with the same tokens cached."""
    plan = scenario(turn("one", 80, 6), turn("two", 80, 80), turn("three", 80, 8, output=30))
    found = {
        name: [make_estimator(name, plan).run(each).cost_kvtt for each in plan.runs[:1]]
        for name in ("cached", "cached:exact")
    }
    assert found["cached"] == found["cached:exact"]
    totals = []
    for name in ("cached", "cached:tokens"):
        knowing = make_estimator(name, plan)
        totals.append(sum(knowing.run(each).cost_kvtt for each in plan.runs))
    assert totals[0] == pytest.approx(totals[1], rel=0.01)
    tokens, cached = (make_estimator(name, plan) for name in ("tokens", "cached:tokens"))
    quotients = [cached.run(each).cost_kvtt / tokens.run(each).cost_kvtt for each in plan.runs]
    assert quotients[2] < quotients[0], "the first one finds nothing in the cache"


def test_an_answer_is_known_where_a_prompt_goes_on_from_it():
    known = KnownPrefixes()
    known.add(inference((Segment("a", 10),), 6, output_stream="answer"))
    longer = inference((Segment("a", 10), Segment("answer", 6), Segment("b", 9)), 1)
    assert known.cached(longer, 1) == 16
    assert known.cached(longer, 5) == 15, "whole blocks"
    other = inference((Segment("a", 9), Segment("answer", 6)), 1)
    assert known.cached(other, 1) == 9, "it goes on elsewhere"
    assert known.cached(inference((Segment("a", 10),), 1), 1) == 9, "the last is computed"
    assert known.cached(inference((Segment("b", 9),), 1), 1) == 0


@pytest.mark.parametrize("error", [0.25, 0.53, 1.0])
def test_an_error_is_as_large_in_the_mean_as_was_asked_for(error):
    true = estimator("exact").run(RUNS[0]).cost_kvtt
    wrong = estimator(f"error:{error}")
    found = [abs(wrong.run(each).cost_kvtt / true - 1) for each in RUNS]
    assert statistics.mean(found) == pytest.approx(error, rel=0.1)


def test_an_error_belongs_to_the_run_and_the_seed():
    first, again, other = estimator("error:1"), estimator("error:1"), estimator("error:1", seed=1)
    assert first.run(RUNS[5]) == again.run(RUNS[5])
    assert first.inference(RUNS[5], 1) == again.inference(RUNS[5], 1)
    assert first.run(RUNS[5]) != other.run(RUNS[5])
    assert first.run(RUNS[5]) != first.run(RUNS[6])


def test_no_error_is_none():
    assert sigma_of(0.0) == pytest.approx(0.0, abs=1e-12)
    assert estimator("error:0").run(RUNS[0]) == estimator("exact").run(RUNS[0])


def test_history_climbs_the_ladder():
    history = estimator("history")
    assert history.run(RUNS[0]).source is Source.DEFAULT
    for each in RUNS[:5]:
        history.learn(each, 700)
    assert history.run(RUNS[9]).cost_kvtt == 700
    assert history.run(RUNS[9]).source is Source.HISTORY
    assert history.inference(RUNS[9], 0) == round((sum(range(30, 40)) + sum(range(10, 15))) / 2)


@pytest.mark.parametrize(
    ("name", "problem"),
    [
        ("oracle", "must be one of exact"),
        ("raw:cached", "got 'raw:cached'"),
        (":exact", "got ':exact'"),
        ("+error:1", "got ''"),
        ("error:much", "'much'"),
        ("error:-1", "from 0 to 1000"),
    ],
)
def test_an_unknown_estimator_is_refused(name, problem):
    with pytest.raises(InvalidValueError, match=problem):
        estimator(name)


def test_everybody_can_be_estimated_wrong_by_one_factor():
    exact, half = (estimator(name).run(RUNS[0]).cost_kvtt for name in ("exact", "times:0.5"))
    assert half == round(exact / 2)
    with pytest.raises(InvalidValueError, match="times must be from 0 to 1000, got 'half'"):
        estimator("times:half")
