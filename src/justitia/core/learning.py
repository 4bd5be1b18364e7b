"""Learning inside a run: what its own finished inferences say of its cost (rule K2).

A run leaves a *trail*: at some counts k of finished inferences (its *levels*) a mark notes what
they cost, A, and how many inferences were seen by then, n: finished, waiting or computed, so that a
fan-out counts as soon as it is there. Runs that have ended teach, for each application and level,
how far the true cost C lay from the run's estimate C0, not counting what was learned inside:

    log(C / C0) = b0 + b1 log(A / C0) + b2 log(n / k) + b3 log(C0 / anchor) + noise

by a conjugate Bayesian regression. Before anything was learned all weights are 0: the estimate
stays. A prediction is a lognormal distribution of C; that more than C has been served already cuts
it off below, so what was estimated too low is raised by what such runs came to, never by blind
doubling. The anchor is the C0 of the first of these runs, to keep the columns apart.

What is learned is how far *an estimator* is off, so lessons are kept apart by who made C0: those of
the pool's default say nothing of the application's own mean, nor one model's of the next one's.
"""

import math
from bisect import bisect_right
from collections import OrderedDict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from statistics import NormalDist
from typing import Any, Final, NamedTuple

from justitia.core.estimates import Estimate, Source, clamp_cost_kvtt, require_cost_kvtt
from justitia.core.recency import use
from justitia.core.regression import Regression
from justitia.core.units import MAX_COST_KVTT

#: A level counts from so many ended runs of the application that reached it.
MIN_RUNS: Final = 5
#: Estimators of one application that are remembered: its mean, its model, the model before.
MAX_ORIGINS: Final = 3
#: Logarithms of quotients beyond this are faults.
_MAX_LOG: Final = 30.0
#: Beyond so many standard deviations a normal distribution has no digits left.
_MAX_SIGMAS: Final = 30.0
_NORMAL: Final = NormalDist()

#: Finished inferences at which a run reaches its levels: 0, 1, 2, 3, 4, 5, 7, 9, 13, 17, 25, ...
LEVELS: Final = (0, 1, 2, 3, 4, *(b + 1 for e in range(2, 12) for b in (2**e, 3 * 2 ** (e - 1))))


@dataclass(frozen=True, slots=True, kw_only=True)
class LearningRules:
    """When and how far F moves; the defaults are those that did best in the simulator.

    ``quantile`` of what is believed is what a run is taken to cost. ``min_change``: a change by
    less is left. ``early_share``: F moves for what the run has shown until so much of the cost has
    been served; later it is better to end what was begun. ``patience``: a run that has got so many
    times what it was taken to cost is raised, so F is never below S + attained / (patience w);
    ``provisional_patience``: the same where only its application is known, or nothing at all.
    """

    quantile: float = 0.5
    min_change: float = 0.05
    early_share: float = 0.1
    patience: float = 3.0
    provisional_patience: float = 10.0

    def patience_for(self, source: Source) -> float:
        """How many times an estimate of this source a run may get before it is raised."""
        return self.provisional_patience if source.is_provisional else self.patience


class Mark(NamedTuple):
    """What a run had shown at a level: its finished inferences, their cost, and all that it had."""

    level: int
    num_finished: int
    finished_kvtt: int
    num_seen: int


class Belief(NamedTuple):
    """Mean and standard deviation of log C, C in kvtt."""

    mu: float
    sigma: float


