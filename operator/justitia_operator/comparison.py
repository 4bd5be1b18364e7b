"""The background comparison: three lists are held against each other (FK5, FK6).

What the watches told against the API server's listing: a watch that went deaf is noticed, and what
it missed is put right. What the scheduler service holds against the resources: what is gone is
removed, also when it went while the operator was away; what the service lost is programmed again
when everything is looked at. Jobs against applications: what nobody wants any more is ended.

Only what carries this operator's mark, and belongs to a namespace that it serves, is ever removed.
"""

import asyncio
from collections.abc import Collection, Mapping
from datetime import timedelta
from typing import Final

import structlog

from justitia_operator.apply import ClusterError
from justitia_operator.facts import JobFacts, Key, Kind
from justitia_operator.gather import parse_time
from justitia_operator.program import key_of_mark, wanted_modes
from justitia_operator.reconciler import Reconciler
from justitia_operator.scheduler import AwayError, RefusedError
from justitia_operator.world import Version

#: How often a service that is away is tried again.
RETRY_S: Final = 2.0
#: A Job without a pod after this long is looked into.
_SLOW_START: Final = timedelta(seconds=30)
_SYNC_POLL_S: Final = 0.1
#: So long the first listing may take to come through the watches.
_SYNC_S: Final = 20.0
#: So many intervals may pass without a comparison before liveness says so.
_STUCK_INTERVALS: Final = 10
_MAX_TOLD_CHARS: Final = 300

_log = structlog.get_logger()

Listing = Mapping[Kind, Mapping[Key, Version]]


