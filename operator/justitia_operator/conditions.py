"""Conditions and events: every type and reason, what it means, and how conditions are merged.

The reasons are part of the API: people and alerts match on them. ``docs/operator.md`` holds the
tables that are made from this file.
"""

from collections.abc import Iterable, Mapping
from dataclasses import replace
from enum import StrEnum
from types import MappingProxyType
from typing import Any, Final

from justitia_operator.facts import Condition

TRUE: Final = "True"
FALSE: Final = "False"
UNKNOWN: Final = "Unknown"


class Type(StrEnum):
    """Types of conditions; all are good when True."""

    READY = "Ready"
    RESOLVED_REFS = "ResolvedRefs"
    PREDICTOR_READY = "PredictorReady"
    POLICY_EFFECTIVE = "PolicyEffective"
    FAIRNESS_OBJECTIVE_MET = "FairnessObjectiveMet"
    TRAINING = "Training"


class Reason(StrEnum):
    """Reasons of conditions and events."""

    # Ready
    PROGRAMMED = "Programmed"
    INVALID_SPEC = "InvalidSpec"
    REFS_NOT_RESOLVED = "RefsNotResolved"
    DECLARED_ELSEWHERE = "DeclaredElsewhere"
    REFUSED = "Refused"
    SCHEDULER_UNREACHABLE = "SchedulerUnreachable"
    VALID = "Valid"
    # ResolvedRefs
    RESOLVED = "Resolved"
    REF_NOT_PERMITTED = "RefNotPermitted"
    POOL_NOT_FOUND = "PoolNotFound"
    PROFILE_NOT_FOUND = "ProfileNotFound"
    # PredictorReady
    NOT_REQUESTED = "NotRequested"
    MODEL_ACTIVE = "ModelActive"
    COLLECTING_SAMPLES = "CollectingSamples"
    WAITING_FOR_JOB = "WaitingForJob"
    TRAINING_RUNS = "TrainingRuns"
    TRAINING_REFUSED = "TrainingRefused"
    TRAINING_FAILED = "TrainingFailed"
    NOTHING_PUBLISHED = "NothingPublished"
    PROMPTS_WITHHELD = "PromptsWithheld"
    PROFILE_INVALID = "ProfileInvalid"
    # PolicyEffective
    IN_FORCE = "InForce"
    NOT_PROGRAMMED = "NotProgrammed"
    NO_ENGINES = "NoEngines"
    ENGINE_POLICY_DIFFERS = "EnginePolicyDiffers"
    POOL_ENFORCES = "PoolEnforces"
    POOL_IN_SHADOW = "PoolInShadow"
    NOT_ENFORCED = "NotEnforced"
    # FairnessObjectiveMet
    NO_OBJECTIVE = "NoObjective"
    OBJECTIVE_MET = "ObjectiveMet"
    OBJECTIVE_MISSED = "ObjectiveMissed"
    TOO_FEW_RUNS = "TooFewRuns"
    # Training of a profile
    IDLE = "Idle"
    # Events alone
    JOB_CREATED = "TrainingStarted"


MEANINGS: Final[Mapping[Reason, str]] = MappingProxyType(
    {
        Reason.PROGRAMMED: "The scheduler service holds the application as the spec says.",
        Reason.INVALID_SPEC: "A field of the spec is refused; the message names it and its value.",
        Reason.REFS_NOT_RESOLVED: "ResolvedRefs is not True; see there.",
        Reason.DECLARED_ELSEWHERE: "Another operator declared an application of that name in the"
        " pool; it is left alone.",
        Reason.REFUSED: "The scheduler service refused the application; the message is its own.",
        Reason.SCHEDULER_UNREACHABLE: "The scheduler service does not answer, so this is not known;"
        " engines go on with what they have.",
        Reason.VALID: "The spec can be used.",
        Reason.RESOLVED: "All objects that the spec names exist and may be referred to.",
        Reason.REF_NOT_PERMITTED: "The pool is in another namespace and its Service does not grant"
        " this one in the annotation `justitia.dev/allowed-namespaces`.",
        Reason.POOL_NOT_FOUND: "There is no Service of the poolRef's name.",
        Reason.PROFILE_NOT_FOUND: "There is no PredictorProfile of that name in the namespace.",
        Reason.NOT_REQUESTED: "No profileRef is set; estimates come from finished runs.",
        Reason.MODEL_ACTIVE: "A trained model predicts the cost of runs.",
        Reason.COLLECTING_SAMPLES: "Too few finished runs are recorded with a prompt for a first"
        " training. Clients tell it with StartRun; headers carry none.",
        Reason.WAITING_FOR_JOB: "A training is due and waits for other trainings to end.",
        Reason.TRAINING_RUNS: "A training Job is under way.",
        Reason.TRAINING_REFUSED: "The API server refuses to create the training Job (a quota, a"
        " policy, a right that is missing); it is tried again.",
        Reason.TRAINING_FAILED: "The last training Job failed; the message says why.",
        Reason.NOTHING_PUBLISHED: "The last training Job ended well and no model is active: none"
        " was published, or it was worse than the mean of finished runs.",
        Reason.PROMPTS_WITHHELD: "The application's privacy setting keeps prompts from the service,"
        " so nothing can be learnt from them.",
        Reason.PROFILE_INVALID: "The PredictorProfile is refused; see its own Ready condition.",
        Reason.IN_FORCE: "Every connected engine serves in the order that was asked for.",
        Reason.NOT_PROGRAMMED: "The application is not declared to the scheduler service.",
        Reason.NO_ENGINES: "No engine of the pool is connected.",
        Reason.ENGINE_POLICY_DIFFERS: "An engine serves in another order; the message names it.",
        Reason.POOL_ENFORCES: "Shadow was asked for, but another application of the pool wants the"
        " order in force.",
        Reason.POOL_IN_SHADOW: "The order was asked for, but the pool only computes it.",
        Reason.NOT_ENFORCED: "A field of the spec is accepted but has no effect in this version.",
        Reason.NO_OBJECTIVE: "The spec sets no objective.",
        Reason.OBJECTIVE_MET: "The fair ratio meets the objective.",
        Reason.OBJECTIVE_MISSED: "The fair ratio has been above the objective for its time.",
        Reason.TOO_FEW_RUNS: "Too few runs have finished lately to tell.",
        Reason.IDLE: "No training Job of the profile is under way.",
        Reason.JOB_CREATED: "A training Job was created; the message says why.",
    }
)

