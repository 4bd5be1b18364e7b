"""Models of all pools: published, judged, made active, taken back, restored.

One change at a time: two trainings that end together are judged one after the other, the second
against what the first has left active. Every change of what is active is a line of the log.
"""

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Final

import structlog

from justitia.core.errors import InvalidValueError
from justitia.predictor import artefact as artefacts
from justitia.predictor.model import TrainedModel
from justitia_scheduler.applications import Application
from justitia_scheduler.clocks import Clocks
from justitia_scheduler.journal import Journal
from justitia_scheduler.limits import MAX_MODELS_PER_APPLICATION
from justitia_scheduler.metrics import Metrics
from justitia_scheduler.model_evidence import Evidence, HeldOut
from justitia_scheduler.model_gate import (
    Activation,
    GateFacts,
    Verdict,
    against_the_mean,
    decide,
)
from justitia_scheduler.outcomes import CallError, Outcome
from justitia_scheduler.prompt_use import require_model_allowed
from justitia_scheduler.store import ModelRow, Store, WriteError

if TYPE_CHECKING:
    from justitia_scheduler.service import PoolParts

#: Newest samples that a model is tried on, a page at a time: prompts have up to 1 MiB each.
_MAX_TRIED: Final = 400
_PAGE: Final = 50
_NEWEST: Final = 2**62
_MIN_VERSION_CHARS: Final = 8

_log = structlog.get_logger()


@dataclass(frozen=True, kw_only=True, slots=True)
class Publication:
    """A model as it comes in. ``caller``: who sent it, for the log."""

    application: str
    artefact: bytes
    activation: Activation = Activation.UNLESS_WORSE
    held_out: Sequence[HeldOut] = ()
    caller: str = ""


