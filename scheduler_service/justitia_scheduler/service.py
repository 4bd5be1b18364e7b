"""The whole service without its network: pools, journal, predictions, housekeeping."""

import asyncio
import secrets
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

import structlog

from justitia.core.estimates import Source
from justitia.predictor.serving import PredictorService
from justitia_scheduler.clocks import Clocks
from justitia_scheduler.engine_session import EngineSessions
from justitia_scheduler.journal import Journal
from justitia_scheduler.limits import MAX_POOLS, require_id
from justitia_scheduler.metrics import Metrics
from justitia_scheduler.model_keeper import ModelKeeper
from justitia_scheduler.outcomes import CallError, Outcome
from justitia_scheduler.pool_engines import PoolEngines
from justitia_scheduler.pool_records import PoolRecords
from justitia_scheduler.pools import PoolOptions, PoolService
from justitia_scheduler.run_facts import EndedFacts, RunOrder
from justitia_scheduler.sample_retention import SampleRetention
from justitia_scheduler.store import Key, Loaded, ModelRow, Store, Transaction
from justitia_scheduler.watching import RunWatchers

_TICK_S: Final = 0.05
_TICKS_PER_GAUGES: Final = 20
_SLICES_PER_TICK: Final = 20

_log = structlog.get_logger()


@dataclass(frozen=True, kw_only=True, slots=True)
class PoolParts:
    """One pool with its neighbours."""

    pool: PoolService
    records: PoolRecords
    engines: PoolEngines
    predictor: PredictorService


@dataclass(frozen=True, kw_only=True, slots=True)
class ServiceOptions:
    """Settings of the whole service; see ``settings``."""

    pools: tuple[str, ...] = ("default",)
    default_pool: str = "default"
    prediction_deadline_s: float = 0.005
    sample_retention_s: float = 90 * 86400.0