_READY = (
    Reason.PROGRAMMED,
    Reason.INVALID_SPEC,
    Reason.REFS_NOT_RESOLVED,
    Reason.DECLARED_ELSEWHERE,
    Reason.REFUSED,
    Reason.SCHEDULER_UNREACHABLE,
)
_UNKNOWN = (Reason.NOT_PROGRAMMED, Reason.SCHEDULER_UNREACHABLE)

#: Every condition of LLMApplication and its possible reasons, in the order in which they are shown.
APPLICATION_CONDITIONS: Final[Mapping[Type, tuple[Reason, ...]]] = MappingProxyType(
    {
        Type.READY: _READY,
        Type.RESOLVED_REFS: (
            Reason.RESOLVED,
            Reason.INVALID_SPEC,
            Reason.REF_NOT_PERMITTED,
            Reason.POOL_NOT_FOUND,
            Reason.PROFILE_NOT_FOUND,
        ),
        Type.PREDICTOR_READY: (
            Reason.NOT_REQUESTED,
            Reason.MODEL_ACTIVE,
            Reason.COLLECTING_SAMPLES,
            Reason.WAITING_FOR_JOB,
            Reason.TRAINING_RUNS,
            Reason.TRAINING_REFUSED,
            Reason.TRAINING_FAILED,
            Reason.NOTHING_PUBLISHED,
            Reason.PROMPTS_WITHHELD,
            Reason.PROFILE_NOT_FOUND,
            Reason.PROFILE_INVALID,
            *_UNKNOWN,
        ),
        Type.POLICY_EFFECTIVE: (
            Reason.IN_FORCE,
            Reason.NO_ENGINES,
            Reason.ENGINE_POLICY_DIFFERS,
            Reason.POOL_ENFORCES,
            Reason.POOL_IN_SHADOW,
            Reason.NOT_ENFORCED,
            *_UNKNOWN,
        ),
        Type.FAIRNESS_OBJECTIVE_MET: (
            Reason.NO_OBJECTIVE,
            Reason.OBJECTIVE_MET,
            Reason.OBJECTIVE_MISSED,
            Reason.TOO_FEW_RUNS,
            *_UNKNOWN,
        ),
    }
)
#: The same for PredictorProfile.
PROFILE_CONDITIONS: Final[Mapping[Type, tuple[Reason, ...]]] = MappingProxyType(
    {
        Type.READY: (Reason.VALID, Reason.INVALID_SPEC),
        Type.TRAINING: (Reason.TRAINING_RUNS, Reason.IDLE, Reason.TRAINING_FAILED),
    }
)


def merge(
    old: Iterable[Condition], new: Iterable[Condition], *, generation: int, now: str
) -> tuple[Condition, ...]:
    """Date the new conditions: ``since`` moves only where the status does."""
    before = {condition.type: condition for condition in old}
    return tuple(
        replace(
            condition,
            observed_generation=generation,
            since=_since(before.get(condition.type), condition, now),
        )
        for condition in new
    )


def _since(before: Condition | None, condition: Condition, now: str) -> str:
    if before is None or before.status != condition.status or not before.since:
        return now
    return before.since


def to_body(condition: Condition) -> dict[str, Any]:
    """Write a condition as metav1.Condition."""
    return {
        "type": condition.type,
        "status": condition.status,
        "observedGeneration": condition.observed_generation,
        "lastTransitionTime": condition.since,
        "reason": condition.reason,
        "message": condition.message,
    }


def from_body(body: object) -> Condition | None:
    """Read a condition; what is none is None: others may have written anything there."""
    if not isinstance(body, dict) or not isinstance(body.get("type"), str):
        return None
    generation = body.get("observedGeneration")
    return Condition(
        type=body["type"],
        status=str(body.get("status", UNKNOWN)),
        reason=str(body.get("reason", "")),
        message=str(body.get("message", "")),
        observed_generation=generation if isinstance(generation, int) else 0,
        since=str(body.get("lastTransitionTime", "")),
    )
