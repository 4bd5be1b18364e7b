"""Turns manifests into declarations for the scheduler service."""

from collections import Counter
from collections.abc import Iterable, Iterator
from pathlib import Path

from justitia.api.v1 import admin_pb2
from justitia.client import Client
from justitia.local.errors import LocalModeError
from justitia.local.profiles import trained_applications, unhonoured_fields
from justitia.privacy_codes import PRIVACY_CODES
from justitia.resources.application import FailureMode, LLMApplication, Mode
from justitia.resources.reading import Resource


def declare(client: Client, manifests: Iterable[Resource]) -> None:
    """Apply every ``LLMApplication``; `unhonoured` names what of the manifests is left out.

    Raises:
        LocalModeError: two have one name in different namespaces, which only a cluster has.
        SchedulerError: the service refuses one.
    """
    applications = [manifest for manifest in manifests if isinstance(manifest, LLMApplication)]
    names = Counter(application.metadata.name for application in applications)
    for name, number in names.items():
        if number > 1:
            raise LocalModeError(
                f"{number} applications are named {name}: without a cluster there are no "
                "namespaces to tell them apart; rename all but one"
            )
    for application in applications:
        client.apply_application(build_application(application))


def unhonoured(
    manifests: Iterable[Resource],
    *,
    only_pool: str = "",
    is_training: bool = False,
    recordings: Path | None = None,
) -> str:
    """Say in one line what is declared and has no effect without a cluster; empty: nothing.

    ``only_pool``: the one pool that has an engine, where that is known. ``is_training``: predictors
    are trained as the profiles say, from ``recordings`` where one reads a ConfigMap or a volume.
    """
    manifests = list(manifests)
    names_by_field: dict[str, list[str]] = {}
    for manifest in manifests:
        if isinstance(manifest, LLMApplication):
            fields = _unhonoured_fields(manifest, only_pool)
        elif is_training:
            fields = unhonoured_fields(manifest.spec, recordings=recordings)
        else:
            fields = iter(("PredictorProfile, for justitia up and justitia train --profile",))
        for field in fields:
            names_by_field.setdefault(field, []).append(manifest.metadata.name)
    if is_training:
        names_by_field |= _dangling(manifests)
    if not names_by_field:
        return ""
    parts = (f"{field} ({', '.join(names)})" for field, names in names_by_field.items())
    return f"without a cluster these have no effect: {'; '.join(parts)}"


def _dangling(manifests: list[Resource]) -> dict[str, list[str]]:
    """Find applications whose profile is not among the manifests."""
    trained = {id(application) for application, _ in trained_applications(manifests)}
    names = [
        manifest.metadata.name
        for manifest in manifests
        if isinstance(manifest, LLMApplication)
        and manifest.spec.predictor.profile_ref is not None
        and id(manifest) not in trained
    ]
    return {"predictor.profileRef, there is no such PredictorProfile": names} if names else {}


def _unhonoured_fields(manifest: LLMApplication, only_pool: str) -> Iterator[str]:
    spec = manifest.spec
    if spec.mode is Mode.SHADOW:
        yield "mode Shadow"
    if spec.failure_mode is FailureMode.FAIL_CLOSE:
        yield "failureMode FailClose"
    if spec.identity.credentials:
        yield "identity.credentials"
    if spec.pool_ref.namespace is not None:
        yield "poolRef.namespace"
    if only_pool and spec.pool_ref.name != only_pool:
        yield f"poolRef.name, the engine here serves pool {only_pool}"


def build_application(manifest: LLMApplication) -> admin_pb2.Application:
    """Build the message that declares an application."""
    spec = manifest.spec
    fallback = spec.fallback_cost
    objective = spec.fairness.objective
    return admin_pb2.Application(
        name=manifest.metadata.name,
        pool=spec.pool_ref.name,
        weight=float(spec.weight),
        fallback_cost_kvtt=None if fallback is None else float(fallback.kv_token_time),
        privacy=PRIVACY_CODES[spec.predictor.privacy],
        idle_timeout_s=spec.run.idle_timeout_s,
        max_duration_s=spec.run.max_duration_s or 0.0,
        max_concurrent_runs=spec.run.max_concurrent or 0,
        objective_max_ratio=0.0 if objective is None else float(objective.max_ratio),
        objective_for_s=None if objective is None else objective.for_s,
    )
