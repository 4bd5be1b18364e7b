"""What may be known of prompts: one list of words for manifests, service and predictor."""

import re
from enum import StrEnum
from typing import Final

#: Letters a to z that a word of a prompt becomes where it is hashed.
HASHED_WORD_LETTERS: Final = 5
_HASHED: Final = re.compile(rf"[ ?\n]*(?:[a-z]{{{HASHED_WORD_LETTERS}}}(?:[ ?\n]+|\Z))*")


class Privacy(StrEnum):
    """What of a prompt may be kept and looked at; the values are those of the resource."""

    TEXT = "Text"
    HASHED = "Hashed"
    NONE = "None"


def strictest(*settings: Privacy) -> Privacy:
    """Return the setting, of at least one, that allows least."""
    return max(settings, key=list(Privacy).index)


def is_hashed(text: str) -> bool:
    """Whether a text is hashed words alone: each of five letters, with blanks, ? and line ends.

    A text whose words all have five letters passes too: the shape is all that can be checked.
    """
    return _HASHED.fullmatch(text) is not None
