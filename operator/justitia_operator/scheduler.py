"""The scheduler service's side: what it holds, as facts, and the calls that change it.

The view is what the last listing and the answers since then said. It decides nothing that could not
be decided again: whatever is wrong in it, the next comparison puts right.
"""

import asyncio
from collections.abc import Callable, Mapping
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, Literal, TypeAlias

from justitia.api.v1 import (
    admin_pb2,
    admin_pb2_grpc,
    common_pb2,
    training_pb2,
    training_pb2_grpc,
)
from justitia.client.connection import (
    SchedulerError,
    TlsFiles,
    UnreachableError,
    open_channel,
    told,
)
from justitia.core.privacy import Privacy
from justitia.privacy_codes import PRIVACY_BY_CODE, PRIVACY_CODES
from justitia_operator.facts import (
    Declared,
    Figures,
    Key,
    ModelFacts,
    PoolState,
    Program,
    Reach,
)
from justitia_operator.program import Slot

if TYPE_CHECKING:
    from google.protobuf.timestamp_pb2 import Timestamp

_TIMEOUT_S: Final = 10.0
_LAST_CALLS_S: Final = _TIMEOUT_S + 5.0
#: An outage shorter than this changes no condition: a restart of the service is one.
GRACE_S: Final = 30.0
_NOT_ANSWERED: Final = ("UNAVAILABLE", "DEADLINE_EXCEEDED", "CANCELLED", "UNKNOWN")

_Moment: TypeAlias = Literal["newest_sample_at", "newest_third_from"]

_SOURCES: Final = {
    common_pb2.ESTIMATE_SOURCE_CLIENT: "Client",
    common_pb2.ESTIMATE_SOURCE_MODEL: "Model",
    common_pb2.ESTIMATE_SOURCE_HISTORY: "History",
    common_pb2.ESTIMATE_SOURCE_POOL: "Pool",
    common_pb2.ESTIMATE_SOURCE_DEFAULT: "Default",
}
_VERDICTS: Final = {
    admin_pb2.OBJECTIVE_VERDICT_NO_OBJECTIVE: "no_objective",
    admin_pb2.OBJECTIVE_VERDICT_TOO_FEW_RUNS: "too_few_runs",
    admin_pb2.OBJECTIVE_VERDICT_MET: "met",
    admin_pb2.OBJECTIVE_VERDICT_MISSED: "missed",
}


class RefusedError(Exception):
    """The service answered, and refused; the message is its own."""


class AwayError(Exception):
    """The service did not answer."""


class View:
    """What the service holds. ``models`` are the active ones."""

    def __init__(
        self,
        held: Mapping[Slot, Declared],
        pools: dict[str, PoolState],
        models: dict[Slot, ModelFacts],
    ) -> None:
        self.held: dict[Slot, Declared] = {}
        self.pools = pools
        self.models = models
        self._by_resource: dict[str, set[Slot]] = {}
        for slot, declared in held.items():
            self.put(slot, declared)

    def put(self, slot: Slot, declared: Declared) -> None:
        """Note what the service holds at a place."""
        self.drop(slot)
        self.held[slot] = declared
        self._by_resource.setdefault(_resource(declared), set()).add(slot)

    def drop(self, slot: Slot) -> None:
        """Note that it holds nothing there."""
        before = self.held.pop(slot, None)
        if before is not None:
            self._by_resource[_resource(before)].discard(slot)

    def slots_of(self, owner: str, key: Key) -> list[Slot]:
        """Find what it holds under an owner's mark for a namespace and name, whatever the uid."""
        return sorted(self._by_resource.get(f"{owner}:{key}", ()))


