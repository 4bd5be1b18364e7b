"""Settings of training, checked where they are made."""

from dataclasses import dataclass

from justitia.predictor.gaussian_process import MAX_SUPPORT
from justitia.predictor.network import NUM_LAYERS
from justitia.predictor.regressor import ModelKind


@dataclass(frozen=True, kw_only=True, slots=True)
class TrainingSettings:
    """How to train.

    Raises:
        ValueError: a setting is out of its range; the message names it.
    """

    kind: ModelKind = ModelKind.GAUSSIAN_PROCESS
    """What is learnt: the default, or the paper's network."""

    min_samples: int = 20
    """Usable samples below which training declines; from 2 up."""

    max_samples: int = 5000
    """Samples that are used, the last ones of those given; up to 20,000. Bounds memory and time. A
    Gaussian process uses 512 at most."""

    validation_fraction: float = 0.2
    """Share of the prompts that is held out, in (0, 0.5]."""

    seed: int = 0
    """Decides the split and the first weights, from 0 up: equal seeds give equal models."""

    hidden_widths: tuple[int, ...] = (64, 32, 16)
    """Network: outputs of the hidden layers, each from 1 to 512."""

    max_terms: int = 2048
    """Terms of the vocabulary, from 1 to 8192."""

    selected_terms: int = 128
    """Terms that the model reads at most, those that say most about the cost; from 1 to 8192. A
    hundred samples cannot tell a meaningful term from a chance one among thousands."""

    max_steps: int = 1500
    """Network: optimiser steps after which training ends even if the error still falls."""

    range_factor: float = 4.0
    """Predictions stay between the cheapest sample / factor and the dearest x factor; from 1 up."""

    @property
    def max_used_samples(self) -> int:
        """How many samples are learnt from at most."""
        is_process = self.kind is ModelKind.GAUSSIAN_PROCESS
        return min(self.max_samples, MAX_SUPPORT) if is_process else self.max_samples

    def __post_init__(self) -> None:
        ranges: tuple[tuple[str, float, float, float], ...] = (
            ("min_samples", self.min_samples, 2, 20_000),
            ("max_samples", self.max_samples, self.min_samples, 20_000),
            ("validation_fraction", self.validation_fraction, 0.01, 0.5),
            ("seed", self.seed, 0, 2**63 - 1),
            ("max_terms", self.max_terms, 1, 8192),
            ("selected_terms", self.selected_terms, 1, 8192),
            ("max_steps", self.max_steps, 1, 1_000_000),
            ("range_factor", self.range_factor, 1, 1000),
            *(("hidden_widths", width, 1, 512) for width in self.hidden_widths),
        )
        for name, value, low, high in ranges:
            if not low <= value <= high:
                raise ValueError(f"{name} must be from {low} to {high}, got {value}")
        if len(self.hidden_widths) != NUM_LAYERS - 1:
            raise ValueError(
                f"hidden_widths must name {NUM_LAYERS - 1} layers, got {self.hidden_widths}"
            )
