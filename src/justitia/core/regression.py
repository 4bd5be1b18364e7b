"""Bayesian linear regression that forgets: a few sums, learned from five runs on, kept as JSON."""

import math
from collections.abc import Sequence
from typing import Final

NUM_FEATURES: Final = 4
#: Pseudo-observations that hold each weight at 0.
_RIDGE: Final = (1.0, 1.0, 1.0, 1.0)
#: What the residual variance is taken for before anything is known, and for how many runs it
#: counts.
_VARIANCE: Final = 0.25
_VARIANCE_RUNS: Final = 2.0
#: Older runs count less: all of them together for at most about so many.
_MEMORY_RUNS: Final = 500
#: Largest count or sum that can have come about.
_MAX_SUM: Final = 1e12


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
