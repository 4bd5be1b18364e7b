"""Numbers in a status: decimal strings, since the API's conventions avoid floats."""

import math
from typing import Annotated, Final

from pydantic import Field

#: Digits that are shown: what changes less is no change, so that a status rests.
SIGNIFICANT_DIGITS: Final = 3

DecimalText = Annotated[str, Field(pattern=r"^[0-9]{1,16}(\.[0-9]{1,9})?$", max_length=26)]


def decimal_text(value: float) -> str | None:
    """Write a measurement with three significant digits: ``1.25``, ``0.0333``, ``1230``.

    Values are held within 0 and 1e15; below 1e-9 is 0. None for NaN: nothing was measured.
    """
    if math.isnan(value):
        return None
    value = min(max(value, 0.0), 1e15)
    if value < 1e-9:  # noqa: PLR2004 - what nine decimals cannot show
        return "0"
    decimals = SIGNIFICANT_DIGITS - 1 - math.floor(math.log10(value))
    text = f"{round(value, decimals):.{max(0, min(9, decimals))}f}"
    return text.rstrip("0").rstrip(".") if "." in text else text
