import math
import random
import time
from dataclasses import replace

import numpy as np
import pytest
import torch
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from justitia.predictor import artefact
from justitia.predictor.mlp import Rows, fit
from justitia.predictor.samples import Sample
from justitia.predictor.settings import TrainingSettings
from justitia.predictor.training import (
    DeclineReason,
    TrainingDeclined,
    split_by_prompt,
    train,
    train_all,
)


def samples_of(prompts, costs_kvtt):
    return [
        Sample(application="a", prompt=prompt, cost_kvtt=cost)
        for prompt, cost in zip(prompts, costs_kvtt, strict=True)
    ]


def with_none_dropped(model):
    return replace(model, metrics=replace(model.metrics, num_dropped=0))


def assert_same_model(left, right):
    for name, array in left.arrays().items():
        assert array.tobytes() == right.arrays()[name].tobytes(), name
    assert left.version == right.version


def test_the_model_beats_the_mean_of_the_costs_on_new_runs(accurate_model, make_samples):
    new = make_samples(200, seed=99)
    mean_log = np.mean([math.log(s.cost_kvtt) for s in make_samples(100)])
    errors = [abs(math.log(accurate_model.predict(s.prompt).cost_kvtt / s.cost_kvtt)) for s in new]
    errors_of_mean = [abs(mean_log - math.log(s.cost_kvtt)) for s in new]
    assert np.mean(errors) < 0.6 * np.mean(errors_of_mean)


def test_the_measured_error_is_near_the_error_on_new_runs(accurate_model, make_samples):
    metrics = accurate_model.metrics
    assert (metrics.num_samples, metrics.num_dropped, metrics.num_held_out) == (100, 0, 20)
    new = make_samples(200, seed=99)
    log_error = np.mean(
        [abs(math.log(accurate_model.predict(s.prompt).cost_kvtt / s.cost_kvtt)) for s in new]
    )
    assert 0.6 < metrics.mean_log_error / log_error < 1.7
    assert metrics.rank_correlation > 0.6
    assert 0 < accurate_model.train_s < 60


def test_equal_seeds_give_equal_models_whatever_the_thread_settings(make_samples, fast_settings):
    samples = make_samples(30)
    num_threads = torch.get_num_threads()
    try:
        torch.set_num_threads(1)
        torch.manual_seed(1)
        first = train(samples, settings=fast_settings)
        torch.set_num_threads(2)
        torch.manual_seed(2)
        second = train(samples, settings=fast_settings)
    finally:
        torch.set_num_threads(num_threads)
    assert_same_model(first, second)
    other = train(samples, settings=replace(fast_settings, seed=1))
    assert other.version != first.version


def test_training_leaves_the_state_of_torch_as_it_was(make_samples, fast_settings):
    num_threads = torch.get_num_threads()
    state = torch.get_rng_state()
    with torch.inference_mode():
        train(make_samples(10), settings=fast_settings)
        assert torch.is_inference_mode_enabled()
    with pytest.raises(ZeroDivisionError):
        train(make_samples(10), settings=fast_settings, on_progress=lambda _: 1 / 0)
    assert torch.get_num_threads() == num_threads
    assert torch.equal(torch.get_rng_state(), state)


def test_training_computes_on_its_own_thread_only(make_samples, fast_settings):
    samples = make_samples(60)
    train(samples, settings=fast_settings)  # whatever starts once has started
    process_s, thread_s = time.process_time(), time.thread_time()
    train(samples, settings=replace(fast_settings, max_steps=200))
    process_s, thread_s = time.process_time() - process_s, time.thread_time() - thread_s
    assert process_s < 1.2 * thread_s


def test_the_served_network_agrees_with_torch(make_samples, accurate_network):
    featuriser, network = accurate_network.featuriser, accurate_network.regressor
    prompts = [sample.prompt for sample in make_samples(20, seed=5)]
    hidden = torch.from_numpy(featuriser.dense(prompts))
    for index, (weight, bias) in enumerate(zip(network.weights, network.biases, strict=True)):
        hidden = torch.relu(hidden) if index else hidden
        hidden = hidden @ torch.from_numpy(weight) + torch.from_numpy(bias)
    served = [network.forward(featuriser.transform(prompt)) for prompt in prompts]
    np.testing.assert_allclose(served, hidden.squeeze(1).numpy(), rtol=1e-4, atol=1e-4)


def test_terms_that_the_network_does_not_read_change_nothing(make_samples, accurate_network):
    featuriser, network = accurate_network.featuriser, accurate_network.regressor
    first, num_terms = network.weights[0], len(featuriser.vocabulary)
    assert 0 < np.count_nonzero(first.any(axis=1)) < num_terms
    for sample in make_samples(5, seed=6):
        row = featuriser.transform(sample.prompt)
        hidden = np.einsum("i,ij->j", row.weights, first[row.columns])
        hidden += np.einsum("i,ij->j", row.lengths, first[num_terms:]) + network.biases[0]
        for weight, bias in zip(network.weights[1:], network.biases[1:], strict=True):
            hidden = np.einsum("i,ij->j", np.maximum(hidden, 0), weight) + bias
        assert network.forward(row) == pytest.approx(float(hidden[0]), rel=1e-6)


