"""The right-hand side of rule D1 in seconds, estimated from what the pool has been seen to do."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

#: What counts is the last half hour to hour: one slow inference must not hide violations for ever.
_HALF_WINDOW_S: Final = 1800.0
_MAX_GAP_S: Final = 1.0


@dataclass(slots=True)
class _Half:
    """What was seen in one half of the window."""

    longest_inference_s: float = 0.0
    largest_cost_kvtt: int = 0
    delivered_kvtt: int = 0
    busy_s: float = 0.0


class DelayBound:
    """2 x the longest single inference + the largest run alone; see ``metrics.BOUND_HELP``."""

    def __init__(self, monotonic_s: Callable[[], float]) -> None:
        self._monotonic_s = monotonic_s
        self._began_s = monotonic_s()
        self._before, self._now = _Half(), _Half()
        self._last_report_s: float | None = None

    def note_inference(self, computing_s: float) -> None:
        """Count a finished inference by the time in which it was computed."""
        half = self._half()
        half.longest_inference_s = max(half.longest_inference_s, computing_s)

    def note_run(self, cost_kvtt: int) -> None:
        """Count an ended run's true cost."""
        half = self._half()
        half.largest_cost_kvtt = max(half.largest_cost_kvtt, cost_kvtt)

    def note_delivery(self, useful_kvtt: int, now_s: float) -> None:
        """Count useful service; the time since the report before counts as busy, up to a second."""
        if self._last_report_s is not None and useful_kvtt > 0:
            half = self._half()
            half.delivered_kvtt += useful_kvtt
            half.busy_s += min(_MAX_GAP_S, max(0.0, now_s - self._last_report_s))
        self._last_report_s = now_s

    @property
    def longest_inference_s(self) -> float:
        """Longest time in which an inference of the window was computed."""
        return max(half.longest_inference_s for half in (self._half(), self._before))

    @property
    def allowance_s(self) -> float | None:
        """How much later than its reference a run may finish; None before anything was measured."""
        halves = (self._half(), self._before)
        delivered_kvtt = sum(half.delivered_kvtt for half in halves)
        busy_s = sum(half.busy_s for half in halves)
        if delivered_kvtt == 0 or busy_s == 0:
            return None
        largest_kvtt = max(half.largest_cost_kvtt for half in halves)
        return 2 * self.longest_inference_s + largest_kvtt * busy_s / delivered_kvtt

    def _half(self) -> _Half:
        now_s = self._monotonic_s()
        age_s = now_s - self._began_s
        if age_s >= _HALF_WINDOW_S:
            self._before = self._now if age_s < 2 * _HALF_WINDOW_S else _Half()
            self._now, self._began_s = _Half(), now_s
        return self._now
