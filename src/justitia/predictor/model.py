"""A trained model: all that answers "what will a run of this text cost?" for one application."""

import hashlib
import json
import math
from dataclasses import asdict, dataclass
from functools import cached_property
from statistics import NormalDist
from typing import Final

from justitia.predictor.features import Featuriser, FloatArray
from justitia.predictor.regressor import Regressor

MIN_COST_KVTT = 1e-3
"""Costs below this, or above the core's ``MAX_COST_KVTT``, are no costs of a run: nothing is learnt
from them."""

MAX_LOG_SIGMA: Final = 3.0
"""Largest spread of predictions: a factor of 20 up or down is no knowledge any more."""

_NUM_PROBE_TERMS = 100
_SIGMA_PER_MEAN_DEVIATION = math.sqrt(math.pi / 2)  # of a normal distribution


@dataclass(frozen=True, kw_only=True, slots=True)
class Prediction:
    """What a run is expected to cost; ``cost_kvtt`` is finite and > 0.

    It is the median of a log-normal distribution: ln cost is normal around ln ``cost_kvtt`` with
    the standard deviation ``log_sigma``. ``is_unknown`` says that no term of the text was seen in
    training: only its length spoke.
    """

    cost_kvtt: float
    model_version: str
    is_unknown: bool
    log_sigma: float = 0.0

    def quantile_kvtt(self, share: float) -> float:
        """Return the cost that the run's stays below with this probability, in (0, 1)."""
        return self.cost_kvtt * math.exp(self.log_sigma * NormalDist().inv_cdf(share))


@dataclass(frozen=True, kw_only=True, slots=True)
class TrainingMetrics:
    """How a model was trained and how well it did on prompts that it had not seen.

    ``num_dropped`` samples were given but not used: they had no prompt or an unusable cost, or were
    too many.
    The errors were measured on ``num_held_out`` samples by a model trained on the others; the model
    itself then learnt from all ``num_samples``. They are None where nothing could be held out (all
    prompts equal). Relative error is |predicted - true| / true, log error the mean of
    |ln predicted - ln true|; rank correlation is Spearman's, None where either side is constant.
    """

    num_samples: int = 0
    num_dropped: int = 0
    num_held_out: int = 0
    mean_relative_error: float | None = None
    median_relative_error: float | None = None
    mean_log_error: float | None = None
    rank_correlation: float | None = None


@dataclass(frozen=True, kw_only=True, eq=False)
class TrainedModel:
    """Predicts the cost of one application's runs. Immutable, safe to use from any thread.

    The regressor's output is the log cost, standardised by ``log_mean`` and ``log_std``. What it
    says is held within [``min_cost_kvtt``, ``max_cost_kvtt``]. ``left_out_log_sigma`` is the root
    mean square of its log errors on samples that were left out; None where that was not measured.
    ``train_s`` is how long training took.
    """

    application: str
    featuriser: Featuriser
    regressor: Regressor
    log_mean: float
    log_std: float
    min_cost_kvtt: float
    max_cost_kvtt: float
    left_out_log_sigma: float | None
    metrics: TrainingMetrics
    train_s: float

    def predict(self, prompt: str) -> Prediction:
        """Return the prediction for any text."""
        row = self.featuriser.transform(prompt)
        log_cost = self.log_mean + self.log_std * self.regressor.forward(row)
        # Held in the logarithm, where nothing overflows; then again, as rounding may step outside.
        log_cost = min(max(log_cost, math.log(self.min_cost_kvtt)), math.log(self.max_cost_kvtt))
        cost_kvtt = min(max(math.exp(log_cost), self.min_cost_kvtt), self.max_cost_kvtt)
        return Prediction(
            cost_kvtt=cost_kvtt,
            model_version=self.version,
            is_unknown=row.is_unknown,
            log_sigma=self.log_sigma,
        )

    @cached_property
    def log_sigma(self) -> float:
        """Standard deviation of the log cost around what is predicted, at most `MAX_LOG_SIGMA`.

        As it was measured when samples were left out, else as the held-out error says, else as
        widely as the costs spread.
        """
        sigma, error = self.left_out_log_sigma, self.metrics.mean_log_error
        if sigma is None:
            sigma = self.log_std if error is None else error * _SIGMA_PER_MEAN_DEVIATION
        return min(sigma, MAX_LOG_SIGMA)

    @property
    def probe_prompt(self) -> str:
        """A test prompt that touches terms from the whole vocabulary; it quotes no user's text."""
        vocabulary = self.featuriser.vocabulary
        stride = max(1, len(vocabulary) // _NUM_PROBE_TERMS)
        return "\n".join(vocabulary[::stride])

    @cached_property
    def version(self) -> str:
        """Digest of all that the model is, but for ``train_s``: equal models, equal versions."""
        digest = hashlib.sha256(json.dumps(self._facts(), sort_keys=True).encode("ascii"))
        for name, array in self.arrays().items():
            digest.update(f"{name}{array.shape}".encode("ascii"))
            digest.update(array.astype("<f4").tobytes())
        return digest.hexdigest()[:32]

    def arrays(self) -> dict[str, FloatArray]:
        """Return all arrays by name, in a fixed order."""
        featuriser = self.featuriser
        named = {
            "idf": featuriser.idf,
            "length_mean": featuriser.length_mean,
            "length_std": featuriser.length_std,
        }
        return named | self.regressor.arrays()

    def _facts(self) -> dict[str, object]:
        return {
            "application": self.application,
            "kind": self.regressor.kind,
            "vocabulary": self.featuriser.vocabulary,
            "log_mean": self.log_mean,
            "log_std": self.log_std,
            "min_cost_kvtt": self.min_cost_kvtt,
            "max_cost_kvtt": self.max_cost_kvtt,
            "left_out_log_sigma": self.left_out_log_sigma,
            "metrics": asdict(self.metrics),
        }
