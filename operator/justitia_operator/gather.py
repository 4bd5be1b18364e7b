"""From what the API server sends to facts. Whatever is in an object, reading it harms no other.

An object that cannot be used gives facts with a problem instead of a spec (FK3). The service's
answers are read in ``scheduler``.
"""

from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Any, Final, TypeAlias

from justitia.resources.application import LLMApplication
from justitia.resources.errors import ResourceError
from justitia.resources.profile import PredictorProfile
from justitia.resources.profile_status import JobOutcome, JobTrigger
from justitia.resources.reading import read_resource
from justitia_operator import conditions
from justitia_operator.facts import (
    GRANT_ANNOTATION,
    GROUP,
    REQUEST_ANNOTATION,
    ApplicationFacts,
    Condition,
    JobFacts,
    JobRecord,
    Key,
    Kind,
    Meta,
    PoolObject,
    ProfileFacts,
)

APPLICATION_UID_LABEL: Final = f"{GROUP}/application-uid"
PROFILE_UID_LABEL: Final = f"{GROUP}/profile-uid"
APPLICATION_ANNOTATION: Final = f"{GROUP}/application"
TRIGGER_ANNOTATION: Final = f"{GROUP}/training-trigger"
NEWEST_ANNOTATION: Final = f"{GROUP}/newest-sample-at"

Body: TypeAlias = Mapping[str, Any]
Facts: TypeAlias = ApplicationFacts | ProfileFacts | PoolObject | JobFacts


def key_of(body: Body) -> Key:
    """Name an object."""
    metadata = _mapping(body.get("metadata"))
    return Key(str(metadata.get("namespace") or ""), str(metadata.get("name") or ""))


def read_object(kind: Kind, body: Body) -> Facts:
    """Read an object of a kind; never raises for what is in it."""
    match kind:
        case Kind.APPLICATION:
            return read_application(body)
        case Kind.PROFILE:
            return read_profile(body)
        case Kind.SERVICE:
            return read_service(body)
        case Kind.JOB:
            return read_job(body)


def read_application(body: Body) -> ApplicationFacts:
    """Read an LLMApplication."""
    status = _mapping(body.get("status"))
    resource, problem = _read(Kind.APPLICATION, body)
    return ApplicationFacts(
        meta=_meta(body),
        spec=resource.spec if isinstance(resource, LLMApplication) else None,
        problem=problem,
        conditions=_conditions(status),
        status=status,
        training_requested_at=parse_time(_annotations(body).get(REQUEST_ANNOTATION)),
    )


def read_profile(body: Body) -> ProfileFacts:
    """Read a PredictorProfile."""
    status = _mapping(body.get("status"))
    resource, problem = _read(Kind.PROFILE, body)
    return ProfileFacts(
        meta=_meta(body),
        spec=resource.spec if isinstance(resource, PredictorProfile) else None,
        problem=problem,
        conditions=_conditions(status),
        status=status,
        records=_records(status),
    )


def read_service(body: Body) -> PoolObject:
    """Read the Service in front of a pool."""
    names = str(_annotations(body).get(GRANT_ANNOTATION, "")).split(",")
    return PoolObject(
        key=key_of(body), grants=frozenset(name.strip() for name in names if name.strip())
    )


def read_job(body: Body) -> JobFacts:
    """Read a training Job of ours."""
    metadata = _mapping(body.get("metadata"))
    labels, annotations = _mapping(metadata.get("labels")), _annotations(body)
    status = _mapping(body.get("status"))
    outcome, reason, message = _outcome(status)
    return JobFacts(
        meta=_meta(body),
        application_uid=str(labels.get(APPLICATION_UID_LABEL, "")),
        profile_uid=str(labels.get(PROFILE_UID_LABEL, "")),
        has_pod=any(status.get(name) for name in ("ready", "succeeded", "failed")),
        record=JobRecord(
            application=str(annotations.get(APPLICATION_ANNOTATION, "")),
            name=str(metadata.get("name", "")),
            trigger=_member(JobTrigger, annotations.get(TRIGGER_ANNOTATION), JobTrigger.REQUESTED),
            outcome=outcome,
            newest_sample_at=str(annotations.get(NEWEST_ANNOTATION, "")),
            started_at=str(status.get("startTime") or metadata.get("creationTimestamp") or ""),
            finished_at=_finished_at(status),
            reason=reason,
            message=message,
        ),
    )


