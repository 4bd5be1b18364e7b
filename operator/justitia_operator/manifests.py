"""Builds the objects that the operator makes: training Jobs and events. Pure.

A Job's pod asks for nothing that the "restricted" pod security standard forbids, gets no token of
the API server and no variables of the namespace's Services, and names no user id, so that a cluster
may choose one.
"""

import math
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Final

from justitia.resources.profile import ProfileSpec, SamplesPart
from justitia_operator.events import Event
from justitia_operator.facts import API_VERSION, GROUP, ApplicationFacts, Kind, Meta, ProfileFacts
from justitia_operator.gather import (
    APPLICATION_ANNOTATION,
    APPLICATION_UID_LABEL,
    NEWEST_ANNOTATION,
    PROFILE_UID_LABEL,
    TRIGGER_ANNOTATION,
)
from justitia_operator.program import service_name
from justitia_operator.training import Due

FIELD_MANAGER: Final = "justitia-operator"
MANAGED_BY: Final = {"app.kubernetes.io/managed-by": FIELD_MANAGER}
REASON_ANNOTATION: Final = f"{GROUP}/training-reason"
CA_ANNOTATION: Final = f"{GROUP}/scheduler-ca"

_CONTAINER: Final = "trainer"
_TMP: Final = "/tmp"  # noqa: S108  the pod's own volume
_TLS_DIR: Final = "/etc/justitia/tls"
_CLIENT_DIR: Final = "/etc/justitia/client"
_SAMPLES_DIR: Final = "/samples"
#: The schemas of Kubernetes before 1.35 require the status, although it has a default.
_DISRUPTED: Final = {"type": "DisruptionTarget", "status": "True"}

Body = dict[str, Any]


@dataclass(frozen=True, kw_only=True, slots=True)
class TrainerOptions:
    """What all training Jobs share.

    ``ca_pem`` empty: no encryption. ``client_secret``: a Secret with ``tls.crt`` and ``tls.key`` in
    the application's namespace, for a service that asks for client certificates.
    """

    image: str
    scheduler_address: str
    ca_pem: str = ""
    client_secret: str = ""


def build_job(
    due: Due, application: ApplicationFacts, profile: ProfileFacts, options: TrainerOptions
) -> Body:
    """Build the Job of a training that is due; only for specs that were read."""
    spec = profile.spec
    if spec is None:
        raise ValueError(f"{profile.meta.key}: the spec is refused: {profile.problem}")
    labels = {
        "app.kubernetes.io/name": "justitia",
        "app.kubernetes.io/component": "trainer",
        **MANAGED_BY,
        APPLICATION_UID_LABEL: application.meta.uid,
        PROFILE_UID_LABEL: profile.meta.uid,
    }
    return {
        "apiVersion": "batch/v1",
        "kind": "Job",
        "metadata": {
            "name": due.name,
            "namespace": application.meta.key.namespace,
            "labels": labels,
            "annotations": {
                APPLICATION_ANNOTATION: service_name(application),
                TRIGGER_ANNOTATION: due.trigger.value,
                REASON_ANNOTATION: due.why,
                **({NEWEST_ANNOTATION: due.newest_sample_at} if due.newest_sample_at else {}),
            },
            "ownerReferences": [_owner(profile)],
        },
        "spec": {
            "backoffLimit": spec.job.backoff_limit,
            "activeDeadlineSeconds": math.ceil(spec.job.active_deadline_s),
            "ttlSecondsAfterFinished": math.ceil(spec.job.ttl_s),
            # A drained node is no fault of the training.
            "podFailurePolicy": {"rules": [{"action": "Ignore", "onPodConditions": [_DISRUPTED]}]},
            "template": _template(labels, application, spec, options),
        },
    }


def _owner(profile: ProfileFacts) -> Body:
    """Let the Job go with its profile; nothing of the user's waits for the Job."""
    return {
        "apiVersion": API_VERSION,
        "kind": Kind.PROFILE.value,
        "name": profile.meta.key.name,
        "uid": profile.meta.uid,
        "controller": True,
        "blockOwnerDeletion": False,
    }