@dataclass(slots=True)
class Trail:
    """What a run has shown of itself since its beginning; at most one mark for each level."""

    num_finished: int = 0
    finished_kvtt: int = 0
    marks: list[Mark] = field(default_factory=list)
    belief: Belief | None = None
    #: Whether there is something that ``belief`` does not know of.
    has_news: bool = False
    #: Whether all of its inferences said what they cost; else it teaches nothing.
    is_whole: bool = True

    def finish(self, cost_kvtt: int | None) -> None:
        """Take in a finished inference; None: it was aborted, or does not say what it cost."""
        if cost_kvtt is None:
            self.is_whole = False
        else:
            self.num_finished += 1
            self.finished_kvtt += cost_kvtt

    @property
    def lesson(self) -> tuple[Mark, ...]:
        """What it teaches once it is over: its marks, or nothing."""
        return tuple(self.marks) if self.is_whole else ()

    def forget(self) -> None:
        """Another estimate has come: what the marks say is to be seen anew."""
        self.belief = None
        self.has_news = bool(self.marks)

    def look(self, num_in_flight: int) -> None:
        """Note where the run is.

        A run of which nothing is in flight is passed over: what comes next is not to be seen yet.
        A level's mark is made anew while more of the run comes to be seen.
        """
        if not num_in_flight:
            return
        num_seen = self.num_finished + num_in_flight
        level = bisect_right(LEVELS, self.num_finished) - 1
        is_higher = not self.marks or level > self.marks[-1].level
        if not is_higher:
            if num_seen <= self.marks[-1].num_seen:
                return
            self.marks.pop()
        self.marks.append(Mark(level, self.num_finished, self.finished_kvtt, num_seen))
        self.has_news = True


def quantile_kvtt(belief: Belief, quantile: float, *, above_kvtt: float) -> float:
    """Quantile of C given that C is above what the run has got already; at least that."""
    if above_kvtt < 1:
        return _exp(belief.mu + belief.sigma * _NORMAL.inv_cdf(quantile))
    sigma = max(belief.sigma, 1e-6)
    sigmas = (math.log(above_kvtt) - belief.mu) / sigma
    if sigmas > _MAX_SIGMAS:  # the hazard there is about sigmas / sigma
        return above_kvtt * _exp(-math.log1p(-quantile) * sigma / sigmas)
    above = math.erfc(sigmas / math.sqrt(2)) / 2
    z = -_NORMAL.inv_cdf(max(5e-324, (1 - quantile) * above))
    return max(above_kvtt, _exp(belief.mu + sigma * z))


def _exp(value: float) -> float:
    return math.exp(min(value, math.log(MAX_COST_KVTT)))


def _log(value: float) -> float:
    return max(-_MAX_LOG, min(_MAX_LOG, math.log(value)))


class Origin(NamedTuple):
    """Who estimates: what is learned of one says nothing of another."""

    source: Source
    model_version: str

    @classmethod
    def of(cls, estimate: Estimate) -> "Origin":
        """Say whose estimate this is."""
        return cls(estimate.source, estimate.model_version)


@dataclass(slots=True)
class _Lessons:
    """What runs of one application and one origin taught: by level, and the C0 of their first."""

    anchor_kvtt: int
    by_level: dict[int, Regression] = field(default_factory=dict)

    def add(self, marks: Sequence[Mark], prior_kvtt: int, true_kvtt: int) -> None:
        """Take in a run."""
        y = _log(true_kvtt / prior_kvtt)
        for mark in marks:
            regression = self.by_level.setdefault(mark.level, Regression())
            regression.add(_features(mark, prior_kvtt, self.anchor_kvtt), y)

    def believe(self, mark: Mark, prior_kvtt: int) -> Belief | None:
        """Predict; None where too few runs have been there, or the estimate does as well."""
        regression = self.by_level.get(mark.level)
        if regression is None or regression.count < MIN_RUNS:
            return None
        mean, variance = regression.predict(_features(mark, prior_kvtt, self.anchor_kvtt))
        if variance >= regression.mean_square:
            return None
        return Belief(math.log(prior_kvtt) + mean, math.sqrt(variance))

    def freeze(self) -> dict[str, Any]:
        """Put it into what JSON can hold."""
        levels = {str(level): each.sums() for level, each in self.by_level.items()}
        return {"anchor_kvtt": self.anchor_kvtt, "levels": levels}

    @classmethod
    def thaw(cls, record: Mapping[str, Any]) -> "_Lessons":
        """Bring back what ``freeze`` made; KeyError, TypeError, ValueError: it makes no sense."""
        anchor_kvtt = require_cost_kvtt("anchor_kvtt", record["anchor_kvtt"])
        levels = {int(level): Regression.of(sums) for level, sums in record["levels"].items()}
        if not all(0 <= level < len(LEVELS) for level in levels):
            raise ValueError("no such level")
        return cls(anchor_kvtt, levels)


