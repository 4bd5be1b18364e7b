"""Learning inside a run: what its own finished inferences say of its cost (rule K2).

A run leaves a *trail*: at some counts k of finished inferences (its *levels*) a mark notes what
they cost, A, and how many inferences were seen by then, n: finished, waiting or computed, so that a
fan-out counts as soon as it is there. Runs that have ended teach, for each application and level,
how far the true cost C lay from the estimate C0 that the run began with:

    log(C / C0) = b0 + b1 log(A / C0) + b2 log(n / k) + b3 log(C0 / anchor) + noise

by a conjugate Bayesian regression. Before anything was learned all weights are 0: the estimate
stays. A prediction is a lognormal distribution of C; that more than C has been served already cuts
it off below, so what was estimated too low is raised by what such runs came to, never by blind
doubling. The anchor is the C0 of the application's first run, to keep the columns apart.
"""

import math
from bisect import bisect_right
from collections import OrderedDict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from statistics import NormalDist
from typing import Any, Final, NamedTuple

from justitia.core.estimates import clamp_cost_kvtt, require_cost_kvtt
from justitia.core.units import MAX_COST_KVTT

NUM_FEATURES: Final = 4
#: A level counts from so many ended runs of the application that reached it.
MIN_RUNS: Final = 5
#: Pseudo-observations that hold each weight at 0.
_RIDGE: Final = (1.0, 1.0, 1.0, 1.0)
#: What the residual variance is taken for before anything is known, and for how many runs it
#: counts.
_VARIANCE: Final = 0.25
_VARIANCE_RUNS: Final = 2.0
#: Older runs count less: all of them together for at most about so many.
_MEMORY_RUNS: Final = 500
#: Logarithms of quotients beyond this are faults.
_MAX_LOG: Final = 30.0
#: Largest count or sum that can have come about.
_MAX_SUM: Final = 1e12
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
    times what it was taken to cost is raised, so F is never below S + attained / (patience w).
    """

    quantile: float = 0.5
    min_change: float = 0.05
    early_share: float = 0.1
    patience: float = 3.0


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


class Regression:
    """Bayesian linear regression with a normal-inverse-gamma prior around "all weights are 0"."""

    __slots__ = ("_factor", "_weights", "count", "gram", "moment", "square", "total")

    def __init__(self) -> None:
        self.count = 0
        #: Sums over the runs, older ones discounted: x x', lower triangle by rows; x y; y y; 1.
        self.gram = [0.0] * (NUM_FEATURES * (NUM_FEATURES + 1) // 2)
        self.moment = [0.0] * NUM_FEATURES
        self.square = 0.0
        self.total = 0.0
        self._factor: list[list[float]] | None = None
        self._weights: list[float] = []

    def add(self, x: Sequence[float], y: float) -> None:
        """Take in one run."""
        keep = 1 - 1 / _MEMORY_RUNS
        pairs = (x[i] * x[j] for i in range(NUM_FEATURES) for j in range(i + 1))
        self.gram = [keep * old + new for old, new in zip(self.gram, pairs, strict=True)]
        self.moment = [keep * old + each * y for old, each in zip(self.moment, x, strict=True)]
        self.square = keep * self.square + y * y
        self.total = keep * self.total + 1
        self.count += 1
        self._factor = None

    def sums(self) -> list[float]:
        """Freeze what it knows, to be stored."""
        return [self.count, self.total, self.square, *self.moment, *self.gram]

    @classmethod
    def of(cls, sums: Sequence[float]) -> "Regression":
        """Bring back what ``sums`` froze.

        Raises:
            ValueError: these can't be its sums.
        """
        made = cls()
        values = [float(each) for each in sums]
        is_whole = len(values) == len(made.sums())
        is_sane = all(abs(each) <= _MAX_SUM for each in values)
        if not (is_whole and is_sane) or min(values[:3]) < 0:
            raise ValueError("no sums of a regression")
        count, made.total, made.square, *rest = values
        made.count = int(count)
        made.moment, made.gram = rest[:NUM_FEATURES], rest[NUM_FEATURES:]
        return made

    def predict(self, x: Sequence[float]) -> tuple[float, float]:
        """Return mean and variance of y at x."""
        factor = self._factor
        if factor is None:
            factor = self._factor = _cholesky(self.gram)
            self._weights = _back(factor, _forward(factor, self.moment))
        weights = self._weights
        mean = sum(w * each for w, each in zip(weights, x, strict=True))
        fitted = sum(w * m for w, m in zip(weights, self.moment, strict=True))
        # The prior's own term is in it: y'y - w'(X'X + ridge)w.
        rest = _VARIANCE_RUNS * _VARIANCE + max(0.0, self.square - fitted)
        variance = rest / (_VARIANCE_RUNS + self.total)
        spread = sum(each * each for each in _forward(factor, x))
        return mean, variance * (1 + spread)

    @property
    def mean_square(self) -> float:
        """How far y is from 0, the estimate's own error, in the mean of its square."""
        return (_VARIANCE_RUNS * _VARIANCE + self.square) / (_VARIANCE_RUNS + self.total)


