"""Turns manifests into declarations for the scheduler service."""

from collections.abc import Iterable

from justitia.api.v1 import admin_pb2
from justitia.client import Client
from justitia.local.manifests import LLMApplication, Manifest, Privacy

_PRIVACY = {
    Privacy.TEXT: admin_pb2.PRIVACY_TEXT,
    Privacy.HASHED: admin_pb2.PRIVACY_HASHED,
    Privacy.NONE: admin_pb2.PRIVACY_NONE,
}


def declare(client: Client, manifests: Iterable[Manifest]) -> None:
    """Apply every ``LLMApplication``; predictor profiles are read when models are trained."""
    for manifest in manifests:
        if isinstance(manifest, LLMApplication):
            client.apply_application(build_application(manifest))


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
        privacy=_PRIVACY[spec.predictor.privacy],
        idle_timeout_s=spec.run.idle_timeout,
        max_duration_s=spec.run.max_duration or 0.0,
        max_concurrent_runs=spec.run.max_concurrent or 0,
        objective_max_ratio=0.0 if objective is None else float(objective.max_ratio),
    )
