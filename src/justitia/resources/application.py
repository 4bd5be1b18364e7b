"""``LLMApplication``: a kind of agent or workflow, declared once.

``crds/llmapplications.yaml`` describes every field; a test holds both against each other.
"""

from decimal import Decimal
from enum import StrEnum
from typing import Annotated, Any, Final, Literal

from pydantic import AfterValidator, Field

from justitia.core.privacy import Privacy
from justitia.resources.duration import DurationRange
from justitia.resources.metadata import Metadata
from justitia.resources.parts import WHOLE, DataKey, Label, Part, Subdomain
from justitia.resources.quantity import QuantityRange

API_VERSION: Final = "justitia.dev/v1alpha1"
MAX_CREDENTIALS: Final = 16
MAX_CONCURRENT_RUNS: Final = 1_000_000

#: The core's range of weights, 1e-9 to 1e9: nothing positive is smaller than 1n.
Weight = Annotated[Decimal, QuantityRange("0", "1G", is_low_excluded=True)]
#: KV tokens x engine steps, up to the core's largest cost of a run, 1e18.
KvTokenTime = Annotated[Decimal, QuantityRange("1", "1E")]
#: A fair ratio below 1 cannot be promised: the reference itself has 1.
FairRatio = Annotated[Decimal, QuantityRange("1", "1k")]
RunDurationS = Annotated[float, DurationRange("1s", "8784h")]


class FailureMode(StrEnum):
    """What happens to inferences while the scheduler service is away."""

    FAIL_OPEN = "FailOpen"
    FAIL_CLOSE = "FailClose"


class Mode(StrEnum):
    """Whether the order of virtual finish is in force or only measured."""

    ENFORCE = "Enforce"
    SHADOW = "Shadow"


class PoolRef(Part):
    """The pool that an application's runs go to: the Service in front of its engines.

    ``namespace`` None: the application's own; another one must grant it.
    """

    group: Literal[""] = ""
    kind: Literal["Service"] = "Service"
    name: Label = "default"
    namespace: Label | None = None


class ProfileRef(Part):
    """A PredictorProfile of the same namespace."""

    name: Annotated[Subdomain, Field(max_length=63)]


class PredictorPart(Part):
    """How the cost of runs is predicted."""

    profile_ref: ProfileRef | None = None
    privacy: Privacy = Privacy.TEXT


class FallbackCost(Part):
    """Cost of a run that nothing better is known of."""

    kv_token_time: KvTokenTime


class SecretRef(Part):
    """One key of a Secret of the same namespace."""

    name: Subdomain
    key: DataKey


class Credential(Part):
    """An API key; who presents it is this application."""

    secret_ref: SecretRef


def _check_unique(credentials: tuple[Credential, ...]) -> tuple[Credential, ...]:
    if len(set(credentials)) < len(credentials):
        raise ValueError("must not name the same key of a Secret twice")
    return credentials


Credentials = Annotated[
    tuple[Credential, ...], Field(max_length=MAX_CREDENTIALS), AfterValidator(_check_unique)
]


class IdentityPart(Part):
    """Who may claim to be this application."""

    credentials: Credentials = ()


class RunPart(Part):
    """When a run ends by itself, and how many may be open."""

    idle_timeout_s: RunDurationS = 60.0
    max_duration_s: RunDurationS | None = None
    max_concurrent: Annotated[int, Field(ge=1, le=MAX_CONCURRENT_RUNS), WHOLE] | None = None


class Objective(Part):
    """The fair ratio that is promised, and how long it may be missed before that counts."""

    max_ratio: FairRatio
    for_s: Annotated[float, DurationRange("0s", "168h")] = 300.0


class FairnessPart(Part):
    """What is alerted on."""

    objective: Objective | None = None


class ApplicationSpec(Part):
    """``LLMApplication.spec``."""

    pool_ref: PoolRef = PoolRef()
    weight: Weight = Decimal(1)
    predictor: PredictorPart = PredictorPart()
    fallback_cost: FallbackCost | None = None
    identity: IdentityPart = IdentityPart()
    run: RunPart = RunPart()
    failure_mode: FailureMode = FailureMode.FAIL_OPEN
    mode: Mode = Mode.ENFORCE
    fairness: FairnessPart = FairnessPart()


class LLMApplication(Part):
    """A kind of agent or workflow, declared once.

    ``status`` is kept as it was found: it is output, and an unreadable one harms nothing.
    """

    api_version: Literal["justitia.dev/v1alpha1"]
    kind: Literal["LLMApplication"]
    metadata: Metadata
    spec: ApplicationSpec = ApplicationSpec()
    status: dict[str, Any] = Field(default_factory=dict)
