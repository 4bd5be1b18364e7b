"""Rule D1 in the simulator: nobody ends much later than in the fluid system."""

from fractions import Fraction

import pytest
from hypothesis import given, settings

from justitia.core.cost import inference_cost_kvtt
from justitia.sim.fast.engine import FastEngine
from justitia.sim.loop import PlaySettings, play
from justitia.testing.fluid_oracle import FluidOracle
from justitia.testing.sim_scenarios import (
    EVEN_STEP_TIME,
    STEP_S,
    Workshop,
    engine,
    inference,
    run,
    scenario,
    scenarios,
    steps,
)


class Metered(FastEngine):
    """Writes down at the end of every step what it has delivered in it."""

    def __init__(self, *args, **kwargs):
        super().__init__(*args, **kwargs)
        self.delivered = []
        self._seen = self._closed = 0

    def end_run(self, run_id):
        self._closed += self._batch.books.account(run_id).useful_kvtt
        super().end_run(run_id)

    def finish_steps(self, now_s):
        planned = self._batch.decoding.tick + self._flight.planned(now_s)
        accounts = self._batch.books._accounts.values()
        total = self._closed + sum(account.useful_at(planned) for account in accounts)
        self.delivered.append((now_s, total - self._seen))
        self._seen = total
        return super().finish_steps(now_s)


def fluid_finishes(plan, delivered, weights):
    """Time at which the fluid system, doing the same work, is done with each run."""
    oracle = FluidOracle()
    budget = plan.engines[0].max_num_batched_tokens
    coming = list(plan.runs)
    ends = {}
    for end_s, work in delivered:
        # A run that comes during a step is there for the work of the next one, as in the engine.
        while coming and coming[0].arrival_s < end_s:
            each = coming.pop(0)
            cost = sum(
                inference_cost_kvtt(i.prompt_tokens, 0, i.output_tokens, step_budget_tokens=budget)
                for i in each.inferences
            )
            oracle.arrive(each.id, Fraction(cost), Fraction(weights.get(each.application, 1.0)))
        oracle.deliver(Fraction(work))
        for name in oracle.departed:
            ends.setdefault(name, end_s)
    last_s = delivered[-1][0]
    return {each.id: ends.get(each.id, last_s) for each in plan.runs}


def delays(plan, policy):
    """Steps by which each run is later than in the fluid system."""
    workshop = Workshop(Metered, is_stepwise=True)
    played = play(plan, policy, PlaySettings(is_stepwise=True), make_engine=workshop.make)
    weights = {each.name: each.weight for each in plan.applications}
    fluid = fluid_finishes(plan, workshop.engines[0].delivered, weights)
    return {each.run_id: steps(each.finished_at_s - fluid[each.run_id]) for each in played.runs}


def bound(plan):
    """Rule D1: 2 x longest single inference + largest run alone, in steps."""

    def alone(*inferences):
        single = scenario(run("alone", *inferences), engines=plan.engines)
        return play(single, "fcfs").engines[0].steps

    longest = max(alone(i) for each in plan.runs for i in each.inferences)
    return 2 * longest + max(alone(*each.inferences) for each in plan.runs)


@settings(derandomize=True, deadline=None, max_examples=80, database=None)
@given(
    plan=scenarios(
        has_stages=False,
        has_pauses=False,
        has_sharing=False,
        max_engines=1,
        max_runs=8,
        step_time=EVEN_STEP_TIME,
        watermark=0.0,
    )
)
def test_runs_of_one_stage_with_exact_costs_end_within_the_bound(plan):
    assert max(delays(plan, "justitia").values()) <= bound(plan)


@pytest.mark.parametrize(("policy", "is_within"), [("justitia", True), ("fcfs", False)])
def test_a_late_small_run_behind_a_crowd_is_within_the_bound_under_justitia_alone(
    policy, is_within
):
    crowd = [run(f"crowd-{n}", *(inference(10, 20) for _ in range(20))) for n in range(8)]
    late = run("late", inference(10, 20), at_s=STEP_S)
    plan = scenario(*crowd, late, engines=(engine(blocks=20),))
    assert (delays(plan, policy)["late"] <= bound(plan)) is is_within