class SchedulerService:
    """Owns everything that outlives a call."""

    def __init__(
        self,
        store: Store,
        *,
        options: ServiceOptions | None = None,
        pool_options: PoolOptions | None = None,
        clocks: Clocks | None = None,
        metrics: Metrics | None = None,
    ) -> None:
        self.options = options or ServiceOptions()
        self.clocks = clocks or Clocks()
        self.metrics = metrics or Metrics()
        self.sessions = EngineSessions()
        self.watchers = RunWatchers()
        self.is_stopping = False
        self._pool_options = pool_options or PoolOptions()
        self._parts: dict[str, PoolParts] = {}
        self._store = store
        self.journal = Journal(store, self, self.metrics, self.clocks)
        self.models = ModelKeeper(store, self.journal, self.clocks, self.metrics)
        self._tasks: list[asyncio.Task[None]] = []
        self._time: asyncio.Task[None] | None = None
        self._retention: asyncio.Task[None] | None = None

    # -- life --------------------------------------------------------------------------------------

    async def start(self) -> None:
        """Read the journal and begin.

        Raises:
            StoreError: the journal's file cannot be used at all.
        """
        loaded = await self.journal.call(self._store.load)
        for trouble in loaded.troubles:
            _log.error(trouble)
        self._restore(loaded)
        await self._activate_all(loaded.models)
        if loaded.troubles:
            self.journal.replace_all()
        self._time = asyncio.create_task(self._housekeeping(), name="housekeeping")
        self._retention = asyncio.create_task(self._retain().run(), name="retention")
        self._tasks = [
            asyncio.create_task(self.journal.run(), name="journal"),
            self._time,
            self._retention,
        ]

    async def stop(self) -> None:
        """End what is ending, flush the journal, release everything."""
        self.begin_stop()
        for task in (self._time, self._retention):
            if task is not None:
                task.cancel()
        self.journal.begin_close()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        for parts in self._parts.values():
            parts.pool.backlog.run_all()
        await self.journal.close()
        for parts in self._parts.values():
            parts.predictor.close()

    def begin_stop(self) -> None:
        """Close the streams and answer the EndRuns that wait."""
        self.is_stopping = True
        for parts in self._parts.values():
            parts.pool.endings.finish_due(is_forced=True)
        self.watchers.close_all()
        self.sessions.close_all(
            CallError(Outcome.STOPPING, "the scheduler service is being stopped")
        )

    def _restore(self, loaded: Loaded) -> None:
        by_pool: dict[str, dict[Key, Mapping[str, Any]]] = {name: {} for name in self.options.pools}
        for key, body in loaded.records.items():
            if len(key) >= 2:  # noqa: PLR2004  kind and pool
                by_pool.setdefault(key[1], {})[key] = body
        for name, records in by_pool.items():
            parts = self._add_pool(name)
            num_bad = parts.records.restore(records)
            if num_bad:
                _log.error("journal records made no sense", pool=name, num_left_out=num_bad)
            if len(parts.pool.core):
                _log.info("open runs restored", pool=name, num_runs=len(parts.pool.core))

    async def _activate_all(self, models: Sequence[ModelRow]) -> None:
        for row in models:
            if row.pool in self._parts:
                await self.models.restore(self.parts(row.pool), row)
            else:
                _log.error("a model of no pool is left out", application=row.application)

    def _retain(self) -> SampleRetention:
        return SampleRetention(
            self._store, self.journal, self.clocks, retention_s=self.options.sample_retention_s
        )

    async def _housekeeping(self) -> None:
        num_ticks = 0
        while True:
            await asyncio.sleep(_TICK_S)
            num_ticks += 1
            for parts in self.all_parts():
                try:
                    parts.pool.endings.tick()
                    await _work_off(parts.pool)
                    if num_ticks % _TICKS_PER_GAUGES == 0:
                        parts.pool.show_gauges()
                except Exception:  # noqa: BLE001  time must go on; the log has the fault
                    _log.exception("housekeeping failed", pool=parts.pool.name)

    # -- the journal's source ----------------------------------------------------------------------

    async def changes(self) -> Transaction:
        """Take what changed in all pools."""
        transaction = Transaction()
        for parts in self.all_parts():
            await parts.records.put_changes(transaction)
        return transaction

    async def everything(self) -> Transaction:
        """Take all pools whole."""
        transaction = Transaction(replaces_all=True)
        for parts in self.all_parts():
            await parts.records.put_everything(transaction)
        return transaction

    def written(self, transaction: Transaction) -> None:
        """Let the pools forget what the store has taken."""
        for parts in self.all_parts():
            parts.records.written(transaction)

    # -- pools -------------------------------------------------------------------------------------

    def all_parts(self) -> list[PoolParts]:
        """All pools."""
        return list(self._parts.values())

    def num_open_runs(self) -> int:
        """How many runs are open in all pools."""
        return sum(len(parts.pool.core) for parts in self.all_parts())

    def parts(self, name: str, *, may_create: bool = False) -> PoolParts:
        """Find a pool; empty means the default one.

        Raises:
            CallError: there is none of this name, or no room for another one.
        """
        name = name or self.options.default_pool
        if name in self._parts:
            return self._parts[name]
        if not may_create:
            raise CallError(
                Outcome.NOT_FOUND,
                f"pool: {name!r} is not known; pools: {', '.join(sorted(self._parts))[:500]}",
            )
        if len(self._parts) >= MAX_POOLS:
            raise CallError(
                Outcome.EXHAUSTED, f"pool: the service has {MAX_POOLS} pools, its limit"
            )
        return self._add_pool(require_id("pool", name))

    def parts_of(self, pool: str, application: str) -> PoolParts:
        """Find the pool of a call; without one, the pool that declares the application."""
        if not pool and application:
            for parts in self._parts.values():
                if application in parts.pool.applications:
                    return parts
        return self.parts(pool)

    def parts_with(self, pool: str, run_id: str) -> PoolParts:
        """Find the pool of a call about a run; without one, the pool that knows the run.

        Open runs come before ended ones, and the default pool before others.

        Raises:
            CallError: the pool is not known, or several other pools have an open run of this id.
        """
        default = self.parts(pool)
        if pool or run_id in default.pool.core:
            return default
        others = [parts for parts in self._parts.values() if run_id in parts.pool.core]
        if len(others) > 1:
            names = ", ".join(sorted(parts.pool.name for parts in others))
            raise CallError(
                Outcome.INVALID, f"pool: must be named, run {run_id[:40]!r} is open in {names}"
            )
        if others or run_id in default.pool.ended:
            return others[0] if others else default
        known = (parts for parts in self._parts.values() if run_id in parts.pool.ended)
        return next(known, default)

    def _add_pool(self, name: str) -> PoolParts:
        pool = PoolService(name, self._pool_options, self.clocks, self.metrics)
        records = PoolRecords(pool)
        parts = PoolParts(
            pool=pool,
            records=records,
            engines=PoolEngines(pool, records),
            predictor=PredictorService(),
        )
        self._parts[name] = parts
        return parts

    # -- calls that wait ---------------------------------------------------------------------------

    async def start_run(self, parts: PoolParts, order: RunOrder) -> None:
        """Open a run with the best estimate that is there within the deadline, durably (E1, E2)."""
        if self.is_stopping:
            raise CallError(Outcome.STOPPING, "the scheduler service is being stopped")
        pool, metrics = parts.pool, self.metrics
        prediction = None
        application = _application_of(pool, order)
        if pool.wants_prediction(order) and application in parts.predictor.models:
            before_s = self.clocks.monotonic_s()
            prediction = await parts.predictor.predict_within(
                application,
                pool.usable_prompt(order),
                deadline_s=self.options.prediction_deadline_s,
            )
            metrics.observe(metrics.predictions, value=self.clocks.monotonic_s() - before_s)
            if prediction is None:
                metrics.count(metrics.missed_predictions)
        before_s = self.clocks.monotonic_s()
        view = pool.start_run(order, prediction)
        if view.estimate.source is Source.MODEL:
            pool.facts[order.run_id].note_model(view.estimate)
        metrics.observe(metrics.decisions, "start_run", value=self.clocks.monotonic_s() - before_s)
        await self.journal.committed()

    async def end_run(self, parts: PoolParts, run_id: str) -> EndedFacts:
        """Close a run, durably."""
        ended = await parts.pool.endings.end_run(run_id)
        await self.journal.committed()
        return ended

    def store(self) -> Store:
        """The store, for reads in the journal's thread."""
        return self._store


def _application_of(pool: PoolService, order: RunOrder) -> str:
    """Say whose model is asked: what the call names, else its open run, else the default one."""
    facts = pool.facts.get(order.run_id)
    named = order.application or ("" if facts is None else facts.requested)
    return pool.application(named).name


async def _work_off(pool: PoolService) -> None:
    """Do a part of what a pool has put off, and let others have their turn all the time."""
    for _ in range(_SLICES_PER_TICK):
        if not pool.backlog:
            return
        pool.backlog.run_slice()
        await asyncio.sleep(0)


def new_run_id() -> str:
    """Make an id that nobody can guess or meet."""
    return f"run-{secrets.token_hex(12)}"
