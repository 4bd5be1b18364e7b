"""Bounds on what callers may send, and the checks that name the field (FS4, FS9)."""

from typing import Final

from justitia.core.errors import InvalidValueError
from justitia.core.limits import MAX_ID_CHARS, MAX_PROMPT_BYTES, is_usable_id
from justitia.core.privacy import HASHED_WORD_LETTERS, is_hashed
from justitia.core.units import Ticks

MAX_HELLO_RUNS: Final = 5000
MAX_KNOWN_RUNS: Final = 100_000
MAX_REPORT_ITEMS: Final = 2000
MAX_PAGE_SIZE: Final = 1000
DEFAULT_PAGE_SIZE: Final = 100
MAX_POOLS: Final = 256
MAX_ENGINES: Final = 1024
MAX_WATCHERS: Final = 32
MAX_APPLICATIONS: Final = 2000
MAX_MODELS_PER_APPLICATION: Final = 5
#: Runs that a training may say it has held out: half of the samples that it takes.
MAX_HELD_OUT: Final = 20_000
MAX_TICKS_DIGITS: Final = 100
#: Counters of engines beyond this are no measurements; also fits every integer type on the way.
MAX_COUNTER_KVTT: Final = 10**18
#: Ids that wait for a reader that does not read; then it is told so and starts again.
MAX_PENDING_IDS: Final = 200_000
_SHOWN_CHARS: Final = 40


def require_id(field: str, value: str) -> str:
    """Return an id of 1 to 256 printable characters.

    Raises:
        InvalidValueError: empty, longer, blank, or with control characters.
    """
    if not is_usable_id(value):
        is_short = len(value) <= _SHOWN_CHARS
        shown = value if is_short else f"{value[:_SHOWN_CHARS]}... ({len(value)} characters)"
        raise InvalidValueError(
            field, f"must have 1 to {MAX_ID_CHARS} printable characters, got {shown!r}"
        )
    return value


def require_prompt(field: str, value: str) -> str:
    """Return a prompt of at most 1 MiB."""
    size = len(value.encode())
    if size > MAX_PROMPT_BYTES:
        raise InvalidValueError(field, f"must have at most {MAX_PROMPT_BYTES} bytes, got {size}")
    return value


def require_hashed(field: str, value: str) -> str:
    """Return a prompt whose words are hashed; what looks like text is refused, and never kept."""
    if not is_hashed(require_prompt(field, value)):
        raise InvalidValueError(
            field,
            f"must hold hashed words alone: each of {HASHED_WORD_LETTERS} letters a to z,"
            " with blanks, ? and line ends between them",
        )
    return value


def page_size(field: str, value: int) -> int:
    """Return how many items a page holds; 0 means the default."""
    if not 0 <= value <= MAX_PAGE_SIZE:
        raise InvalidValueError(field, f"must be from 0 to {MAX_PAGE_SIZE}, got {value}")
    return value or DEFAULT_PAGE_SIZE


def parse_ticks(field: str, digits: str) -> Ticks:
    """Return virtual time from its decimal digits, negative allowed (a reweighed run's start)."""
    body = digits.removeprefix("-")
    if not 1 <= len(body) <= MAX_TICKS_DIGITS or not (body.isascii() and body.isdigit()):
        raise InvalidValueError(
            field, f"must be 1 to {MAX_TICKS_DIGITS} decimal digits, got {digits[:40]!r}"
        )
    return Ticks(int(digits))