#: Of one application; the one that was taught last comes last.
_ByOrigin = OrderedDict[Origin, _Lessons]


class Learner:
    """Learns how runs of a pool's applications go on, and says what open ones will cost.

    Remembers the ``max_applications`` that taught last, and of each the ``MAX_ORIGINS`` that did.
    """

    def __init__(
        self,
        rules: LearningRules = LearningRules(),
        *,
        max_applications: int = 10_000,
    ) -> None:
        self.rules = rules
        self.max_applications = max_applications
        self._by_application: OrderedDict[str, _ByOrigin] = OrderedDict()

    def learn(
        self, application: str, *, estimate: Estimate, true_kvtt: int, marks: Sequence[Mark]
    ) -> None:
        """Take in a run that has ended as a whole: its estimate, its true cost, its trail."""
        if not marks:
            return
        prior_kvtt = estimate.cost_kvtt
        by_origin = use(
            self._by_application, application, OrderedDict(), most=self.max_applications
        )
        lessons = use(by_origin, Origin.of(estimate), _Lessons(prior_kvtt), most=MAX_ORIGINS)
        lessons.add(marks, prior_kvtt, true_kvtt)

    def believe(self, application: str, *, estimate: Estimate, mark: Mark) -> Belief | None:
        """Say what a run at a mark will cost.

        None: too few of its application have been there with an estimate of this origin.
        """
        by_origin = self._by_application.get(application)
        lessons = None if by_origin is None else by_origin.get(Origin.of(estimate))
        return None if lessons is None else lessons.believe(mark, estimate.cost_kvtt)

    def revise(self, application: str, trail: Trail, *, estimate: Estimate) -> None:
        """Bring what is believed of an open run up to its last mark."""
        trail.has_news = False
        belief = self.believe(application, estimate=estimate, mark=trail.marks[-1])
        trail.belief = belief or trail.belief

    def cost_kvtt(self, belief: Belief, *, above_kvtt: int) -> int:
        """Take one cost for what is believed, given that it is above what the run has got."""
        cost = quantile_kvtt(belief, self.rules.quantile, above_kvtt=above_kvtt)
        return clamp_cost_kvtt(cost)

    def forget(self, application: str) -> None:
        """Drop what an application taught: it is gone."""
        self._by_application.pop(application, None)

    def applications(self) -> list[str]:
        """Name those that taught something."""
        return list(self._by_application)

    def lessons(self, application: str) -> dict[str, Any] | None:
        """Freeze what an application taught, as what JSON can hold; None: nothing."""
        by_origin = self._by_application.get(application)
        if by_origin is None:
            return None
        origins = [{**origin._asdict(), **each.freeze()} for origin, each in by_origin.items()]
        return {"origins": origins}

    def restore(self, application: str, record: Mapping[str, Any]) -> None:
        """Put back what ``lessons`` froze.

        Raises:
            KeyError, TypeError, ValueError: the record makes no sense; nothing has changed.
        """
        by_origin: _ByOrigin = OrderedDict()
        for each in record["origins"][-MAX_ORIGINS:]:
            origin = Origin(Source(each["source"]), str(each["model_version"]))
            by_origin[origin] = _Lessons.thaw(each)
        self._by_application[application] = by_origin


def _features(mark: Mark, prior_kvtt: int, anchor_kvtt: int) -> tuple[float, ...]:
    done = mark.num_finished
    return (
        1.0,
        _log(max(1, mark.finished_kvtt) / prior_kvtt) if done else 0.0,
        _log(mark.num_seen / max(1, done)),
        _log(prior_kvtt / anchor_kvtt),
    )
