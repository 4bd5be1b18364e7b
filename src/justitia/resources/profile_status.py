"""``PredictorProfile.status``: what the operator writes and everybody reads."""

from enum import StrEnum
from typing import Annotated, Final

from pydantic import AwareDatetime, Field

from justitia.resources.application_status import Count, Text
from justitia.resources.conditions import Conditions, ObservedGeneration
from justitia.resources.numbers import DecimalText
from justitia.resources.parts import Part, Subdomain

#: Applications that are listed; ``application_count`` counts all.
MAX_LISTED_APPLICATIONS: Final = 100
Message = Annotated[str, Field(max_length=1024)]


class JobOutcome(StrEnum):
    """What became of a training Job."""

    RUNNING = "Running"
    SUCCEEDED = "Succeeded"
    FAILED = "Failed"


class JobTrigger(StrEnum):
    """Why a training Job was made."""

    FIRST = "First"
    SCHEDULE = "Schedule"
    NEW_SAMPLES = "NewSamples"
    RELATIVE_ERROR = "RelativeError"
    SPEC_CHANGED = "SpecChanged"
    REQUESTED = "Requested"


class ActiveModel(Part):
    """The model in service of one application; ``version`` is a digest."""

    application: Text
    version: Text
    trained_at: AwareDatetime
    samples: Count
    relative_error: DecimalText | None = None


class LastJob(Part):
    """The newest training Job of one application."""

    application: Text
    name: Subdomain
    trigger: JobTrigger
    outcome: JobOutcome
    newest_sample_at: AwareDatetime | None = None
    started_at: AwareDatetime | None = None
    finished_at: AwareDatetime | None = None
    reason: Annotated[str, Field(max_length=256)] | None = None
    message: Message | None = None


class TrainedApplication(Part):
    """What training did for one application that refers to the profile."""

    name: Annotated[Subdomain, Field(max_length=63)]
    active_model: ActiveModel | None = None
    last_job: LastJob | None = None


class ProfileStatus(Part):
    """``PredictorProfile.status``.

    ``active_model`` and ``last_job`` are the newest of all applications; ``applications`` lists
    the first hundred by name.
    """

    observed_generation: ObservedGeneration | None = None
    conditions: Conditions = ()
    application_count: Count | None = None
    applications: Annotated[
        tuple[TrainedApplication, ...], Field(max_length=MAX_LISTED_APPLICATIONS)
    ] = ()
    active_model: ActiveModel | None = None
    last_job: LastJob | None = None
