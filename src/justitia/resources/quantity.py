"""Kubernetes quantities: read exactly as the API server reads them, within a range.

Whatever ``isQuantity`` and ``quantity()`` make of a value in a resource's schema, `parse_quantity`
makes of it here: the decimal and binary suffixes, exponents, and fractions below 1e-9 rounded away
from zero.
"""

import re
from dataclasses import dataclass
from decimal import MAX_EMAX, MIN_EMIN, ROUND_UP, Context, Decimal
from typing import Annotated, Any, Final

from pydantic import (
    GetCoreSchemaHandler,
    GetJsonSchemaHandler,
    PlainSerializer,
    PlainValidator,
    WithJsonSchema,
)
from pydantic.json_schema import JsonSchemaValue
from pydantic_core import CoreSchema, core_schema

from justitia.core.errors import shown

#: Longest quantity that is read.
MAX_QUANTITY_CHARS: Final = 32

_SUFFIXES: Final = {
    "n": Decimal("1e-9"),
    "u": Decimal("1e-6"),
    "m": Decimal("1e-3"),
    "": Decimal(1),
    **{suffix: Decimal(10) ** (3 * n) for n, suffix in enumerate("kMGTPE", start=1)},
    **{f"{suffix}i": Decimal(1024) ** n for n, suffix in enumerate("KMGTPE", start=1)},
}
_QUANTITY: Final = re.compile(
    r"(?P<number>[+-]?(?:[0-9]+(?:\.[0-9]*)?|\.[0-9]+))"
    r"(?:(?P<exponent>[eE][+-]?[0-9]{1,9})|(?P<suffix>n|u|m|k|[KMGTPE]i|[MGTPE]))?"
)
#: A quantity without a sign. Rules of CEL over every entry of a map cost more than the API server
#: grants, so amounts are held to a pattern; integers to a minimum.
AMOUNT_PATTERN: Final = (
    "^([0-9]+([.][0-9]*)?|[.][0-9]+)(n|u|m|k|[KMGTPE]i|[MGTPE]|[eE][+-]?[0-9]{1,3})?$"
)
_AMOUNT: Final = re.compile(AMOUNT_PATTERN.removeprefix("^").removesuffix("$"))
_NANO: Final = Decimal("1e-9")
_CONTEXT: Final = Context(prec=100, Emax=MAX_EMAX, Emin=MIN_EMIN)
#: YAML's 1e18 is a float; kubectl sends the digits that tell it from others, and zeros, as long as
#: they fit into 64 bits.
_MAX_WHOLE_FLOAT: Final = float(2**63)
_MAX_INTEGER: Final = 10**MAX_QUANTITY_CHARS
_EXAMPLES: Final = 'such as 2, 500m or "1.5"'


def parse_quantity(value: object) -> Decimal:
    """Read a quantity: an integer or a string such as ``"500m"``, ``"1.5"``, ``"2e6"``, ``"4Ki"``.

    Raises:
        ValueError: anything else, also a fraction that is no string: the API server takes none.
    """
    match = _QUANTITY.fullmatch(_text(value))
    if match is None:
        raise ValueError(f"must be a quantity {_EXAMPLES}, got {shown(value)}")
    number = Decimal(match["number"] + (match["exponent"] or ""))
    number = _CONTEXT.multiply(number, _SUFFIXES[match["suffix"] or ""])
    if number != number.to_integral_value(context=_CONTEXT):
        number = number.quantize(_NANO, rounding=ROUND_UP, context=_CONTEXT)
    return number


def _text(value: object) -> str:
    """Return what the value was written as; empty for what cannot be a quantity."""
    if isinstance(value, str):
        return value if len(value) <= MAX_QUANTITY_CHARS else ""
    if isinstance(value, float) and value.is_integer() and abs(value) < _MAX_WHOLE_FLOAT:
        return f"{Decimal(repr(value)):f}"
    # An integer that is longer than any range allows is no quantity, however long it is.
    if isinstance(value, int) and not isinstance(value, bool) and abs(value) < _MAX_INTEGER:
        return str(value)
    return ""


def quantity_text(number: Decimal) -> str:
    """Write a quantity so that every reader understands it: ``2``, ``0.5``, ``17179869184``."""
    text = f"{number:f}"
    return text.rstrip("0").rstrip(".") if "." in text else text


def _read_amount(value: object) -> Decimal:
    if _AMOUNT.fullmatch(_text(value)) is None:
        raise ValueError(f"must be a quantity of at least 0, {_EXAMPLES}, got {shown(value)}")
    return parse_quantity(value)


#: An amount of a pod's resource: a quantity of at least 0.
Amount = Annotated[
    Decimal,
    PlainValidator(_read_amount),
    PlainSerializer(quantity_text),
    WithJsonSchema(
        {
            "x-kubernetes-int-or-string": True,
            "anyOf": [{"type": "integer"}, {"type": "string"}],
            "minimum": 0,
            "maxLength": MAX_QUANTITY_CHARS,
            "pattern": AMOUNT_PATTERN,
        }
    ),
]


@dataclass(frozen=True, slots=True)
class QuantityRange:
    """Annotates a ``Decimal`` field: a quantity from ``low`` to ``high``, both written as such.

    ``is_low_excluded``: the value must be greater than ``low``.
    """

    low: str
    high: str
    is_low_excluded: bool = False

    def read(self, value: object) -> Decimal:
        """Read a quantity of this range.

        Raises:
            ValueError: no quantity, or out of the range.
        """
        try:
            number = parse_quantity(value)
        except ValueError:
            raise ValueError(f"{self.sentence}, got {shown(value)}") from None
        low, high = parse_quantity(self.low), parse_quantity(self.high)
        if not low <= number <= high or (self.is_low_excluded and number == low):
            raise ValueError(f"{self.sentence}, got {shown(value)}")
        return number

    @property
    def sentence(self) -> str:
        """What a value of this range must be."""
        if self.is_low_excluded:
            return (
                f"must be a quantity greater than {self.low} and at most {self.high}, {_EXAMPLES}"
            )
        return f"must be a quantity from {self.low} to {self.high}, {_EXAMPLES}"

    @property
    def rule(self) -> str:
        """The same in the API server's language."""
        number = "quantity(string(self))"
        low = f"{number}.isGreaterThan(quantity('{self.low}'))"
        if not self.is_low_excluded:
            low = f"!{number}.isLessThan(quantity('{self.low}'))"
        return (
            f"isQuantity(string(self)) && {low} && !{number}.isGreaterThan(quantity('{self.high}'))"
        )

    def __get_pydantic_core_schema__(
        self, source: Any, handler: GetCoreSchemaHandler
    ) -> CoreSchema:
        del source, handler
        return core_schema.no_info_plain_validator_function(
            self.read,
            serialization=core_schema.plain_serializer_function_ser_schema(quantity_text),
        )

    def __get_pydantic_json_schema__(
        self, schema: CoreSchema, handler: GetJsonSchemaHandler
    ) -> JsonSchemaValue:
        """Describe what the API server checks."""
        del schema, handler
        return {
            "x-kubernetes-int-or-string": True,
            "anyOf": [{"type": "integer"}, {"type": "string"}],
            "maxLength": MAX_QUANTITY_CHARS,
            "x-kubernetes-validations": [
                {
                    "rule": self.rule,
                    "message": self.sentence,
                    "messageExpression": f"'{self.sentence}, got ' + string(self)",
                }
            ],
        }
