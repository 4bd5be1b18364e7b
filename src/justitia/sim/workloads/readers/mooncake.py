"""Mooncake's traces, and what other tools write in the same form.

A row is a request: ``timestamp`` (ms), ``input_length``, ``output_length`` and ``hash_ids``, ids of
its blocks of 512 tokens; equal ids are equal prefixes. Others add ``session_id``, and ``delay``
(ms) after the turn before in place of a timestamp; or name the fields ``input_tokens``,
``output_tokens``, ``created_time``, ``delay_ms``.
"""

from collections.abc import Iterable, Iterator
from functools import partial
from pathlib import Path

from justitia.sim.scenario import Segment
from justitia.sim.workloads.readers.fields import (
    Fields,
    block_ids,
    optional_seconds,
    tokens,
)
from justitia.sim.workloads.readers.files import Place
from justitia.sim.workloads.readers.options import IdScope
from justitia.sim.workloads.readers.prompts import BlockTree
from justitia.sim.workloads.readers.reading import Reading, own_prompt
from justitia.sim.workloads.readers.session_book import SessionBook
from justitia.sim.workloads.readers.sessions import Call, Session


class Blocks:
    """Prompts of rows with ids of blocks, in the scope that the ids have."""

    def __init__(self, reading: Reading) -> None:
        self._reading = reading
        self._trees: dict[str, BlockTree] = {}

    def prompt(self, place: Place, fields: Fields, total_tokens: int) -> tuple[Segment, ...]:
        """Make the prompt of a row; without ids it shares nothing.

        Raises:
            ValueError: the ids do not fit its length.
        """
        ids = block_ids(fields, "hash_ids")
        name = self._reading.unique(place)
        if not ids:
            return own_prompt(name, total_tokens)
        return self._tree(place).prompt(ids, total_tokens, name)

    def _tree(self, place: Place) -> BlockTree:
        scope = str(place.path) if self._reading.id_scope is IdScope.FILE else ""
        if scope not in self._trees:
            assert self._reading.block_size_tokens is not None
            name = f"{self._reading.format_name}/blocks-{len(self._trees)}"
            self._trees[scope] = BlockTree(name, self._reading.block_size_tokens)
        return self._trees[scope]


def read_mooncake(reading: Reading, paths: Iterable[Path]) -> Iterator[Session]:
    """Read requests; those that name a session come together, after everything is read."""
    blocks, book = Blocks(reading), SessionBook(reading)
    for path in paths:
        for place, fields in reading.json_rows(path):
            call = reading.attempt(place, partial(request, reading, blocks, place, fields))
            if call is not None and not reading.is_failed(call.output_tokens):
                yield from book.take(place, fields.get("session_id"), call)
    yield from book.rest()


def request(reading: Reading, blocks: Blocks, place: Place, fields: Fields) -> Call:
    """Read a row with numbers of tokens.

    Raises:
        ValueError: a value is missing or bad.
    """
    output_tokens = tokens(fields, "output_length", "output_tokens")
    input_tokens = tokens(fields, "input_length", "input_tokens", least=1)
    at_s = optional_seconds(fields, "timestamp", "created_time", unit_s=reading.unit_s)
    delay_s = optional_seconds(fields, "delay", "delay_ms", unit_s=reading.unit_s)
    if at_s is None and delay_s is None and not fields.get("session_id"):
        raise ValueError("timestamp: must be a finite number, got nothing")
    return Call(
        prompt=blocks.prompt(place, fields, input_tokens),
        output_tokens=output_tokens,
        at_s=at_s,
        pause_s=max(0.0, delay_s or 0.0),
        begins_turn=True,
    )
