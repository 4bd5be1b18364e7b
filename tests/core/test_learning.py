"""What ended runs teach of open ones (rule K2): trails, the regression, distributions, lessons."""

import itertools
import json
import math
import random

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from justitia.core import regression
from justitia.core.estimates import Estimate, Source
from justitia.core.learning import (
    LEVELS,
    MAX_ORIGINS,
    MIN_RUNS,
    Belief,
    Learner,
    Mark,
    Trail,
    quantile_kvtt,
)
from justitia.core.regression import NUM_FEATURES, Regression
from justitia.core.units import MAX_COST_KVTT

NUMBERS = st.floats(-5, 5, allow_nan=False)
ROWS = st.lists(st.tuples(*[NUMBERS] * NUM_FEATURES, NUMBERS), max_size=40)


def oracle(rows, at):
    """The same posterior by numpy: least squares with a ridge, older rows discounted."""
    x = np.array([row[:-1] for row in rows]).reshape(-1, NUM_FEATURES)
    y = np.array([row[-1] for row in rows])
    keep = 1 - 1 / regression._MEMORY_RUNS
    discount = keep ** np.arange(len(rows) - 1, -1, -1.0)
    precision = (x.T * discount) @ x + np.diag(regression._RIDGE)
    weights = np.linalg.solve(precision, (x.T * discount) @ y)
    rest = discount @ y**2 - weights @ precision @ weights
    prior = regression._VARIANCE_RUNS
    variance = (prior * regression._VARIANCE + max(0, rest)) / (prior + discount.sum())
    at = np.array(at)
    return at @ weights, variance * (1 + at @ np.linalg.solve(precision, at))


# -- the regression --------------------------------------------------------------------------------


@settings(derandomize=True, max_examples=80, deadline=None)
@given(rows=ROWS, at=st.tuples(*[NUMBERS] * NUM_FEATURES))
def test_the_regression_is_least_squares_with_a_ridge(rows, at):
    regression = Regression()
    for row in rows:
        regression.add(row[:-1], row[-1])
    assert regression.predict(at) == pytest.approx(oracle(rows, at), rel=1e-6, abs=1e-6)


def test_before_anything_was_learned_the_estimate_stays():
    mean, variance = Regression().predict((1.0, 2.0, 3.0, 4.0))
    assert mean == 0
    assert variance > 0


def test_a_regression_comes_back_from_json_with_the_same_answers():
    regression = Regression()
    rng = random.Random(5)
    for _ in range(30):
        regression.add([rng.gauss(0, 1) for _ in range(NUM_FEATURES)], rng.gauss(0, 1))
    back = Regression.of(json.loads(json.dumps(regression.sums())))
    at = (1.0, 0.5, -0.5, 0.1)
    assert back.predict(at) == regression.predict(at)
    assert (back.count, back.mean_square) == (regression.count, regression.mean_square)


@pytest.mark.parametrize(
    "sums",
    [
        pytest.param([], id="none"),
        pytest.param([1.0] * 16, id="too few"),
        pytest.param([-1.0] + [0.0] * 16, id="negative count"),
        pytest.param([5.0] + [math.nan] * 16, id="nan"),
        pytest.param([5.0, 5.0, 1e300] + [0.0] * 14, id="absurd"),
        pytest.param(["many"] * 17, id="text"),
    ],
)
def test_sums_that_make_no_sense_are_refused(sums):
    with pytest.raises(ValueError, match=r"sums of a regression|could not convert"):
        Regression.of(sums)


@settings(derandomize=True, max_examples=60, deadline=None)
@given(sums=st.lists(st.floats(0, 1e6), min_size=17, max_size=17))
def test_even_senseless_sums_give_finite_answers(sums):
    mean, variance = Regression.of(sums).predict((1.0, -3.0, 2.0, 0.5))
    assert math.isfinite(mean)
    assert 0 < variance < math.inf


# -- distributions ---------------------------------------------------------------------------------


@settings(derandomize=True, max_examples=200, deadline=None)
@given(
    mu=st.floats(0, 40),
    sigma=st.floats(1e-6, 5),
    quantile=st.floats(0.05, 0.99),
    above=st.integers(0, 10**18),
)
def test_a_cost_is_never_below_what_the_run_has_got(mu, sigma, quantile, above):
    cost = quantile_kvtt(Belief(mu, sigma), quantile, above_kvtt=above)
    assert above <= cost <= max(above, MAX_COST_KVTT * 1.01)


