"""Looks at one resource at a time: gathers its facts, decides, applies what was decided.

Nothing here remembers a decision: each look decides from what exists now. What is kept in memory
only makes writes rarer (when a status was written last) or fills a gap until a watch tells
(``trainings``); losing it in a restart costs nothing.
"""

import asyncio
from collections.abc import Callable
from dataclasses import dataclass
from typing import NamedTuple

import structlog

from justitia_operator import checks
from justitia_operator.apply import Cluster, ClusterError
from justitia_operator.facts import ApplicationFacts, JobFacts, Key, Kind, ProfileFacts
from justitia_operator.gather import Body, key_of
from justitia_operator.manifests import TrainerOptions
from justitia_operator.metrics import Metrics
from justitia_operator.program import References
from justitia_operator.programmer import Programmer
from justitia_operator.scheduler import AwayError, SchedulerLink
from justitia_operator.status import build_application_status, build_profile_status
from justitia_operator.trainer import Trainer
from justitia_operator.trainings import Trainings
from justitia_operator.wakeups import Wakeups
from justitia_operator.world import World
from justitia_operator.writing import Clock, Writer

_log = structlog.get_logger()


class Item(NamedTuple):
    """A resource to be looked at."""

    kind: Kind
    key: Key


@dataclass(frozen=True, kw_only=True, slots=True)
class ReconcilerOptions:
    """See ``settings``."""

    owner: str
    figures_s: float
    max_training_jobs: int
    trainer: Callable[[], TrainerOptions]


