"""Conditions as every Kubernetes tool reads them (metav1.Condition), and the types that we set."""

from enum import StrEnum
from typing import Annotated, Final

from pydantic import AwareDatetime, Field

from justitia.resources.parts import MAX_WHOLE, WHOLE, Part

MAX_CONDITIONS: Final = 16


class ConditionStatus(StrEnum):
    """Whether a condition holds."""

    TRUE = "True"
    FALSE = "False"
    UNKNOWN = "Unknown"


class ApplicationCondition(StrEnum):
    """Condition types of an ``LLMApplication``."""

    READY = "Ready"
    RESOLVED_REFS = "ResolvedRefs"
    PREDICTOR_READY = "PredictorReady"
    POLICY_EFFECTIVE = "PolicyEffective"
    FAIRNESS_OBJECTIVE_MET = "FairnessObjectiveMet"


class ProfileCondition(StrEnum):
    """Condition types of a ``PredictorProfile``."""

    READY = "Ready"
    TRAINING = "Training"


class Condition(Part):
    """One aspect of a resource's state; ``last_transition_time`` moves with ``status`` only."""

    type: Annotated[
        str,
        Field(
            pattern=r"^([a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*/)?"
            r"(([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9])$",
            max_length=316,
        ),
    ]
    status: ConditionStatus
    observed_generation: Annotated[int, Field(ge=0, le=MAX_WHOLE), WHOLE] | None = None
    last_transition_time: AwareDatetime
    reason: Annotated[
        str,
        Field(pattern="^[A-Za-z]([A-Za-z0-9_,:]*[A-Za-z0-9_])?$", min_length=1, max_length=1024),
    ]
    message: Annotated[str, Field(max_length=32768)]


Conditions = Annotated[tuple[Condition, ...], Field(max_length=MAX_CONDITIONS)]
ObservedGeneration = Annotated[int, Field(ge=0, le=MAX_WHOLE), WHOLE]
