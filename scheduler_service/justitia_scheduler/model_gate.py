"""Whether a model that is published becomes the active one. Pure: evidence in, verdict out.

Errors are compared run by run, as |ln(predicted / true)|: twice too much weighs as much as half. A
model loses where its error is larger on average by more than one standard error of the differences,
and by more than ``MIN_DIFFERENCE``, on at least ``MIN_RUNS`` runs; what chance can explain, or what
no order would show, decides nothing.

Nobody is judged on runs that it has learnt from:

- *held out*: what training's own trial said of runs that it had held out. Against the mean of those
  runs, and, on the runs of them that finished after the active model was published, against it.
- *recent*: what the published model itself says of runs that the service holds, which it may have
  learnt from. So this can only speak against it: whoever loses here has really lost.
"""

import math
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Final

#: Runs below which a comparison says nothing.
MIN_RUNS: Final = 10
#: Mean difference of |ln(predicted / true)| up to which models are equally good: 1 % of the cost.
MIN_DIFFERENCE: Final = 0.01


class Activation(StrEnum):
    """What the publisher wants."""

    UNLESS_WORSE = "unless_worse"
    ALWAYS = "always"
    NEVER = "never"


@dataclass(slots=True)
class Comparison:
    """Errors of a model and of a rival on the same runs, pair by pair."""

    ours: list[float] = field(default_factory=list)
    rivals: list[float] = field(default_factory=list)

    def add(self, our_kvtt: float, rival_kvtt: float, true_kvtt: float) -> None:
        """Take in a run; all three finite and > 0."""
        self.ours.append(abs(math.log(our_kvtt / true_kvtt)))
        self.rivals.append(abs(math.log(rival_kvtt / true_kvtt)))

    @property
    def is_telling(self) -> bool:
        """Whether there are enough runs."""
        return len(self.ours) >= MIN_RUNS

    @property
    def is_lost(self) -> bool:
        """Whether the model is worse than its rival, by more than chance explains and one sees."""
        if not self.is_telling:
            return False
        count = len(self.ours)
        differences = [our - rival for our, rival in zip(self.ours, self.rivals, strict=True)]
        mean = math.fsum(differences) / count
        variance = math.fsum((value - mean) ** 2 for value in differences) / (count - 1)
        return mean > max(MIN_DIFFERENCE, math.sqrt(variance / count))

    def __str__(self) -> str:
        return (
            f"mean log error {_mean(self.ours):.2f} against {_mean(self.rivals):.2f}"
            f" on {len(self.ours)} runs"
        )


def against_the_mean(pairs: Iterable[tuple[float, float]]) -> Comparison:
    """Compare (predicted, true) costs with the mean of the true ones: the ladder's next step (E1).

    That mean knows the answers on average, which favours it a little.
    """
    known = list(pairs)
    mean_kvtt = _mean([true for _, true in known])
    comparison = Comparison()
    for predicted, true in known:
        comparison.add(predicted, mean_kvtt, true)
    return comparison


@dataclass(frozen=True, kw_only=True, slots=True)
class GateFacts:
    """All that the decision needs.

    ``samples``: what the model was trained from; ``active_samples``: what the active one was, None
    where there is none.
    """

    activation: Activation
    samples: int
    active_samples: int | None = None
    held_out_mean: Comparison = field(default_factory=Comparison)
    held_out_active: Comparison = field(default_factory=Comparison)
    recent_mean: Comparison = field(default_factory=Comparison)
    recent_active: Comparison = field(default_factory=Comparison)


@dataclass(frozen=True, slots=True)
class Verdict:
    """Whether the model becomes the active one, and why, in one sentence for people."""

    is_active: bool
    reason: str


def decide(facts: GateFacts) -> Verdict:
    """Judge a model; the first rule that applies."""
    for rule in _RULES:
        verdict = rule(facts)
        if verdict is not None:
            return verdict
    return _not_worse(facts)


def _wanted(facts: GateFacts) -> Verdict | None:
    match facts.activation:
        case Activation.ALWAYS:
            return Verdict(is_active=True, reason="activated without a comparison, as was asked")
        case Activation.NEVER:
            return Verdict(is_active=False, reason="stored only, as was asked")
    return None


def _loses_to_the_mean(facts: GateFacts) -> Verdict | None:
    return _lost_to(
        "the mean of finished runs",
        (facts.held_out_mean, "that training held out"),
        (facts.recent_mean, "that the service recorded"),
    )


def _loses_to_the_active(facts: GateFacts) -> Verdict | None:
    return _lost_to(
        "the active model",
        (facts.held_out_active, "that neither has learnt from"),
        (facts.recent_active, "that finished since it was published"),
    )


def _lost_to(rival: str, *comparisons: tuple[Comparison, str]) -> Verdict | None:
    """Refuse for the first comparison that is lost; each comes with what its runs are."""
    for comparison, whose in comparisons:
        if comparison.is_lost:
            why = f"{rival} is better: {comparison} {whose}"
            return Verdict(is_active=False, reason=why)
    return None


def _knows_less(facts: GateFacts) -> Verdict | None:
    """Two trainings at the same time: where no run tells their models apart, more samples win."""
    rival = facts.active_samples
    if rival is None or facts.held_out_active.is_telling or facts.samples >= rival:
        return None
    return Verdict(
        is_active=False,
        reason=f"trained from {facts.samples} runs, the active model from {rival}, and no runs that"
        " are new to both tell them apart",
    )


def _not_worse(facts: GateFacts) -> Verdict:
    if facts.held_out_active.is_telling:
        comparison, rival = facts.held_out_active, "the active model"
    elif facts.held_out_mean.is_telling:
        comparison, rival = facts.held_out_mean, "the mean of finished runs"
    else:
        why = f"nothing to compare it on: fewer than {MIN_RUNS} runs were held out"
        return Verdict(is_active=True, reason=why)
    return Verdict(is_active=True, reason=f"not worse than {rival}: {comparison}")


_Rule = Callable[[GateFacts], Verdict | None]
_RULES: Final[tuple[_Rule, ...]] = (
    _wanted,
    _loses_to_the_mean,
    _loses_to_the_active,
    _knows_less,
)


def _mean(values: list[float]) -> float:
    return math.fsum(values) / len(values) if values else 0.0
