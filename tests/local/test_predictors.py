"""Trainings of several applications: what is told meanwhile, and what is kept."""

import io
import itertools
import re
from types import SimpleNamespace

import pytest
from rich.console import Console

from justitia.local import predictors
from justitia.local.predictors import train_with_progress
from justitia.predictor.samples import Sample
from justitia.predictor.settings import TrainingSettings
from justitia.predictor.training import Trained
from justitia.testing.models import two_level_model

SETTINGS = TrainingSettings(min_samples=5)


def samples_of(application, num_samples=12):
    return [
        Sample(application=application, prompt=f"p {n} " * n, cost_kvtt=10.0 * (n + 1))
        for n in range(num_samples)
    ]


@pytest.fixture
def log():
    return io.StringIO()


def train(log, samples, **given):
    console = Console(file=log, width=200)
    return train_with_progress(samples, settings=SETTINGS, console=console, **given)


def test_each_model_is_handed_over_before_the_next_training_begins(log, monkeypatch):
    order = []
    train_and_judge = predictors.train_and_judge

    def noted(samples, **given):
        order.append(f"begin {samples[0].application}")
        return train_and_judge(samples, **given)

    monkeypatch.setattr(predictors, "train_and_judge", noted)
    samples = {"one": samples_of("one"), "few": samples_of("few", 2), "two": samples_of("two")}
    report = train(log, samples, on_ready=lambda ready: order.append(ready.model.application))
    assert order == ["begin one", "one", "begin few", "begin two", "two"]
    assert (list(report.models), list(report.declined)) == (["one", "two"], ["few"])
    assert report.held_out["one"]
    assert "trained one (1 of 3)\ntrained two (3 of 3)\n" in log.getvalue()


def test_a_model_that_is_recalled_is_not_trained_again(log):
    known = Trained(model=two_level_model("one", plain_kvtt=1, word_kvtt=2), held_out=())
    ready = []
    report = train(log, {"one": samples_of("one")}, recall=lambda _: known, on_ready=ready.append)
    assert report.models["one"] is known.model
    assert ready == [known]
    assert "kept one (1 of 1)" in log.getvalue()


@pytest.mark.parametrize(("period_s", "are_told"), [(0.001, False), (11.0, True)])
def test_a_log_tells_of_a_long_training_every_ten_seconds(log, monkeypatch, period_s, are_told):
    steps = itertools.count()
    clock = SimpleNamespace(monotonic=lambda: next(steps) * period_s)
    monkeypatch.setattr(predictors, "time", clock)
    train(log, {"one": samples_of("one")})
    shares = [int(share) for share in re.findall(r"training one: (\d+)%", log.getvalue())]
    assert shares == sorted(shares)
    assert bool(shares) == are_told
