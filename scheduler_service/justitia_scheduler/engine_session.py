"""One engine's session: Hello, then reports in and directives out, until either side goes."""

import asyncio
import contextlib
from collections.abc import AsyncIterator, Awaitable, Callable
from typing import TYPE_CHECKING, Any, Final

import structlog

from justitia.api.v1 import common_pb2, engine_pb2
from justitia.core.units import Ticks
from justitia_scheduler import convert
from justitia_scheduler.engine_facts import EngineFacts, KnownRun, report_facts
from justitia_scheduler.hellos import WholeHello, read_hello
from justitia_scheduler.limits import MAX_ENGINES
from justitia_scheduler.outbox import Outbox
from justitia_scheduler.outcomes import CallError, Outcome
from justitia_scheduler.pool_engines import PoolEngines
from justitia_scheduler.pools import PoolService

#: At most 40 directives a second; the first after a pause goes at once.
_MIN_GAP_S: Final = 0.025
#: An engine that hears nothing else hears V this often, for its local tags when we are away.
_VALUE_EVERY_S: Final = 1.0
_MAX_TAGS: Final = 1000
#: Runs of a Hello that are taken over before others get their turn.
_ADOPT_SLICE: Final = 200
#: Its tags that are queued before.
_QUEUE_SLICE: Final = 5000

if TYPE_CHECKING:
    from justitia.core.fairness import InferenceTimes

_log = structlog.get_logger()

Messages = AsyncIterator[engine_pb2.EngineMessage]
Send = Callable[[engine_pb2.EngineDirective], Awaitable[None]]


class EngineSession:
    """The session of one engine incarnation; also listens to its pool."""

    def __init__(self, pool: PoolService, engines: PoolEngines, facts: EngineFacts) -> None:
        self.facts = facts
        self._pool = pool
        self._engines = engines
        self._outbox = Outbox()
        self._early: dict[str, list[InferenceTimes]] = {}
        self._has_new_settings = True
        self._closed: asyncio.Future[CallError | None] = asyncio.get_running_loop().create_future()

    # -- what the pool tells -----------------------------------------------------------------------

    def run_changed(self, run_id: str, *, has_new_tag: bool) -> None:
        """Tell the engine a run's new tag."""
        if has_new_tag:
            self._outbox.change(run_id, self._pool.clocks.monotonic_s())

    def run_ended(self, run_id: str) -> None:
        """Tell the engine that a run is over."""
        self._outbox.end(run_id)
        if self._outbox.is_overfull:
            self.close(CallError(Outcome.EXHAUSTED, "the engine does not read its directives"))

    def settings_changed(self) -> None:
        """Tell the engine the mode and the weights."""
        self._has_new_settings = True
        self._outbox.wake()

    def close(self, error: CallError | None = None) -> None:
        """End the session; with an error, the engine is told it."""
        if not self._closed.done():
            self._closed.set_result(error)

    # -- its life ----------------------------------------------------------------------------------

    async def join(self, known: list[KnownRun], last_value: Ticks) -> None:
        """Take the engine in: adopt what only it knows, open its account, queue its tags.

        Raises:
            CallError: the session was closed meanwhile, by a newer one or at a stop.
        """
        pool = self._pool
        pool.estimates.limit(max_model_len_tokens=self.facts.max_model_len_tokens)
        pool.listeners.add(self)  # first: what ends while we adopt is told too
        for first in range(0, len(known), _ADOPT_SLICE):
            for run_id in self._engines.adopt(self.facts, known[first : first + _ADOPT_SLICE]):
                self._outbox.end(run_id)
            await asyncio.sleep(0)
            self._require_open()
        self._engines.join(self.facts, known, last_value)
        now_s = pool.clocks.monotonic_s()
        for number, run in enumerate(known, start=1):
            if run.report.run_id in pool.core:
                self._outbox.change(run.report.run_id, now_s)
            if number % _QUEUE_SLICE == 0:
                await asyncio.sleep(0)
        self._outbox.wake()

    def _require_open(self) -> None:
        """Whoever took this session's place has its account: nothing more may come from here."""
        if self._closed.done():
            why = "the session was closed while its Hello was read"
            raise self._closed.result() or CallError(Outcome.REPLACED, why)

    async def run(self, messages: Messages, send: Send) -> None:
        """Read and write until the stream ends, or raise the error that closed the session."""
        reader = asyncio.create_task(self._read(messages))
        writer = asyncio.create_task(self._write(send))
        try:
            waits: set[asyncio.Future[Any]] = {reader, writer, self._closed}
            await asyncio.wait(waits, return_when=asyncio.FIRST_COMPLETED)
            error = self._closed.result() if self._closed.done() else None
            if error is not None:
                raise error
            for task in (reader, writer):
                if task.done():
                    task.result()
        finally:
            for task in (reader, writer):
                task.cancel()
            await asyncio.gather(reader, writer, return_exceptions=True)

    def leave(self) -> None:
        """Take the engine out, unless another session has taken its place already."""
        self._pool.listeners.discard(self)
        self._pool.core.note_lost(self._early)
        if not self.is_replaced:
            self._engines.leave(self.facts.engine_id)

    @property
    def is_replaced(self) -> bool:
        """Whether a newer session of the same engine closed this one."""
        error = self._closed.result() if self._closed.done() else None
        return error is not None and error.outcome is Outcome.REPLACED

    async def _read(self, messages: Messages) -> None:
        async for message in messages:
            if not message.HasField("report"):
                self._pool.metrics.count(self._pool.metrics.dropped, self._pool.name, "message")
                continue
            clocks, metrics = self._pool.clocks, self._pool.metrics
            before_s = clocks.monotonic_s()
            facts = report_facts(
                message.report,
                engine_id=self.facts.engine_id,
                incarnation=self.facts.incarnation,
                now_s=before_s,
                early=self._early,
            )
            self._engines.report(facts)
            # Also a run that was open already: this engine has no tag of it.
            for order, _ in facts.new_runs:
                if order.run_id in self._pool.core:
                    self._outbox.change(order.run_id, before_s)
            took_s = clocks.monotonic_s() - before_s
            metrics.observe(metrics.decisions, "report", value=took_s)

    async def _write(self, send: Send) -> None:
        loop = asyncio.get_running_loop()
        sent_value = None
        while True:
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(_VALUE_EVERY_S):
                    await self._outbox.wait()
            if not self._outbox.has_news and self._pool.core.value == sent_value:
                continue
            sent_value = self._pool.core.value
            await send(self._directive())
            sent_s = loop.time()
            # What changes meanwhile goes together with the next directive.
            await asyncio.sleep(max(0.0, sent_s + _MIN_GAP_S - loop.time()))

    def _directive(self) -> engine_pb2.EngineDirective:
        pool = self._pool
        changed, ended = self._outbox.take(_MAX_TAGS)
        directive = engine_pb2.EngineDirective(
            tags=[convert.tag(pool.core.run(run_id)) for run_id in changed if run_id in pool.core],
            ended_run_ids=ended,
            virtual_time=convert.virtual_time(pool.core.value),
            total_weight=pool.core.total_weight / 1e9,
            default_cost_kvtt=pool.ladder.default_cost_kvtt,
        )
        if self._has_new_settings:
            self._has_new_settings = False
            directive.mode = (
                common_pb2.POOL_MODE_SHADOW if pool.is_shadow else common_pb2.POOL_MODE_ENFORCE
            )
            directive.weights.extend(
                engine_pb2.ApplicationWeight(application=name, weight=weight)
                for name, weight in pool.weights().items()
            )
        now_s = pool.clocks.monotonic_s()
        for changed_s in changed.values():
            pool.metrics.observe(pool.metrics.tag_latency, pool.name, value=now_s - changed_s)
        return directive


