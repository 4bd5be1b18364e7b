"""Units of the core and their exact integer forms.

Three quantities meet in virtual time: work (``kvtt``, KV tokens x engine steps), weights, and
virtual time itself (work per unit of weight). Floats would let V drift with the way service is cut
into reports and stop moving beyond 2**53, so all three are integers here (rule V1):

* weight: nano-weights, 1e-9 to 1e9 of a weight;
* virtual time: *ticks* of 2**-64 kvtt per unit of weight;
* work: kvtt; ``FINE_PER_KVTT`` converts it to nano-weight x tick, the product of the other two.
"""

from decimal import ROUND_HALF_EVEN, Context, Decimal, InvalidOperation
from typing import Final, NewType

from justitia.core.errors import InvalidValueError, shown

Ticks = NewType("Ticks", int)
NanoWeight = NewType("NanoWeight", int)

TICKS_PER_KVTT: Final = 1 << 64
NANO_PER_WEIGHT: Final = 1_000_000_000
FINE_PER_KVTT: Final = TICKS_PER_KVTT * NANO_PER_WEIGHT

MIN_WEIGHT: Final = NanoWeight(1)
MAX_WEIGHT: Final = NanoWeight(10**18)
UNIT_WEIGHT: Final = NanoWeight(NANO_PER_WEIGHT)
#: Largest cost of a run that is accepted, in kvtt; far above any engine, small enough to stay
#: readable.
MAX_COST_KVTT: Final = 10**18

_WEIGHT_RANGE = "must be a number from 1e-9 to 1e9"
_SMALLEST: Final = Decimal("1e-9")
_LARGEST: Final = Decimal("1e9")
# An own context: the thread's may have been changed by whoever hosts this code.
_CONTEXT: Final = Context(prec=40)
#: Suffixes of Kubernetes quantities that a weight can have.
_FACTORS: Final = {
    "n": Decimal("1e-9"),
    "u": Decimal("1e-6"),
    "m": Decimal("1e-3"),
    "k": Decimal("1e3"),
    "M": Decimal("1e6"),
    "G": Decimal("1e9"),
    "Ki": Decimal(1 << 10),
    "Mi": Decimal(1 << 20),
}


def parse_weight(value: str | float | Decimal, *, field: str = "weight") -> NanoWeight:
    """Turn a weight as people write it into nano-weights.

    Accepts finite numbers from 1e-9 to 1e9, also as Kubernetes quantities ("500m", "2k"); digits
    below 1e-9 are rounded half to even.

    Raises:
        InvalidValueError: not a number, NaN, infinite, zero, negative or out of range.
    """
    try:
        number = _quantity(value)
    except (InvalidOperation, ValueError):
        raise InvalidValueError(field, f"{_WEIGHT_RANGE}, got {shown(value)}") from None
    if not number.is_finite() or not _SMALLEST <= number <= _LARGEST:
        raise InvalidValueError(field, f"{_WEIGHT_RANGE}, got {shown(value)}")
    nano = _CONTEXT.multiply(number, Decimal(NANO_PER_WEIGHT))
    return NanoWeight(int(nano.to_integral_value(ROUND_HALF_EVEN)))


def _quantity(value: str | float | Decimal) -> Decimal:
    text = str(value)  # of an integer of thousands of digits: ValueError
    suffix = text.lstrip("+-.0123456789")
    factor = _FACTORS.get(suffix)
    if factor is None:
        return Decimal(text)
    return _CONTEXT.multiply(Decimal(text[: -len(suffix)]), factor)


def weight_to_float(weight: NanoWeight) -> float:
    """Show a weight as the number that people wrote."""
    return weight / NANO_PER_WEIGHT


def ticks_to_kvtt(ticks: int) -> float:
    """Show virtual time in kvtt per unit of weight; loses precision beyond 2**53."""
    return ticks / TICKS_PER_KVTT


def service_ticks(cost_kvtt: int, weight: NanoWeight) -> Ticks:
    """Virtual time that ``cost_kvtt`` takes at ``weight``: C/w, rounded up to a whole tick."""
    return Ticks(-(-cost_kvtt * FINE_PER_KVTT // weight))
