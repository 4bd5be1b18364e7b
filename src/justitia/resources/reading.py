"""From a parsed document to a resource, or one sentence about what is wrong."""

from typing import Final, Literal

from pydantic import ValidationError

from justitia.core.errors import shown
from justitia.resources.application import LLMApplication
from justitia.resources.errors import ResourceError
from justitia.resources.profile import PredictorProfile

Resource = LLMApplication | PredictorProfile

KINDS: Final[dict[str, type[LLMApplication] | type[PredictorProfile]]] = {
    "LLMApplication": LLMApplication,
    "PredictorProfile": PredictorProfile,
}


def read_resource(
    document: object, *, unknown_fields: Literal["refuse", "ignore"] = "refuse"
) -> Resource:
    """Read a resource; its kind says which.

    People's manifests have no unknown fields, and a typo must not pass. Objects of an API server
    whose schema is newer than this code may have some: read those with ``ignore``.

    Raises:
        ResourceError: the kind is none of ours, or a field is refused.
    """
    kind = document.get("kind") if isinstance(document, dict) else None
    model = KINDS.get(kind) if isinstance(kind, str) else None
    if model is None:
        raise ResourceError("kind", f"must be one of {', '.join(KINDS)}, got {shown(kind)}")
    extra: Literal["forbid", "ignore"] | None = "ignore" if unknown_fields == "ignore" else None
    try:
        return model.model_validate(document, extra=extra)
    except ValidationError as error:
        raise ResourceError.from_validation(error) from None
