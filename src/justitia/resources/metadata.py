"""ObjectMeta, as far as this project reads it."""

from typing import Annotated, Final

from pydantic import ConfigDict, Field
from pydantic.alias_generators import to_camel

from justitia.resources.parts import Label, Part, Subdomain

#: Names are carried by labels of what is made for a resource, and a label takes no more.
MAX_NAME_CHARS: Final = 63


class Metadata(Part):
    """Who a resource is: namespace, name and, in a cluster, ``uid``."""

    model_config = ConfigDict(alias_generator=to_camel, extra="allow", frozen=True)

    name: Annotated[Subdomain, Field(max_length=MAX_NAME_CHARS)]
    namespace: Label = "default"
    uid: str = ""
    generation: int = 0
    labels: dict[str, str] = Field(default_factory=dict)
    annotations: dict[str, str] = Field(default_factory=dict)
    deletion_timestamp: str | None = None
