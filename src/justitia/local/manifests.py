"""Manifests of group ``justitia.dev/v1alpha1`` as local mode and the CLI read them.

The same files go to a cluster with ``kubectl apply``; here pydantic checks what the resource's
schema checks there. Needs the extra ``cli``.
"""

import re
from collections.abc import Iterator
from decimal import Decimal, InvalidOperation
from enum import StrEnum
from pathlib import Path
from typing import Annotated, Any, Final, Literal

import yaml
from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, ValidationError
from pydantic.alias_generators import to_camel

from justitia.local.errors import LocalModeError

API_VERSION: Final = "justitia.dev/v1alpha1"

_SUFFIXES: Final = {
    "n": Decimal("1e-9"),
    "u": Decimal("1e-6"),
    "m": Decimal("1e-3"),
    "": Decimal(1),
    **{suffix: Decimal(10) ** (3 * n) for n, suffix in enumerate("kMGTPE", start=1)},
    **{f"{suffix}i": Decimal(1024) ** n for n, suffix in enumerate("KMGTPE", start=1)},
}
_QUANTITY: Final = re.compile(r"([+-]?[0-9.]+(?:[eE][+-]?[0-9]{1,3})?)(n|u|m|k|[KMGTPE]i|[MGTPE])?")
_DURATION_S: Final = {"ms": 1e-3, "s": 1.0, "m": 60.0, "h": 3600.0}
_DURATION: Final = re.compile(r"(?:[0-9]+(?:\.[0-9]+)?(?:ms|s|m|h))+")


class ManifestError(LocalModeError):
    """A manifest is refused; the message names the file, the field and the value."""


def parse_quantity(value: object) -> Decimal:
    """Read a Kubernetes quantity (``2``, ``"500m"``, ``"1.5"``, ``"2e6"``, ``"4Ki"``)."""
    match = _QUANTITY.fullmatch(str(value).strip())
    if isinstance(value, bool) or match is None:
        raise ValueError(f"must be a quantity such as 2, 500m or 1e6, got {value!r}")
    try:
        return Decimal(match[1]) * _SUFFIXES[match[2] or ""]
    except InvalidOperation:
        raise ValueError(f"must be a quantity such as 2, 500m or 1e6, got {value!r}") from None


def parse_duration_s(value: object) -> float:
    """Read a duration such as ``"90s"``, ``"1h30m"`` or ``"500ms"`` as seconds."""
    text = str(value).strip()
    if _DURATION.fullmatch(text) is None:
        raise ValueError(f"must be a duration such as 90s or 1h30m, got {value!r}")
    parts = re.findall(r"([0-9.]+)(ms|s|m|h)", text)
    return sum(float(number) * _DURATION_S[unit] for number, unit in parts)


def _positive(value: object) -> Decimal:
    quantity = parse_quantity(value)
    if quantity <= 0:
        raise ValueError(f"must be greater than 0, got {value!r}")
    return quantity


PositiveQuantity = Annotated[Decimal, BeforeValidator(_positive)]
DurationS = Annotated[float, BeforeValidator(parse_duration_s)]


class _Part(BaseModel):
    model_config = ConfigDict(
        alias_generator=to_camel, extra="forbid", frozen=True, populate_by_name=True
    )


class Privacy(StrEnum):
    """What may be known of an application's prompts."""

    TEXT = "Text"
    HASHED = "Hashed"
    NONE = "None"


class Metadata(_Part):
    """The part of ObjectMeta that matters outside a cluster."""

    model_config = ConfigDict(extra="allow", frozen=True)

    name: str = Field(pattern=r"^[a-z0-9]([-a-z0-9.]{0,251}[a-z0-9])?$")
    namespace: str = "default"


class PoolRef(_Part):
    """The pool that an application's runs go to."""

    group: str = ""
    kind: str = "Service"
    name: str = "default"


class ProfileRef(_Part):
    """A PredictorProfile by name."""

    name: str


class PredictorPart(_Part):
    """How the cost of runs is predicted."""

    profile_ref: ProfileRef | None = None
    privacy: Privacy = Privacy.TEXT


class FallbackCost(_Part):
    """Cost of a run that nothing better is known of."""

    kv_token_time: PositiveQuantity


class RunPart(_Part):
    """When a run ends by itself, and how many may be open."""

    idle_timeout: DurationS = 60.0
    max_duration: DurationS | None = None
    max_concurrent: int | None = Field(default=None, ge=1)