def _annotations(body: Body) -> Mapping[str, Any]:
    return _mapping(_mapping(body.get("metadata")).get("annotations"))


def parse_time(text: object) -> datetime | None:
    """Read a time as the API server writes it; what is none is None."""
    try:
        moment = datetime.fromisoformat(str(text))
    except ValueError:
        return None
    return moment if moment.tzinfo else moment.replace(tzinfo=UTC)


def _read(kind: Kind, body: Body) -> tuple[LLMApplication | PredictorProfile | None, str]:
    # The status is output: what is wrong with it must not refuse the object. Lists leave it out.
    document = {"apiVersion": f"{GROUP}/v1alpha1", **body, "kind": kind.value}
    document.pop("status", None)
    try:
        return read_resource(document, unknown_fields="ignore"), ""
    except ResourceError as error:
        return None, str(error)


def _meta(body: Body) -> Meta:
    metadata = _mapping(body.get("metadata"))
    generation = metadata.get("generation")
    return Meta(
        key=key_of(body),
        uid=str(metadata.get("uid") or ""),
        generation=generation if isinstance(generation, int) else 0,
        resource_version=str(metadata.get("resourceVersion") or ""),
        created_at=parse_time(metadata.get("creationTimestamp")),
        is_deleting=bool(metadata.get("deletionTimestamp")),
    )


def _conditions(status: Body) -> tuple[Condition, ...]:
    read = [conditions.from_body(dict(item)) for item in _mappings(status.get("conditions"))]
    return tuple(condition for condition in read if condition is not None)


def _records(status: Body) -> dict[str, JobRecord]:
    entries = _mappings(status.get("applications"))
    jobs = {str(entry.get("name", "")): _mapping(entry.get("lastJob")) for entry in entries}
    return {name: _record(job) for name, job in jobs.items() if job.get("name")}


def _record(job: Body) -> JobRecord:
    return JobRecord(
        application=str(job.get("application", "")),
        name=str(job["name"]),
        trigger=_member(JobTrigger, job.get("trigger"), JobTrigger.REQUESTED),
        outcome=_member(JobOutcome, job.get("outcome"), JobOutcome.RUNNING),
        newest_sample_at=str(job.get("newestSampleAt", "")),
        started_at=str(job.get("startedAt", "")),
        finished_at=str(job.get("finishedAt", "")),
        reason=str(job.get("reason", "")),
        message=str(job.get("message", "")),
    )


def _outcome(status: Body) -> tuple[JobOutcome, str, str]:
    for condition in _mappings(status.get("conditions")):
        if condition.get("status") != "True":
            continue
        if condition.get("type") == "Complete":
            return JobOutcome.SUCCEEDED, "", ""
        if condition.get("type") == "Failed":
            reason, message = condition.get("reason", ""), condition.get("message", "")
            return JobOutcome.FAILED, str(reason), str(message)
    return JobOutcome.RUNNING, "", ""


def _finished_at(status: Body) -> str:
    if status.get("completionTime"):
        return str(status["completionTime"])
    times = [
        str(condition.get("lastTransitionTime", ""))
        for condition in _mappings(status.get("conditions"))
        if condition.get("type") == "Failed"
    ]
    return max(times, default="")


def _mapping(value: object) -> Mapping[str, Any]:
    return value if isinstance(value, Mapping) else {}


def _mappings(value: object) -> list[Mapping[str, Any]]:
    return [_mapping(item) for item in value] if isinstance(value, list) else []


def _member(kind: Any, value: object, otherwise: Any) -> Any:
    try:
        return kind(value)
    except ValueError:
        return otherwise
