"""What may be known of prompts: one list of words for manifests, service and predictor."""

from enum import StrEnum


class Privacy(StrEnum):
    """What of a prompt may be kept and looked at; the values are those of the resource."""

    TEXT = "Text"
    HASHED = "Hashed"
    NONE = "None"