class Reconciler:
    """Owns what the operator knows. Used in one event loop."""

    def __init__(
        self,
        cluster: Cluster,
        link: SchedulerLink,
        options: ReconcilerOptions,
        metrics: Metrics,
        clock: Clock,
    ) -> None:
        self.cluster = cluster
        self.link = link
        self.options = options
        self.metrics = metrics
        self.clock = clock
        self.world = World()
        self.wakeups: Wakeups[Item] = Wakeups()
        self.trainings = Trainings(clock.now_s)
        #: Set where the service has news that a listing should fetch soon.
        self.wants_listing = asyncio.Event()
        self.programmer = Programmer(link, options.owner, metrics)
        self._writer = Writer(cluster, metrics, clock, figures_s=options.figures_s)
        self._trainer = Trainer(
            cluster=cluster,
            link=link,
            world=self.world,
            trainings=self.trainings,
            writer=self._writer,
            metrics=metrics,
            clock=clock,
            options=options.trainer,
            max_jobs=options.max_training_jobs,
        )

    # -- what the watches tell ---------------------------------------------------------------------

    def seen(self, kind: Kind, body: Body, *, is_gone: bool) -> None:
        """Take in an object from a watch or a comparison, and wake what depends on it."""
        key = key_of(body)
        if is_gone:
            before, now = self.world.drop(kind, key), None
        else:
            before, now = self.world.put(kind, body)
        match kind:
            case Kind.APPLICATION:
                self._application_changed(key, before, now)
            case Kind.PROFILE:
                self.wakeups.wake(Item(kind, key))
                self._wake_where(lambda application: application.profile == key)
            case Kind.SERVICE:
                if before != now:
                    self._wake_where(lambda application: _refers_to(application, key))
            case Kind.JOB:
                self._job_changed(before, now)

    def wake_all(self) -> None:
        """Look at everything again."""
        self._wake_where(lambda _: True)
        for profile in self.world.profiles():
            self.wakeups.wake(Item(Kind.PROFILE, profile.meta.key))

    def _wake_where(self, is_concerned: Callable[[ApplicationFacts], bool]) -> None:
        for application in self.world.applications():
            if is_concerned(application):
                self.wakeups.wake(Item(Kind.APPLICATION, application.meta.key))

    def _application_changed(self, key: Key, before: object, now: object) -> None:
        self.wakeups.wake(Item(Kind.APPLICATION, key))
        for facts in (before, now):
            if isinstance(facts, ApplicationFacts) and facts.profile is not None:
                self.wakeups.wake(Item(Kind.PROFILE, facts.profile))
        uid = now.meta.uid if isinstance(now, ApplicationFacts) else ""
        if isinstance(before, ApplicationFacts) and before.meta.uid != uid:
            self.trainings.forget(before.meta.uid)
            self._writer.forget(before.meta.uid)

    def _job_changed(self, before: object, now: object) -> None:
        if isinstance(now, JobFacts):
            self.trainings.seen(now)
        elif isinstance(before, JobFacts):
            self.trainings.gone(before)
        job = now if isinstance(now, JobFacts) else before
        if not isinstance(job, JobFacts):
            return
        # Whoever waits for a training to end may begin now.
        is_over = not isinstance(now, JobFacts) or now.record.is_over
        was_over = isinstance(before, JobFacts) and before.record.is_over
        if is_over and not was_over:
            self.wants_listing.set()
        is_known = False
        for application in self.world.applications():
            is_its_own = application.meta.uid == job.application_uid
            is_known |= is_its_own
            if application.profile is not None and (is_its_own or is_over):
                self.wakeups.wake(Item(Kind.APPLICATION, application.meta.key))
            if application.profile is not None and is_its_own:
                self.wakeups.wake(Item(Kind.PROFILE, application.profile))
        if not is_known and now is None:
            self.trainings.forget(job.application_uid)

    # -- looking -----------------------------------------------------------------------------------

    async def work(self) -> None:
        """Look at what is due, for as long as the operator lives; several may do so at a time."""
        while True:
            item = await self.wakeups.take()
            with self.metrics.reconcile_time.labels(item.kind.value).time():
                result = await self._try_look(item)
            self.metrics.reconciles.labels(item.kind.value, result).inc()
            if result == "failed":
                self.wakeups.failed(item)
            else:
                self.wakeups.done(item)

    async def _try_look(self, item: Item) -> str:
        log = _log.bind(kind=item.kind.value, key=str(item.key))
        try:
            await self._look(item)
        except AwayError:
            # The comparison notices when the service is back, and looks at everything.
            return "away"
        except ClusterError as error:
            self.metrics.cluster_errors.labels(str(error.status)).inc()
            log.warning("a write failed", error=str(error))
        except Exception:  # one resource must not stop the others (FK3)
            log.exception("a look failed")
        else:
            return "done"
        return "failed"

    async def _look(self, item: Item) -> None:
        left_s = 0.0
        if item.kind is Kind.APPLICATION:
            application = self.world.application(item.key)
            if application is None or application.meta.is_deleting:
                self.metrics.conditions.forget(item.kind, item.key)
                await self.programmer.forget(item.key)
            else:
                left_s = await self._application(application)
        else:
            profile = self.world.profile(item.key)
            if profile is None or profile.meta.is_deleting:
                self.metrics.conditions.forget(item.kind, item.key)
            else:
                left_s = await self._profile(profile)
        if left_s:
            self.wakeups.wake(item, in_s=left_s)

    async def _application(self, application: ApplicationFacts) -> float:
        is_readable = application.spec is not None
        references = References(
            pool=self.world.pool(application.pool) if is_readable else None,
            profile=application.profile and self.world.profile(application.profile),
        )
        inputs = await self.programmer.program(application, references)
        if references.profile is not None:
            inputs = await self._trainer.train(inputs, references.profile)
        decided = checks.build_conditions(inputs)
        status = build_application_status(inputs, decided, now=self.clock.text())
        return await self._writer.write(Kind.APPLICATION, application, status)

    async def _profile(self, profile: ProfileFacts) -> float:
        if self.link.view is None and profile.status.get("observedGeneration"):
            return 0.0  # which models are active is not known yet
        trained = self._trainer.trained(profile, self.world.applications())
        status = build_profile_status(profile, trained, now=self.clock.text())
        return await self._writer.write(Kind.PROFILE, profile, status)


def _refers_to(application: ApplicationFacts, pool: Key) -> bool:
    return application.spec is not None and application.pool == pool
