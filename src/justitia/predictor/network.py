"""The multi-layer perceptron as it is served: numpy, one row at a time, on the calling thread.

torch trains it (`mlp`); one row through so small a network is several times faster without it. The
sums are ``einsum`` rather than matrix products, because BLAS would spread even these over threads
of its own.
"""

from dataclasses import dataclass
from functools import cached_property
from itertools import pairwise

import numpy as np
from numpy.typing import NDArray

from justitia.predictor.features import FeatureRow, FloatArray
from justitia.predictor.regressor import ModelKind

NUM_LAYERS = 4
"""Linear layers, with a rectifier after each but the last."""


@dataclass(frozen=True, kw_only=True, eq=False)
class Network:
    """Weights (inputs x outputs) and biases of the layers; the last one has a single output.

    The inputs are the terms, then the length features, as in ``Featuriser.dense``.
    """

    weights: tuple[FloatArray, ...]
    biases: tuple[FloatArray, ...]

    @property
    def kind(self) -> ModelKind:
        """Its kind."""
        return ModelKind.NETWORK

    def arrays(self) -> dict[str, FloatArray]:
        """Return all that it has learnt, by name."""
        named: dict[str, FloatArray] = {}
        for index, weight in enumerate(self.weights):
            named[f"weight_{index}"] = weight
            named[f"bias_{index}"] = self.biases[index]
        return named

    @cached_property
    def _is_read(self) -> NDArray[np.bool_]:
        """Which inputs have any weight: training selects a few terms of the vocabulary."""
        return np.asarray(np.any(self.weights[0] != 0, axis=1), dtype=np.bool_)

    def forward(self, row: FeatureRow) -> float:
        """Return the output for one text: its standardised log cost."""
        first = self.weights[0]
        num_terms = len(first) - len(row.lengths)
        is_read = self._is_read[row.columns]
        hidden = (
            np.einsum("i,ij->j", row.weights[is_read], first.take(row.columns[is_read], axis=0))
            + np.einsum("i,ij->j", row.lengths, first[num_terms:])
            + self.biases[0]
        )
        for weight, bias in zip(self.weights[1:], self.biases[1:], strict=True):
            hidden = np.einsum("i,ij->j", np.maximum(hidden, 0), weight) + bias
        return float(hidden[0])


def layer_widths(num_features: int, hidden_widths: tuple[int, ...]) -> tuple[int, ...]:
    """Return the widths from the inputs to the single output."""
    return (num_features, *hidden_widths, 1)


def constant_network(widths: tuple[int, ...]) -> Network:
    """Return a network that answers 0, the mean, to everything."""
    return Network(
        weights=tuple(np.zeros(shape, dtype=np.float32) for shape in pairwise(widths)),
        biases=tuple(np.zeros(width, dtype=np.float32) for width in widths[1:]),
    )