class SchedulerLink:
    """Calls of one scheduler service. ``now_s`` is a monotonic clock."""

    def __init__(self, address: str, tls: TlsFiles | None, *, now_s: Callable[[], float]) -> None:
        self.address = address
        self._tls = tls
        self._now_s = now_s
        # An operator that starts while the service is away does not know how long that has been.
        self._answered_s = now_s()
        self._is_away = True
        self._channel: Any = None
        #: Ends of former channels, whose calls were under way when a certificate was renewed.
        self._endings: set[asyncio.Task[None]] = set()
        self._stamps: tuple[object, ...] = ()
        self.view: View | None = None
        #: When the listing that made the view was begun.
        self.loaded_s = float("-inf")

    @property
    def reach(self) -> Reach:
        """Whether the service answers, or has answered a moment ago."""
        if not self._is_away:
            return Reach.YES
        is_new = self._now_s() - self._answered_s < GRACE_S
        return Reach.BRIEFLY_NOT if is_new else Reach.NO

    async def close(self) -> None:
        """Close the connection; calls under way are cancelled."""
        channel, self._channel = self._channel, None
        if channel is not None:
            await channel.close()
        for ending in self._endings:
            ending.cancel()
        await asyncio.gather(*self._endings, return_exceptions=True)

    # -- reading -----------------------------------------------------------------------------------

    async def load(self) -> View:
        """List everything anew.

        Raises:
            AwayError: the service does not answer.
            RefusedError: it refuses to list.
        """
        begun_s = self._now_s()
        request = admin_pb2.ListApplicationsRequest(all_pools=True)
        answer = await self._admin("ListApplications", request)
        held = {Slot(item.pool, item.name): read_declared(item) for item in answer.applications}
        names = sorted({slot.pool for slot in held})
        pools = dict(zip(names, await asyncio.gather(*map(self._pool, names)), strict=True))
        before = {} if self.view is None else self.view.models
        models = await self._models(held, before)
        self.view = View(held, pools, models)
        self.loaded_s = begun_s
        return self.view

    async def describe(self, pool: str) -> PoolState:
        """Look at one pool."""
        state = await self._pool(pool)
        if self.view is not None:
            self.view.pools[pool] = state
        return state

    async def _pool(self, name: str) -> PoolState:
        return _read_pool(
            await self._admin("DescribePool", admin_pb2.DescribePoolRequest(pool=name))
        )

    async def _models(
        self, held: Mapping[Slot, Declared], before: Mapping[Slot, ModelFacts]
    ) -> dict[Slot, ModelFacts]:
        """Learn of models that were published since the last time; one call for each pool."""
        wanted = {s: d.figures.model_version for s, d in held.items() if d.figures.model_version}
        known = {s: before[s] for s, v in wanted.items() if s in before and before[s].version == v}
        for pool in sorted({slot.pool for slot in wanted if slot not in known}):
            request = training_pb2.ListModelsRequest(pool=pool)
            answer = await self._call(training_pb2_grpc.TrainingServiceStub, "ListModels", request)
            for model in answer.models:
                if model.is_active:
                    known[Slot(pool, model.application)] = _read_model(model)
        return known

    # -- changing ----------------------------------------------------------------------------------

    async def apply(self, program: Program) -> Declared:
        """Declare an application or change what was declared."""
        request = admin_pb2.ApplyApplicationRequest(application=build_application(program))
        answer = read_declared(await self._admin("ApplyApplication", request))
        if self.view is not None:
            self.view.put(Slot(program.pool, program.name), answer)
        return answer

    async def delete(self, slot: Slot) -> None:
        """Remove an application; what is not there is gone already."""
        request = admin_pb2.DeleteApplicationRequest(pool=slot.pool, name=slot.name)
        await self._admin("DeleteApplication", request)
        if self.view is not None:
            self.view.drop(slot)
            self.view.models.pop(slot, None)

    async def set_mode(self, pool: str, *, is_shadow: bool) -> None:
        """Put a pool's order in force, or only have it computed."""
        mode = common_pb2.POOL_MODE_SHADOW if is_shadow else common_pb2.POOL_MODE_ENFORCE
        answer = await self._admin(
            "SetPoolMode", admin_pb2.SetPoolModeRequest(pool=pool, mode=mode)
        )
        if self.view is not None:
            self.view.pools[pool] = _read_pool(answer)

    # -- the connection ----------------------------------------------------------------------------

    async def _admin(self, method: str, request: object) -> Any:
        return await self._call(admin_pb2_grpc.AdminServiceStub, method, request)

    async def _call(self, stub: Any, method: str, request: object) -> Any:
        try:
            channel = self._connected()
            with told(self.address):
                answer = await getattr(stub(channel), method)(request, timeout=_TIMEOUT_S)
        except SchedulerError as error:
            if isinstance(error, UnreachableError) or error.code in (
                *_NOT_ANSWERED,
                "BAD_TLS_FILE",
            ):
                self._is_away = True
                raise AwayError(str(error)) from error
            self._note_answer()
            raise RefusedError(str(error)) from error
        self._note_answer()
        return answer

    def _note_answer(self) -> None:
        self._is_away = False
        self._answered_s = self._now_s()

    def _connected(self) -> Any:
        """Keep one channel, made anew when a certificate was renewed."""
        stamps = _stamps(self._tls)
        if self._channel is None or stamps != self._stamps:
            former = self._channel
            self._channel = open_channel(self.address, self._tls, is_async=True)
            self._stamps = stamps
            if former is not None:
                # Closed at once, gRPC would cancel the tasks that wait for its calls.
                ending = asyncio.create_task(_close_after_calls(former))
                self._endings.add(ending)
                ending.add_done_callback(self._endings.discard)
        return self._channel


