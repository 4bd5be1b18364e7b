"""Limits: worked out by hand, and against slow witnesses on tiny cases."""

from functools import cache

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from justitia.core.errors import InvalidValueError
from justitia.sim.limits import (
    FluidRun,
    floor_s,
    fluid_runs,
    gps_jcts_s,
    least_mean_jct_s,
    peak_rate_kvtt_s,
    played_gps_jcts_s,
    reached_rate_kvtt_s,
    srpt_jcts_s,
)
from justitia.sim.loop import play
from justitia.sim.workloads.generate import generate
from justitia.testing.sim_scenarios import STEP_S, engine, inference, run, scenario


def fluid(*triples):
    return [FluidRun(arrival_s=at, cost=cost, floor_s=floor) for at, cost, floor in triples]


def plain(scenario_engine=None, *runs):
    return scenario(*runs, engines=(scenario_engine or engine(has_prefix_cache=False),))


# -- ideal GPS ----------------------------------------------------------------


def test_gps_has_the_fluid_finishes_of_the_papers_figure_7():
    """docs/algorithm.md: 4, 12 and 11.5 s, two units a second."""
    runs = fluid((0, 5, 0), (1, 11.5, 0), (4, 7.5, 0))
    assert gps_jcts_s(runs, 2.0) == [4, 11, 7.5]


def test_gps_shares_by_weight():
    """4 : 1 until the heavy one ends at 10 s with 2 of 10 for the other, which then has all."""
    heavy = FluidRun(arrival_s=0, cost=8, weight=4)
    light = FluidRun(arrival_s=0, cost=8)
    assert gps_jcts_s([heavy, light], 1.0) == [10, 16]


def test_gps_begins_anew_after_a_pause_in_which_nobody_is_there():
    assert gps_jcts_s(fluid((0, 1, 0), (7, 2, 0), (7, 2, 0)), 1.0) == [1, 4, 4]


def test_a_floor_lengthens_a_run_and_nobody_else():
    assert gps_jcts_s(fluid((0, 1, 9), (0, 1, 0)), 1.0) == [9, 2]
    assert srpt_jcts_s(fluid((0, 1, 9), (0, 1, 0)), 1.0) == [9, 2]


RUNS = st.lists(
    st.tuples(st.integers(0, 6), st.integers(1, 4), st.integers(0, 8)), min_size=1, max_size=4
)


@settings(derandomize=True, deadline=None, max_examples=60, database=None)
@given(RUNS, st.lists(st.sampled_from([0.5, 1.0, 4.0]), min_size=4, max_size=4))
def test_gps_is_what_many_small_slices_come_to(triples, weights):
    runs = [
        FluidRun(arrival_s=at, cost=cost, weight=weight)
        for (at, cost, _), weight in zip(triples, weights, strict=False)
    ]
    assert gps_jcts_s(runs, 1.0) == pytest.approx(sliced_gps(runs), abs=0.05)


def sliced_gps(runs, slice_s=0.01):
    """GPS with a rate of 1, slice by slice."""
    left = [run.cost for run in runs]
    jcts = [0.0] * len(runs)
    tick = 0
    while any(rest > 1e-9 for rest in left):
        here = [n for n, rest in enumerate(left) if rest > 1e-9]
        here = [n for n in here if runs[n].arrival_s <= tick * slice_s + 1e-12]
        total = sum(runs[n].weight for n in here)
        for n in here:
            left[n] -= slice_s * runs[n].weight / total
            jcts[n] = (tick + 1) * slice_s - runs[n].arrival_s
        tick += 1
    return jcts


# -- clairvoyant SRPT ----------------------------------------------------------------


def test_srpt_serves_who_has_least_left():
    """The first has 3 left when the second comes with 1; the third, with 4, waits for both."""
    assert srpt_jcts_s(fluid((0, 5, 0), (2, 1, 0), (2, 4, 0)), 1.0) == [6, 1, 8]


def test_srpt_does_not_interrupt_who_has_less_left_than_the_newcomer():
    assert srpt_jcts_s(fluid((0, 5, 0), (4, 2, 0)), 1.0) == [5, 3]


@cache
def best_total(left, arrivals, floors, now):
    """Least sum of JCTs of all schedules that serve one run in each unit of time."""
    if not any(left):
        return 0
    here = [n for n, rest in enumerate(left) if rest and arrivals[n] <= now]
    options = []
    if len(here) < sum(map(bool, left)):  # somebody may be worth waiting for
        options.append(best_total(left, arrivals, floors, now + 1))
    for n in here:
        rest = (*left[:n], left[n] - 1, *left[n + 1 :])
        done = max(now + 1 - arrivals[n], floors[n]) if left[n] == 1 else 0
        options.append(done + best_total(rest, arrivals, floors, now + 1))
    return min(options)


