"""``LLMApplication.status``: what the operator writes and everybody reads."""

from enum import StrEnum
from typing import Annotated

from pydantic import Field

from justitia.resources.conditions import Conditions, ObservedGeneration
from justitia.resources.numbers import DecimalText
from justitia.resources.parts import MAX_WHOLE, WHOLE, Part

Count = Annotated[int, Field(ge=0, le=MAX_WHOLE), WHOLE]
Text = Annotated[str, Field(max_length=320)]


class EffectivePolicy(StrEnum):
    """The order in which the pool's engines serve this application right now.

    ``NONE``: not declared to the service, or no engine is connected.
    """

    JUSTITIA = "Justitia"
    SHADOW = "Shadow"
    MIXED = "Mixed"
    OTHER = "Other"
    NONE = "None"


class PredictionSource(StrEnum):
    """Where the last estimate came from (rule K3)."""

    CLIENT = "Client"
    MODEL = "Model"
    HISTORY = "History"
    POOL = "Pool"
    DEFAULT = "Default"


class RunCounts(Part):
    """Runs of the application; ``completed`` counts since the service started."""

    active: Count = 0
    completed: Count = 0


class RatioQuantiles(Part):
    """Finish-time fair ratio of the last 1000 runs (rule R1)."""

    p50: DecimalText
    p99: DecimalText


class JctSeconds(Part):
    """Completion times of the last 1000 runs, in seconds."""

    mean: DecimalText
    p90: DecimalText


class Prediction(Part):
    """How the cost of runs is predicted now, and how far off it was."""

    source: PredictionSource
    model_version: Text | None = None
    relative_error: DecimalText | None = None


class ApplicationStatus(Part):
    """``LLMApplication.status``; parts without a measurement are absent."""

    observed_generation: ObservedGeneration | None = None
    conditions: Conditions = ()
    application_name: Text | None = None
    pool: Text | None = None
    effective_policy: EffectivePolicy | None = None
    runs: RunCounts | None = None
    weighted_share: DecimalText | None = None
    fairness_ratio: RatioQuantiles | None = None
    jct_seconds: JctSeconds | None = None
    prediction: Prediction | None = None
