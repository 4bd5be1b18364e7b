"""``PredictorProfile.spec.job``: the Kubernetes Job that trains.

Field names and meanings are those of a pod's specification; what the API server checks of a pod it
checks when the Job is made, here only what would otherwise be found out late.
"""

from enum import StrEnum
from typing import Annotated, Final, Literal, Self

from pydantic import Field, model_validator

from justitia.resources.duration import DurationRange
from justitia.resources.parts import (
    MAX_WHOLE,
    WHOLE,
    Label,
    LabelValue,
    Part,
    QualifiedName,
    Subdomain,
)
from justitia.resources.quantity import Amount

MAX_RESOURCES: Final = 16
MAX_CLAIMS: Final = 8
MAX_TOLERATIONS: Final = 32
MAX_NODE_LABELS: Final = 32
MAX_PULL_SECRETS: Final = 8

Amounts = Annotated[dict[str, Amount], Field(max_length=MAX_RESOURCES)]
NodeSelector = Annotated[dict[str, LabelValue], Field(max_length=MAX_NODE_LABELS)]


class PullPolicy(StrEnum):
    """When the kubelet fetches the image."""

    ALWAYS = "Always"
    IF_NOT_PRESENT = "IfNotPresent"
    NEVER = "Never"


class TaintEffect(StrEnum):
    """What a taint does to pods that do not tolerate it."""

    NO_SCHEDULE = "NoSchedule"
    PREFER_NO_SCHEDULE = "PreferNoSchedule"
    NO_EXECUTE = "NoExecute"


class SecretName(Part):
    """A Secret of the same namespace."""

    name: Subdomain


class ContainerClaim(Part):
    """An entry of ``resourceClaims`` that the container uses; ``request`` None: all of it."""

    name: Label
    request: Label | None = None


class Resources(Part):
    """What the container requests, may use, and claims."""

    requests: Amounts = Field(default_factory=dict)
    limits: Amounts = Field(default_factory=dict)
    claims: Annotated[tuple[ContainerClaim, ...], Field(max_length=MAX_CLAIMS)] = ()


class PodClaim(Part):
    """A DRA claim of the pod: an existing one, or a template for one of its own."""

    name: Label
    resource_claim_name: Subdomain | None = None
    resource_claim_template_name: Subdomain | None = None

    @model_validator(mode="after")
    def _check_one(self) -> Self:
        if (self.resource_claim_name is None) == (self.resource_claim_template_name is None):
            raise ValueError(
                "exactly one of resourceClaimName and resourceClaimTemplateName must be set"
            )
        return self


class Toleration(Part):
    """A taint that the pod may live with; without ``key`` every one."""

    key: QualifiedName | None = None
    operator: Literal["Equal", "Exists"] = "Equal"
    value: LabelValue | None = None
    effect: TaintEffect | None = None
    toleration_seconds: Annotated[int, Field(ge=0, le=MAX_WHOLE), WHOLE] | None = None

    @model_validator(mode="after")
    def _check_together(self) -> Self:
        if self.operator == "Exists" and self.value:
            raise ValueError("value must be empty when operator is Exists")
        if self.operator == "Equal" and not self.key:
            raise ValueError("operator must be Exists when key is empty")
        if self.toleration_seconds is not None and self.effect != TaintEffect.NO_EXECUTE:
            raise ValueError("effect must be NoExecute when tolerationSeconds is set")
        return self


class JobPart(Part):
    """The training Job; ``image`` None: the operator's own choice.

    ``ttl_s``: how long a finished Job stays; ``active_deadline_s``: how long it may take with all
    its retries.
    """

    image: Annotated[str, Field(min_length=1, max_length=512)] | None = None
    image_pull_policy: PullPolicy = PullPolicy.IF_NOT_PRESENT
    image_pull_secrets: Annotated[tuple[SecretName, ...], Field(max_length=MAX_PULL_SECRETS)] = ()
    resources: Resources = Resources()
    resource_claims: Annotated[tuple[PodClaim, ...], Field(max_length=MAX_CLAIMS)] = ()
    node_selector: NodeSelector = Field(default_factory=dict)
    tolerations: Annotated[tuple[Toleration, ...], Field(max_length=MAX_TOLERATIONS)] = ()
    priority_class_name: Subdomain | None = None
    runtime_class_name: Subdomain | None = None
    ttl_s: Annotated[float, DurationRange("0s", "8784h")] = 86400.0
    backoff_limit: Annotated[int, Field(ge=0, le=10), WHOLE] = 2
    active_deadline_s: Annotated[float, DurationRange("10s", "168h")] = 3600.0

    @model_validator(mode="after")
    def _check_claims(self) -> Self:
        names = [claim.name for claim in self.resource_claims]
        if len(set(names)) < len(names):
            raise ValueError("resourceClaims must not have the same name twice")
        for claim in self.resources.claims:
            if claim.name not in names:
                raise ValueError("resources.claims must name entries of resourceClaims")
        return self
