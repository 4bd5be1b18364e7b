"""Units of the core and their exact integer forms.

Three quantities meet in virtual time: work (``kvtt``, KV tokens x engine steps), weights, and virtual
time itself (work per unit of weight). Floats would let V drift with the way service is cut into
reports and stop moving beyond 2**53, so all three are integers here (rule V1):

* weight: nano-weights, 1e-9 to 1e9 of a weight;
* virtual time: *ticks* of 2**-64 kvtt per unit of weight;
* work: kvtt; ``FINE_PER_KVTT`` converts it to nano-weight x tick, the product of the other two.
"""

from decimal import Decimal, InvalidOperation
from typing import Final, NewType

from justitia.core.errors import InvalidValueError

Ticks = NewType("Ticks", int)
NanoWeight = NewType("NanoWeight", int)

TICKS_PER_KVTT: Final = 1 << 64
NANO_PER_WEIGHT: Final = 1_000_000_000
FINE_PER_KVTT: Final = TICKS_PER_KVTT * NANO_PER_WEIGHT

MIN_WEIGHT: Final = NanoWeight(1)
MAX_WEIGHT: Final = NanoWeight(10**18)
UNIT_WEIGHT: Final = NanoWeight(NANO_PER_WEIGHT)
#: Largest cost of a run that is accepted, in kvtt; far above any engine, small enough to stay readable.
MAX_COST_KVTT: Final = 10**18

_WEIGHT_RANGE = "must be a number from 1e-9 to 1e9"


def parse_weight(value: str | float | Decimal, *, field: str = "weight") -> NanoWeight:
    """Turn a weight as people write it into nano-weights.

    Accepts finite numbers from 1e-9 to 1e9; digits below 1e-9 are rounded half to even.

    Raises:
        InvalidValueError: not a number, NaN, infinite, zero, negative or out of range.
    """
    try:
        number = Decimal(str(value))
    except InvalidOperation:
        raise InvalidValueError(field, f"{_WEIGHT_RANGE}, got {value!r}") from None
    if not number.is_finite() or not Decimal(0) < number <= Decimal("1e9"):
        raise InvalidValueError(field, f"{_WEIGHT_RANGE}, got {value!r}")
    nano = int((number * NANO_PER_WEIGHT).to_integral_value())
    if nano < MIN_WEIGHT:
        raise InvalidValueError(field, f"{_WEIGHT_RANGE}, got {value!r}")
    return NanoWeight(nano)


def weight_to_float(weight: NanoWeight) -> float:
    """Show a weight as the number that people wrote."""
    return weight / NANO_PER_WEIGHT


def ticks_to_kvtt(ticks: int) -> float:
    """Show virtual time in kvtt per unit of weight; loses precision beyond 2**53."""
    return ticks / TICKS_PER_KVTT


def service_ticks(cost_kvtt: int, weight: NanoWeight) -> Ticks:
    """Virtual time that ``cost_kvtt`` takes at ``weight``: C/w, rounded up to a whole tick."""
    return Ticks(-(-cost_kvtt * FINE_PER_KVTT // weight))