def _cholesky(gram: Sequence[float]) -> list[list[float]]:
    """Factor the Gram matrix with the ridge on its diagonal into L L'."""
    factor: list[list[float]] = []
    for i in range(NUM_FEATURES):
        row: list[float] = []
        for j in range(i + 1):
            value = gram[i * (i + 1) // 2 + j] + (_RIDGE[i] if i == j else 0.0)
            other = row if i == j else factor[j]
            value -= sum(a * b for a, b in zip(row[:j], other[:j], strict=True))
            # Never below the ridge but for rounding.
            row.append(math.sqrt(max(value, 1e-9)) if i == j else value / factor[j][j])
        factor.append(row)
    return factor


def _forward(factor: Sequence[Sequence[float]], right: Sequence[float]) -> list[float]:
    """Solve L z = right."""
    solved: list[float] = []
    for row, value in zip(factor, right, strict=True):
        rest = value - sum(a * z for a, z in zip(row, solved, strict=False))
        solved.append(rest / row[-1])
    return solved


def _back(factor: Sequence[Sequence[float]], right: Sequence[float]) -> list[float]:
    """Solve L' w = right."""
    weights = [0.0] * NUM_FEATURES
    for i in reversed(range(NUM_FEATURES)):
        rest = right[i] - sum(factor[j][i] * weights[j] for j in range(i + 1, NUM_FEATURES))
        weights[i] = rest / factor[i][i]
    return weights


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


@dataclass(slots=True)
class _Lessons:
    """What ended runs of one application taught: by level, and the C0 of the first of them."""

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


class Learner:
    """Learns how runs of a pool's applications go on, and says what open ones will cost."""

    def __init__(
        self,
        rules: LearningRules = LearningRules(),
        *,
        max_applications: int = 10_000,
    ) -> None:
        self.rules = rules
        self.max_applications = max_applications
        self._by_application: OrderedDict[str, _Lessons] = OrderedDict()

    def learn(
        self, application: str, *, prior_kvtt: int, true_kvtt: int, marks: Sequence[Mark]
    ) -> None:
        """Take in a run that has ended as a whole: its first estimate, its true cost, its trail."""
        if not marks:
            return
        lessons = self._by_application.setdefault(application, _Lessons(prior_kvtt))
        self._by_application.move_to_end(application)
        if len(self._by_application) > self.max_applications:
            self._by_application.popitem(last=False)
        lessons.add(marks, prior_kvtt, true_kvtt)

    def believe(self, application: str, *, prior_kvtt: int, mark: Mark) -> Belief | None:
        """Say what a run at a mark will cost; None: too few of its application have been there."""
        lessons = self._by_application.get(application)
        return None if lessons is None else lessons.believe(mark, prior_kvtt)

    def revise(self, application: str, trail: Trail, *, prior_kvtt: int) -> None:
        """Bring what is believed of an open run up to its last mark."""
        trail.has_news = False
        belief = self.believe(application, prior_kvtt=prior_kvtt, mark=trail.marks[-1])
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
        lessons = self._by_application.get(application)
        if lessons is None:
            return None
        levels = {str(level): each.sums() for level, each in lessons.by_level.items()}
        return {"anchor_kvtt": lessons.anchor_kvtt, "levels": levels}

    def restore(self, application: str, record: Mapping[str, Any]) -> None:
        """Put back what ``lessons`` froze.

        Raises:
            KeyError, TypeError, ValueError: the record makes no sense; nothing has changed.
        """
        anchor_kvtt = require_cost_kvtt("anchor_kvtt", record["anchor_kvtt"])
        levels = {int(level): Regression.of(sums) for level, sums in record["levels"].items()}
        if not all(0 <= level < len(LEVELS) for level in levels):
            raise ValueError("no such level")
        self._by_application[application] = _Lessons(anchor_kvtt, levels)


def _features(mark: Mark, prior_kvtt: int, anchor_kvtt: int) -> tuple[float, ...]:
    done = mark.num_finished
    return (
        1.0,
        _log(max(1, mark.finished_kvtt) / prior_kvtt) if done else 0.0,
        _log(mark.num_seen / max(1, done)),
        _log(prior_kvtt / anchor_kvtt),
    )
