"""What became of each active model's predictions: the error that training promised, and the real.

Only runs whose estimate the active model itself made count, with what it said at their start: a
client's own claim, a mean, or what was learnt inside the run later is no mark of the model.
"""

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final

from justitia_scheduler.windows import Window

if TYPE_CHECKING:
    from justitia_scheduler.pools import PoolService
    from justitia_scheduler.run_facts import RunFacts

#: Runs that the recent error is the mean of.
WINDOW_RUNS: Final = 100
#: Runs below which it is not shown as a metric.
MIN_RUNS: Final = 20


@dataclass(slots=True)
class Watched:
    """An active model. ``expected_error`` None: training could hold nothing out."""

    version: str = ""
    expected_error: float | None = None
    errors: Window = field(default_factory=lambda: Window(WINDOW_RUNS))

    @property
    def recent_error(self) -> float | None:
        """Mean relative error of the last runs; None: too few of them."""
        return self.errors.mean if len(self.errors) >= MIN_RUNS else None


class ModelWatch:
    """The active models of one pool's applications."""

    def __init__(self, pool: "PoolService") -> None:
        self._pool = pool
        self._watched: dict[str, Watched] = {}

    def begin(self, application: str, version: str, expected_error: float | None) -> None:
        """A model has become active: what those before it got wrong is no mark of this one."""
        self.end(application)
        self._watched[application] = Watched(version, expected_error)
        metrics, pool = self._pool.metrics, self._pool.name
        metrics.show_or_hide(metrics.model_info, pool, application, version, value=1)
        metrics.show_or_hide(
            metrics.model_error, pool, application, "expected", value=expected_error
        )

    def end(self, application: str) -> None:
        """No model is active any more."""
        watched = self._watched.pop(application, None)
        if watched is None:
            return
        metrics, pool = self._pool.metrics, self._pool.name
        metrics.show_or_hide(metrics.model_info, pool, application, watched.version, value=None)
        for kind in ("expected", "recent"):
            metrics.show_or_hide(metrics.model_error, pool, application, kind, value=None)

    def of(self, application: str) -> Watched:
        """What is known of an application's active model; empty where it has none."""
        return self._watched.get(application, Watched())

    def note_end(self, application: str, facts: "RunFacts", true_cost_kvtt: int) -> None:
        """Count a run that is over, if the active model made its first estimate."""
        watched = self._watched.get(application)
        if watched is None or not facts.model_version or facts.model_version != watched.version:
            return
        watched.errors.append(abs(facts.model_kvtt - true_cost_kvtt) / true_cost_kvtt)
        metrics = self._pool.metrics
        metrics.show_or_hide(
            metrics.model_error, self._pool.name, application, "recent", value=watched.recent_error
        )
