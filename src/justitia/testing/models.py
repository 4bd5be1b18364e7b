"""A model made by hand: no training, so no torch."""

import itertools

import numpy as np

from justitia.predictor.features import LENGTH_FEATURES, Featuriser
from justitia.predictor.model import TrainedModel, TrainingMetrics
from justitia.predictor.network import Network


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
        network=Network(
            weights=tuple(
                rng.normal(size=shape).astype(np.float32) for shape in itertools.pairwise(widths)
            ),
            biases=tuple(np.zeros(width, dtype=np.float32) for width in widths[1:]),
        ),
        log_mean=5.0,
        log_std=1.0,
        min_cost_kvtt=1.0,
        max_cost_kvtt=1e6,
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
