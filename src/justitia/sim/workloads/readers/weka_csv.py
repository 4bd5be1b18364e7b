"""Weka's sessions of coding agents as one CSV, a row a request.

Columns: ``trace_id, subagent, t_s, in_tok, out_tok, lcp_blocks64, api_s, think_s, stop``; rows of a
session stand together, a sub-agent's (``subagent`` > 0) where it ran, with times of its own. That
it began when the main thread's call before it had ended is assumed: its begin is not told.
``lcp_blocks64`` are the blocks that a prompt shares with the thread's one before. A turn begins
after a call that ended one (``stop`` e). Times have no date.
"""

from collections.abc import Iterable, Iterator
from functools import partial
from itertools import groupby
from pathlib import Path
from typing import Final

from justitia.sim.workloads.readers.fields import Fields, optional_seconds, seconds, tokens
from justitia.sim.workloads.readers.files import Place
from justitia.sim.workloads.readers.prompts import GrowingPrompt
from justitia.sim.workloads.readers.reading import Reading
from justitia.sim.workloads.readers.sessions import Session
from justitia.sim.workloads.readers.threads import MAIN, NO_SERVER_TIME, CallTree, Timed

_BLOCK_TOKENS: Final = 64
_COLUMNS: Final = (
    "trace_id",
    "subagent",
    "t_s",
    "in_tok",
    "out_tok",
    "lcp_blocks64",
    "api_s",
    "think_s",
    "stop",
)
_ENDS_A_TURN: Final = "e"


def read_weka_csv(reading: Reading, paths: Iterable[Path]) -> Iterator[Session]:
    """Read sessions from the CSV; rows of one stand together."""
    for path in paths:
        rows = reading.csv_rows(path, _COLUMNS)
        for name, group in groupby(rows, key=lambda row: str(row[1].get("trace_id"))):
            calls = _CsvSession(reading, path, name).read(group)
            if calls.calls:
                yield Session(name=f"{reading.format_name}-{name}", calls=tuple(calls.calls))


class _CsvSession:
    def __init__(self, reading: Reading, path: Path, name: str) -> None:
        self._reading = reading
        self._unique = reading.unique(Place(path))
        self._name = name
        self._calls = CallTree()
        self._prompts: dict[str, GrowingPrompt] = {}
        self._thread = MAIN
        self._begins_s = 0.0
        self._stop = ""

    def read(self, rows: Iterable[tuple[Place, Fields]]) -> CallTree:
        """Read the rows of one session."""
        for place, row in rows:
            thread = MAIN if row.get("subagent") in ("", "0", None) else f"sub-{row['subagent']}"
            if thread != self._thread:
                self._change(thread)
            timed = self._reading.attempt(place, partial(self._parse, row))
            if timed is None or self._reading.is_failed(timed.output_tokens):
                continue
            self._calls.add(timed, thread)
            if thread == MAIN:
                self._stop = str(row.get("stop"))
        return self._calls

    def _change(self, thread: str) -> None:
        if self._thread != MAIN:
            self._calls.end(self._thread, is_awaited=True)
        if thread != MAIN:
            self._begins_s = self._calls.main_end_s
        self._thread = thread

    def _parse(self, row: Fields) -> Timed:
        is_main = self._thread == MAIN
        total = tokens(row, "in_tok", least=1)
        shared_blocks = tokens(row, "lcp_blocks64")
        output_tokens = tokens(row, "out_tok")
        at_s = seconds(row, "t_s") + (0.0 if is_main else self._begins_s)
        api_s = optional_seconds(row, "api_s")
        if api_s is None:
            self._reading.note(NO_SERVER_TIME)
        prompt = self._prompts.setdefault(
            self._thread, GrowingPrompt(f"{self._unique}/{self._name}{self._thread}")
        )
        # Blocks that are not full have no id; where all others are shared they went on as well.
        is_whole = shared_blocks >= prompt.tokens // _BLOCK_TOKENS
        shared = prompt.tokens if is_whole else shared_blocks * _BLOCK_TOKENS
        return Timed(
            prompt=prompt.next(total, shared),
            output_tokens=output_tokens,
            at_s=at_s,
            api_s=api_s,
            think_s=optional_seconds(row, "think_s"),
            begins_turn=is_main and self._stop == _ENDS_A_TURN,
        )