def test_the_quantile_of_what_is_left_agrees_with_drawing():
    rng = random.Random(3)
    belief = Belief(math.log(1000), 0.4)
    drawn = sorted(rng.lognormvariate(belief.mu, belief.sigma) for _ in range(100_000))
    for above in (0, 700, 1500, 2500):
        left = [cost for cost in drawn if cost > above]
        for quantile in (0.1, 0.5, 0.9):
            expected = left[int(quantile * len(left))]
            found = quantile_kvtt(belief, quantile, above_kvtt=above)
            assert found == pytest.approx(expected, rel=0.03)


def test_far_beyond_what_was_believed_the_rest_is_small_and_grows_steadily():
    belief = Belief(math.log(1000), 0.05)
    costs = [quantile_kvtt(belief, 0.5, above_kvtt=above) for above in (3000, 10_000, 100_000)]
    for above, cost in zip((3000, 10_000, 100_000), costs, strict=True):
        assert above < cost < 1.1 * above


# -- trails ----------------------------------------------------------------------------------------


def trail_of(*steps):
    """Each step: inferences that finish, at 100 kvtt each, then how many are in flight."""
    trail = Trail()
    for num, in_flight in steps:
        for _ in range(num):
            trail.finish(100)
        trail.look(in_flight)
    return trail


def test_levels_are_few_and_spread_by_a_factor_of_at_most_two():
    assert LEVELS[:10] == (0, 1, 2, 3, 4, 5, 7, 9, 13, 17)
    assert len(LEVELS) < 30
    assert all(a < b <= 2 * a for a, b in itertools.pairwise(LEVELS[1:]))


def test_a_trail_has_one_mark_for_each_level_that_was_reached():
    trail = trail_of((0, 3), (1, 2), (1, 5), (4, 1))
    assert trail.marks == [
        Mark(0, 0, 0, 3),
        Mark(1, 1, 100, 3),
        Mark(2, 2, 200, 7),
        Mark(5, 6, 600, 7),
    ]


def test_a_mark_is_made_anew_while_more_of_the_run_comes_to_be_seen():
    trail = trail_of((0, 1), (0, 4), (0, 3))
    assert trail.marks == [Mark(0, 0, 0, 4)]


def test_a_run_of_which_nothing_is_in_flight_is_passed_over():
    assert trail_of((0, 0)).marks == []
    assert trail_of((0, 1), (1, 0)).marks == [Mark(0, 0, 0, 1)]


def test_a_trail_of_a_million_inferences_stays_small():
    trail = Trail()
    for _ in range(10**5):
        trail.finish(1)
        trail.look(1)
    assert len(trail.marks) == len(LEVELS) - 1


def test_an_aborted_inference_is_not_counted_and_its_run_teaches_nothing():
    trail = trail_of((1, 1))
    assert trail.lesson == (Mark(1, 1, 100, 2),)
    trail.finish(None)
    assert trail.num_finished == 1
    assert trail.lesson == ()


# -- lessons ---------------------------------------------------------------------------------------


def estimated(cost, source=Source.MODEL, version="v1"):
    return Estimate(cost, source, version)


def teach(learner, num, *, application="app", seed=1, spread=0.1):
    """Runs of n equal inferences cost n times each; the estimate knows nothing of n."""
    rng = random.Random(seed)
    for _ in range(num):
        inferences, each = rng.randint(2, 20), rng.randint(80, 120)
        true = round(inferences * each * rng.lognormvariate(0, spread))
        marks = [Mark(0, 0, 0, inferences), Mark(1, 1, each, inferences)]
        learner.learn(application, estimate=estimated(1000), true_kvtt=true, marks=marks)


def expect(learner, mark, application="app"):
    belief = learner.believe(application, estimate=estimated(1000), mark=mark)
    return None if belief is None else learner.cost_kvtt(belief, above_kvtt=0)


def test_fewer_than_five_runs_at_a_level_say_nothing():
    learner = Learner()
    teach(learner, MIN_RUNS - 1)
    assert expect(learner, Mark(1, 1, 100, 10)) is None
    teach(learner, 30)
    assert expect(learner, Mark(1, 1, 100, 10)) is not None
    assert expect(learner, Mark(2, 2, 200, 10)) is None
    assert expect(learner, Mark(1, 1, 100, 10), "another") is None


