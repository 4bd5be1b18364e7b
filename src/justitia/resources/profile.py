"""``PredictorProfile``: how the predictors of a namespace's applications are trained.

``crds/predictorprofiles.yaml`` describes every field; a test holds both against each other.
"""

from decimal import Decimal
from enum import StrEnum
from typing import Annotated, Any, Final, Literal, Self

from pydantic import AfterValidator, Field, model_validator

from justitia.core.errors import shown
from justitia.resources.job import JobPart
from justitia.resources.metadata import Metadata
from justitia.resources.parts import MAX_WHOLE, WHOLE, DataKey, Part, Subdomain
from justitia.resources.quantity import QuantityRange
from justitia.resources.schedule import Schedule

MAX_SAMPLES: Final = 20_000
MAX_TERMS: Final = 8192
_NUM_HIDDEN_LAYERS: Final = 3

Terms = Annotated[int, Field(ge=1, le=MAX_TERMS), WHOLE]
RelativeError = Annotated[Decimal, QuantityRange("0", "1k", is_low_excluded=True)]


_PATH_SENTENCE: Final = "must be a path relative to the volume and without .."


def _check_path(path: str) -> str:
    if path.startswith("/") or ".." in path.split("/"):
        raise ValueError(f"{_PATH_SENTENCE}, got {shown(path)}")
    return path


RelativePath = Annotated[
    str,
    Field(
        min_length=1,
        max_length=512,
        json_schema_extra={
            "x-kubernetes-validations": [
                {
                    "rule": "!self.startsWith('/') && !self.matches('(^|/)[.][.](/|$)')",
                    "message": _PATH_SENTENCE,
                    "messageExpression": f"'{_PATH_SENTENCE}, got ' + self",
                }
            ]
        },
    ),
    AfterValidator(_check_path),
]


class FeaturesPart(Part):
    """What of a text the model sees."""

    max_terms: Terms = 2048
    selected_terms: Terms = 128

    @model_validator(mode="after")
    def _check_order(self) -> Self:
        if self.selected_terms > self.max_terms:
            raise ValueError(
                f"selectedTerms must not exceed maxTerms, got {self.selected_terms} and "
                f"{self.max_terms}"
            )
        return self


class ModelKind(StrEnum):
    """What is learnt."""

    GAUSSIAN_PROCESS = "GaussianProcess"
    NETWORK = "Network"

    @property
    def trainer_name(self) -> str:
        """What ``justitia train --kind`` calls it."""
        return self.name.lower().replace("_", "-")


class ModelPart(Part):
    """What is learnt, and the widths of a network's three hidden layers."""

    kind: ModelKind = ModelKind.GAUSSIAN_PROCESS
    hidden_layers: Annotated[
        tuple[Annotated[int, Field(ge=1, le=512), WHOLE], ...],
        Field(min_length=_NUM_HIDDEN_LAYERS, max_length=_NUM_HIDDEN_LAYERS),
    ] = (64, 32, 16)


class RetrainWhen(Part):
    """What starts a new training, whichever comes first.

    More new samples than a training takes are never there: the service keeps no more.
    """

    new_samples: Annotated[int, Field(ge=1, le=MAX_SAMPLES), WHOLE] | None = None
    relative_error_above: RelativeError | None = None

    @model_validator(mode="after")
    def _check_any(self) -> Self:
        if self.new_samples is None and self.relative_error_above is None:
            raise ValueError("one of newSamples and relativeErrorAbove must be set")
        return self


class TrainingPart(Part):
    """How and when a model is trained."""

    min_samples: Annotated[int, Field(ge=2, le=MAX_SAMPLES), WHOLE] = 20
    max_samples: Annotated[int, Field(ge=2, le=MAX_SAMPLES), WHOLE] = 5000
    validation_fraction: Annotated[float, Field(strict=True, ge=0.01, le=0.5)] = 0.2
    seed: Annotated[int, Field(ge=0, le=MAX_WHOLE), WHOLE] = 0
    schedule: Schedule | None = None
    retrain_when: RetrainWhen | None = None

    @model_validator(mode="after")
    def _check_order(self) -> Self:
        if self.min_samples > self.max_samples:
            raise ValueError(
                f"minSamples must not exceed maxSamples, got {self.min_samples} and "
                f"{self.max_samples}"
            )
        return self


class RecordedSamples(Part):
    """Finished runs that the scheduler service recorded."""


class ConfigMapSamples(Part):
    """A file of recorded runs in a ConfigMap of the same namespace."""

    name: Subdomain
    key: DataKey = "runs.jsonl"


class VolumeSamples(Part):
    """A file of recorded runs on a volume, mounted read-only."""

    claim_name: Subdomain
    path: RelativePath = "runs.jsonl"


class SamplesPart(Part):
    """Where training reads: exactly one source."""

    recorded: RecordedSamples | None = None
    config_map: ConfigMapSamples | None = None
    persistent_volume_claim: VolumeSamples | None = None

    @model_validator(mode="after")
    def _check_one(self) -> Self:
        sources = (self.recorded, self.config_map, self.persistent_volume_claim)
        if sum(source is not None for source in sources) != 1:
            raise ValueError(
                "exactly one of recorded, configMap and persistentVolumeClaim must be set"
            )
        return self


class ProfileSpec(Part):
    """``PredictorProfile.spec``."""

    features: FeaturesPart = FeaturesPart()
    model: ModelPart = ModelPart()
    training: TrainingPart = TrainingPart()
    samples: SamplesPart = SamplesPart(recorded=RecordedSamples())
    job: JobPart = JobPart()


class PredictorProfile(Part):
    """How predictors are trained.

    ``status`` is kept as it was found: it is output, and an unreadable one harms nothing.
    """

    api_version: Literal["justitia.dev/v1alpha1"]
    kind: Literal["PredictorProfile"]
    metadata: Metadata
    spec: ProfileSpec = ProfileSpec()
    status: dict[str, Any] = Field(default_factory=dict)
