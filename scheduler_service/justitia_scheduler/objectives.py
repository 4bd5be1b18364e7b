"""Whether an application's fair ratios meet its objective: one judge for condition and alert.

Metrics and API only repeat what is said here, so that they cannot disagree. The number that is
compared is exact: it comes from the ratios themselves and not from a histogram's buckets.
"""

from bisect import bisect_left, insort
from collections import deque
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Final

from justitia.core.quantiles import quantile_of_sorted

#: Ratios older than this are not recent: what was long ago must not raise an alert today.
WINDOW_S: Final = 1800.0
#: With fewer recent runs nothing is judged: one slow run among a few is no verdict.
MIN_RUNS: Final = 10
#: How many of a hundred recent runs must be within the objective. Not 99: below a hundred runs that
#: is the slowest run of all, and a single one would decide.
PERCENT: Final = 90
#: How long the ratio may be above the objective where nothing else is declared.
DEFAULT_FOR_S: Final = 300.0
_MAX_RUNS: Final = 1000


class Verdict(StrEnum):
    """What is known of an objective."""

    NO_OBJECTIVE = "no_objective"
    TOO_FEW_RUNS = "too_few_runs"
    MET = "met"
    MISSED = "missed"


@dataclass(slots=True)
class RecentFairness:
    """Fair ratios of an application's runs that were settled within ``WINDOW_S``, the last 1000."""

    _settled: deque[tuple[float, float]] = field(default_factory=deque)
    _ordered: list[float] = field(default_factory=list)
    _above_since_s: float | None = None

    def note(self, ratio: float, now_s: float) -> None:
        """Take in the ratio of a run that was settled now. O(1000) moves of a pointer."""
        self._settled.append((now_s, ratio))
        insort(self._ordered, ratio)
        if len(self._settled) > _MAX_RUNS:
            self._drop_oldest()

    def ratio(self, now_s: float) -> float | None:
        """Nearest-rank ``PERCENT`` quantile; None with fewer than ``MIN_RUNS`` recent runs."""
        while self._settled and self._settled[0][0] <= now_s - WINDOW_S:
            self._drop_oldest()
        if len(self._ordered) < MIN_RUNS:
            return None
        return quantile_of_sorted(self._ordered, PERCENT / 100)

    def judge(self, now_s: float, *, max_ratio: float, for_s: float) -> Verdict:
        """Say whether an objective is met; to be asked about once a second, or more often.

        ``max_ratio`` 0: there is no objective. It is missed once the ratio has been above
        ``max_ratio`` for ``for_s``, and until then met.
        """
        ratio = self.ratio(now_s)
        if not max_ratio or ratio is None or ratio <= max_ratio:
            self._above_since_s = None
        elif self._above_since_s is None:
            self._above_since_s = now_s
        if not max_ratio:
            return Verdict.NO_OBJECTIVE
        if ratio is None:
            return Verdict.TOO_FEW_RUNS
        since_s = self._above_since_s
        is_missed = since_s is not None and now_s - since_s >= for_s
        return Verdict.MISSED if is_missed else Verdict.MET

    def _drop_oldest(self) -> None:
        _, ratio = self._settled.popleft()
        del self._ordered[bisect_left(self._ordered, ratio)]
