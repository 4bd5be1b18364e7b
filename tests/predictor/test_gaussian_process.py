import math
from dataclasses import replace

import numpy as np
import pytest
from threadpoolctl import threadpool_info, threadpool_limits

from justitia.predictor.features import LENGTH_FEATURES
from justitia.predictor.gaussian_process import MAX_SUPPORT, constant_process
from justitia.predictor.gaussian_process_fit import _Fitter, fit_process
from justitia.predictor.model import MAX_LOG_SIGMA, Prediction
from justitia.predictor.regressor import ModelKind
from justitia.predictor.settings import TrainingSettings
from justitia.predictor.training import train

NUM_LENGTHS = len(LENGTH_FEATURES)


def rows_of(num_rows, *, seed=0, noise=0.1, num_terms=40):
    """Costs that bend with two lengths and double with the seventh term."""
    rng = np.random.default_rng(seed)
    lengths = rng.normal(size=(num_rows, NUM_LENGTHS)).astype(np.float32)
    lengths[:, 5] = 0  # never varies
    terms = (rng.random((num_rows, num_terms)) < 0.3).astype(np.float32)
    targets = np.tanh(lengths[:, 0]) + 0.3 * lengths[:, 1] + terms[:, 7]
    targets += noise * rng.normal(size=num_rows)
    return terms, lengths, ((targets - targets.mean()) / targets.std()).astype(np.float32)


def learn(terms, lengths, targets, **changes):
    settings = {"max_terms": 10, "on_step": lambda _: None} | changes
    return fit_process(terms, lengths, targets, **settings)


def served(process, terms, lengths):
    """What the process says of each row, computed without its own code."""
    away = process.support[None] - (lengths * process.inverse_widths)[:, None]
    bells = np.exp(-0.5 * (away**2).sum(axis=2))
    return (
        process.bias[0]
        + (terms > 0) @ process.term_weights
        + lengths @ process.length_weights
        + bells @ process.support_weights
    )


def test_it_finds_bends_and_the_one_term_that_matters():
    terms, lengths, targets = rows_of(150)
    process = learn(terms[:100], lengths[:100], targets[:100]).process
    errors = served(process, terms[100:], lengths[100:]) - targets[100:]
    assert np.sqrt(np.mean(errors**2)) < 0.35
    assert np.argmax(np.abs(process.term_weights)) == 7
    assert np.count_nonzero(process.term_weights) <= 3


def test_terms_that_say_nothing_are_not_read():
    terms, lengths, targets = rows_of(100)
    process = learn(np.delete(terms, 7, axis=1), lengths, targets).process
    assert np.count_nonzero(process.term_weights) <= 1


def test_no_more_terms_are_read_than_asked_for():
    terms, lengths, _ = rows_of(200)
    targets = terms[:, :4].sum(axis=1)
    targets = (targets - targets.mean()) / targets.std()
    assert np.flatnonzero(learn(terms, lengths, targets).process.term_weights).tolist() == [
        0,
        1,
        2,
        3,
    ]
    few = learn(terms, lengths, targets, max_terms=2).process
    assert np.count_nonzero(few.term_weights) == 2


def test_a_length_that_never_varied_changes_nothing():
    terms, lengths, targets = rows_of(60)
    process = learn(terms, lengths, targets).process
    moved = lengths.copy()
    moved[:, 5] = 4
    np.testing.assert_array_equal(served(process, terms, lengths), served(process, terms, moved))


def test_the_errors_are_those_of_samples_that_were_left_out():
    terms, lengths, targets = rows_of(30)
    nothing = np.zeros(terms.shape[1], dtype=np.bool_)
    logs = np.log([0.1, 0.1, 0.5, 0.5, 1.0])
    errors = _Fitter(terms > 0, nothing, lengths, targets)._fit_with(logs).left_out_errors
    for left_out in (0, 7, 29):
        kept = np.delete(np.arange(30), left_out)
        fitter = _Fitter(terms[kept] > 0, nothing, lengths[kept], targets[kept])
        process = fitter._fit_with(logs).process
        one = slice(left_out, left_out + 1)
        error = targets[left_out] - served(process, terms[one], lengths[one])[0]
        assert errors[left_out] == pytest.approx(error, abs=1e-4)