def _template(
    labels: Body, application: ApplicationFacts, spec: ProfileSpec, options: TrainerOptions
) -> Body:
    volumes, mounts = _volumes(spec.samples, options)
    # What the user wrote for the pod is handed on as it was written.
    job = spec.job.model_dump(mode="json", by_alias=True, exclude_unset=True)
    names = (
        "resourceClaims",
        "nodeSelector",
        "tolerations",
        "imagePullSecrets",
        "priorityClassName",
        "runtimeClassName",
    )
    return {
        "metadata": {
            "labels": labels,
            "annotations": {CA_ANNOTATION: options.ca_pem} if options.ca_pem else {},
        },
        "spec": {
            "restartPolicy": "Never",
            "automountServiceAccountToken": False,
            "enableServiceLinks": False,
            "securityContext": {
                "runAsNonRoot": True,
                "seccompProfile": {"type": "RuntimeDefault"},
            },
            **{name: job[name] for name in names if job.get(name)},
            "containers": [
                {
                    "name": _CONTAINER,
                    "image": spec.job.image or options.image,
                    "imagePullPolicy": spec.job.image_pull_policy.value,
                    "command": ["justitia", "train"],
                    "args": _arguments(application, spec, options),
                    # matplotlib, torch and typer want a home that they may write to.
                    "env": [{"name": "HOME", "value": _TMP}],
                    "resources": job.get("resources", {}),
                    # The last words of a failed training reach the profile's status.
                    "terminationMessagePolicy": "FallbackToLogsOnError",
                    "securityContext": {
                        "allowPrivilegeEscalation": False,
                        "capabilities": {"drop": ["ALL"]},
                        "readOnlyRootFilesystem": True,
                    },
                    "volumeMounts": mounts,
                }
            ],
            "volumes": volumes,
        },
    }


def _arguments(
    application: ApplicationFacts, spec: ProfileSpec, options: TrainerOptions
) -> list[str]:
    training = spec.training
    flags: dict[str, object] = {
        "--application": service_name(application),
        "--pool": application.pool,
        "--address": options.scheduler_address,
        "--min-samples": training.min_samples,
        "--max-samples": training.max_samples,
        "--validation-fraction": training.validation_fraction,
        "--seed": training.seed,
        "--kind": spec.model.kind.trainer_name,
        "--hidden-layers": ",".join(str(width) for width in spec.model.hidden_layers),
        "--max-terms": spec.features.max_terms,
        "--selected-terms": spec.features.selected_terms,
    }
    if options.ca_pem:
        flags["--tls-ca"] = f"{_TLS_DIR}/ca.crt"
    if options.client_secret:
        flags["--tls-cert"] = f"{_CLIENT_DIR}/tls.crt"
        flags["--tls-key"] = f"{_CLIENT_DIR}/tls.key"
    if spec.samples.config_map is not None:
        flags["--recordings"] = f"{_SAMPLES_DIR}/{spec.samples.config_map.key}"
    if spec.samples.persistent_volume_claim is not None:
        flags["--recordings"] = f"{_SAMPLES_DIR}/{spec.samples.persistent_volume_claim.path}"
    return ["--publish", *(f"{flag}={value}" for flag, value in flags.items())]


def _volumes(samples: SamplesPart, options: TrainerOptions) -> tuple[list[Body], list[Body]]:
    """List the pod's volumes and where the container finds them."""
    volumes: list[Body] = [{"name": "tmp", "emptyDir": {}}]
    mounts: list[Body] = [{"name": "tmp", "mountPath": _TMP}]

    def add(name: str, path: str, source: Body) -> None:
        volumes.append({"name": name, **source})
        mounts.append({"name": name, "mountPath": path, "readOnly": True})

    if options.ca_pem:
        # The certificate is public: carried by the pod itself it needs no object of its own in the
        # application's namespace, and no right to make one.
        field = {"fieldPath": f"metadata.annotations['{CA_ANNOTATION}']"}
        items = [{"path": "ca.crt", "fieldRef": field}]
        add("tls", _TLS_DIR, {"downwardAPI": {"items": items}})
    if options.client_secret:
        add("client", _CLIENT_DIR, {"secret": {"secretName": options.client_secret}})
    if samples.config_map is not None:
        add("samples", _SAMPLES_DIR, {"configMap": {"name": samples.config_map.name}})
    if samples.persistent_volume_claim is not None:
        claim = {"claimName": samples.persistent_volume_claim.claim_name, "readOnly": True}
        add("samples", _SAMPLES_DIR, {"persistentVolumeClaim": claim})
    return volumes, mounts


def build_event(event: Event, kind: Kind, meta: Meta, *, name: str, now: datetime) -> Body:
    """Build a Kubernetes event about one of our resources."""
    stamp = now.strftime("%Y-%m-%dT%H:%M:%S.%fZ")
    return {
        "apiVersion": "events.k8s.io/v1",
        "kind": "Event",
        "metadata": {"name": name, "namespace": meta.key.namespace, "labels": MANAGED_BY},
        "eventTime": stamp,
        "reportingController": f"{GROUP}/operator",
        "reportingInstance": FIELD_MANAGER,
        "action": "Reconcile",
        "type": event.type,
        "reason": event.reason,
        "note": event.message[:1000],
        "regarding": {
            "apiVersion": API_VERSION,
            "kind": kind.value,
            "namespace": meta.key.namespace,
            "name": meta.key.name,
            "uid": meta.uid,
        },
    }
