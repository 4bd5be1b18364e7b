"""RunService: translate, check, call, translate."""

import asyncio
import heapq
from collections.abc import AsyncIterator
from typing import Final

from justitia.api.v1 import run_pb2, run_pb2_grpc
from justitia.core.errors import InvalidValueError, UnknownRunError
from justitia.core.estimates import require_cost_kvtt
from justitia.core.units import Ticks
from justitia_scheduler import convert
from justitia_scheduler.answering import Context, answered, streamed
from justitia_scheduler.limits import page_size, parse_ticks, require_id, require_prompt
from justitia_scheduler.outbox import Outbox
from justitia_scheduler.outcomes import CallError, Outcome
from justitia_scheduler.pools import PoolService
from justitia_scheduler.run_facts import RunOrder
from justitia_scheduler.service import SchedulerService, new_run_id

#: Runs that are looked at before others get their turn.
_SLICE: Final = 500
#: A watcher is told at most this often.
_WATCH_GAP_S: Final = 0.1


class RunServicer(run_pb2_grpc.RunServiceServicer):
    """See run.proto."""

    def __init__(self, service: SchedulerService) -> None:
        self._service = service
        self.metrics = service.metrics

    @answered
    async def StartRun(self, request: run_pb2.StartRunRequest, context: Context) -> run_pb2.Run:
        """Open a run."""
        del context
        order = _order(request)
        parts = self._service.parts_of(request.pool, order.application)
        await self._service.start_run(parts, order)
        return _run(parts.pool, order.run_id)

    @answered
    async def EndRun(self, request: run_pb2.EndRunRequest, context: Context) -> run_pb2.Run:
        """Close a run."""
        del context
        parts = self._service.parts(request.pool)
        run_id = require_id("run_id", request.run_id)
        ended = await self._service.end_run(parts, run_id)
        return convert.ended_run(parts.pool.name, ended)

    @answered
    async def GetRun(self, request: run_pb2.GetRunRequest, context: Context) -> run_pb2.Run:
        """Look at a run that is open, or ended not long ago."""
        del context
        return _run(self._service.parts(request.pool).pool, require_id("run_id", request.run_id))

    @answered
    async def ListRuns(
        self, request: run_pb2.ListRunsRequest, context: Context
    ) -> run_pb2.ListRunsResponse:
        """Show a page of open runs."""
        del context
        pool = self._service.parts(request.pool).pool
        size = page_size("page_size", request.page_size)
        after = _position(request.page_token)
        # One more than the page says whether there is a next one.
        keys = await _first_keys(pool, request.application, after, size + 1)
        runs = [_run(pool, run_id) for _, _, run_id in keys[:size] if run_id in pool.core]
        token = f"{keys[size - 1][0]}.{keys[size - 1][1]}" if len(keys) > size else ""
        return run_pb2.ListRunsResponse(runs=runs, next_page_token=token)

    @answered
    async def ExplainRun(
        self, request: run_pb2.ExplainRunRequest, context: Context
    ) -> run_pb2.ExplainRunResponse:
        """Say why a run waits."""
        del context
        pool = self._service.parts(request.pool).pool
        run_id = require_id("run_id", request.run_id)
        if run_id not in pool.core and run_id in pool.ended:
            run = _run(pool, run_id)
            return run_pb2.ExplainRunResponse(run=run, reason="the run is over")
        explanation = pool.core.explain(run_id)
        ahead = [_run(pool, view.run_id) for view in explanation.ahead]
        return convert.explanation(_run(pool, run_id), ahead, explanation)

    @streamed
    async def WatchRuns(
        self, request: run_pb2.WatchRunsRequest, context: Context
    ) -> AsyncIterator[run_pb2.RunEvent]:
        """Send what is open, then every change; what changes often is told at its latest state."""
        del context
        pool = self._service.parts(request.pool).pool
        watcher = _Watcher(pool, request.application)
        pool.listeners.add(watcher)
        try:
            async for event in watcher.events(self._service):
                yield event
        finally:
            pool.listeners.discard(watcher)


