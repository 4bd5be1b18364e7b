"""Outcomes of jobs as JSON and back, without loss: runs as columns, floats with every digit."""

import dataclasses
from collections.abc import Callable, Sequence
from typing import Any, Final, TypeVar

from justitia.sim.engine import EngineTotals
from justitia.sim.results import PlayResult, RunResult

_PLAY: Final = "play"
_VALUE: Final = "value"
_Row = TypeVar("_Row")


def encode(outcome: object) -> dict[str, Any]:
    """Say what JSON is to hold of a ``PlayResult``, or of anything that JSON can hold itself."""
    if not isinstance(outcome, PlayResult):
        return {_VALUE: outcome}
    fields = {name: getattr(outcome, name) for name in _names(PlayResult)}
    fields["runs"] = _columns(RunResult, outcome.runs)
    fields["engines"] = _columns(EngineTotals, outcome.engines)
    return {_PLAY: fields}


def decode(document: dict[str, Any]) -> Any:
    """Make the outcome again.

    Raises:
        KeyError, TypeError, ValueError: this is no such document.
    """
    if _PLAY not in document:
        return document[_VALUE]
    fields = dict(document[_PLAY])
    fields["runs"] = _rows(RunResult, fields["runs"])
    fields["engines"] = _rows(EngineTotals, fields["engines"])
    return PlayResult(**fields)


def _names(kind: type[PlayResult | RunResult | EngineTotals]) -> list[str]:
    return [field.name for field in dataclasses.fields(kind)]


def _columns(
    kind: type[RunResult | EngineTotals], rows: Sequence[RunResult | EngineTotals]
) -> dict[str, list[Any]]:
    return {name: [getattr(row, name) for row in rows] for name in _names(kind)}


def _rows(kind: Callable[..., _Row], columns: dict[str, list[Any]]) -> tuple[_Row, ...]:
    values = zip(*columns.values(), strict=True)
    return tuple(kind(**dict(zip(columns, row, strict=True))) for row in values)
