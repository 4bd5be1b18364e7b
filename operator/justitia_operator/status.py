"""Builds the status of both resources and says whether it is worth a write. Pure.

Numbers have three significant digits, so that a figure that hardly moves is no change; parts that
nothing was measured for are absent.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from enum import IntEnum
from typing import Any, Final

from justitia.resources.application_status import EffectivePolicy
from justitia.resources.numbers import decimal_text
from justitia.resources.profile_status import MAX_LISTED_APPLICATIONS, JobOutcome
from justitia_operator import conditions
from justitia_operator.checks import POLICY, Inputs, Programming
from justitia_operator.conditions import FALSE, TRUE, Reason, Type
from justitia_operator.facts import (
    Condition,
    Figures,
    JobRecord,
    ModelFacts,
    PoolState,
    ProfileFacts,
    Reach,
)
from justitia_operator.program import service_name

Status = dict[str, Any]

_MAX_MESSAGE_CHARS: Final = 1000
_MAX_REASON_CHARS: Final = 256
#: What people and tools wait for; everything else is figures.
_URGENT: Final = (
    "observedGeneration",
    "applicationName",
    "pool",
    "effectivePolicy",
    "applicationCount",
    "applications",
)


#: What ``_figures`` may write.
_FIGURES: Final = ("runs", "weightedShare", "fairnessRatio", "jctSeconds", "prediction")


class Urgency(IntEnum):
    """Whether a status is to be written."""

    NOT = 0
    #: Only figures moved; they may wait.
    LATER = 1
    NOW = 2


def compare(old: Mapping[str, Any], new: Status) -> Urgency:
    """Say whether a new status is worth a write; conditions of others do not count."""
    ours = {condition["type"] for condition in new["conditions"]}
    listed = old.get("conditions")
    before = [
        condition
        for condition in (listed if isinstance(listed, list) else ())
        if isinstance(condition, Mapping) and condition.get("type") in ours
    ]
    seen = {key: value for key, value in old.items() if key != "conditions"}
    if seen == {key: value for key, value in new.items() if key != "conditions"} and _equal(
        before, new["conditions"]
    ):
        return Urgency.NOT
    is_told = any(seen.get(key) != new.get(key) for key in _URGENT)
    return Urgency.NOW if is_told or _gist(before) != _gist(new["conditions"]) else Urgency.LATER


def _equal(before: Sequence[Mapping[str, Any]], after: Sequence[Mapping[str, Any]]) -> bool:
    return {str(c["type"]): dict(c) for c in before} == {str(c["type"]): dict(c) for c in after}


def _gist(listed: Iterable[Mapping[str, Any]]) -> set[tuple[object, ...]]:
    keys = ("type", "status", "reason", "observedGeneration")
    return {tuple(condition.get(key) for key in keys) for condition in listed}


# -- LLMApplication --------------------------------------------------------------------------------


def build_application_status(inputs: Inputs, decided: Sequence[Condition], *, now: str) -> Status:
    """Build the status of an application."""
    application, figures = inputs.application, inputs.figures
    generation = application.meta.generation
    merged = conditions.merge(application.conditions, decided, generation=generation, now=now)
    status: Status = {
        "observedGeneration": generation,
        "conditions": [conditions.to_body(condition) for condition in merged],
        "effectivePolicy": effective_policy(inputs.pool if figures else None).value,
    }
    if application.spec is not None:
        status["applicationName"] = service_name(application)
        status["pool"] = str(application.pool)
    if figures is not None:
        return status | _dense(_figures(figures))
    if inputs.reach is not Reach.YES or inputs.programming is Programming.UNKNOWN:
        # Nothing was measured anew, and nothing says that what was measured is wrong.
        kept = ("effectivePolicy", *_FIGURES)
        status |= {key: application.status[key] for key in kept if key in application.status}
    return status


def effective_policy(pool: PoolState | None) -> EffectivePolicy:
    """Name the order in which a pool's engines serve."""
    policies = set() if pool is None else set(pool.policies.values())
    if pool is None or not policies:
        return EffectivePolicy.NONE
    if POLICY not in policies:
        return EffectivePolicy.OTHER
    if len(policies) > 1:
        return EffectivePolicy.MIXED
    return EffectivePolicy.SHADOW if pool.is_shadow else EffectivePolicy.JUSTITIA


def _figures(figures: Figures) -> Status:
    status: Status = {
        "runs": {"active": figures.active_runs, "completed": figures.completed_runs},
        "weightedShare": decimal_text(figures.weighted_share),
    }
    if figures.ratio_p99:
        p50, p99 = decimal_text(figures.ratio_p50), decimal_text(figures.ratio_p99)
        status["fairnessRatio"] = {"p50": p50, "p99": p99}
    if figures.jct_p90_s:
        mean, p90 = decimal_text(figures.jct_mean_s), decimal_text(figures.jct_p90_s)
        status["jctSeconds"] = {"mean": mean, "p90": p90}
    if figures.prediction_source:
        status["prediction"] = _prediction(figures)
    return status