def test_early_stopping_keeps_the_best_weights():
    rng = np.random.default_rng(0)
    rows = Rows(
        features=rng.normal(size=(40, 5)).astype(np.float32),
        targets=rng.normal(size=40).astype(np.float32),  # nothing but noise to learn
    )
    other = Rows(
        features=rng.normal(size=(40, 5)).astype(np.float32),
        targets=rng.normal(size=40).astype(np.float32),
    )
    steps = []
    result = fit(
        rows, validation=other, widths=(5, 8, 8, 4, 1), max_steps=5000, seed=0, on_step=steps.append
    )
    assert steps[-1] < 5000
    assert result.num_steps < steps[-1]
    again = fit(
        rows,
        validation=None,
        widths=(5, 8, 8, 4, 1),
        max_steps=result.num_steps,
        seed=0,
        on_step=steps.append,
    )
    for kept, expected in zip(result.network.weights, again.network.weights, strict=True):
        assert np.array_equal(kept, expected)


def test_equal_prompts_are_never_on_both_sides(make_samples, fast_settings):
    samples = make_samples(20) * 3
    known, held_out = split_by_prompt(samples, settings=fast_settings, purpose="held out")
    assert len(known) + len(held_out) == 60
    assert len(held_out) == 12
    assert not {s.prompt for s in known} & {s.prompt for s in held_out}


def test_the_split_depends_on_the_seed_but_not_on_the_order(make_samples, fast_settings):
    samples = make_samples(40)
    shuffled = random.Random(1).sample(samples, k=40)

    def held_out(samples, **changes):
        chosen = replace(fast_settings, **changes)
        return {s.prompt for s in split_by_prompt(samples, settings=chosen, purpose="x")[1]}

    assert held_out(samples) == held_out(shuffled)
    assert held_out(samples) != held_out(samples, seed=1)


@pytest.mark.parametrize(
    "prompts",
    [
        pytest.param(["a template"] * 20, id="one template"),
        pytest.param([f"template {i % 2}" for i in range(20)], id="two prompts"),
        pytest.param([f"template {i % 3}" for i in range(20)], id="three prompts"),
        pytest.param([" "] * 19 + ["a"], id="blank and one letter"),
        pytest.param([str(7**i) for i in range(20)], id="digits"),
        pytest.param([f"if x[{i}] == '{{}}':\n\treturn {i}" for i in range(20)], id="code"),
        pytest.param(["漢" * i for i in range(20)], id="cjk"),
        pytest.param(["\ud800" * i for i in range(20)], id="lone surrogates"),
        pytest.param(["a b " * 2**18 + str(i) for i in range(8)], id="a megabyte each"),
        pytest.param(["?!" * i for i in range(20)], id="no term at all"),
    ],
)
def test_training_succeeds_for_any_text(prompts, fast_settings):
    samples = samples_of(prompts, [10.0 * (i + 1) for i in range(len(prompts))])
    model = train(samples, settings=fast_settings)
    for prompt in (*prompts[:2], "", "something else", "z" * 10_000):
        prediction = model.predict(prompt)
        assert 10 / 4 <= prediction.cost_kvtt <= 10 * len(prompts) * 4
    assert model.metrics.num_held_out > 0 or len(set(prompts)) == 1
    assert artefact.from_bytes(artefact.to_bytes(model)).version == model.version


