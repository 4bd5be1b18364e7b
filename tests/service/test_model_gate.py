"""The decision whether a published model becomes the active one, without any service."""

import math
import random

import pytest

from justitia_scheduler.model_gate import (
    MIN_RUNS,
    Activation,
    Comparison,
    GateFacts,
    against_the_mean,
    decide,
)

#: How many runs the active model was trained from.
ACTIVE = 100


def compared(ours, rivals, count=20):
    """Both wrong by a factor that wavers a little, on the same runs."""
    rng, comparison = random.Random(0), Comparison()
    for _ in range(count):
        comparison.add(ours * rng.uniform(0.9, 1.1), rivals * rng.uniform(0.9, 1.1), 1.0)
    return comparison


BETTER, WORSE, FEW = compared(1.5, 3.0), compared(3.0, 1.5), compared(3.0, 1.5, MIN_RUNS - 1)


def judge(**fields):
    defaults = {"activation": Activation.UNLESS_WORSE, "samples": 100}
    return decide(GateFacts(**{**defaults, **fields}))


@pytest.mark.parametrize(
    "evidence", ["held_out_mean", "held_out_active", "recent_mean", "recent_active"]
)
def test_a_model_that_loses_any_comparison_is_not_activated(evidence):
    verdict = judge(active_samples=ACTIVE, **{evidence: WORSE})
    assert not verdict.is_active
    assert "is better: mean log error 1." in verdict.reason
    assert "on 20 runs" in verdict.reason


@pytest.mark.parametrize(
    "evidence", ["held_out_mean", "held_out_active", "recent_mean", "recent_active"]
)
@pytest.mark.parametrize("comparison", [BETTER, FEW], ids=["it wins", "too few runs"])
def test_a_model_that_loses_none_is_activated(evidence, comparison):
    assert judge(active_samples=ACTIVE, **{evidence: comparison}).is_active


def test_twice_too_much_weighs_as_much_as_half():
    comparison = Comparison()
    for _ in range(MIN_RUNS):
        comparison.add(2.0, 0.5, 1.0)
    assert not comparison.is_lost
    assert comparison.ours == pytest.approx(comparison.rivals)


def test_what_chance_can_explain_decides_nothing():
    rng, lost = random.Random(1), 0
    for _ in range(400):
        comparison = Comparison()
        for _ in range(20):
            comparison.add(rng.lognormvariate(0, 0.5), rng.lognormvariate(0, 0.5), 1.0)
        lost += comparison.is_lost
    # Equal models: one standard error leaves about one in six to chance.
    assert 0.1 < lost / 400 < 0.22


def test_a_constant_difference_needs_no_spread_to_be_seen():
    comparison = Comparison()
    for _ in range(MIN_RUNS):
        comparison.add(3.0, 2.0, 1.0)
    assert comparison.is_lost


@pytest.mark.parametrize(
    ("factor", "is_lost"), [(1 + 1e-9, False), (1.0099, False), (1.0102, True)], ids=str
)
def test_a_difference_that_no_order_notices_decides_nothing(factor, is_lost):
    """One hundredth of the logarithm: about 1 % of the cost."""
    comparison = Comparison()
    for _ in range(MIN_RUNS):
        comparison.add(factor, 1.0, 1.0)
    assert comparison.is_lost == is_lost


def test_a_perfect_model_of_an_application_whose_runs_all_cost_the_same_is_activated():
    pairs = [(math.exp(math.log(cost)), cost) for cost in [4711.0] * 20]
    assert all(predicted != cost for predicted, cost in pairs), "rounding only"
    assert judge(held_out_mean=against_the_mean(pairs)).is_active


def test_a_model_that_knows_nothing_is_no_better_than_the_mean():
    costs = [float(100 + number) for number in range(20)]
    knowing = against_the_mean((cost * 1.01, cost) for cost in costs)
    off = against_the_mean((1000.0, cost) for cost in costs)
    same = against_the_mean((sum(costs) / len(costs), cost) for cost in costs)
    assert (knowing.is_lost, off.is_lost, same.is_lost) == (False, True, False)
    assert not against_the_mean([]).is_telling


def test_the_publisher_may_insist_or_only_store():
    assert judge(
        active_samples=ACTIVE, activation=Activation.ALWAYS, held_out_active=WORSE
    ).is_active
    assert not judge(activation=Activation.NEVER, held_out_mean=BETTER).is_active


def test_of_two_trainings_at_once_the_one_with_more_samples_wins():
    fewer = judge(active_samples=ACTIVE, samples=80, held_out_mean=BETTER)
    assert not fewer.is_active
    assert "trained from 80 runs, the active model from 100" in fewer.reason
    assert judge(active_samples=ACTIVE, samples=100, held_out_mean=BETTER).is_active
    # Once runs tell them apart, they decide.
    assert judge(active_samples=ACTIVE, samples=80, held_out_active=BETTER).is_active


def test_without_anything_to_compare_the_reason_says_so():
    verdict = judge()
    assert verdict.is_active
    assert "nothing to compare" in verdict.reason