def _dense(status: Status) -> Status:
    """Leave out what is None, at any depth: nothing was measured."""
    parts = {k: _dense(v) if isinstance(v, dict) else v for k, v in status.items()}
    return {key: value for key, value in parts.items() if value is not None}


def _prediction(figures: Figures) -> Status:
    prediction: Status = {"source": figures.prediction_source}
    if figures.model_version:
        prediction["modelVersion"] = figures.model_version
    if figures.completed_runs:
        prediction["relativeError"] = decimal_text(figures.relative_error)
    return prediction


# -- PredictorProfile ------------------------------------------------------------------------------


@dataclass(frozen=True, kw_only=True, slots=True)
class Trained:
    """What training did for one application that refers to the profile."""

    name: str
    service_name: str
    model: ModelFacts | None = None
    last: JobRecord | None = None


def build_profile_status(profile: ProfileFacts, trained: Sequence[Trained], *, now: str) -> Status:
    """Build the status of a profile; ``trained`` holds the applications that refer to it."""
    generation = profile.meta.generation
    decided = (_profile_ready(profile), _profile_training(trained))
    merged = conditions.merge(profile.conditions, decided, generation=generation, now=now)
    status: Status = {
        "observedGeneration": generation,
        "conditions": [conditions.to_body(condition) for condition in merged],
        "applicationCount": len(trained),
    }
    listed = sorted(trained, key=lambda item: item.name)[:MAX_LISTED_APPLICATIONS]
    if listed:
        status["applications"] = [_trained(item) for item in listed]
    models = [(item.model.published_at, item) for item in trained if item.model is not None]
    if models:
        status["activeModel"] = _active_model(max(models, key=lambda pair: pair[0])[1])
    jobs = [item.last for item in trained if item.last is not None]
    if jobs:
        status["lastJob"] = _last_job(max(jobs, key=lambda job: job.started_at))
    return status


def _profile_ready(profile: ProfileFacts) -> Condition:
    if profile.spec is None:
        message = profile.problem[:_MAX_MESSAGE_CHARS]
        return Condition(type=Type.READY, status=FALSE, reason=Reason.INVALID_SPEC, message=message)
    return Condition(type=Type.READY, status=TRUE, reason=Reason.VALID)


def _profile_training(trained: Sequence[Trained]) -> Condition:
    running = sorted(i.name for i in trained if i.last is not None and not i.last.is_over)
    if running:
        message = f"training {_few(running)}"
        return Condition(
            type=Type.TRAINING, status=TRUE, reason=Reason.TRAINING_RUNS, message=message
        )
    failed = sorted(
        i.name for i in trained if i.last is not None and i.last.outcome is JobOutcome.FAILED
    )
    if failed:
        message = f"the last training failed for {_few(failed)}; see applications[].lastJob"
        return Condition(
            type=Type.TRAINING, status=FALSE, reason=Reason.TRAINING_FAILED, message=message
        )
    return Condition(type=Type.TRAINING, status=FALSE, reason=Reason.IDLE)


def _few(names: Sequence[str]) -> str:
    more = f" and {len(names) - 3} more" if len(names) > 3 else ""  # noqa: PLR2004  enough to see
    return ", ".join(names[:3]) + more


def _trained(item: Trained) -> Status:
    entry: Status = {"name": item.name}
    if item.model is not None:
        entry["activeModel"] = _active_model(item)
    if item.last is not None:
        entry["lastJob"] = _last_job(item.last)
    return entry


def _active_model(item: Trained) -> Status:
    model = item.model
    if model is None:
        raise ValueError(f"{item.name} has no model")
    return _dense(
        {
            "application": item.service_name,
            "version": model.version,
            "trainedAt": model.published_at,
            "samples": model.samples,
            # 0 is what the service says of a model that was judged on nothing.
            "relativeError": decimal_text(model.relative_error) if model.relative_error else None,
        }
    )


def _last_job(job: JobRecord) -> Status:
    status: Status = {
        "application": job.application,
        "name": job.name,
        "trigger": job.trigger.value,
        "outcome": job.outcome.value,
    }
    optional = {
        "newestSampleAt": job.newest_sample_at,
        "startedAt": job.started_at,
        "finishedAt": job.finished_at,
        "reason": job.reason[:_MAX_REASON_CHARS],
        "message": job.message[:_MAX_MESSAGE_CHARS],
    }
    return status | {key: value for key, value in optional.items() if value}
