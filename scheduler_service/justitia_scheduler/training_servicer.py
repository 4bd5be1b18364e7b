"""TrainingService: translate, check, call, translate."""

from collections.abc import AsyncIterator, Sequence
from typing import Final, TypeAlias

from justitia.api.v1 import training_pb2, training_pb2_grpc
from justitia.core.errors import InvalidValueError
from justitia.core.limits import MAX_ARTEFACT_BYTES
from justitia.predictor.artefact_checks import COST_RANGE_KVTT, PREDICTED_RANGE_KVTT
from justitia_scheduler import convert
from justitia_scheduler.answering import Context, answered, streamed
from justitia_scheduler.limits import MAX_HELD_OUT, require_id
from justitia_scheduler.model_evidence import HeldOut
from justitia_scheduler.model_keeper import Publication
from justitia_scheduler.outcomes import CallError, Outcome
from justitia_scheduler.service import PoolParts, SchedulerService
from justitia_scheduler.store import ModelRow

#: Samples of one read: at most 1 MiB of prompt each.
_PAGE: Final = 50

_HELD_OUT_RANGES: Final = {"cost_kvtt": COST_RANGE_KVTT, "predicted_kvtt": PREDICTED_RANGE_KVTT}

OfApplication: TypeAlias = (
    training_pb2.PublishModelRequest
    | training_pb2.ActivateModelRequest
    | training_pb2.DeactivateModelRequest
)


class TrainingServicer(training_pb2_grpc.TrainingServiceServicer):
    """See training.proto."""

    def __init__(self, service: SchedulerService) -> None:
        self._service = service
        self.metrics = service.metrics

    @streamed
    async def ExportSamples(
        self, request: training_pb2.ExportSamplesRequest, context: Context
    ) -> AsyncIterator[training_pb2.Sample]:
        """Send recorded runs, oldest first."""
        del context
        if request.max_samples < 0:
            raise InvalidValueError("max_samples", f"must be >= 0, got {request.max_samples}")
        pool = self._service.parts(request.pool).pool.name
        await self._service.journal.committed()
        store, left, after = self._service.store(), request.max_samples, 0
        while True:
            limit = min(_PAGE, left) if request.max_samples else _PAGE
            page = await self._service.journal.call(
                store.samples, pool, request.application, after=after, limit=limit
            )
            for serial, row in page:
                after = serial
                yield convert.sample(row)
            left -= len(page)
            if len(page) < limit or (request.max_samples and left <= 0):
                return

    @answered
    async def PublishModel(
        self, request: training_pb2.PublishModelRequest, context: Context
    ) -> training_pb2.Model:
        """Store a model, and make it the active one unless it is worse."""
        application = require_id("application", request.application)
        if not 1 <= len(request.artefact) <= MAX_ARTEFACT_BYTES:
            raise InvalidValueError(
                "artefact",
                f"must have 1 to {MAX_ARTEFACT_BYTES} bytes, got {len(request.artefact)}",
            )
        activation = convert.activation_from(request.activation)
        if activation is None:
            raise InvalidValueError("activation", f"is unknown: {request.activation}")
        publication = Publication(
            application=application,
            artefact=request.artefact,
            activation=activation,
            held_out=_held_out(request.held_out),
            caller=context.peer(),
        )
        row = await self._service.models.publish(self._declaring(request), publication)
        return convert.model(row)

    @answered
    async def ActivateModel(
        self, request: training_pb2.ActivateModelRequest, context: Context
    ) -> training_pb2.Model:
        """Make a stored model the active one."""
        row = await self._service.models.activate(
            self._declaring(request),
            request.application,
            request.version,
            caller=context.peer(),
        )
        return convert.model(row)

    @answered
    async def DeactivateModel(
        self, request: training_pb2.DeactivateModelRequest, context: Context
    ) -> training_pb2.DeactivateModelResponse:
        """Leave an application without an active model."""
        row = await self._service.models.deactivate(
            self._declaring(request), request.application, caller=context.peer()
        )
        return training_pb2.DeactivateModelResponse(version="" if row is None else row.version)

    def _declaring(self, request: OfApplication) -> PoolParts:
        """Find the pool that declares the application of a call."""
        application = require_id("application", request.application)
        parts = self._service.parts(request.pool)
        if application not in parts.pool.applications:
            raise CallError(
                Outcome.NOT_FOUND,
                f"application: {application!r} is not declared in pool {parts.pool.name!r};"
                " declare it with `justitia apply`",
            )
        return parts

    @answered
    async def GetModel(
        self, request: training_pb2.GetModelRequest, context: Context
    ) -> training_pb2.GetModelResponse:
        """Give a model with its artefact."""
        del context
        application = require_id("application", request.application)
        rows = await self._rows(request.pool, application, has_artefacts=True)
        wanted = [
            row
            for row in rows
            if (row.version == request.version if request.version else row.is_active)
        ]
        if not wanted:
            which = repr(request.version) if request.version else "that is active"
            raise CallError(Outcome.NOT_FOUND, f"version: {application!r} has no model {which}")
        row = wanted[0]
        return training_pb2.GetModelResponse(model=convert.model(row), artefact=row.artefact)

    @answered
    async def ListModels(
        self, request: training_pb2.ListModelsRequest, context: Context
    ) -> training_pb2.ListModelsResponse:
        """Show the stored models, oldest first."""
        del context
        rows = await self._rows(request.pool, request.application)
        return training_pb2.ListModelsResponse(models=[convert.model(row) for row in rows])

    async def _rows(
        self, pool: str, application: str, *, has_artefacts: bool = False
    ) -> list[ModelRow]:
        name = self._service.parts(pool).pool.name
        return await self._service.models.stored(name, application, has_artefacts=has_artefacts)


def _held_out(runs: Sequence[training_pb2.HeldOutRun]) -> list[HeldOut]:
    if len(runs) > MAX_HELD_OUT:
        raise InvalidValueError("held_out", f"must have at most {MAX_HELD_OUT}, got {len(runs)}")
    for index, run in enumerate(runs):
        for name, (lowest, highest) in _HELD_OUT_RANGES.items():
            if not lowest <= (value := getattr(run, name)) <= highest:  # also for NaN
                raise InvalidValueError(
                    f"held_out[{index}].{name}",
                    f"must be from {lowest:g} to {highest:g}, got {value!r}",
                )
    return [convert.held_out_from(run) for run in runs]