class Objective(_Part):
    """The fair ratio that is promised."""

    max_ratio: PositiveQuantity
    for_: DurationS = Field(default=300.0, alias="for")


class Fairness(_Part):
    """What is alerted on."""

    objective: Objective | None = None


class ApplicationSpec(_Part):
    """``LLMApplication.spec``."""

    pool_ref: PoolRef = PoolRef()
    weight: PositiveQuantity = Decimal(1)
    predictor: PredictorPart = PredictorPart()
    fallback_cost: FallbackCost | None = None
    identity: dict[str, Any] | None = None
    run: RunPart = RunPart()
    failure_mode: Literal["FailOpen", "FailClose"] = "FailOpen"
    mode: Literal["Enforce", "Shadow"] = "Enforce"
    fairness: Fairness = Fairness()


class LLMApplication(_Part):
    """A kind of agent or workflow, declared once."""

    api_version: Literal["justitia.dev/v1alpha1"]
    kind: Literal["LLMApplication"]
    metadata: Metadata
    spec: ApplicationSpec = ApplicationSpec()


class ModelPart(_Part):
    """Shape of the model."""

    hidden_layers: tuple[Annotated[int, Field(ge=1, le=1024)], ...] | None = None


class RetrainWhen(_Part):
    """What starts a new training."""

    new_samples: int | None = Field(default=None, ge=1)
    relative_error_above: PositiveQuantity | None = None


class TrainingPart(_Part):
    """How a model is trained."""

    min_samples: int = Field(default=100, ge=2)
    max_samples: int | None = Field(default=None, ge=2)
    validation_fraction: float = Field(default=0.2, gt=0, lt=1)
    seed: int = 0
    schedule: str | None = None
    retrain_when: RetrainWhen | None = None


class ProfileSpec(_Part):
    """``PredictorProfile.spec``; ``features``, ``samples`` and ``job`` are the operator's."""

    features: dict[str, Any] | None = None
    model: ModelPart = ModelPart()
    training: TrainingPart = TrainingPart()
    samples: dict[str, Any] | None = None
    job: dict[str, Any] | None = None


class PredictorProfile(_Part):
    """How predictors are trained."""

    api_version: Literal["justitia.dev/v1alpha1"]
    kind: Literal["PredictorProfile"]
    metadata: Metadata
    spec: ProfileSpec = ProfileSpec()


Manifest = LLMApplication | PredictorProfile
_KINDS: Final[dict[str, type[LLMApplication] | type[PredictorProfile]]] = {
    "LLMApplication": LLMApplication,
    "PredictorProfile": PredictorProfile,
}


def read_manifests(path: Path) -> list[Manifest]:
    """Read every manifest of a YAML file, or of all ``*.yaml`` below a folder in order of name.

    Raises:
        ManifestError: nothing is there, the YAML is broken, or a field is refused.
    """
    files = sorted(path.rglob("*.yaml")) if path.is_dir() else [path]
    manifests = [manifest for file in files for manifest in _read_file(file)]
    if not manifests:
        raise ManifestError(f"{path}: no manifest found")
    seen: set[tuple[str, str, str]] = set()
    for manifest in manifests:
        key = (manifest.kind, manifest.metadata.namespace, manifest.metadata.name)
        if key in seen:
            raise ManifestError(f"{path}: {key[0]} {key[1]}/{key[2]} is there twice")
        seen.add(key)
    return manifests


def _read_file(file: Path) -> Iterator[Manifest]:
    try:
        documents = list(yaml.safe_load_all(file.read_text(encoding="utf-8")))
    except FileNotFoundError:
        raise ManifestError(f"{file}: no such file") from None
    except (OSError, UnicodeDecodeError, yaml.YAMLError) as error:
        raise ManifestError(f"{file}: cannot be read: {error}") from None
    for document in documents:
        if document is not None:
            yield _parse(file, document)


def _parse(file: Path, document: object) -> Manifest:
    kind = document.get("kind") if isinstance(document, dict) else None
    model = _KINDS.get(kind) if isinstance(kind, str) else None
    if model is None:
        raise ManifestError(f"{file}: kind: must be one of {', '.join(_KINDS)}, got {kind!r}")
    try:
        return model.model_validate(document)
    except ValidationError as error:
        first = error.errors(include_url=False)[0]
        field = ".".join(str(part) for part in first["loc"])
        problem = first["msg"].removeprefix("Value error, ")
        raise ManifestError(f"{file}: {field}: {problem}") from None
