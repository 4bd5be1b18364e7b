"""What runs of one pool are believed to cost, and which of them cost far more (rules E1 and K3)."""

from typing import Final, Protocol

from justitia.core.estimates import Estimate, Ladder, Source
from justitia.core.runs import RunView
from justitia.core.units import MAX_COST_KVTT
from justitia_scheduler.applications import Application
from justitia_scheduler.metrics import UNDERESTIMATED, Metrics
from justitia_scheduler.run_facts import RunFacts, RunOrder

#: Inferences of a run beyond which its cost is not believed.
MAX_INFERENCES_PER_RUN: Final = 10_000


def largest_run_kvtt(max_model_len_tokens: int) -> int:
    """Cost of the largest run that is believed: very many inferences, each as long as can be.

    Whatever its prompt, prefill and decoding hold less than a full context in each of at most so
    many steps (rule C1).
    """
    return min(MAX_COST_KVTT, MAX_INFERENCES_PER_RUN * max_model_len_tokens**2)


class Predicted(Protocol):
    """What a model said."""

    @property
    def cost_kvtt(self) -> float:
        """Finite and > 0."""

    @property
    def model_version(self) -> str:
        """Digest of the model."""

    @property
    def is_unknown(self) -> bool:
        """Whether the model has seen no term of the text."""


class PoolEstimates:
    """The ladder of one pool, and its limit."""

    def __init__(self, pool: str, default_cost_kvtt: int, metrics: Metrics) -> None:
        self.ladder = Ladder(default_cost_kvtt)
        self._pool = pool
        self._metrics = metrics
        self._longest_context_tokens = 0

    def limit(self, *, max_model_len_tokens: int) -> None:
        """Learn of an engine's longest context: no run can cost more than it allows (rule K3)."""
        if max_model_len_tokens > self._longest_context_tokens:
            self._longest_context_tokens = max_model_len_tokens
            self.ladder.max_cost_kvtt = largest_run_kvtt(max_model_len_tokens)

    def estimate(
        self, served: Application, order: RunOrder, prediction: Predicted | None
    ) -> Estimate:
        """Go down the ladder; a model that knows no term of the text comes just before defaults."""
        is_sure = prediction is not None and not prediction.is_unknown
        estimate = self._from_ladder(served, order, prediction if is_sure else None)
        if prediction is not None and estimate.source is Source.DEFAULT:
            return self._from_ladder(served, order, prediction)
        return estimate

    def _from_ladder(
        self, served: Application, order: RunOrder, prediction: Predicted | None
    ) -> Estimate:
        return self.ladder.estimate(
            served.name,
            prompt_length=order.prompt_length,
            client_kvtt=order.client_kvtt,
            model_kvtt=None if prediction is None else prediction.cost_kvtt,
            model_version="" if prediction is None else prediction.model_version,
            fallback_kvtt=served.fallback_cost_kvtt,
        )

    def check(self, facts: RunFacts, view: RunView, label: str | None) -> None:
        """Count a run that is served far beyond the estimate that gave it its place, once."""
        most_kvtt = UNDERESTIMATED * view.estimate.cost_kvtt
        if view.useful_kvtt > most_kvtt and label is not None and not facts.is_underestimated:
            facts.is_underestimated = True
            self._metrics.count(self._metrics.underestimated, self._pool, label)