@given(
    st.lists(
        st.tuples(
            st.text(st.characters(exclude_categories=[]), max_size=40),
            st.floats(allow_nan=True, allow_infinity=True) | st.integers(-1, 10**19),
        ),
        max_size=10,
    )
)
@settings(
    max_examples=25, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
def test_any_samples_train_or_are_declined(fast_settings, rows):
    try:
        model = train(samples_of(*zip(*rows, strict=True)) if rows else [], settings=fast_settings)
    except TrainingDeclined:
        usable = [cost for prompt, cost in rows if prompt and 1e-3 <= cost <= 1e18]
        assert len(usable) < fast_settings.min_samples
        return
    prediction = model.predict("anything")
    assert math.isfinite(prediction.cost_kvtt)
    assert prediction.cost_kvtt > 0
    assert artefact.from_bytes(artefact.to_bytes(model)).version == model.version


def test_a_constant_cost_gives_a_constant_model(make_samples, fast_settings):
    samples = [replace(sample, cost_kvtt=640) for sample in make_samples(20)]
    model = train(samples, settings=fast_settings)
    assert model.predict("anything at all").cost_kvtt == pytest.approx(640)
    assert model.metrics.mean_relative_error == pytest.approx(0, abs=1e-9)
    assert model.metrics.rank_correlation is None


def test_equal_prompts_give_the_geometric_mean_and_no_measured_error(fast_settings):
    model = train(samples_of(["same"] * 4, [1, 10, 100, 1000]), settings=fast_settings)
    assert model.predict("same").cost_kvtt == pytest.approx(10**1.5)
    assert model.metrics.num_held_out == 0
    assert model.metrics.mean_relative_error is None


def test_unusable_costs_are_dropped_and_counted(make_samples, fast_settings):
    good = make_samples(10)
    broken = [replace(good[0], cost_kvtt=cost) for cost in (math.nan, math.inf, 0, -5, 1e-9, 1e19)]
    model = train([*broken, *good], settings=fast_settings)
    assert (model.metrics.num_samples, model.metrics.num_dropped) == (10, 6)
    assert_same_model(with_none_dropped(model), train(good, settings=fast_settings))


def test_samples_without_a_prompt_are_left_out_and_counted(make_samples, fast_settings):
    good = make_samples(30)
    blanks = [replace(good[0], prompt="", cost_kvtt=cost) for cost in (1, 10**6, 10**12)]
    model = train([*blanks, *good, *blanks], settings=fast_settings)
    assert (model.metrics.num_samples, model.metrics.num_dropped) == (30, 6)
    assert_same_model(with_none_dropped(model), train(good, settings=fast_settings))


def test_samples_without_a_prompt_push_out_none_that_have_one(make_samples, fast_settings):
    good = make_samples(12)
    blanks = [replace(good[0], prompt="")] * 12
    model = train([*good, *blanks], settings=replace(fast_settings, max_samples=12))
    assert model.metrics.num_samples == 12


def test_samples_without_a_prompt_alone_are_declined_with_their_number(make_samples, fast_settings):
    blanks = [replace(sample, prompt="") for sample in make_samples(40)]
    with pytest.raises(
        TrainingDeclined, match=r"0 usable samples of 40 \(40 without a prompt, 0 with an unusable"
    ):
        train(blanks, settings=fast_settings)


def test_the_last_samples_are_used_when_there_are_too_many(make_samples, fast_settings):
    samples = make_samples(30)
    model = train(samples, settings=replace(fast_settings, max_samples=12))
    assert (model.metrics.num_samples, model.metrics.num_dropped) == (12, 18)
    assert_same_model(with_none_dropped(model), train(samples[-12:], settings=fast_settings))


def test_predictions_stay_within_the_widened_range_of_the_samples(fast_settings):
    prompts = ["word " * (i + 1) for i in range(20)]
    samples = samples_of(prompts, [math.exp(i) for i in range(20)])
    model = train(samples, settings=replace(fast_settings, range_factor=1, max_steps=400))
    assert model.predict("word " * 10**6).cost_kvtt <= math.exp(19)
    assert model.predict("").cost_kvtt >= 1


def test_too_few_samples_are_declined_with_the_numbers(make_samples, fast_settings):
    first, *_ = good = make_samples(3)
    samples = [*good, replace(first, cost_kvtt=0), replace(first, prompt="", cost_kvtt=0)]
    with pytest.raises(
        TrainingDeclined,
        match=r"3 usable samples of 5 \(1 without a prompt, 1 with an unusable cost\), at least 4",
    ) as caught:
        train(samples, settings=fast_settings)
    assert caught.value.reason is DeclineReason.TOO_FEW_SAMPLES


def test_samples_of_two_applications_are_refused(make_samples, fast_settings):
    with pytest.raises(ValueError, match="several applications: a, b"):
        train(
            make_samples(9, application="b") + make_samples(9, application="a"),
            settings=fast_settings,
        )


def test_all_applications_are_trained_and_the_declined_ones_named(make_samples, fast_settings):
    progress = []
    report = train_all(
        {
            "good": make_samples(10, application="good"),
            "few": make_samples(2, application="few"),
            "none": [],
        },
        settings=fast_settings,
        on_progress=progress.append,
    )
    assert list(report.models) == ["good"]
    assert report.models["good"].application == "good"
    assert {name: declined.reason for name, declined in report.declined.items()} == {
        "few": DeclineReason.TOO_FEW_SAMPLES,
        "none": DeclineReason.NO_SAMPLES,
    }
    fractions = [step.fraction for step in progress]
    assert {step.application for step in progress} == {"good"}
    assert fractions == sorted(fractions)
    assert fractions[-1] == 1


@pytest.mark.parametrize(
    "changes",
    [
        {"min_samples": 1},
        {"max_samples": 5},
        {"validation_fraction": 0},
        {"validation_fraction": math.nan},
        {"seed": -1},
        {"hidden_widths": (64, 32)},
        {"hidden_widths": (64, 32, 0)},
        {"hidden_widths": (64, 32, 513)},
        {"max_terms": 0},
        {"selected_terms": 0},
        {"max_steps": 0},
        {"range_factor": 0.5},
    ],
)
def test_a_setting_out_of_range_is_named(changes):
    with pytest.raises(ValueError, match=next(iter(changes))):
        TrainingSettings(**changes)