class _Watcher:
    """One reader of WatchRuns."""

    def __init__(self, pool: PoolService, application: str) -> None:
        self._pool = pool
        self._application = application
        self._outbox = Outbox()

    def run_changed(self, run_id: str, *, has_new_tag: bool) -> None:
        """Note a change."""
        del has_new_tag
        self._outbox.change(run_id, 0.0)

    def run_ended(self, run_id: str) -> None:
        """Note an end."""
        self._outbox.end(run_id)

    def settings_changed(self) -> None:
        """Nothing of a run changed."""

    async def events(self, service: SchedulerService) -> AsyncIterator[run_pb2.RunEvent]:
        """Yield events for as long as the reader keeps up and the service lives."""
        kinds = run_pb2.RunEvent
        run_ids = list(self._pool.facts)
        for index, run_id in enumerate(run_ids):
            if index % _SLICE == 0:
                await asyncio.sleep(0)
            if run_id in self._pool.core and self._is_wanted(run_id):
                yield kinds(type=kinds.TYPE_OPEN, run=_run(self._pool, run_id))
        yield kinds(type=kinds.TYPE_SYNCED)
        known = set(run_ids)
        while not service.is_stopping:
            try:
                async with asyncio.timeout(1):
                    await self._outbox.wait()
            except TimeoutError:
                continue
            if self._outbox.is_overfull:
                raise CallError(Outcome.EXHAUSTED, "the reader is too slow; start again")
            changed, ended = self._outbox.take(_SLICE)
            for run_id in (run_id for run_id in changed if self._is_wanted(run_id)):
                is_new = run_id not in known
                known.add(run_id)
                kind = kinds.TYPE_OPEN if is_new else kinds.TYPE_CHANGED
                yield kinds(type=kind, run=_run(self._pool, run_id))
            for run_id in ended:
                known.discard(run_id)
                if self._is_wanted(run_id):
                    yield kinds(type=kinds.TYPE_ENDED, run=_run(self._pool, run_id))
            await asyncio.sleep(_WATCH_GAP_S)

    def _is_wanted(self, run_id: str) -> bool:
        if run_id in self._pool.core:
            application = self._pool.core.run(run_id).application
        else:
            ended = self._pool.ended.get(run_id)
            if ended is None:
                return False
            application = ended.application
        return self._application in ("", application)


def _order(request: run_pb2.StartRunRequest) -> RunOrder:
    cost_kvtt = request.cost_kvtt if request.HasField("cost_kvtt") else None
    if cost_kvtt is not None:
        require_cost_kvtt("cost_kvtt", cost_kvtt)
    return RunOrder(
        run_id=require_id("run_id", request.run_id) if request.run_id else new_run_id(),
        application=require_id("application", request.application) if request.application else "",
        prompt_text=require_prompt(request.prompt_text),
        client_kvtt=cost_kvtt,
    )


def _run(pool: PoolService, run_id: str) -> run_pb2.Run:
    facts = pool.facts.get(run_id)
    if facts is not None:
        return convert.open_run(pool.name, pool.core.run(run_id), facts.arrived_wall_s)
    ended = pool.ended.get(run_id)
    if ended is None:
        raise UnknownRunError(run_id)
    return convert.ended_run(pool.name, ended)


def _position(token: str) -> tuple[Ticks, int]:
    if not token:
        return Ticks(-1), -1
    finish, _, sequence = token.partition(".")
    if not sequence.isdigit() or len(sequence) > len(str(2**64)):
        raise InvalidValueError("page_token", f"is not one of ours: {token[:40]!r}")
    return parse_ticks("page_token", finish), int(sequence)


async def _first_keys(
    pool: PoolService, application: str, after: tuple[Ticks, int], most: int
) -> list[tuple[Ticks, int, str]]:
    """Find the first runs behind a position in the order of service. O(n log page), in slices."""
    best: list[tuple[Ticks, int, str]] = []
    run_ids = list(pool.facts)
    for first in range(0, len(run_ids), _SLICE):
        views = [
            pool.core.run(run_id)
            for run_id in run_ids[first : first + _SLICE]
            if run_id in pool.core
        ]
        keys = [
            (view.finish, view.sequence, view.run_id)
            for view in views
            if (view.finish, view.sequence) > after and application in ("", view.application)
        ]
        best = heapq.nsmallest(most, [*best, *keys])
        await asyncio.sleep(0)
    return best