class ModelKeeper:
    """See the module. Called from the event loop; whatever computes or writes is off it."""

    def __init__(self, store: Store, journal: Journal, clocks: Clocks, metrics: Metrics) -> None:
        self._store = store
        self._journal = journal
        self._clocks = clocks
        self._metrics = metrics
        self._lock = asyncio.Lock()

    async def publish(self, parts: "PoolParts", publication: Publication) -> ModelRow:
        """Check a model, judge it, store it, and make it active unless it is worse.

        One that is the active model already stays as it is, with all that is known of it.

        Raises:
            ArtefactError: it is damaged, another application's, or does not answer its own test.
            CallError: the store refuses it.
        """
        application = publication.application
        model = await asyncio.to_thread(
            artefacts.from_bytes, publication.artefact, application=application
        )
        async with self._lock:
            # An older model of a deleted application of this name goes before this one comes.
            await self._journal.committed()
            active = await self._in_force(parts, application)
            if active is not None and active.version == model.version:
                return active
            verdict = await self._judge(parts, publication, model, active)
            before = await self._activated_at_s(parts, model)
            _require_wanted(parts, model)
            now_s = self._clocks.wall_s()
            row = ModelRow(
                pool=parts.pool.name,
                application=application,
                version=model.version,
                published_at_s=now_s,
                samples=model.metrics.num_samples,
                relative_error=model.metrics.mean_relative_error or 0.0,
                is_active=verdict.is_active,
                artefact=publication.artefact,
                reason=verdict.reason,
                activated_at_s=now_s if verdict.is_active else before,
            )
            await self._write(row)
            if verdict.is_active:
                self._put_in_force(parts, model)
        self._note(row, "model published", publication.caller, active)
        if application in parts.pool.applications:
            verdict_label = "activated" if row.is_active else "stored"
            metrics = self._metrics
            metrics.count(metrics.published, row.pool, application, verdict_label)
        return row

    async def activate(
        self, parts: "PoolParts", application: str, version: str, *, caller: str = ""
    ) -> ModelRow:
        """Make a stored model the active one.

        Raises:
            CallError: there is no such model, or the store refuses.
            ArtefactError: what is stored is damaged.
        """
        async with self._lock:
            row = await self._find(parts, application, version)
            model = await asyncio.to_thread(
                artefacts.from_bytes, row.artefact, application=application
            )
            active = await self._in_force(parts, application)
            _require_wanted(parts, model)
            reason = "activated by a call"
            row = replace(row, is_active=True, reason=reason, activated_at_s=self._clocks.wall_s())
            await self._write(row)
            self._put_in_force(parts, model)
        self._note(row, "model activated", caller, active)
        return row

    async def deactivate(
        self, parts: "PoolParts", application: str, *, caller: str = ""
    ) -> ModelRow | None:
        """Leave an application without an active model; returns the one that was active.

        Raises:
            CallError: the application was deleted meanwhile, or the store refuses.
        """
        async with self._lock:
            active = await self._active(parts, application, has_artefacts=True)
            _require_declared(parts, application)
            if active is not None:
                await self._write(replace(active, is_active=False, reason="deactivated by a call"))
            self._take_out_of_force(parts, application)
        if active is not None:
            self._note(replace(active, is_active=False), "model deactivated", caller, active)
        return active

    async def forget_prompts(self, parts: "PoolParts", application: str) -> None:
        """Let go of all that was learnt from prompts under another privacy setting.

        Its models are made of their words, and could not read what comes now.

        Raises:
            CallError: the store refuses; to be repeated.
        """
        async with self._lock:
            self._take_out_of_force(parts, application)
            try:
                await self._journal.call(self._store.forget_prompts, parts.pool.name, application)
            except WriteError as refusal:
                raise CallError(
                    Outcome.STOPPING,
                    f"application.privacy: stored prompts cannot be deleted: {refusal}",
                ) from refusal
        _log.info("prompts forgotten", pool=parts.pool.name, application=application)

    async def restore(self, parts: "PoolParts", row: ModelRow) -> None:
        """Put a stored model in force after a start; one that is damaged is left out."""
        try:
            model = await asyncio.to_thread(
                artefacts.from_bytes, row.artefact, application=row.application
            )
            self._put_in_force(parts, model)
        except artefacts.ArtefactError as error:
            _log.error("a stored model is left out", application=row.application, error=str(error))

    async def stored(
        self, pool: str, application: str, *, has_artefacts: bool = False
    ) -> list[ModelRow]:
        """Stored models of a pool, or of one application."""
        return await self._journal.call(
            self._store.models, pool, application, has_artefacts=has_artefacts
        )

    # -- parts of it -------------------------------------------------------------------------------

    async def _rows(
        self, parts: "PoolParts", application: str, *, has_artefacts: bool = False
    ) -> list[ModelRow]:
        return await self.stored(parts.pool.name, application, has_artefacts=has_artefacts)

    async def _active(
        self, parts: "PoolParts", application: str, *, has_artefacts: bool = False
    ) -> ModelRow | None:
        """The active model, also where it was damaged at the start and is not in force."""
        rows = await self._rows(parts, application, has_artefacts=has_artefacts)
        return next((row for row in rows if row.is_active), None)

    async def _in_force(self, parts: "PoolParts", application: str) -> ModelRow | None:
        is_in_force = application in parts.predictor.models
        return await self._active(parts, application) if is_in_force else None

    async def _activated_at_s(self, parts: "PoolParts", model: TrainedModel) -> float | None:
        """When a model was active for the last time, where it is stored already; None: never."""
        rows = await self._rows(parts, model.application)
        return next((row.activated_at_s for row in rows if row.version == model.version), None)

    async def _find(self, parts: "PoolParts", application: str, version: str) -> ModelRow:
        if len(version) < _MIN_VERSION_CHARS:
            raise InvalidValueError(
                "version", f"must have at least {_MIN_VERSION_CHARS} characters, got {version!r}"
            )
        rows = await self._rows(parts, application, has_artefacts=True)
        found = [row for row in rows if row.version.startswith(version)]
        if len(found) > 1:
            raise CallError(Outcome.INVALID, f"version: {version[:40]!r} begins several models")
        if not found:
            raise CallError(
                Outcome.NOT_FOUND,
                f"version: {application!r} has no model {version[:40]!r}; its models:"
                f" {', '.join(row.version for row in rows) or 'none'}",
            )
        return found[0]

    async def _judge(
        self,
        parts: "PoolParts",
        publication: Publication,
        model: TrainedModel,
        active: ModelRow | None,
    ) -> Verdict:
        evidence = Evidence(
            model=model,
            active=parts.predictor.models.get(publication.application) if active else None,
            active_since_s=active.published_at_s if active else 0.0,
            held_out={
                (item.run_id, item.cost_kvtt): item for item in publication.held_out if item.run_id
            },
        )
        if publication.activation is Activation.UNLESS_WORSE:
            await self._collect(parts, publication.application, evidence)
        pairs = [(item.predicted_kvtt, item.cost_kvtt) for item in publication.held_out]
        return decide(
            GateFacts(
                activation=publication.activation,
                samples=model.metrics.num_samples,
                active_samples=active.samples if active else None,
                held_out_mean=against_the_mean(pairs),
                held_out_active=evidence.held_out_active,
                recent_mean=evidence.recent_mean,
                recent_active=evidence.recent_active,
            )
        )

    async def _collect(self, parts: "PoolParts", application: str, evidence: Evidence) -> None:
        before = _NEWEST
        for _ in range(_MAX_TRIED // _PAGE):
            page = await self._journal.call(
                self._store.newest_samples,
                parts.pool.name,
                application,
                before=before,
                limit=_PAGE,
            )
            await asyncio.to_thread(evidence.add, [row for _, row in page])
            if len(page) < _PAGE:
                return
            before = page[-1][0]

    async def _write(self, row: ModelRow) -> None:
        try:
            await self._journal.call(self._store.put_model, row, keep=MAX_MODELS_PER_APPLICATION)
        except WriteError as refusal:
            raise CallError(Outcome.STOPPING, f"artefact: cannot be stored: {refusal}") from refusal

    def _put_in_force(self, parts: "PoolParts", model: TrainedModel) -> None:
        if model.application not in parts.pool.applications:
            return  # deleted while it was written, and forgotten by the store with the rest
        parts.predictor.activate(model)
        parts.pool.models.begin(model.application, model.version, model.metrics.mean_relative_error)
        # What was estimated before is no mark of this model.
        parts.pool.track(model.application).relative_errors.clear()

    def _take_out_of_force(self, parts: "PoolParts", application: str) -> None:
        parts.predictor.deactivate(application)
        parts.pool.models.end(application)

    def _note(self, row: ModelRow, what: str, caller: str, before: ModelRow | None) -> None:
        _log.info(
            what,
            pool=row.pool,
            application=row.application,
            version=row.version,
            is_active=row.is_active,
            reason=row.reason,
            version_before="" if before is None else before.version,
            caller=caller,
        )


def _require_wanted(parts: "PoolParts", model: TrainedModel) -> None:
    """Check, right before a model is written, what may have changed while it was judged.

    Raises:
        CallError: its application is gone, or lets out no prompts of the kind that it is made of.
    """
    declared = _require_declared(parts, model.application)
    require_model_allowed(declared, model.featuriser.vocabulary)


def _require_declared(parts: "PoolParts", name: str) -> Application:
    """Look up an application right before its models change.

    Raises:
        CallError: it is gone.
    """
    declared = parts.pool.applications.get(name)
    if declared is None:
        raise CallError(Outcome.NOT_FOUND, f"application: {name!r} was deleted meanwhile")
    return declared
