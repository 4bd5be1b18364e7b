"""Tenants who ask in proportion to their weights."""

from collections import Counter

import pytest

from justitia.core.errors import InvalidValueError
from justitia.sim.checks import check_scenario
from justitia.sim.limits import fluid_runs
from justitia.sim.workloads.cases import proportionate
from justitia.sim.workloads.tables import PAPER_ENGINE

WEIGHTS = {"basic": 1, "gold": 4}


def drawn(**others):
    return proportionate(WEIGHTS, **({"seed": 5, "num_runs": 20, "window_s": 20.0} | others))


def test_runs_of_one_draw_arrive_together_and_have_one_cost_for_each_weight():
    plan = drawn()
    check_scenario(plan)
    by_draw = {}
    for run, fluid in zip(plan.runs, fluid_runs(plan), strict=True):
        draw = run.id.partition("/")[2]
        by_draw.setdefault(draw, set()).add((run.arrival_s, fluid.cost / fluid.weight))
    assert len(by_draw) == 20
    assert all(len(each) == 1 for each in by_draw.values())


def test_copies_share_no_tokens_and_keep_their_stages():
    plan = drawn()
    basic, gold = sorted(plan.runs[:2], key=lambda run: run.application)
    size = len(basic.inferences)
    assert len(gold.inferences) == 4 * size
    third = gold.inferences[2 * size : 3 * size]
    assert [tuple(after - 2 * size for after in each.after) for each in third] == [
        each.after for each in basic.inferences
    ]
    streams = [{s.stream for i in run.inferences for s in i.prompt} for run in (basic, gold)]
    assert not streams[0] & streams[1]
    assert len(streams[1]) == 4 * len(streams[0])


def test_tenants_take_turns_at_being_first():
    firsts = Counter(run.application for run in drawn().runs[::2])
    assert firsts == {"basic": 10, "gold": 10}


def test_runs_come_in_at_the_engines_of_their_tenant_in_turn():
    plan = drawn(engines=(PAPER_ENGINE,) * 2, ingress={"gold": (0, 0, 1)})
    pins = [plan.engine_of_run.get(run.id) for run in plan.runs if run.application == "gold"]
    assert pins == [0, 0, 1] * 6 + [0, 0]
    assert not any(run_id.startswith("basic") for run_id in plan.engine_of_run)


@pytest.mark.parametrize("weight", [0, 1.5, -1])
def test_weights_that_are_no_whole_numbers_are_refused(weight):
    with pytest.raises(InvalidValueError, match="weights"):
        proportionate({"basic": weight}, seed=1, num_runs=1, window_s=1.0)
