"""The mean of a Gaussian process as it is served: numpy, one row at a time.

Three parts are added up: one linear in the presence of terms, one linear in the length features,
and one that bends: a weighted sum of bells around the length features of the samples that were
learnt from (the support). `gaussian_process_fit` learns it. The sums are ``einsum`` for the reason
given in `justitia.predictor.network`.
"""

from dataclasses import dataclass
from typing import Final

import numpy as np

from justitia.predictor.features import LENGTH_FEATURES, FeatureRow, FloatArray
from justitia.predictor.regressor import ModelKind

MAX_SUPPORT: Final = 512
"""Samples that one process learns from: time to train grows with the third power."""


@dataclass(frozen=True, kw_only=True, eq=False)
class GaussianProcess:
    """Arrays: ``bias`` (1), ``term_weights`` (terms), ``length_weights`` (lengths).

    The bells: ``support`` (samples x lengths), measured in widths of a bell, as a row's lengths are
    when multiplied by ``inverse_widths`` (lengths); and ``support_weights`` (samples).
    """

    bias: FloatArray
    term_weights: FloatArray
    length_weights: FloatArray
    inverse_widths: FloatArray
    support: FloatArray
    support_weights: FloatArray

    @property
    def kind(self) -> ModelKind:
        """Its kind."""
        return ModelKind.GAUSSIAN_PROCESS

    def forward(self, row: FeatureRow) -> float:
        """Return the output for one text: its standardised log cost."""
        away = self.support - row.lengths * self.inverse_widths
        bells = np.exp(-0.5 * np.einsum("ij,ij->i", away, away))
        return float(
            self.bias[0]
            + self.term_weights[row.columns].sum()
            + np.einsum("i,i->", row.lengths, self.length_weights)
            + np.einsum("i,i->", bells, self.support_weights)
        )

    def arrays(self) -> dict[str, FloatArray]:
        """Return all that it has learnt, by name."""
        return {
            "bias": self.bias,
            "term_weights": self.term_weights,
            "length_weights": self.length_weights,
            "inverse_widths": self.inverse_widths,
            "support": self.support,
            "support_weights": self.support_weights,
        }


def constant_process(num_terms: int) -> GaussianProcess:
    """Return a process that answers 0, the mean, to everything."""
    num_lengths = len(LENGTH_FEATURES)

    def zeros(*shape: int) -> FloatArray:
        return np.zeros(shape, dtype=np.float32)

    return GaussianProcess(
        bias=zeros(1),
        term_weights=zeros(num_terms),
        length_weights=zeros(num_lengths),
        inverse_widths=zeros(num_lengths),
        support=zeros(1, num_lengths),
        support_weights=zeros(1),
    )
