"""Models made by hand: no training, so no torch."""

import itertools
import math
from dataclasses import replace

import numpy as np

from justitia.predictor.features import LENGTH_FEATURES, Featuriser
from justitia.predictor.model import TrainedModel, TrainingMetrics
from justitia.predictor.network import Network, constant_network


def handmade_model(application: str) -> TrainedModel:
    """Build a model that answers any text; "word" is the one term that it knows."""
    widths = [1 + len(LENGTH_FEATURES), 4, 4, 4, 1]
    rng = np.random.default_rng(0)
    ones = np.ones(len(LENGTH_FEATURES), dtype=np.float32)
    return TrainedModel(
        application=application,
        featuriser=Featuriser(
            vocabulary=("word",),
            idf=np.ones(1, dtype=np.float32),
            length_mean=ones,
            length_std=ones,
        ),
        regressor=Network(
            weights=tuple(
                rng.normal(size=shape).astype(np.float32) for shape in itertools.pairwise(widths)
            ),
            biases=tuple(np.zeros(width, dtype=np.float32) for width in widths[1:]),
        ),
        log_mean=5.0,
        log_std=1.0,
        min_cost_kvtt=1.0,
        max_cost_kvtt=1e6,
        left_out_log_sigma=None,
        metrics=TrainingMetrics(
            num_samples=50,
            num_dropped=0,
            num_held_out=10,
            mean_relative_error=0.25,
            median_relative_error=0.2,
            mean_log_error=0.2,
            rank_correlation=0.9,
        ),
        train_s=1.0,
    )


def two_level_model(
    application: str, *, plain_kvtt: float, word_kvtt: float | None = None, samples: int = 50
) -> TrainedModel:
    """Build a model that says ``word_kvtt`` of a text with "word" in it, else ``plain_kvtt``."""
    model = handmade_model(application)
    spread = math.log(word_kvtt / plain_kvtt) if word_kvtt else 0.0
    network = constant_network((1 + len(LENGTH_FEATURES), 4, 4, 4, 1))
    for weight in network.weights:
        weight[0, 0] = 1  # the word's column goes through; layers keep what is above zero
    network.weights[-1][0, 0] = 1 if spread > 0 else -1
    return replace(
        model,
        regressor=network,
        log_mean=math.log(plain_kvtt),
        log_std=abs(spread),
        metrics=replace(model.metrics, num_samples=samples),
    )
