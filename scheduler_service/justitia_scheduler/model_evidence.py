"""What the service's own samples say of a model that is published."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Protocol

from justitia.core.estimates import is_usable_cost
from justitia_scheduler.model_gate import Comparison, against_the_mean
from justitia_scheduler.store import SampleRow


class Costed(Protocol):
    """A prediction."""

    @property
    def cost_kvtt(self) -> float:
        """What a model said."""


class Predicting(Protocol):
    """A model."""

    def predict(self, prompt: str) -> Costed:
        """Say what a run of this text will cost."""


@dataclass(frozen=True, kw_only=True, slots=True)
class HeldOut:
    """A run that training held out; ``run_id`` empty: not one of the service's. Costs are > 0."""

    run_id: str
    cost_kvtt: float
    predicted_kvtt: float


@dataclass(kw_only=True, slots=True)
class Evidence:
    """Collects comparisons from samples, page by page; CPU work, so off the event loop.

    ``active`` None: there is no active model. ``active_since_s``: when it was published, on the
    service's wall clock; it has learnt from no run that finished later. ``held_out``: by id and
    true cost, since an id alone may come again, or from a recording of other origin.
    """

    model: Predicting
    active: Predicting | None
    active_since_s: float
    held_out: Mapping[tuple[str, float], HeldOut]
    held_out_active: Comparison = field(default_factory=Comparison)
    recent_active: Comparison = field(default_factory=Comparison)
    _recent: list[tuple[float, float]] = field(default_factory=list)

    def add(self, samples: Iterable[SampleRow]) -> None:
        """Have both models say what they make of recorded runs; those without text say nothing."""
        for sample in samples:
            if sample.prompt_text:
                self._add(sample)

    @property
    def recent_mean(self) -> Comparison:
        """The model itself against the mean, on all runs."""
        return against_the_mean(self._recent)

    def _add(self, sample: SampleRow) -> None:
        true_kvtt = float(max(1, sample.cost_kvtt))
        ours_kvtt = self.model.predict(sample.prompt_text).cost_kvtt
        self._recent.append((ours_kvtt, true_kvtt))
        if self.active is None or sample.finished_at_s <= self.active_since_s:
            return
        rivals_kvtt = self.active.predict(sample.prompt_text).cost_kvtt
        if not is_usable_cost(rivals_kvtt):
            return
        self.recent_active.add(ours_kvtt, rivals_kvtt, true_kvtt)
        trial = self.held_out.get((sample.run_id, true_kvtt))
        if trial is not None:
            self.held_out_active.add(trial.predicted_kvtt, rivals_kvtt, true_kvtt)
