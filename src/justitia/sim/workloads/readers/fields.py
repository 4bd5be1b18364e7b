"""Values of rows, checked. Nothing is evaluated; a bad value is an error that names it."""

import json
import math
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from typing import Final

from justitia.core.errors import shown
from justitia.sim.scenario import MAX_TOKENS

Fields = Mapping[str, object]

_MAX_FRACTION_DIGITS: Final = 6


def parse_object(line: bytes | ValueError) -> Fields:
    """Read a line that is one JSON object.

    Raises:
        ValueError: it is not.
    """
    if isinstance(line, ValueError):
        raise line
    try:
        value = json.loads(line)
    except RecursionError:
        raise ValueError("is nested too deeply") from None
    return as_object(value, "a row")


def as_object(value: object, name: str) -> Fields:
    """Return a value that is a JSON object.

    Raises:
        ValueError: it is not.
    """
    if not isinstance(value, dict):
        raise ValueError(f"{name}: must be an object, got {shown(value)}")  # noqa: TRY004
    return value


def as_list(value: object, name: str) -> Sequence[object]:
    """Return a value that is a JSON array.

    Raises:
        ValueError: it is not.
    """
    if not isinstance(value, list):
        raise ValueError(f"{name}: must be an array, got {shown(value)}")  # noqa: TRY004
    return value


def first_of(fields: Fields, *names: str) -> object:
    """Return the value of the first name that is there and not null; None if none is."""
    return next((fields[name] for name in names if fields.get(name) is not None), None)


def tokens(fields: Fields, *names: str, least: int = 0) -> int:
    """Return a number of tokens under one of these names.

    Raises:
        ValueError: it is missing, not whole, or out of range.
    """
    value = first_of(fields, *names)
    number = _whole(value)
    if number is None or not least <= number <= MAX_TOKENS:
        wanted = f"must be a whole number from {least} to {MAX_TOKENS}"
        raise ValueError(f"{names[0]}: {wanted}, got {_got(value)}")
    return number


def seconds(fields: Fields, *names: str, unit_s: float = 1.0) -> float:
    """Return a time under one of these names, in seconds.

    Raises:
        ValueError: it is missing or no finite number.
    """
    value = first_of(fields, *names)
    number = _number(value)
    if number is None:
        raise ValueError(f"{names[0]}: must be a finite number, got {_got(value)}")
    return number * unit_s


def optional_seconds(fields: Fields, *names: str, unit_s: float = 1.0) -> float | None:
    """Return a time that may be missing, in seconds.

    Raises:
        ValueError: it is there and no finite number.
    """
    return (
        None if first_of(fields, *names) in (None, "") else seconds(fields, *names, unit_s=unit_s)
    )


def block_ids(fields: Fields, name: str) -> list[object] | None:
    """Return ids of blocks, whole numbers or strings; None where there are none.

    Raises:
        ValueError: it is no array of these.
    """
    value = fields.get(name)
    if value is None:
        return None
    ids = list(as_list(value, name))
    bad = next((each for each in ids if type(each) not in (int, str)), None)
    if bad is not None:
        raise ValueError(f"{name}: must hold whole numbers or strings, got {shown(bad)}")
    return ids


def instant(text: object, name: str) -> float:
    """Read a date and time as ISO 8601 has them; without a time zone it is UTC. In seconds.

    Digits after the sixth of a second's fraction are ignored.

    Raises:
        ValueError: it is none.
    """
    if not isinstance(text, str):
        raise ValueError(f"{name}: must be a date and time, got {_got(text)}")  # noqa: TRY004
    whole, point, rest = text.strip().partition(".")
    digits = rest[: len(rest) - len(rest.lstrip("0123456789"))]
    zone = rest[len(digits) :]
    fraction = f".{digits[:_MAX_FRACTION_DIGITS]:0<6}" if point and digits else ""
    try:
        moment = datetime.fromisoformat(f"{whole}{fraction}{zone}")
    except ValueError:
        raise ValueError(f"{name}: must be a date and time, got {shown(text)}") from None
    return (moment if moment.tzinfo else moment.replace(tzinfo=UTC)).timestamp()


def _whole(value: object) -> int | None:
    number = _number(value)
    return int(number) if number is not None and number == int(number) else None


def _number(value: object) -> float | None:
    """Return a finite number; the digits of a CSV file are one, true and false are not."""
    if isinstance(value, bool) or not isinstance(value, int | float | str):
        return None
    try:
        number = float(value)
    except (ValueError, OverflowError):
        return None
    return number if math.isfinite(number) else None


def _got(value: object) -> str:
    return "nothing" if value is None else shown(value)
