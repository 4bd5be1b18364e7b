"""Durations as the Gateway API writes them (``90s``, ``1h30m``), and here also ``1.5h``."""

import re
from dataclasses import dataclass
from decimal import Decimal
from typing import Any, Final

from pydantic import GetCoreSchemaHandler, GetJsonSchemaHandler
from pydantic.json_schema import JsonSchemaValue
from pydantic_core import CoreSchema, core_schema

from justitia.core.errors import shown

#: Longest duration that is read.
MAX_DURATION_CHARS: Final = 32
#: At most four parts of five digits: the API server's 64-bit nanoseconds cannot overflow.
DURATION_PATTERN: Final = r"^([0-9]{1,5}([.][0-9]{1,3})?(h|m|s|ms)){1,4}$"

_DURATION: Final = re.compile(DURATION_PATTERN.removeprefix("^").removesuffix("$"))
_PART: Final = re.compile(r"([0-9.]+)(h|ms|m|s)")
_UNIT_S: Final = {"ms": Decimal("1e-3"), "s": Decimal(1), "m": Decimal(60), "h": Decimal(3600)}
_EXAMPLES: Final = "such as 90s or 1h30m"


def parse_duration_s(value: object) -> float:
    """Read a duration such as ``"90s"``, ``"1h30m"`` or ``"500ms"`` as seconds.

    Raises:
        ValueError: anything else, also a bare number.
    """
    if (
        not isinstance(value, str)
        or len(value) > MAX_DURATION_CHARS
        or not _DURATION.fullmatch(value)
    ):
        raise ValueError(f"must be a duration {_EXAMPLES}, got {shown(value)}")
    return float(sum(Decimal(number) * _UNIT_S[unit] for number, unit in _PART.findall(value)))


@dataclass(frozen=True, slots=True)
class DurationRange:
    """Annotates a ``float`` field of seconds: a duration from ``low`` to ``high``, written so."""

    low: str
    high: str

    def read(self, value: object) -> float:
        """Read a duration of this range as seconds.

        Raises:
            ValueError: no duration, or out of the range.
        """
        try:
            seconds = parse_duration_s(value)
        except ValueError:
            raise ValueError(f"{self.sentence}, got {shown(value)}") from None
        if not parse_duration_s(self.low) <= seconds <= parse_duration_s(self.high):
            raise ValueError(f"{self.sentence}, got {shown(value)}")
        return seconds

    @property
    def sentence(self) -> str:
        """What a value of this range must be."""
        return f"must be a duration from {self.low} to {self.high}, {_EXAMPLES}"

    @property
    def rule(self) -> str:
        """The same in the API server's language."""
        return (
            f"self.matches('{DURATION_PATTERN}') && duration(self) >= duration('{self.low}')"
            f" && duration(self) <= duration('{self.high}')"
        )

    def __get_pydantic_core_schema__(
        self, source: Any, handler: GetCoreSchemaHandler
    ) -> CoreSchema:
        del source, handler
        return core_schema.no_info_plain_validator_function(self.read)

    def __get_pydantic_json_schema__(
        self, schema: CoreSchema, handler: GetJsonSchemaHandler
    ) -> JsonSchemaValue:
        """Describe what the API server checks."""
        del schema, handler
        return {
            "type": "string",
            "maxLength": MAX_DURATION_CHARS,
            "x-kubernetes-validations": [
                {
                    "rule": self.rule,
                    "message": self.sentence,
                    "messageExpression": f"'{self.sentence}, got ' + self",
                }
            ],
        }