def test_the_fan_out_is_learned_before_anything_has_finished():
    learner = Learner()
    teach(learner, 100)
    assert expect(learner, Mark(0, 0, 0, 3)) == pytest.approx(300, rel=0.25)
    assert expect(learner, Mark(0, 0, 0, 20)) == pytest.approx(2000, rel=0.15)


def test_where_the_estimate_is_as_good_nothing_is_said():
    learner = Learner()
    for n in range(50):
        cost = 500 + 37 * n
        learner.learn("app", estimate=estimated(cost), true_kvtt=cost, marks=[Mark(1, 1, 100, 5)])
    assert learner.believe("app", estimate=estimated(900), mark=Mark(1, 1, 100, 5)) is None


def test_a_habit_that_changes_is_unlearned():
    learner = Learner()
    teach(learner, 100)
    for _ in range(3000):
        learner.learn("app", estimate=estimated(1000), true_kvtt=8000, marks=[Mark(1, 1, 100, 10)])
    assert expect(learner, Mark(1, 1, 100, 10)) == pytest.approx(8000, rel=0.1)


def test_what_is_wrong_with_the_default_is_not_held_against_the_mean():
    """The default is 1,000,000 and runs cost 60,000; the mean is as good as it can be."""
    learner = Learner()
    default = estimated(1_000_000, Source.DEFAULT, "")
    for n in range(40):
        mark = Mark(0, 0, 0, 4 + n % 3)
        learner.learn("app", estimate=default, true_kvtt=15_000 * (4 + n % 3), marks=[mark])
    seen = Mark(0, 0, 0, 4)
    assert learner.believe("app", estimate=default, mark=seen) is not None
    for other in (estimated(216_000, Source.HISTORY, ""), estimated(216_000, Source.CLIENT, "")):
        assert learner.believe("app", estimate=other, mark=seen) is None


def test_a_new_model_is_not_corrected_by_what_the_old_one_did():
    learner = Learner()
    teach(learner, 40)
    new = estimated(1000, version="v2")
    assert learner.believe("app", estimate=new, mark=Mark(1, 1, 100, 10)) is None
    assert expect(learner, Mark(1, 1, 100, 10)) is not None


def test_of_many_models_only_the_last_are_remembered():
    learner = Learner()
    for version in range(3 * MAX_ORIGINS):
        estimate = estimated(1000, version=f"v{version}")
        learner.learn("app", estimate=estimate, true_kvtt=900, marks=[Mark(0, 0, 0, 3)])
    kept = [each["model_version"] for each in learner.lessons("app")["origins"]]
    assert kept == [f"v{version}" for version in range(2 * MAX_ORIGINS, 3 * MAX_ORIGINS)]


def test_lessons_survive_as_json_and_go_with_their_application():
    learner = Learner()
    teach(learner, 40)
    restored = Learner()
    restored.restore("app", json.loads(json.dumps(learner.lessons("app"))))
    mark = Mark(1, 1, 90, 7)
    assert expect(restored, mark) == expect(learner, mark)
    learner.forget("app")
    assert learner.lessons("app") is None
    assert learner.applications() == []
    assert expect(learner, mark) is None


ORIGIN = {"source": "model", "model_version": "v1", "anchor_kvtt": 10, "levels": {}}


@pytest.mark.parametrize(
    "record",
    [
        {},
        {"origins": None},
        {"origins": [{"anchor_kvtt": 10, "levels": {}}]},
        {"origins": [{**ORIGIN, "source": "oracle"}]},
        {"origins": [{**ORIGIN, "anchor_kvtt": 0}]},
        {"origins": [{**ORIGIN, "levels": {"x": [0.0] * 17}}]},
        {"origins": [{**ORIGIN, "levels": {"99": [0.0] * 17}}]},
        {"origins": [ORIGIN, {**ORIGIN, "levels": {"1": [0.0]}}]},
        {"origins": [{**ORIGIN, "levels": {"1": None}}]},
    ],
)
def test_lessons_that_make_no_sense_are_refused_and_change_nothing(record):
    learner = Learner()
    with pytest.raises((KeyError, TypeError, ValueError)):
        learner.restore("app", record)
    assert learner.applications() == []


def test_only_the_applications_seen_last_are_remembered():
    learner = Learner(max_applications=2)
    for name in ("a", "b", "a", "c"):
        teach(learner, 1, application=name)
    assert learner.applications() == ["a", "c"]
