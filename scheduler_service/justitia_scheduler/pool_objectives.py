"""The fairness objectives of one pool's applications, and the gauges that tell of them."""

from typing import TYPE_CHECKING

from justitia_scheduler.objectives import DEFAULT_FOR_S, RecentFairness, Verdict

if TYPE_CHECKING:
    from justitia_scheduler.pools import PoolService


class PoolObjectives:
    """Recent fair ratios by application; declared applications and the default one alone."""

    def __init__(self, pool: "PoolService") -> None:
        self._pool = pool
        self._recent: dict[str, RecentFairness] = {}

    def note(self, application: str, ratio: float) -> None:
        """Take in the fair ratio of a run that was settled now."""
        if self._pool.label(application) is not None:
            recent = self._recent.setdefault(application, RecentFairness())
            recent.note(ratio, self._pool.clocks.monotonic_s())

    def ratio(self, application: str) -> float | None:
        """Give the number that is compared with the objective; None where too few runs ended."""
        recent = self._recent.get(application)
        return None if recent is None else recent.ratio(self._pool.clocks.monotonic_s())

    def verdict(self, application: str) -> Verdict:
        """Say whether a declared application meets its objective now."""
        declared = self._pool.applications.get(application)
        recent = self._recent.get(application, RecentFairness())
        return recent.judge(
            self._pool.clocks.monotonic_s(),
            max_ratio=0.0 if declared is None else declared.objective_max_ratio,
            for_s=DEFAULT_FOR_S if declared is None else declared.objective_for_s,
        )

    def forget(self, application: str) -> None:
        """Forget an application that is gone."""
        self._recent.pop(application, None)

    def show(self) -> None:
        """Set the gauges; what is not judged any more is not shown. O(applications)."""
        metrics, pool = self._pool.metrics, self._pool.name
        metrics.show(metrics.applications, pool, value=len(self._pool.applications))
        for name in {*self._recent, *self._pool.applications}:
            declared = self._pool.applications.get(name)
            objective = 0.0 if declared is None else declared.objective_max_ratio
            metrics.show_or_hide(metrics.objective, pool, name, value=objective or None)
            metrics.show_or_hide(metrics.recent_ratio, pool, name, value=self.ratio(name))
            verdict = self.verdict(name)
            is_judged = verdict in (Verdict.MET, Verdict.MISSED)
            is_met = float(verdict is Verdict.MET) if is_judged else None
            metrics.show_or_hide(metrics.objective_met, pool, name, value=is_met)
