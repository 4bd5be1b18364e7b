"""Sessions of coding agents by Weka's kv-cache-tester, a JSON file each.

A file has ``id``, ``block_size``, ``hash_id_scope`` and ``requests``. A request has ``t`` (s),
``in``, ``out``, ``hash_ids``, ``stop``, ``input_types``, ``api_time``, ``think_time``; a sub-agent
(``type: subagent``) has requests of its own, whose ``t`` count from the sub-agent's.

A turn begins with input that is no tool's result or, where that is not told, after a call that
ended a turn. Times have no date, so sessions arrive as they are told to.
"""

import json
from collections.abc import Iterable, Iterator
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Final

from justitia.core.errors import InvalidValueError
from justitia.sim.workloads.readers.fields import (
    Fields,
    as_list,
    as_object,
    block_ids,
    first_of,
    optional_seconds,
    seconds,
    tokens,
)
from justitia.sim.workloads.readers.files import Place, document_of
from justitia.sim.workloads.readers.options import IdScope
from justitia.sim.workloads.readers.prompts import BlockTree
from justitia.sim.workloads.readers.reading import Reading, own_prompt
from justitia.sim.workloads.readers.sessions import Session
from justitia.sim.workloads.readers.threads import NO_SERVER_TIME, CallTree, Timed

_ENDS_A_TURN: Final = "end_turn"
_NOT_AWAITED: Final = "async_launched"


def read_weka(reading: Reading, paths: Iterable[Path]) -> Iterator[Session]:
    """Read sessions."""
    shared_trees: dict[int, BlockTree] = {}
    for path in paths:
        place = Place(path)
        session = reading.attempt(place, partial(_session, reading, path, shared_trees))
        if session is not None and session.calls:
            yield session


def _session(reading: Reading, path: Path, shared_trees: dict[int, BlockTree]) -> Session:
    try:
        document = as_object(json.loads(document_of(path)), "the file")
    except RecursionError:
        raise ValueError("is nested too deeply") from None
    size = tokens(document, "block_size", least=1)
    asked = reading.options.block_size_tokens
    if asked not in (None, size):
        raise ValueError(f"block_size: is {size}, not the {asked} that it is said to be")
    name = str(first_of(document, "id") or path.name)
    scope = reading.options.id_scope or _declared_scope(document)
    if scope is IdScope.GLOBAL:
        tree = shared_trees.setdefault(
            size, BlockTree(f"{reading.format_name}/blocks-of-{size}", size)
        )
    else:
        tree = BlockTree(f"{reading.unique(Place(path))}blocks", size)
    draft = _JsonSession(reading, Place(path), tree)
    draft.read(as_list(document.get("requests"), "requests"))
    return Session(name=name, calls=tuple(draft.calls.calls))


def _declared_scope(document: Fields) -> IdScope:
    declared = document.get("hash_id_scope", "local")
    if declared not in ("local", "global"):
        raise ValueError(f"hash_id_scope: must be local or global, got {declared!r:.50}")
    return IdScope.GLOBAL if declared == "global" else IdScope.FILE


class _JsonSession:
    def __init__(self, reading: Reading, place: Place, tree: BlockTree) -> None:
        self.calls = CallTree()
        self._reading = reading
        self._place = place
        self._tree = tree
        self._stop = ""
        self._pending: tuple[Fields, Timed] | None = None

    def read(self, entries: Iterable[object]) -> None:
        """Read the requests of the main thread and its sub-agents."""
        for number, entry in enumerate(entries):
            name = f"requests[{number}]"
            fields = self._object(entry, name)
            if fields is None:
                continue
            if fields.get("type") == "subagent":
                self._flush()
                self._sub_agent(fields, name)
            else:
                self._main_call(fields, name)
        self._flush()

    def _main_call(self, fields: Fields, name: str) -> None:
        timed = self._timed(fields, name, 0.0, is_main=True)
        if timed is None:
            return
        if self._pending is not None and _is_repeated(self._pending[0], fields):
            self._reading.note("requests recorded twice, streamed and not, are read once")
            first = self._pending[1]
            timed = replace(timed, at_s=first.at_s, begins_turn=first.begins_turn)
            self._pending = None
        self._flush()
        self._pending = (fields, timed)

    def _flush(self) -> None:
        """Add the last call of the main thread, which no second recording replaces any more."""
        if self._pending is None:
            return
        fields, timed = self._pending
        self._pending = None
        if not self._reading.is_failed(timed.output_tokens):
            self.calls.add(timed)
        self._stop = str(fields.get("stop") or "")

    def _sub_agent(self, fields: Fields, name: str) -> None:
        reading = self._reading
        begins_s = reading.attempt(self._place, partial(seconds, fields, "t"))
        entries = reading.attempt(
            self._place, partial(as_list, fields.get("requests"), f"{name}.requests")
        )
        if begins_s is None or entries is None:
            return
        is_absolute = reading.options.are_sub_agents_absolute
        for number, entry in enumerate(entries):
            inner = self._object(entry, f"{name}.requests[{number}]")
            if inner is None:
                continue
            timed = self._timed(
                inner, f"{name}.requests[{number}]", 0.0 if is_absolute else begins_s
            )
            if timed is not None and not reading.is_failed(timed.output_tokens):
                self.calls.add(timed, name)
        self.calls.end(name, is_awaited=fields.get("status") != _NOT_AWAITED)

    def _object(self, entry: object, name: str) -> Fields | None:
        self._reading.num_rows += 1
        return self._reading.attempt(self._place, partial(as_object, entry, name))

    def _timed(
        self, fields: Fields, name: str, offset_s: float, *, is_main: bool = False
    ) -> Timed | None:
        return self._reading.attempt(
            self._place, partial(self._parse, fields, name, offset_s, is_main=is_main)
        )

    def _parse(self, fields: Fields, name: str, offset_s: float, *, is_main: bool) -> Timed:
        try:
            total = tokens(fields, "in", least=1)
            ids = block_ids(fields, "hash_ids")
            own_name = f"{self._reading.unique(self._place)}{name}"
            api_s = optional_seconds(fields, "api_time")
            if api_s is None:
                self._reading.note(NO_SERVER_TIME)
            return Timed(
                prompt=self._tree.prompt(ids, total, own_name)
                if ids
                else own_prompt(own_name, total),
                output_tokens=tokens(fields, "out"),
                at_s=offset_s + seconds(fields, "t"),
                api_s=api_s,
                think_s=optional_seconds(fields, "think_time"),
                begins_turn=is_main and _begins_turn(fields, self._previous_stop()),
            )
        except InvalidValueError:
            raise
        except ValueError as error:
            raise ValueError(f"{name}.{error}") from None

    def _previous_stop(self) -> str:
        return self._stop if self._pending is None else str(self._pending[0].get("stop") or "")


def _is_repeated(first: Fields, second: Fields) -> bool:
    same = all(first.get(name) == second.get(name) for name in ("in", "hash_ids"))
    return same and first.get("type") == "s" and second.get("type") == "n"


def _begins_turn(fields: Fields, previous_stop: str) -> bool:
    types = fields.get("input_types")
    if isinstance(types, list) and types:
        return "tool_result" not in types
    return previous_stop == _ENDS_A_TURN