def test_the_slope_is_that_of_the_loss():
    terms, lengths, targets = rows_of(25)
    read = np.arange(terms.shape[1]) == 7
    fitter = _Fitter(terms > 0, read, lengths, targets)
    logs = np.log([0.2, 0.4, 0.3, 0.8, 1.3])
    _, slope = fitter._loss(logs)
    for index in range(len(logs)):
        step = np.zeros(len(logs))
        step[index] = 1e-5
        numeric = (fitter._loss(logs + step)[0] - fitter._loss(logs - step)[0]) / 2e-5
        assert slope[index] == pytest.approx(numeric, rel=1e-4, abs=1e-5)


def test_equal_rows_with_different_costs_are_learnt_from():
    terms, lengths, _ = rows_of(20)
    same = np.repeat(lengths[:1], 20, axis=0)
    targets = np.linspace(-1, 1, 20).astype(np.float32)
    process = learn(np.repeat(terms[:1], 20, axis=0), same, targets).process
    assert abs(served(process, terms[:1], lengths[:1])[0]) < 0.2


def test_a_served_row_is_what_the_arrays_say(make_samples):
    settings = TrainingSettings(min_samples=4, max_terms=200)
    model = train(make_samples(40), settings=settings)
    assert model.regressor.kind is ModelKind.GAUSSIAN_PROCESS
    prompts = [sample.prompt for sample in make_samples(10, seed=4)]
    dense = model.featuriser.dense(prompts)
    num_terms = len(model.featuriser.vocabulary)
    expected = served(model.regressor, dense[:, :num_terms], dense[:, num_terms:])
    one_by_one = [model.regressor.forward(model.featuriser.transform(p)) for p in prompts]
    np.testing.assert_allclose(one_by_one, expected, rtol=1e-4, atol=1e-4)


def test_only_as_many_samples_are_used_as_it_can_carry(make_samples):
    samples = make_samples(MAX_SUPPORT + 8)
    samples = [replace(s, prompt=s.prompt[:80]) for s in samples]
    model = train(samples, settings=TrainingSettings(max_terms=50))
    assert (model.metrics.num_samples, model.metrics.num_dropped) == (MAX_SUPPORT, 8)
    assert len(model.regressor.support) == MAX_SUPPORT


def test_the_number_of_blas_threads_is_as_before(make_samples):
    with threadpool_limits(limits=2):
        before = [pool["num_threads"] for pool in threadpool_info()]
        train(make_samples(30), settings=TrainingSettings())
        with pytest.raises(ZeroDivisionError):
            learn(*rows_of(30), on_step=lambda _: 1 / 0)
        assert [pool["num_threads"] for pool in threadpool_info()] == before


def test_the_constant_process_answers_the_mean(make_samples):
    samples = [replace(s, cost_kvtt=640) for s in make_samples(20)]
    model = train(samples, settings=TrainingSettings())
    assert model.regressor.arrays().keys() == constant_process(1).arrays().keys()
    assert model.predict("anything").cost_kvtt == pytest.approx(640)
    assert model.predict("anything").log_sigma == pytest.approx(0, abs=1e-9)


@pytest.mark.parametrize("share", [0.1, 0.5, 0.9])
def test_quantiles_hold_what_they_promise_on_new_runs(make_samples, share):
    model = train(make_samples(100), settings=TrainingSettings())
    new = make_samples(100, seed=99)  # numbered as those learnt from
    below = [s.cost_kvtt <= model.predict(s.prompt).quantile_kvtt(share) for s in new]
    assert share - 0.12 < np.mean(below) < share + 0.12


def test_the_spread_comes_from_what_is_known(small_model):
    known = replace(small_model, left_out_log_sigma=0.5)
    assert known.predict("x").log_sigma == 0.5
    assert replace(known, left_out_log_sigma=99.0).predict("x").log_sigma == MAX_LOG_SIGMA
    judged = replace(small_model.metrics, mean_log_error=0.4)
    by_error = replace(small_model, left_out_log_sigma=None, metrics=judged)
    assert by_error.predict("x").log_sigma == pytest.approx(0.4 * math.sqrt(math.pi / 2))
    unjudged = replace(small_model.metrics, mean_log_error=None)
    by_costs = replace(small_model, left_out_log_sigma=None, metrics=unjudged, log_std=0.7)
    assert by_costs.predict("x").log_sigma == 0.7


def test_a_quantile_of_a_known_normal_is_exact():
    prediction = Prediction(cost_kvtt=100.0, model_version="v", is_unknown=False, log_sigma=0.5)
    assert prediction.quantile_kvtt(0.5) == pytest.approx(100)
    assert prediction.quantile_kvtt(0.8413447) == pytest.approx(100 * math.exp(0.5), rel=1e-5)
