"""The right-hand side of rule D1 in seconds, estimated from what the pool has been seen to do."""

from dataclasses import dataclass

_MAX_GAP_S = 1.0


@dataclass(slots=True)
class DelayBound:
    """2 x the longest single inference + the largest run alone; see ``metrics.BOUND_HELP``."""

    longest_inference_s: float = 0.0
    largest_cost_kvtt: int = 0
    _delivered_kvtt: int = 0
    _busy_s: float = 0.0
    _last_report_s: float | None = None

    def note_inference(self, computing_s: float) -> None:
        """Count a finished inference: from its first admission to its end."""
        self.longest_inference_s = max(self.longest_inference_s, computing_s)

    def note_run(self, cost_kvtt: int) -> None:
        """Count an ended run's true cost."""
        self.largest_cost_kvtt = max(self.largest_cost_kvtt, cost_kvtt)

    def note_delivery(self, useful_kvtt: int, now_s: float) -> None:
        """Count useful service; the time since the report before counts as busy, up to a second."""
        if self._last_report_s is not None and useful_kvtt > 0:
            self._delivered_kvtt += useful_kvtt
            self._busy_s += min(_MAX_GAP_S, max(0.0, now_s - self._last_report_s))
        self._last_report_s = now_s

    @property
    def allowance_s(self) -> float | None:
        """How much later than its reference a run may finish; None before anything was measured."""
        if self._delivered_kvtt == 0 or self._busy_s == 0:
            return None
        alone_s = self.largest_cost_kvtt * self._busy_s / self._delivered_kvtt
        return 2 * self.longest_inference_s + alone_s
