"""A trained model: all that answers "what will a run of this text cost?" for one application."""

import hashlib
import json
import math
from dataclasses import asdict, dataclass
from functools import cached_property

from justitia.predictor.features import Featuriser, FloatArray
from justitia.predictor.network import Network

MIN_COST_KVTT = 1e-3
"""Costs below this, or above the core's ``MAX_COST_KVTT``, are no costs of a run: nothing is learnt
from them."""

_NUM_PROBE_TERMS = 100


@dataclass(frozen=True, kw_only=True, slots=True)
class Prediction:
    """What a run is expected to cost; ``cost_kvtt`` is finite and > 0.

    ``is_unknown`` says that no term of the text was seen in training: only its length spoke.
    """

    cost_kvtt: float
    model_version: str
    is_unknown: bool


@dataclass(frozen=True, kw_only=True, slots=True)
class TrainingMetrics:
    """How a model was trained and how well it did on prompts that it had not seen.

    ``num_dropped`` samples were given but not used: their cost was unusable, or they were too many.
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

    The network's output is the log cost, standardised by ``log_mean`` and ``log_std``. What it says
    is held within [``min_cost_kvtt``, ``max_cost_kvtt``]. ``train_s`` is how long training took.
    """

    application: str
    featuriser: Featuriser
    network: Network
    log_mean: float
    log_std: float
    min_cost_kvtt: float
    max_cost_kvtt: float
    metrics: TrainingMetrics
    train_s: float

    def predict(self, prompt: str) -> Prediction:
        """Return the prediction for any text."""
        row = self.featuriser.transform(prompt)
        log_cost = self.log_mean + self.log_std * self.network.forward(row)
        # Held in the logarithm, where nothing overflows; then again, as rounding may step outside.
        log_cost = min(max(log_cost, math.log(self.min_cost_kvtt)), math.log(self.max_cost_kvtt))
        cost_kvtt = min(max(math.exp(log_cost), self.min_cost_kvtt), self.max_cost_kvtt)
        return Prediction(
            cost_kvtt=cost_kvtt, model_version=self.version, is_unknown=row.is_unknown
        )

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
        for index, weight in enumerate(self.network.weights):
            named[f"weight_{index}"] = weight
            named[f"bias_{index}"] = self.network.biases[index]
        return named

    def _facts(self) -> dict[str, object]:
        return {
            "application": self.application,
            "vocabulary": self.featuriser.vocabulary,
            "log_mean": self.log_mean,
            "log_std": self.log_std,
            "min_cost_kvtt": self.min_cost_kvtt,
            "max_cost_kvtt": self.max_cost_kvtt,
            "metrics": asdict(self.metrics),
        }
