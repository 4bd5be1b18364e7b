"""AdminService and EngineService: translate, check, call, translate."""

import asyncio
from collections.abc import AsyncIterator, Mapping
from typing import Final

from justitia.api.v1 import admin_pb2, admin_pb2_grpc, common_pb2, engine_pb2, engine_pb2_grpc
from justitia.core.errors import InvalidValueError
from justitia_scheduler import convert
from justitia_scheduler.answering import Context, answered
from justitia_scheduler.applications import Application, declare
from justitia_scheduler.limits import require_id
from justitia_scheduler.objectives import DEFAULT_FOR_S
from justitia_scheduler.pool_engines import PoolEngines
from justitia_scheduler.pools import PoolService
from justitia_scheduler.service import PoolParts, SchedulerService
from justitia_scheduler.store import SampleCounts

#: Applications that are shown before others have their turn: with full windows some 3 ms.
_LISTED_AT_ONCE: Final = 4


class AdminServicer(admin_pb2_grpc.AdminServiceServicer):
    """See admin.proto."""

    def __init__(self, service: SchedulerService) -> None:
        self._service = service
        self.metrics = service.metrics

    @answered
    async def ApplyApplication(
        self, request: admin_pb2.ApplyApplicationRequest, context: Context
    ) -> admin_pb2.Application:
        """Declare an application."""
        del context
        declared = _declared(request.application)
        parts = self._service.parts(request.application.pool, may_create=True)
        # For a new one this is the default one, which itself has samples before it is declared.
        before = parts.pool.application(declared.name)
        is_known = before.name == declared.name
        is_other_privacy = is_known and before.privacy is not declared.privacy
        if is_other_privacy:  # where that fails, nothing has changed yet
            await self._service.models.forget_prompts(parts, declared.name)
        parts.pool.apply_application(declared)
        if is_other_privacy:
            parts.pool.changes.blank(declared.name)
        await self._service.journal.committed()
        if is_other_privacy:  # of runs that ended meanwhile
            await self._service.models.forget_prompts(parts, declared.name)
        counts = await self._counts(parts, declared.name)
        return _application(parts, declared, _active_weight(parts.pool), counts)

    @answered
    async def DeleteApplication(
        self, request: admin_pb2.DeleteApplicationRequest, context: Context
    ) -> admin_pb2.DeleteApplicationResponse:
        """Remove an application; what is not there is gone already."""
        del context
        name = require_id("name", request.name)
        parts = self._service.parts(request.pool)
        parts.pool.delete_application(name)
        parts.pool.models.end(name)
        parts.predictor.deactivate(name)
        await self._service.journal.committed()
        return admin_pb2.DeleteApplicationResponse()

    @answered
    async def ListApplications(
        self, request: admin_pb2.ListApplicationsRequest, context: Context
    ) -> admin_pb2.ListApplicationsResponse:
        """Show all declared applications by name; at most ``limits.MAX_APPLICATIONS`` a pool."""
        del context
        if request.all_pools and request.pool:
            raise InvalidValueError("pool", f"must be empty with all_pools, got {request.pool!r}")
        if not request.all_pools:
            pools = [self._service.parts(request.pool)]
        else:
            pools = self._service.all_parts()
        shown: list[admin_pb2.Application] = []
        for parts in pools:
            counts = await self._counts(parts)
            active = _active_weight(parts.pool)
            for place, (_, declared) in enumerate(sorted(parts.pool.applications.items())):
                if place % _LISTED_AT_ONCE == 0:
                    await asyncio.sleep(0)
                shown.append(_application(parts, declared, active, counts))
        return admin_pb2.ListApplicationsResponse(applications=shown)

    async def _counts(self, parts: PoolParts, name: str = "") -> Mapping[str, SampleCounts]:
        store = self._service.store()
        return await self._service.journal.call(store.sample_counts, parts.pool.name, name)

    @answered
    async def DescribePool(
        self, request: admin_pb2.DescribePoolRequest, context: Context
    ) -> admin_pb2.Pool:
        """Show a pool."""
        del context
        return _pool(self._service.parts(request.pool))

    @answered
    async def SetPoolMode(
        self, request: admin_pb2.SetPoolModeRequest, context: Context
    ) -> admin_pb2.Pool:
        """Put the order in force, or only measure."""
        del context
        modes = (common_pb2.POOL_MODE_ENFORCE, common_pb2.POOL_MODE_SHADOW)
        if request.mode not in modes:
            raise InvalidValueError(
                "mode", f"must be POOL_MODE_ENFORCE or POOL_MODE_SHADOW, got {request.mode}"
            )
        parts = self._service.parts(request.pool)
        parts.pool.set_mode(is_shadow=request.mode == common_pb2.POOL_MODE_SHADOW)
        await self._service.journal.committed()
        return _pool(parts)


