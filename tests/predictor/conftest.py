"""A synthetic application: a run's cost grows with its text and depends on one word of it."""

import random

import pytest

from justitia.predictor.regressor import ModelKind
from justitia.predictor.samples import Sample
from justitia.predictor.settings import TrainingSettings
from justitia.predictor.training import train

_WORDS = [
    *("scheduler", "memory", "token", "batch", "prefix", "engine", "queue", "weight"),
    *("finish", "virtual", "clock", "cache", "block", "page", "request", "answer"),
    *("model", "prompt", "step", "decode", "fair", "share", "group", "tenant", "pool"),
    *("stage", "reduce", "merge", "verify", "search", "plan", "fact", "table"),
    *("equation", "knowledge", "sample", "vote", "review", "chapter", "section"),
    *("figure", "source"),
]
_FACTOR_BY_STYLE = {"briefly": 3, "thoroughly": 30}


def synthetic_samples(num_samples, *, seed=0, application="summarise"):
    rng = random.Random(seed)
    samples = []
    for index in range(num_samples):
        style = rng.choice(sorted(_FACTOR_BY_STYLE))
        body = " ".join(rng.choices(_WORDS, k=rng.randint(20, 400)))
        prompt = f"Summarise {style} document {index}:\n{body}"
        noise = rng.lognormvariate(0, 0.15)
        cost_kvtt = (len(prompt) * _FACTOR_BY_STYLE[style] + 500) * noise
        samples.append(Sample(application=application, prompt=prompt, cost_kvtt=cost_kvtt))
    return samples


@pytest.fixture(scope="session")
def make_samples():
    return synthetic_samples


@pytest.fixture(scope="session", params=list(ModelKind))
def kind(request):
    """What a test asks of any model is asked of every kind."""
    return request.param


@pytest.fixture(scope="session")
def fast_settings(kind):
    """For tests of anything but accuracy."""
    return TrainingSettings(
        kind=kind,
        min_samples=4,
        max_steps=30,
        hidden_widths=(8, 8, 4),
        max_terms=200,
        selected_terms=30,
    )


@pytest.fixture(scope="session")
def accurate_model(kind):
    return train(synthetic_samples(100), settings=TrainingSettings(kind=kind))


@pytest.fixture(scope="session")
def accurate_network():
    return train(synthetic_samples(100), settings=TrainingSettings(kind=ModelKind.NETWORK))


@pytest.fixture(scope="session")
def small_model(fast_settings):
    return train(synthetic_samples(30), settings=fast_settings)
