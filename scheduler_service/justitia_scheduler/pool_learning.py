"""What the ended runs of one pool teach, and whose F moves for it (rules K1, K2, E1 and E2)."""

from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any

from justitia.core.estimates import Estimate
from justitia.core.learning import Learner
from justitia.core.runs import EndedRun

if TYPE_CHECKING:
    from justitia_scheduler.pools import PoolService


class PoolLearning:
    """Asks the core after each report; off, every F stays what the estimate made it."""

    def __init__(self, pool: "PoolService") -> None:
        self._pool = pool
        self._learner = Learner()

    def look(self, run_ids: Iterable[str]) -> None:
        """Look at the runs of a report that the core has taken.

        A moved F goes into the next commit: after a crash the journal's F is the one that counts.
        """
        if not self._pool.options.is_learning:
            return
        metrics, most_kvtt = self._pool.metrics, self._pool.ladder.max_cost_kvtt
        for view in self._pool.core.relearn(run_ids, self._learner, max_cost_kvtt=most_kvtt):
            self._pool.changes.decide(view.run_id)
            self._pool.note_moved(view.run_id)
            label = self._pool.label(view.application)
            if label is not None:
                metrics.count(metrics.reestimates, self._pool.name, label)

    def learn(self, ended: EndedRun) -> None:
        """Take in a run that has ended as a whole, of an application that is still there."""
        pool, metrics = self._pool, self._pool.metrics
        label = pool.label(ended.application)
        if label is None:
            return
        news = pool.ladder.learn(
            ended.application, prompt_length=ended.prompt_length, cost_kvtt=ended.true_cost_kvtt
        )
        pool.changes.is_ladder_dirty = True
        error = ended.learned_relative_error
        metrics.observe(metrics.learned_error, pool.name, label, value=error)
        if pool.options.is_learning:
            self._learn_trail(ended)
            if news is not None:
                self._spread(ended.application, news, label)

    def _learn_trail(self, ended: EndedRun) -> None:
        if ended.marks:
            self._learner.learn(
                ended.application,
                estimate=ended.estimate,
                true_kvtt=ended.true_cost_kvtt,
                marks=ended.marks,
            )
            self._pool.changes.lessons[ended.application] = None

    def _spread(self, application: str, news: Estimate, label: str) -> None:
        """Take open runs for what is known now, a slice at a time: there may be very many."""
        pool, metrics = self._pool, self._pool.metrics

        def estimate_anew(run_id: str) -> None:
            if pool.core.estimate_anew(run_id, application, news) is not None:
                pool.note_moved(run_id)
                metrics.count(metrics.reestimates, pool.name, label)

        pool.backlog.add(estimate_anew, pool.core.runs_of(application))

    def forget(self, application: str) -> None:
        """An application is gone."""
        self._learner.forget(application)
        self._pool.changes.lessons[application] = None

    # -- the journal -------------------------------------------------------------------------------

    def lessons(self, application: str) -> dict[str, Any] | None:
        """What an application taught, for the journal; None: nothing."""
        return self._learner.lessons(application)

    def applications(self) -> list[str]:
        """Name those that taught something."""
        return self._learner.applications()

    def restore(self, application: str, record: Mapping[str, Any]) -> None:
        """Put back what ``lessons`` gave.

        Raises:
            KeyError, TypeError, ValueError: it makes no sense.
        """
        self._learner.restore(application, record)
