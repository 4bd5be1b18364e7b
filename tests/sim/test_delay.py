"""Rule D1 on whole plays: what is allowed, and who keeps to it."""

import pytest

from justitia.core.policies import Policy
from justitia.sim.delay import delay_bound, delays_s
from justitia.sim.service_curve import Curve, play_with_meter
from justitia.sim.workloads.generate import generate
from justitia.testing.sim_scenarios import STEP_S, engine, inference, run, scenario, steps

ENGINE = engine(blocks=20, has_prefix_cache=False)


class LastFirst(Policy):
    """A null policy: the run that came last is served first."""

    name = "last-first"

    def __init__(self):
        self._key = {}

    def start_run(self, run_id, sequence):
        self._key.setdefault(run_id, (-sequence,))

    def key(self, inference):
        return self._key.get(inference.run_id, (1,))


def late_of(plan, policy):
    played, curves = play_with_meter(plan, policy, group_of=lambda _: "all")
    return delays_s(plan, played, curves.total())


def test_the_bound_is_made_of_the_longest_inference_and_the_largest_run_alone():
    pairs = engine(max_num_seqs=2, has_prefix_cache=False)
    plan = scenario(
        run("wide", *(inference(10, 20) for _ in range(8))),
        run("long", inference(4, 60), at_s=STEP_S),
        engines=(pairs,),
    )
    bound = delay_bound(plan)
    assert steps(bound.longest_inference_s) == 60
    assert steps(bound.largest_run_s) == 80
    assert steps(bound.total_s) == 2 * 60 + 80


def test_a_run_alone_is_measured_with_its_pauses_and_stages():
    staged = run("staged", inference(4, 10), inference(4, 10, after=(0,), pause_s=8 * STEP_S))
    plan = scenario(staged, engines=(ENGINE,))
    assert steps(delay_bound(plan).largest_run_s) == 28


def test_a_delay_is_counted_from_the_fluid_finish_without_a_floor():
    """Two equal runs share 2 kvtt a step in the fluid system; the second one really ended last."""
    plan = scenario(run("a", inference(1, 1)), run("b", inference(1, 1)), engines=(ENGINE,))
    played, _ = play_with_meter(plan, "fcfs", group_of=lambda _: "all")
    slow = Curve((0.0, 2 * STEP_S), (0.0, 2.0))
    fast = Curve((0.0, STEP_S / 2), (0.0, 2.0))
    assert {steps(late) for late in delays_s(plan, played, slow).values()} == {-1}
    assert {late / STEP_S for late in delays_s(plan, played, fast).values()} == {0.5}


@pytest.mark.parametrize("policy", ["fcfs", LastFirst])
def test_null_policies_break_the_bound_and_justitia_keeps_it(policy):
    plan = generate(seed=4, num_runs=60, window_s=72.0)
    allowed = delay_bound(plan).total_s
    assert max(late_of(plan, "justitia").values()) <= allowed
    assert max(late_of(plan, policy).values()) > allowed
