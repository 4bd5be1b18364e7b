"""TrainingService: translate, check, call, translate."""

from collections.abc import AsyncIterator
from typing import Final

from justitia.api.v1 import training_pb2, training_pb2_grpc
from justitia.core.errors import InvalidValueError
from justitia.core.limits import MAX_ARTEFACT_BYTES
from justitia_scheduler import convert
from justitia_scheduler.answering import Context, answered, streamed
from justitia_scheduler.limits import require_id
from justitia_scheduler.outcomes import CallError, Outcome
from justitia_scheduler.service import SchedulerService
from justitia_scheduler.store import ModelRow

#: Samples of one read: at most 1 MiB of prompt each.
_PAGE: Final = 50


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
        """Store a model and make it the active one."""
        del context
        application = require_id("application", request.application)
        if not 1 <= len(request.artefact) <= MAX_ARTEFACT_BYTES:
            raise InvalidValueError(
                "artefact",
                f"must have 1 to {MAX_ARTEFACT_BYTES} bytes, got {len(request.artefact)}",
            )
        parts = self._service.parts(request.pool)
        if application not in parts.pool.applications:
            raise CallError(
                Outcome.NOT_FOUND,
                f"application: {application!r} is not declared in pool {parts.pool.name!r};"
                " declare it with `justitia apply`",
            )
        row = await self._service.publish_model(parts, application, request.artefact)
        return convert.model(row)

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
        return await self._service.models(name, application, has_artefacts=has_artefacts)