class EngineSessions:
    """All sessions, one for each engine; a newer one replaces the older."""

    def __init__(self) -> None:
        self._by_engine: dict[tuple[str, str], EngineSession] = {}
        self._num_unknown = 0

    def __len__(self) -> int:
        return len(self._by_engine)

    async def serve(
        self,
        messages: Messages,
        send: Send,
        find: Callable[[str], tuple[PoolService, PoolEngines]],
    ) -> None:
        """Run one session from its Hello to its end.

        ``find`` gives a pool by name. However it ends, the engine has left by then.

        Raises:
            CallError: the Hello is not acceptable, or the session was closed with an error.
        """
        hello = await self._read_hello(messages)
        facts = hello.facts
        pool, engines = find(facts.pool)
        for kind, number in hello.num_dropped.items():
            pool.metrics.count(pool.metrics.dropped, pool.name, kind, by=number)
        key = (pool.name, facts.engine_id)
        self._make_room(key, facts)
        session = EngineSession(pool, engines, facts)
        self._by_engine[key] = session
        log = _log.bind(pool=pool.name, engine=facts.engine_id, incarnation=facts.incarnation)
        try:
            await session.join(hello.known, hello.last_value)
            num_known = len(hello.known)
            log.info("engine joined", kv_tokens=facts.kv_capacity_tokens, known_runs=num_known)
            await session.run(messages, send)
        finally:
            session.leave()
            if self._by_engine.get(key) is session:
                del self._by_engine[key]
            log.info("engine left", is_replaced=session.is_replaced)

    async def _read_hello(self, messages: Messages) -> WholeHello:
        """Streams that are still to say who they are count as engines too."""
        if self._num_unknown + len(self._by_engine) >= 2 * MAX_ENGINES:
            raise CallError(Outcome.EXHAUSTED, f"the service has {MAX_ENGINES} engines, its limit")
        self._num_unknown += 1
        try:
            return await read_hello(messages)
        finally:
            self._num_unknown -= 1

    def _make_room(self, key: tuple[str, str], facts: EngineFacts) -> None:
        older = self._by_engine.get(key)
        if older is not None:
            why = "the same" if older.facts.incarnation == facts.incarnation else "another"
            older.close(
                CallError(
                    Outcome.REPLACED,
                    f"engine_id: {facts.engine_id!r} has a newer session of {why} incarnation",
                )
            )
            older.leave()
            return
        if len(self._by_engine) >= MAX_ENGINES:
            raise CallError(Outcome.EXHAUSTED, f"the service has {MAX_ENGINES} engines, its limit")

    def close_all(self, error: CallError | None = None) -> None:
        """End every session."""
        for session in list(self._by_engine.values()):
            session.close(error)