async def _close_after_calls(channel: Any) -> None:
    """Close a channel when its calls must have ended, or when this is cancelled."""
    try:
        await asyncio.sleep(_LAST_CALLS_S)
    finally:
        await channel.close()


def _resource(declared: Declared) -> str:
    """Read a mark without the uid."""
    return declared.program.declared_by.partition("#")[0]


def _stamps(tls: TlsFiles | None) -> tuple[object, ...]:
    files = () if tls is None else (tls.ca, tls.cert, tls.key)
    return tuple(_stamp(file) for file in files if file is not None)


def _stamp(file: Path) -> object:
    try:
        found = file.stat()
    except OSError:
        return None
    return (found.st_mtime_ns, found.st_ino, found.st_size)


# -- messages --------------------------------------------------------------------------------------


def build_application(program: Program) -> admin_pb2.Application:
    """Write a program as the service reads it."""
    has_objective = program.objective_max_ratio > 0
    return admin_pb2.Application(
        name=program.name,
        pool=program.pool,
        declared_by=program.declared_by,
        weight=program.weight,
        fallback_cost_kvtt=program.fallback_cost_kvtt,
        privacy=PRIVACY_CODES[Privacy(program.privacy)],
        idle_timeout_s=program.idle_timeout_s,
        max_duration_s=program.max_duration_s,
        max_concurrent_runs=program.max_concurrent_runs,
        objective_max_ratio=program.objective_max_ratio,
        objective_for_s=program.objective_for_s if has_objective else None,
    )


def read_declared(message: admin_pb2.Application) -> Declared:
    """Read what the service holds of an application."""
    has_fallback = message.HasField("fallback_cost_kvtt")
    program = Program(
        pool=message.pool,
        name=message.name,
        declared_by=message.declared_by,
        weight=message.weight,
        fallback_cost_kvtt=message.fallback_cost_kvtt if has_fallback else None,
        privacy=PRIVACY_BY_CODE.get(message.privacy, ""),
        idle_timeout_s=message.idle_timeout_s,
        max_duration_s=message.max_duration_s,
        max_concurrent_runs=message.max_concurrent_runs,
        objective_max_ratio=message.objective_max_ratio,
        objective_for_s=message.objective_for_s,
    )
    return Declared(program=program, figures=_read_figures(message.status))


def _read_figures(status: admin_pb2.ApplicationStatus) -> Figures:
    return Figures(
        active_runs=status.active_runs,
        completed_runs=status.completed_runs,
        weighted_share=status.weighted_share,
        ratio_p50=status.fairness_ratio_p50,
        ratio_p99=status.fairness_ratio_p99,
        jct_mean_s=status.jct_mean_s,
        jct_p90_s=status.jct_p90_s,
        prediction_source=_SOURCES.get(status.prediction_source, ""),
        model_version=status.model_version,
        relative_error=status.prediction_relative_error,
        model_relative_error=status.model_relative_error,
        model_judged_runs=status.model_judged_runs,
        samples=status.samples,
        samples_since_model=status.samples_since_model,
        newest_sample_at=_read_moment(status, "newest_sample_at"),
        newest_third_from=_read_moment(status, "newest_third_from"),
        verdict=_VERDICTS.get(status.objective_verdict, ""),
        ratio_recent=status.fairness_ratio_recent_p90,
    )


def _read_moment(status: admin_pb2.ApplicationStatus, name: _Moment) -> datetime | None:
    stamp: Timestamp = getattr(status, name)
    return stamp.ToDatetime(UTC) if status.HasField(name) else None


def _read_pool(message: admin_pb2.Pool) -> PoolState:
    return PoolState(
        is_shadow=message.mode == common_pb2.POOL_MODE_SHADOW,
        policies={engine.engine_id: engine.policy for engine in message.engines},
    )


def _read_model(message: training_pb2.Model) -> ModelFacts:
    return ModelFacts(
        version=message.version,
        published_at=message.published_at.ToDatetime().strftime("%Y-%m-%dT%H:%M:%SZ"),
        samples=message.samples,
        relative_error=message.relative_error,
    )
