"""What is known of runs before they run."""

import statistics

import pytest

from justitia.core.cost import paper_cost_kvtt
from justitia.core.errors import InvalidValueError
from justitia.core.estimates import Source
from justitia.sim.estimators import make_estimator, sigma_of
from justitia.testing.sim_scenarios import inference, run, scenario

RUNS = [run(f"r{n}", inference(30, 10), inference(10, 5), application="x") for n in range(2000)]


def estimator(name, seed=0):
    return make_estimator(name, scenario(*RUNS[:1], seed=seed))


def test_exact_is_the_sum_of_the_closed_form():
    assert estimator("exact").run(RUNS[0]).cost_kvtt == sum(range(30, 40)) + sum(range(10, 15))
    assert estimator("exact").inference(RUNS[0], 1) == sum(range(10, 15))


def test_the_paper_and_tokens_have_formulas_of_their_own():
    expected = paper_cost_kvtt(30, 10) + paper_cost_kvtt(10, 5)
    assert estimator("paper").run(RUNS[0]).cost_kvtt == expected
    assert estimator("tokens").run(RUNS[0]).cost_kvtt == 30 + 20 + 10 + 10


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
    [("oracle", "must be one of exact"), ("error:much", "'much'"), ("error:-1", "from 0 to 1000")],
)
def test_an_unknown_estimator_is_refused(name, problem):
    with pytest.raises(InvalidValueError, match=problem):
        estimator(name)