class Comparison:
    """Compares now and then. ``namespaces`` empty: the whole cluster is served."""

    def __init__(
        self, reconciler: Reconciler, *, namespaces: Collection[str], resync_s: float
    ) -> None:
        self._reconciler = reconciler
        self._namespaces = frozenset(namespaces)
        self._resync_s = resync_s
        self._trouble = "the API server was not asked yet"
        self._was_away = False
        self._begun_s = reconciler.clock.now_s()
        self._synced = asyncio.Event()
        self._begun = asyncio.Event()

    @property
    def is_synced(self) -> bool:
        """Whether everything that there was at the start is known."""
        return self._synced.is_set()

    # -- life --------------------------------------------------------------------------------------

    async def run(self) -> None:
        """Compare until cancelled."""
        await self.sync()
        while True:
            await self.compare()
            self._begun.set()
            await self._rest()

    async def _rest(self) -> None:
        """Wait for the next comparison; meanwhile ask only the service, where there is news.

        Resources are listed no more often than that: what a watch has missed shows by its age.
        """
        now_s, wants_listing = self._reconciler.clock.now_s, self._reconciler.wants_listing
        until_s = now_s() + self._resync_s
        while (left_s := until_s - now_s()) > 0:
            wants_listing.clear()
            try:
                async with asyncio.timeout(min(RETRY_S, left_s) if self._was_away else left_s):
                    await wants_listing.wait()
            except TimeoutError:
                pass
            if (self._was_away or wants_listing.is_set()) and await self._compare_service(None):
                self._reconciler.wake_all()

    async def sync(self) -> None:
        """Wait until the watches have told of everything that a listing shows.

        Before that nothing may be decided: an application that is not known yet would look gone.
        """
        clock = self._reconciler.clock
        until_s = clock.now_s() + _SYNC_S
        while not self.is_synced:
            self._begun_s = clock.now_s()
            listing = await self._list()
            if listing is None:
                await asyncio.sleep(min(RETRY_S, self._resync_s))
                continue
            world = self._reconciler.world
            while not all(world.has_all(kind, listed) for kind, listed in listing.items()):
                if clock.now_s() > until_s:
                    _log.warning("the watches are slow: going on from a listing")
                    await self._read_all(listing)
                    break
                await asyncio.sleep(_SYNC_POLL_S)
            self._synced.set()
        _log.info("synced", **{kind.value: world.count(kind) for kind in Kind})

    async def wait_begun(self) -> None:
        """Wait until the first comparison was made: what can be known at the start is known."""
        await self._begun.wait()

    # -- what probes ask ---------------------------------------------------------------------------

    def ailment(self) -> str:
        """Say why the process should be started again; empty where it need not be."""
        deaf = self._reconciler.world.deaf
        if deaf:
            return f"deaf watches: {', '.join(sorted(kind.value for kind in deaf))}"
        silent_s = self._reconciler.clock.now_s() - self._begun_s
        if silent_s > _STUCK_INTERVALS * self._resync_s + _SYNC_S:
            return f"no comparison for {silent_s:.0f} s"
        return ""

    def unreadiness(self) -> str:
        """Say why the operator does not do its work now; empty where it does."""
        if not self.is_synced:
            return "the first listing is not complete"
        return self._trouble

    # -- comparing ---------------------------------------------------------------------------------

    async def compare(self) -> None:
        """Compare once, as far as both sides answer."""
        reconciler = self._reconciler
        self._begun_s = reconciler.clock.now_s()
        listing = await self._list()
        if listing is not None:
            await self._heal(listing)
        is_service_up = await self._compare_service(listing)
        if listing is not None:
            await self._end_jobs()
        reconciler.wake_all()
        if listing is not None and is_service_up:
            reconciler.metrics.comparison_time.set(reconciler.clock.now().timestamp())

    async def _list(self) -> Listing | None:
        try:
            listed = {kind: await self._reconciler.cluster.versions(kind) for kind in Kind}
        except ClusterError as error:
            self._note_cluster_error(error)
            return None
        self._trouble = ""
        return listed

    async def _heal(self, listing: Listing) -> None:
        """Put right what a watch missed."""
        for kind, listed in listing.items():
            now_s = self._reconciler.clock.now_s()
            for key in self._reconciler.world.missed(kind, listed, now_s):
                self._reconciler.metrics.missed_changes.labels(kind.value).inc()
                _log.error("a watch missed a change", kind=kind.value, key=str(key))
                await self._read(kind, key)

    async def _read_all(self, listing: Listing) -> None:
        for kind, listed in listing.items():
            for key in listed:
                await self._read(kind, key)

    async def _read(self, kind: Kind, key: Key) -> None:
        try:
            body = await self._reconciler.cluster.get(kind, key)
        except ClusterError as error:
            self._note_cluster_error(error)
            return
        gone = {"metadata": {"namespace": key.namespace, "name": key.name}}
        self._reconciler.seen(kind, gone if body is None else body, is_gone=body is None)

    def _note_cluster_error(self, error: ClusterError) -> None:
        self._trouble = f"the API server refuses: {error}"[:_MAX_TOLD_CHARS]
        self._reconciler.metrics.cluster_errors.labels(str(error.status)).inc()
        _log.warning("the API server cannot be listed", error=str(error))

    # -- the scheduler service ---------------------------------------------------------------------

    async def _compare_service(self, listing: Listing | None) -> bool:
        try:
            await self._reconciler.link.load()
            if listing is not None:
                await self._remove_gone(listing[Kind.APPLICATION])
            await self._set_modes()
        except (AwayError, RefusedError) as error:
            if not self._was_away:
                _log.warning("the scheduler service cannot be listed", error=str(error))
            self._was_away = True
            return False
        if self._was_away:
            _log.info("the scheduler service answers again")
        self._was_away = False
        return True

    async def _remove_gone(self, listed: Mapping[Key, Version]) -> None:
        """Remove what is under our mark and whose resource neither a watch nor a listing knows."""
        view, world = self._reconciler.link.view, self._reconciler.world
        for slot, declared in list(() if view is None else view.held.items()):
            key = key_of_mark(self._reconciler.options.owner, declared.program.declared_by)
            if key is None or (self._namespaces and key.namespace not in self._namespaces):
                continue
            if key not in listed and world.application(key) is None:
                await self._reconciler.programmer.remove(slot)

    async def _set_modes(self) -> None:
        """Put pools in shadow, or in force, as their applications ask."""
        view, world = self._reconciler.link.view, self._reconciler.world
        if view is None:
            return
        owner = self._reconciler.options.owner
        in_force = {key_of_mark(owner, d.program.declared_by) for d in view.held.values()}
        served = [a for a in world.applications() if a.meta.key in in_force]
        for pool, is_shadow in wanted_modes(served).items():
            state = view.pools.get(pool)
            if state is not None and state.is_shadow != is_shadow:
                await self._reconciler.link.set_mode(pool, is_shadow=is_shadow)
                self._reconciler.metrics.programs.labels("SetPoolMode").inc()
                _log.info("mode set", pool=pool, is_shadow=is_shadow)

    # -- Jobs --------------------------------------------------------------------------------------

    async def _end_jobs(self) -> None:
        """Delete running Jobs that nobody wants, and ask why others do not start or failed."""
        world = self._reconciler.world
        wanted = {
            (application.meta.uid, profile.meta.uid)
            for application in world.applications()
            if application.profile and (profile := world.profile(application.profile))
        }
        for job in list(world.jobs()):
            is_wanted = (job.application_uid, job.profile_uid) in wanted
            try:
                if not job.record.is_over and not is_wanted:
                    await self._reconciler.cluster.delete_job(job.meta)
                elif self._is_unclear(job):
                    await self.explain(job)
            except ClusterError as error:
                self._note_cluster_error(error)

    def _is_unclear(self, job: JobFacts) -> bool:
        if job.record.is_over:
            is_failed = job.record.reason and not self._reconciler.trainings.is_explained(job)
            return bool(is_failed)
        started_at = parse_time(job.record.started_at)
        now = self._reconciler.clock.now()
        return not job.has_pod and started_at is not None and now - started_at > _SLOW_START

    async def explain(self, job: JobFacts) -> None:
        """Find out why a Job does not start or has failed."""
        note = await self._reconciler.cluster.explain_job(job.meta)
        self._reconciler.trainings.explain(job, note)
