"""What a model is made of beside its features: something that turns a row into a log cost.

There are two kinds. `justitia.predictor.gaussian_process` learns most from few samples and is the
default; `justitia.predictor.network` is the paper's multi-layer perceptron.
"""

from enum import StrEnum
from typing import Protocol

from justitia.predictor.features import FeatureRow, FloatArray


class ModelKind(StrEnum):
    """The kinds of regressors; their values stand in artefacts."""

    GAUSSIAN_PROCESS = "gaussian-process"
    NETWORK = "network"


class Regressor(Protocol):
    """Immutable, safe to use from any thread."""

    @property
    def kind(self) -> ModelKind:
        """Which kind it is."""

    def forward(self, row: FeatureRow) -> float:
        """Return the output for one text: its standardised log cost."""

    def arrays(self) -> dict[str, FloatArray]:
        """Return all that it has learnt, by name, in a fixed order."""
