"""From samples to a model that has not been judged yet: scale, features, selection, fit.

Neighbours: `training` decides which samples are learnt from and which ones judge; `vectoriser`,
`gaussian_process_fit` and `mlp` do the work with scikit-learn, scipy and torch.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from justitia.predictor.features import LENGTH_FEATURES, Featuriser
from justitia.predictor.gaussian_process import constant_process
from justitia.predictor.gaussian_process_fit import ProcessFit, fit_process
from justitia.predictor.mlp import Rows, fit
from justitia.predictor.model import TrainedModel, TrainingMetrics
from justitia.predictor.network import Network, layer_widths
from justitia.predictor.regressor import ModelKind, Regressor
from justitia.predictor.samples import Sample
from justitia.predictor.settings import TrainingSettings
from justitia.predictor.vectoriser import fit_featuriser

_MIN_LOG_STD = 1e-6

_TERM_SCALE = np.float32(5.0)
"""While learning, terms are scaled up: a row of unit norm over hundreds of terms is small beside
the standardised lengths. The learnt weights take the factor in: serving knows nothing of it."""


@dataclass(frozen=True, kw_only=True)
class _Scale:
    """Mean and spread of the log costs that a model learns from."""

    log_mean: float
    log_std: float

    @property
    def is_constant(self) -> bool:
        return self.log_std < _MIN_LOG_STD


@dataclass(frozen=True, kw_only=True)
class _Columns:
    """The columns of a dense row that the network reads: selected terms, then all lengths."""

    selected: NDArray[np.intp]
    num_terms: int

    def pick(self, rows: Rows) -> Rows:
        """Return the rows as the network sees them while it learns."""
        features = rows.features[:, self.selected]
        features[:, : self.num_terms] *= _TERM_SCALE
        return Rows(features=features, targets=rows.targets)

    def spread(self, network: Network, num_features: int) -> Network:
        """Return the network over all columns; those that it never read have no weight."""
        first = network.weights[0].copy()
        first[: self.num_terms] *= _TERM_SCALE
        weight = np.zeros((num_features, first.shape[1]), dtype=np.float32)
        weight[self.selected] = first
        return Network(weights=(weight, *network.weights[1:]), biases=network.biases)


def best_num_steps(
    samples: Sequence[Sample],
    validation: Sequence[Sample],
    settings: TrainingSettings,
    on_step: Callable[[int], None],
) -> int:
    """Return after how many steps a network of ``samples`` is best on ``validation``."""
    scale = _scale_of(samples)
    if settings.kind is not ModelKind.NETWORK or _is_trivial(samples, scale):
        return settings.max_steps
    featuriser = _featuriser_of(samples, settings)
    rows = _rows(samples, featuriser, scale)
    columns = _select(rows, settings.selected_terms)
    return fit(
        columns.pick(rows),
        validation=columns.pick(_rows(validation, featuriser, scale)),
        widths=layer_widths(len(columns.selected), settings.hidden_widths),
        max_steps=settings.max_steps,
        seed=settings.seed,
        on_step=on_step,
    ).num_steps


def learn(
    samples: Sequence[Sample],
    settings: TrainingSettings,
    num_steps: int,
    on_step: Callable[[int], None],
) -> TrainedModel:
    """Learn from all of these samples for so many steps; the metrics are left empty."""
    scale = _scale_of(samples)
    featuriser = _featuriser_of(samples, settings)
    num_terms = len(featuriser.vocabulary)
    left_out_sigma = None
    regressor: Regressor
    if _is_trivial(samples, scale):
        regressor = constant_process(num_terms)
    elif settings.kind is ModelKind.NETWORK:
        rows = _rows(samples, featuriser, scale)
        regressor = _fit_network(rows, settings, num_steps, on_step)
    else:
        rows = _rows(samples, featuriser, scale)
        found = _fit_process(rows, num_terms, settings, on_step)
        regressor, left_out_sigma = found.process, found.left_out_sigma
    costs_kvtt = [float(sample.cost_kvtt) for sample in samples]
    return TrainedModel(
        application=samples[0].application,
        featuriser=featuriser,
        regressor=regressor,
        log_mean=scale.log_mean,
        log_std=scale.log_std,
        min_cost_kvtt=min(costs_kvtt) / settings.range_factor,
        max_cost_kvtt=max(costs_kvtt) * settings.range_factor,
        left_out_log_sigma=left_out_sigma and left_out_sigma * scale.log_std,
        metrics=TrainingMetrics(),
        train_s=0.0,
    )


def _fit_process(
    rows: Rows, num_terms: int, settings: TrainingSettings, on_step: Callable[[int], None]
) -> ProcessFit:
    return fit_process(
        rows.features[:, :num_terms],
        rows.features[:, num_terms:],
        rows.targets,
        max_terms=settings.selected_terms,
        on_step=on_step,
    )


def _fit_network(
    rows: Rows, settings: TrainingSettings, num_steps: int, on_step: Callable[[int], None]
) -> Network:
    columns = _select(rows, settings.selected_terms)
    network = fit(
        columns.pick(rows),
        validation=None,
        widths=layer_widths(len(columns.selected), settings.hidden_widths),
        max_steps=num_steps,
        seed=settings.seed,
        on_step=on_step,
    ).network
    return columns.spread(network, rows.features.shape[1])


def _scale_of(samples: Sequence[Sample]) -> _Scale:
    logs = np.log([sample.cost_kvtt for sample in samples])
    return _Scale(log_mean=float(logs.mean()), log_std=float(logs.std()))


def _is_trivial(samples: Sequence[Sample], scale: _Scale) -> bool:
    """Whether there is nothing to learn but the mean: all costs or all prompts are equal."""
    return scale.is_constant or len({sample.prompt for sample in samples}) == 1


def _featuriser_of(samples: Sequence[Sample], settings: TrainingSettings) -> Featuriser:
    return fit_featuriser([sample.prompt for sample in samples], max_terms=settings.max_terms)


def _rows(samples: Sequence[Sample], featuriser: Featuriser, scale: _Scale) -> Rows:
    logs = np.log([sample.cost_kvtt for sample in samples])
    return Rows(
        features=featuriser.dense([sample.prompt for sample in samples]),
        targets=((logs - scale.log_mean) / scale.log_std).astype(np.float32),
    )


def _select(rows: Rows, num_selected: int) -> _Columns:
    """Select the terms whose weights covary most with the log cost.

    Covariance, not correlation: a term of two texts that are both dear by chance correlates
    perfectly but covaries little. ``einsum`` sums in one order on one thread.
    """
    num_terms = rows.features.shape[1] - len(LENGTH_FEATURES)
    terms = rows.features[:, :num_terms]
    covariance = np.einsum("ij,i->j", terms - terms.mean(axis=0), rows.targets)
    best = np.argsort(-np.abs(covariance), kind="stable")[:num_selected]
    lengths = np.arange(num_terms, rows.features.shape[1])
    return _Columns(selected=np.concatenate([np.sort(best), lengths]), num_terms=len(best))
