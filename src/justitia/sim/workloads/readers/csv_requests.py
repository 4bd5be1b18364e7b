"""CSV traces with a request a row: Azure's of 2023 and 2024, and BurstGPT's."""

from collections.abc import Iterable, Iterator
from functools import partial
from pathlib import Path

from justitia.core.errors import InvalidValueError
from justitia.sim.workloads.readers.fields import Fields, instant, seconds, tokens
from justitia.sim.workloads.readers.files import Place
from justitia.sim.workloads.readers.reading import Reading, own_prompt
from justitia.sim.workloads.readers.session_book import SessionBook
from justitia.sim.workloads.readers.sessions import Call, Session


def read_azure(reading: Reading, paths: Iterable[Path]) -> Iterator[Session]:
    """Read ``TIMESTAMP, ContextTokens, GeneratedTokens``; a number as time needs a unit."""
    columns = ("TIMESTAMP", "ContextTokens", "GeneratedTokens")
    for path in paths:
        for place, row in reading.csv_rows(path, columns):
            call = reading.attempt(place, partial(_azure_request, reading, place, row))
            if call is not None and not reading.is_failed(call.output_tokens):
                yield from SessionBook(reading).take(place, None, call)


def read_burstgpt(reading: Reading, paths: Iterable[Path]) -> Iterator[Session]:
    """Read ``Timestamp`` (s), ``Request tokens``, ``Response tokens``; 0 of these is a failure.

    Newer files have ``Session ID`` too; that prompts of one share a prefix is not told.
    """
    columns = ("Timestamp", "Request tokens", "Response tokens")
    book = SessionBook(reading)
    for path in paths:
        for place, row in reading.csv_rows(path, columns):
            call = reading.attempt(place, partial(_burst_request, reading, place, row))
            if call is not None and not reading.is_failed(call.output_tokens):
                yield from book.take(place, row.get("sessionid"), call)
    yield from book.rest()


def _azure_request(reading: Reading, place: Place, row: Fields) -> Call:
    return Call(
        prompt=own_prompt(reading.unique(place), tokens(row, "ContextTokens", least=1)),
        output_tokens=tokens(row, "GeneratedTokens"),
        at_s=_azure_time_s(reading, row),
        begins_turn=True,
    )


def _azure_time_s(reading: Reading, row: Fields) -> float:
    try:
        number = seconds(row, "TIMESTAMP")
    except ValueError:
        return instant(row.get("TIMESTAMP"), "TIMESTAMP")
    unit = reading.options.time_unit
    if unit is None:
        raise InvalidValueError(
            "time_unit", "must be given: the file's times are numbers, not dates"
        )
    return number * unit.seconds


def _burst_request(reading: Reading, place: Place, row: Fields) -> Call:
    return Call(
        prompt=own_prompt(reading.unique(place), tokens(row, "Request tokens", least=1)),
        output_tokens=tokens(row, "Response tokens"),
        at_s=seconds(row, "Timestamp", unit_s=reading.unit_s),
        begins_turn=True,
    )
