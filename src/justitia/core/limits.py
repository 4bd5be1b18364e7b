"""Bounds that parts on both ends of a connection must agree on."""

from typing import Final

#: Longest name of a run, an application, a pool or an engine.
MAX_ID_CHARS: Final = 256

#: Largest prompt of a run; clients cut longer ones, of which no predictor would read more.
MAX_PROMPT_BYTES: Final = 1 << 20

#: Largest predictor: every model that training's settings allow fits in.
MAX_ARTEFACT_BYTES: Final = 24 << 20
#: Largest message between a client and the scheduler service: an artefact and its envelope.
MAX_MESSAGE_BYTES: Final = MAX_ARTEFACT_BYTES + (4 << 20)


def is_usable_id(text: str) -> bool:
    """Whether a text can name something: 1 to 256 printable characters, not only blanks."""
    return 1 <= len(text) <= MAX_ID_CHARS and text.isprintable() and not text.isspace()
