"""What every part of a resource is made of: one base class and the types of plain fields."""

from typing import Annotated, Any, Final

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, model_validator
from pydantic.alias_generators import to_camel

from justitia.core.errors import shown

#: Largest whole number: what every JSON reader keeps exactly (2**53 - 1).
MAX_WHOLE: Final = 9007199254740991
_LABEL: Final = r"[a-z0-9]([-a-z0-9]*[a-z0-9])?"


def _api_name(name: str) -> str:
    """Name a field in the API: units are in our names (``idle_timeout_s``), not in the API's."""
    return to_camel(name.removesuffix("_s"))


def _read_whole(value: object) -> int:
    if isinstance(value, int) and not isinstance(value, bool):
        return value
    if isinstance(value, float) and value.is_integer():
        return int(value)
    raise ValueError(f"must be a whole number, got {shown(value)}")


class Part(BaseModel):
    """A part of a resource: camel case outside, unknown fields refused, frozen.

    A field that is there but null is one that is not there, as for the API server.
    """

    model_config = ConfigDict(
        alias_generator=_api_name,
        extra="forbid",
        frozen=True,
        populate_by_name=True,
    )

    @model_validator(mode="before")
    @classmethod
    def _drop_nulls(cls, value: Any) -> Any:
        if not isinstance(value, dict):
            return value
        return {name: item for name, item in value.items() if item is not None}

    def to_object(self) -> dict[str, Any]:
        """Write the part as the API takes it: JSON's types, camel case, what is absent left out."""
        written: dict[str, Any] = self.model_dump(by_alias=True, exclude_none=True, mode="json")
        return {name: value for name, value in written.items() if value not in ([], {})}


#: Ends the annotation of a whole number: JSON's 8.0 is one, a string is none.
WHOLE: Final = BeforeValidator(_read_whole)
#: Name of a namespace, Service or container.
Label = Annotated[str, Field(pattern=f"^{_LABEL}$", max_length=63)]
#: Name of most other objects.
Subdomain = Annotated[str, Field(pattern=rf"^{_LABEL}(\.{_LABEL})*$", max_length=253)]
#: Key of a Secret or ConfigMap.
DataKey = Annotated[str, Field(pattern=r"^[-._a-zA-Z0-9]+$", max_length=253)]
#: Key of a label or taint: an optional domain, a slash, a name.
QualifiedName = Annotated[
    str,
    Field(
        pattern=rf"^({_LABEL}(\.{_LABEL})*/)?[A-Za-z0-9]([-A-Za-z0-9_.]*[A-Za-z0-9])?$",
        max_length=317,
    ),
]
#: Value of a label or taint.
LabelValue = Annotated[
    str, Field(pattern="^([A-Za-z0-9]([-A-Za-z0-9_.]*[A-Za-z0-9])?)?$", max_length=63)
]
