"""What decisions are made from: plain frozen values, whoever they came from.

``gather`` makes them from the API server's objects and the scheduler service's answers. Nothing
else reaches ``decide``, so that a decision can be repeated from its facts alone.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from enum import StrEnum
from typing import Any, Final, NamedTuple

from justitia.resources.application import ApplicationSpec
from justitia.resources.profile import ProfileSpec
from justitia.resources.profile_status import JobOutcome, JobTrigger

GROUP: Final = "justitia.dev"
VERSION: Final = "v1alpha1"
API_VERSION: Final = f"{GROUP}/{VERSION}"
#: On a pool's Service: namespaces whose applications may refer to it, separated by commas, or "*".
GRANT_ANNOTATION: Final = f"{GROUP}/allowed-namespaces"
#: On an LLMApplication: train its predictor once more, at this time or soon after it.
REQUEST_ANNOTATION: Final = f"{GROUP}/training-requested-at"


class Kind(StrEnum):
    """Kinds of objects that the operator watches."""

    APPLICATION = "LLMApplication"
    PROFILE = "PredictorProfile"
    SERVICE = "Service"
    JOB = "Job"


class Key(NamedTuple):
    """Names one object of a kind."""

    namespace: str
    name: str

    def __str__(self) -> str:
        return f"{self.namespace}/{self.name}"


@dataclass(frozen=True, kw_only=True, slots=True)
class Condition:
    """One of an object's conditions; ``since`` is its lastTransitionTime as written."""

    type: str
    status: str
    reason: str
    message: str = ""
    observed_generation: int = 0
    since: str = ""


@dataclass(frozen=True, kw_only=True, slots=True)
class Meta:
    """What identifies an object (FK1): a recreated one has the same key and another uid."""

    key: Key
    uid: str
    generation: int = 0
    resource_version: str = ""
    created_at: datetime | None = None
    is_deleting: bool = False


@dataclass(frozen=True, kw_only=True, slots=True)
class JobRecord:
    """What is remembered of a training Job; times as the API server writes them, empty: not yet.

    ``name`` is made from the reason (``training``): the same reason never gives another Job.
    ``newest_sample_at``: as the service told it before the Job was made, on its clock.
    """

    application: str
    name: str
    trigger: JobTrigger
    outcome: JobOutcome = JobOutcome.RUNNING
    newest_sample_at: str = ""
    started_at: str = ""
    finished_at: str = ""
    reason: str = ""
    message: str = ""

    @property
    def is_over(self) -> bool:
        """Whether the Job has ended, well or badly."""
        return self.outcome is not JobOutcome.RUNNING


@dataclass(frozen=True, kw_only=True, slots=True)
class ApplicationFacts:
    """An LLMApplication. ``spec`` None: it is refused, and ``problem`` says why in one sentence."""

    meta: Meta
    spec: ApplicationSpec | None
    problem: str = ""
    conditions: tuple[Condition, ...] = ()
    #: As it was found, to see whether another one must be written.
    status: Mapping[str, Any] = field(default_factory=dict)
    #: When somebody asked for a training; None: nobody did.
    training_requested_at: datetime | None = None

    @property
    def pool(self) -> Key:
        """The object that the poolRef names; only for a spec that was read."""
        if self.spec is None:
            raise ValueError(f"{self.meta.key}: the spec is refused: {self.problem}")
        ref = self.spec.pool_ref
        return Key(ref.namespace or self.meta.key.namespace, ref.name)

    @property
    def profile(self) -> Key | None:
        """The PredictorProfile that is asked for."""
        ref = None if self.spec is None else self.spec.predictor.profile_ref
        return None if ref is None else Key(self.meta.key.namespace, ref.name)


@dataclass(frozen=True, kw_only=True, slots=True)
class ProfileFacts:
    """A PredictorProfile. ``spec`` None: it is refused, and ``problem`` says why."""

    meta: Meta
    spec: ProfileSpec | None
    problem: str = ""
    conditions: tuple[Condition, ...] = ()
    status: Mapping[str, Any] = field(default_factory=dict)
    #: What the status remembers of the last Job of each application, by the application's name.
    records: Mapping[str, JobRecord] = field(default_factory=dict)


@dataclass(frozen=True, kw_only=True, slots=True)
class PoolObject:
    """The object that a poolRef names. ``grants``: namespaces that may refer to it, or "*"."""

    key: Key
    grants: frozenset[str] = frozenset()

    def admits(self, namespace: str) -> bool:
        """Whether applications of a namespace may refer to this pool."""
        return namespace == self.key.namespace or bool(self.grants & {"*", namespace})


@dataclass(frozen=True, kw_only=True, slots=True)
class JobFacts:
    """A training Job of ours."""

    meta: Meta
    application_uid: str
    profile_uid: str
    record: JobRecord
    #: Whether a pod of it runs, or has run to its end.
    has_pod: bool = False


@dataclass(frozen=True, kw_only=True, slots=True)
class ModelFacts:
    """A published model."""

    version: str
    published_at: str
    samples: int
    relative_error: float


@dataclass(frozen=True, kw_only=True, slots=True)
class Program:
    """What the scheduler service is told of an application; equal programs need no call."""

    pool: str
    name: str
    declared_by: str
    weight: float
    fallback_cost_kvtt: float | None
    privacy: str
    idle_timeout_s: float
    max_duration_s: float
    max_concurrent_runs: int
    objective_max_ratio: float
    objective_for_s: float


@dataclass(frozen=True, kw_only=True, slots=True)
class Figures:
    """What became of an application's runs, as the service measured it."""

    active_runs: int = 0
    completed_runs: int = 0
    weighted_share: float = 0.0
    ratio_p50: float = 0.0
    ratio_p99: float = 0.0
    jct_mean_s: float = 0.0
    jct_p90_s: float = 0.0
    prediction_source: str = ""
    model_version: str = ""
    relative_error: float = 0.0
    #: Of the active model's own predictions alone, and on how many runs that was measured.
    model_relative_error: float = 0.0
    model_judged_runs: int = 0
    samples: int = 0
    samples_since_model: int = 0
    #: When the newest of all finished, and when the first of the newest third of those since the
    #: model did, on the service's clock; None: there are none.
    newest_sample_at: datetime | None = None
    newest_third_from: datetime | None = None
    #: What the service says of the objective: "met", "missed", "too_few_runs" or "no_objective".
    verdict: str = ""
    #: What it compares with the objective; 0: too few runs.
    ratio_recent: float = 0.0


@dataclass(frozen=True, kw_only=True, slots=True)
class Declared:
    """An application as the service holds it."""

    program: Program
    figures: Figures = Figures()


@dataclass(frozen=True, kw_only=True, slots=True)
class PoolState:
    """A pool as the service sees it; ``policies`` of its connected engines by engine."""

    is_shadow: bool
    policies: Mapping[str, str] = field(default_factory=dict)


class Reach(StrEnum):
    """Whether the scheduler service can be reached."""

    YES = "yes"
    #: Not now; what was known still stands.
    BRIEFLY_NOT = "briefly not"
    NO = "no"