@settings(derandomize=True, deadline=None, max_examples=150, database=None)
@given(RUNS)
def test_without_floors_the_bound_is_the_best_of_all_schedules(triples):
    runs = fluid(*((at, cost, 0) for at, cost, _ in triples))
    arrivals, costs, _ = zip(*triples, strict=True)
    best = best_total(costs, arrivals, (0,) * len(runs), 0) / len(runs)
    assert least_mean_jct_s(runs, 1.0) == pytest.approx(best)
    assert sum(srpt_jcts_s(runs, 1.0)) / len(runs) == pytest.approx(best)


@settings(derandomize=True, deadline=None, max_examples=150, database=None)
@given(RUNS)
def test_with_floors_no_schedule_is_below_the_bound(triples):
    runs = fluid(*triples)
    arrivals, costs, floors = zip(*triples, strict=True)
    best = best_total(costs, arrivals, floors, 0) / len(runs)
    assert least_mean_jct_s(runs, 1.0) <= best + 1e-9


def test_srpt_with_floors_is_no_bound_but_the_least_mean_is():
    """Who is held back by its floor may let the other go first: 4 + 12 instead of 5 + 12."""
    runs = fluid((0, 1, 12), (0, 4, 0))
    assert srpt_jcts_s(runs, 1.0) == [12, 5]
    assert least_mean_jct_s(runs, 1.0) == (12 + 4) / 2


def test_the_mean_of_the_floors_is_a_bound_where_the_resource_is_ample():
    assert least_mean_jct_s(fluid((0, 1, 6), (0, 1, 8)), 1000.0) == 7


def test_a_rate_of_nothing_is_refused():
    for limit in (gps_jcts_s, srpt_jcts_s, least_mean_jct_s):
        with pytest.raises(InvalidValueError, match="rate"):
            limit(fluid((0, 1, 0)), 0.0)


# -- scenarios ----------------------------------------------------------------


def test_a_floor_is_the_longest_chain_with_pauses():
    """A prompt of 100 tokens takes two steps of 64, an answer of 5 four more."""
    engine_plan = engine(has_prefix_cache=False)
    chain = run(
        "r",
        inference(100, 5),
        inference(8, 3, after=(0,), pause_s=10 * STEP_S),
        inference(8, 30),
    )
    assert floor_s(chain, engine_plan) == 30 * STEP_S
    shorter = run("r", *chain.inferences[:2])
    assert floor_s(shorter, engine_plan) == (6 + 10 + 3) * STEP_S


def test_a_chain_alone_in_an_engine_takes_its_floor():
    chain = run("r", inference(70, 9), inference(90, 0, after=(0,)), inference(20, 7, after=(1,)))
    plan = plain(None, chain)
    assert play(plan, "fcfs").runs[0].jct_s == floor_s(chain, plan.engines[0])


def test_costs_are_those_that_a_play_measures_and_weights_the_applications():
    runs = [run(f"r{n}", inference(30 + n, 9), inference(20, 4), at_s=n) for n in range(3)]
    plan = plain(None, *runs)
    measured = [each.true_kvtt for each in play(plan, "fcfs").runs]
    assert [each.cost for each in fluid_runs(plan)] == measured
    assert [each.arrival_s for each in fluid_runs(plan)] == [0, 1, 2]


def test_a_prefix_cache_is_refused():
    with pytest.raises(InvalidValueError, match="prefix cache"):
        fluid_runs(scenario(run("r", inference(4, 4)), engines=(engine(),)))


def test_the_peak_rate_is_a_full_cache_a_step():
    """160 tokens, 128 steps a second, two engines."""
    plan = scenario(run("r", inference(4, 4)), engines=(engine(), engine()))
    assert peak_rate_kvtt_s(plan.engines) == 2 * 160 * 128


def test_no_play_reaches_the_peak_rate_nor_a_mean_below_the_bound():
    plan = generate(seed=5, num_runs=40, window_s=40)
    runs = fluid_runs(plan)
    least_s = least_mean_jct_s(runs, peak_rate_kvtt_s(plan.engines))
    for policy in ("srjf", "justitia", "fcfs"):
        played = play(plan, policy)
        assert reached_rate_kvtt_s(played) < peak_rate_kvtt_s(plan.engines)
        assert played.summarize().mean_jct_s > least_s


def test_gps_of_a_play_is_gps_at_its_rate_where_that_is_even():
    """One sequence at a time: the rate differs by the half between a young and an old one.

    V is known where runs end, and taken as a straight line between.
    """
    one_by_one = engine(has_prefix_cache=False, max_num_seqs=1, blocks=40)
    runs = [run(f"r{n:02}", inference(60, 4 + n % 7), at_s=n * STEP_S) for n in range(60)]
    plan = plain(one_by_one, *runs)
    played = play(plan, "justitia")
    even = gps_jcts_s(fluid_runs(plan), reached_rate_kvtt_s(played))
    assert played_gps_jcts_s(played) == pytest.approx(even, abs=12 * STEP_S)
