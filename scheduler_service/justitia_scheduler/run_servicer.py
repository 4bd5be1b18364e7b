"""RunService: translate, check, call, translate."""

import asyncio
import heapq
from typing import Final

from justitia.api.v1 import run_pb2, run_pb2_grpc
from justitia.core.errors import InvalidValueError
from justitia.core.estimates import require_cost_kvtt
from justitia.core.units import Ticks
from justitia_scheduler import convert
from justitia_scheduler.answering import Context, answered
from justitia_scheduler.limits import (
    page_size,
    parse_ticks,
    require_hashed,
    require_id,
    require_prompt,
)
from justitia_scheduler.pools import PoolService
from justitia_scheduler.run_facts import RunOrder
from justitia_scheduler.run_messages import run_message
from justitia_scheduler.service import SchedulerService, new_run_id

#: Runs that are looked at before others get their turn.
_SLICE: Final = 500


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
        return run_message(parts.pool, order.run_id)

    @answered
    async def EndRun(self, request: run_pb2.EndRunRequest, context: Context) -> run_pb2.Run:
        """Close a run."""
        del context
        run_id = require_id("run_id", request.run_id)
        parts = self._service.parts_with(request.pool, run_id)
        ended = await self._service.end_run(parts, run_id)
        return convert.ended_run(parts.pool.name, ended)

    @answered
    async def GetRun(self, request: run_pb2.GetRunRequest, context: Context) -> run_pb2.Run:
        """Look at a run that is open, or ended not long ago."""
        del context
        run_id = require_id("run_id", request.run_id)
        return run_message(self._service.parts_with(request.pool, run_id).pool, run_id)

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
        runs = [run_message(pool, run_id) for _, _, run_id in keys[:size] if run_id in pool.core]
        token = f"{keys[size - 1][0]}.{keys[size - 1][1]}" if len(keys) > size else ""
        return run_pb2.ListRunsResponse(runs=runs, next_page_token=token)

    @answered
    async def ExplainRun(
        self, request: run_pb2.ExplainRunRequest, context: Context
    ) -> run_pb2.ExplainRunResponse:
        """Say why a run waits."""
        del context
        run_id = require_id("run_id", request.run_id)
        pool = self._service.parts_with(request.pool, run_id).pool
        if run_id not in pool.core and run_id in pool.ended:
            run = run_message(pool, run_id)
            return run_pb2.ExplainRunResponse(run=run, reason="the run is over")
        explanation = pool.core.explain(run_id)
        ahead = [run_message(pool, view.run_id) for view in explanation.ahead]
        return convert.explanation(run_message(pool, run_id), ahead, explanation)

    @answered
    async def WatchRuns(self, request: run_pb2.WatchRunsRequest, context: Context) -> None:
        """Send what is open, then every change; what changes often is told at its latest state."""
        pool = self._service.parts(request.pool).pool
        await self._service.watchers.serve(pool, request.application, context.write)


def _order(request: run_pb2.StartRunRequest) -> RunOrder:
    cost_kvtt = request.cost_kvtt if request.HasField("cost_kvtt") else None
    if cost_kvtt is not None:
        require_cost_kvtt("cost_kvtt", cost_kvtt)
    return RunOrder(
        run_id=require_id("run_id", request.run_id) if request.run_id else new_run_id(),
        application=require_id("application", request.application) if request.application else "",
        prompt_text=require_prompt("prompt_text", request.prompt_text),
        hashed_prompt=require_hashed("hashed_prompt", request.hashed_prompt),
        prompt_chars=max(0, request.prompt_chars),
        client_kvtt=cost_kvtt,
    )


def _position(token: str) -> tuple[Ticks, int]:
    if not token:
        return Ticks(-1), -1
    finish, _, sequence = token.partition(".")
    is_number = sequence.isascii() and sequence.isdigit()
    if not is_number or len(sequence) > len(str(2**64)):
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
