"""Cells as text, the same in HTML, in Markdown and on the terminal."""

import math
import re
from collections.abc import Sequence
from typing import Final

from justitia.sim.reproduce.experiment import Cell, Table

NOTHING: Final = "–"
_MANY: Final = 1000
_TINY: Final = 1e-3
#: As in "0.412 (0.398 to 0.431)" or "about 12 %"; "3x" and "7B" are names.
_NUMBER: Final = re.compile(r"(about |[<>≤≥~]\s?)?[-+−]?\d[\d,]*(\.\d+)?(?![\w.])")


def cell_text(cell: Cell) -> str:
    """Round a number to four digits, more before the point; text stays as it is."""
    if cell is None:
        return NOTHING
    if isinstance(cell, str):
        return cell
    if isinstance(cell, bool):
        return "yes" if cell else "no"
    if isinstance(cell, int):
        return f"{cell:,}"
    return _float_text(cell)


def _float_text(number: float) -> str:
    if math.isnan(number):
        return NOTHING
    if math.isinf(number):
        return "∞" if number > 0 else "−∞"
    if abs(number) >= _MANY:
        return f"{number:,.0f}"
    if 0 < abs(number) < _TINY:
        return f"{number:.2e}"
    return f"{number:.4g}"


def numeric_columns(table: Table) -> list[bool]:
    """Say which columns stand on the right: most of their cells begin with a number."""
    return [_is_numeric([row[n] for row in table.rows]) for n in range(len(table.columns))]


def check_table(table: Table) -> None:
    """Refuse a table whose rows do not fit its columns.

    Raises:
        ValueError: a row has more or fewer cells than there are columns.
    """
    for row in table.rows:
        if len(row) != len(table.columns):
            raise ValueError(f"table {table.title!r}: {len(row)} cells in a row: {row!r}")


def _is_numeric(cells: Sequence[Cell]) -> bool:
    some = [cell for cell in cells if cell is not None and cell not in {"", NOTHING}]
    num_numbers = sum(not isinstance(cell, str) or _NUMBER.match(cell) is not None for cell in some)
    return 2 * num_numbers > len(some)
