"""How far predictions are from the truth."""

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from justitia.predictor.model import TrainedModel, TrainingMetrics
from justitia.predictor.samples import Sample

_Floats = NDArray[np.float64]


def measure(predicted_kvtt: Sequence[float], true_kvtt: Sequence[float]) -> TrainingMetrics:
    """Compare predicted with true costs, all finite and > 0, pair by pair.

    Only the errors and ``num_held_out`` are filled in; nothing to compare makes them None.
    """
    predicted = np.asarray(predicted_kvtt, dtype=np.float64)
    true = np.asarray(true_kvtt, dtype=np.float64)
    has_any = len(true) > 0
    relative = np.abs(predicted - true) / true
    return TrainingMetrics(
        num_held_out=len(true),
        mean_relative_error=float(relative.mean()) if has_any else None,
        median_relative_error=float(np.median(relative)) if has_any else None,
        mean_log_error=float(np.abs(np.log(predicted / true)).mean()) if has_any else None,
        rank_correlation=rank_correlation(predicted, true),
    )


def measure_errors(model: TrainedModel, held_out: Sequence[Sample]) -> TrainingMetrics:
    """Judge a model on samples that it has not seen."""
    return measure(
        [model.predict(sample.prompt).cost_kvtt for sample in held_out],
        [sample.cost_kvtt for sample in held_out],
    )


def rank_correlation(left: _Floats, right: _Floats) -> float | None:
    """Return Spearman's correlation; ties share their mean rank. None where a side is constant."""
    if len(left) == 0:
        return None
    left_ranks, right_ranks = _mean_ranks(left), _mean_ranks(right)
    left_ranks -= left_ranks.mean()
    right_ranks -= right_ranks.mean()
    norm = float(np.sqrt(np.sum(left_ranks**2) * np.sum(right_ranks**2)))
    return float(np.sum(left_ranks * right_ranks)) / norm if norm > 0 else None


def _mean_ranks(values: _Floats) -> _Floats:
    _, inverse, counts = np.unique(values, return_inverse=True, return_counts=True)
    return np.asarray((np.cumsum(counts) - (counts - 1) / 2)[inverse], dtype=np.float64)