class EngineServicer(engine_pb2_grpc.EngineServiceServicer):
    """See engine.proto."""

    def __init__(self, service: SchedulerService) -> None:
        self._service = service
        self.metrics = service.metrics

    @answered
    async def Session(
        self, messages: AsyncIterator[engine_pb2.EngineMessage], context: Context
    ) -> None:
        """Serve one engine for as long as its stream lives."""
        await self._service.sessions.serve(messages, context.write, self._find)

    def _find(self, name: str) -> tuple[PoolService, PoolEngines]:
        parts = self._service.parts(name, may_create=True)
        return parts.pool, parts.engines


def _declared(message: admin_pb2.Application) -> Application:
    privacy = convert.privacy_from(message.privacy)
    if privacy is None:
        raise InvalidValueError("application.privacy", f"is unknown: {message.privacy}")
    has_fallback = message.HasField("fallback_cost_kvtt")
    has_for = message.HasField("objective_for_s")
    return declare(
        name=message.name,
        weight=message.weight,
        fallback_cost_kvtt=message.fallback_cost_kvtt if has_fallback else None,
        privacy=privacy,
        idle_timeout_s=message.idle_timeout_s,
        max_duration_s=message.max_duration_s,
        max_concurrent_runs=message.max_concurrent_runs,
        objective_max_ratio=message.objective_max_ratio,
        declared_by=message.declared_by,
        objective_for_s=message.objective_for_s if has_for else DEFAULT_FOR_S,
    )


def _active_weight(pool: PoolService) -> int:
    """Sum of the weights of the applications that have open runs, in nano-weights."""
    return sum(
        pool.application(name).weight for name, track in pool.tracks.items() if track.num_open
    )


def _application(
    parts: PoolParts, declared: Application, active: int, counts: Mapping[str, SampleCounts]
) -> admin_pb2.Application:
    track = parts.pool.track(declared.name)
    model = parts.predictor.models.get(declared.name)
    return convert.application(
        parts.pool.name,
        declared,
        track,
        weighted_share=declared.weight / active if track.num_open and active else 0.0,
        model_version="" if model is None else getattr(model, "version", ""),
        samples=counts.get(declared.name, SampleCounts()),
        verdict=parts.pool.objectives.verdict(declared.name),
        recent_ratio=parts.pool.objectives.ratio(declared.name),
        watched=parts.pool.models.of(declared.name),
    )


def _pool(parts: PoolParts) -> admin_pb2.Pool:
    pool = parts.pool
    core = pool.core
    return admin_pb2.Pool(
        name=pool.name,
        mode=common_pb2.POOL_MODE_SHADOW if pool.is_shadow else common_pb2.POOL_MODE_ENFORCE,
        virtual_time=convert.virtual_time(core.value),
        total_weight=core.total_weight / 1e9,
        open_runs=len(core),
        waiting_runs=pool.num_waiting_runs,
        useful_kvtt=core.useful_kvtt,
        wasted_kvtt=core.wasted_kvtt,
        engines=_engines(parts),
        clock=core.clock,
    )


def _engines(parts: PoolParts) -> list[admin_pb2.Engine]:
    shown = []
    for account in parts.pool.core.engines():
        state = parts.engines.states.get(account.engine_id)
        if state is None:
            continue
        facts = state.facts
        shown.append(
            admin_pb2.Engine(
                engine_id=account.engine_id,
                incarnation=account.incarnation,
                kv_capacity_tokens=account.kv_capacity_tokens,
                kv_used_tokens=account.kv_used_tokens,
                steps=account.steps,
                vllm_version=facts.vllm_version,
                plugin_version=facts.plugin_version,
                policy=facts.policy,
                model=facts.model,
                num_waiting=state.num_waiting,
                num_running=state.num_running,
                preemptions=state.preemptions,
            )
        )
    return shown
