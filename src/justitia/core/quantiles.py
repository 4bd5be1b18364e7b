"""Quantiles as every part means them: by nearest rank, so that each is a measured value."""

import math
from collections.abc import Iterable, Sequence
from typing import Final

_DIGITS: Final = 9


def quantile(values: Iterable[float], share: float) -> float:
    """Return the smallest value that at least ``share`` of the values do not exceed; NaN of none.

    ``share`` is from 0 (the smallest value) to 1 (the largest).
    """
    return quantile_of_sorted(sorted(values), share)


def quantile_of_sorted(ordered: Sequence[float], share: float) -> float:
    """Return the same of values in ascending order; O(1)."""
    if not ordered:
        return math.nan
    # Of 100 values the 55th is the 0.55 quantile, although 0.55 * 100 is a little more than 55.
    rank = math.ceil(round(share * len(ordered), _DIGITS))
    return ordered[max(0, rank - 1)]
