"""Plays with a meter: who had got how much by when."""

import json

import pytest

from justitia.sim.limits import fluid_runs, gps_jcts_s, on_curve, played_gps_jcts_s, srpt_jcts_s
from justitia.sim.loop import play
from justitia.sim.scenario import ApplicationPlan
from justitia.sim.service_curve import Curve, ServiceCurves, by_tenant, play_with_meter
from justitia.sim.workloads.generate import generate
from justitia.testing.sim_scenarios import STEP_S, engine, inference, run, scenario

HALVES = Curve((0.0, 2.0, 4.0), (0.0, 10.0, 10.0))


def test_a_curve_is_read_both_ways_with_straight_lines_between_its_points():
    assert [HALVES.work_at(time_s) for time_s in (-1, 0, 1, 3, 9)] == [0, 0, 5, 10, 10]
    assert [HALVES.time_of(work) for work in (0, 5, 10, 99)] == [0, 1, 2, 4]


def test_two_engines_deliver_to_two_groups():
    """Ten tokens of prompt and three of output: 10 + 11 + 12 kvtt."""
    runs = [
        run("a", inference(10, 3), application="gold/x"),
        run("b", inference(10, 3), inference(10, 3), application="basic/x"),
    ]
    plan = scenario(*runs, engines=(engine(), engine()), engine_of_run={"a": 0, "b": 1})
    played, curves = play_with_meter(plan, "fcfs", group_of=by_tenant)
    assert curves.of("gold").work_at(3 * STEP_S) == 33
    assert curves.of("basic").work_at(3 * STEP_S) == 66
    assert curves.total().work_kvtt[-1] == played.useful_kvtt == 99


def test_a_play_with_a_meter_is_the_same_play():
    plan = generate(seed=3, num_runs=30, window_s=30)
    metered, curves = play_with_meter(plan, "justitia", group_of=lambda _: "all")
    plain = play(plan, "justitia")
    assert metered.runs == plain.runs
    assert curves.total().work_kvtt[-1] == plain.useful_kvtt


def test_curves_come_back_from_json():
    curves = ServiceCurves((0.0, 1.5), {"a": (0, 7), "b": (0, 2)})
    assert ServiceCurves.of_json(json.loads(json.dumps(curves.as_json()))) == curves


def test_sharing_ideally_what_a_play_delivered_gives_its_references():
    """Rule R1 takes V from the same reports; of short runs the floor decides on both sides."""
    plan = generate(seed=3, num_runs=60, window_s=60)
    played, curves = play_with_meter(plan, "justitia", group_of=lambda _: "all")
    ideal = on_curve(gps_jcts_s, fluid_runs(plan), curves.total())
    longest = max(each.jct_s for each in played.runs)
    assert played_gps_jcts_s(played) == pytest.approx(ideal, abs=0.03 * longest)
    assert sum(played_gps_jcts_s(played)) == pytest.approx(sum(ideal), rel=0.01)


def test_srpt_at_the_work_of_a_play_is_no_slower_than_the_play():
    plan = generate(seed=4, num_runs=60, window_s=40)
    played, curves = play_with_meter(plan, "srjf", group_of=lambda _: "all")
    ideal = on_curve(srpt_jcts_s, fluid_runs(plan), curves.total())
    assert sum(ideal) < sum(each.jct_s for each in played.runs)


def test_weights_of_applications_reach_the_fluid_system():
    plan = scenario(
        run("a", inference(10, 3), application="gold"),
        engines=(engine(has_prefix_cache=False),),
        applications=(ApplicationPlan(name="gold", weight=4.0),),
    )
    assert [each.weight for each in fluid_runs(plan)] == [4.0]
