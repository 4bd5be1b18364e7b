"""One reading of a trace: what is declared, what was asked for, and what was bad."""

import csv
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Final, TypeVar

from justitia.core.errors import InvalidValueError
from justitia.sim.scenario import Segment
from justitia.sim.workloads.readers.fields import Fields, parse_object
from justitia.sim.workloads.readers.files import Place, lines_of
from justitia.sim.workloads.readers.options import IdScope, ReadOptions, RunIs, TimeUnit

MAX_NAMED_BAD_ROWS: Final = 100
"""Bad rows that are named one by one; the rest are only counted."""

_Row = TypeVar("_Row")


@dataclass(frozen=True, slots=True)
class BadRow:
    """A row that held nothing usable."""

    place: Place
    reason: str

    def __str__(self) -> str:
        return f"{self.place}: {self.reason}"


@dataclass(kw_only=True)
class Reading:
    """Options resolved against what the format declares, and counts that readers add to.

    ``time_unit``, ``block_size_tokens`` and ``id_scope`` are None where the format needs none.
    """

    options: ReadOptions
    format_name: str
    run_is: RunIs
    time_unit: TimeUnit | None
    block_size_tokens: int | None
    id_scope: IdScope | None
    #: Sessions began when it was drawn, as the file does not tell.
    has_drawn_times: bool = False
    num_rows: int = 0
    num_failed: int = 0
    num_bad: int = 0
    bad_rows: list[BadRow] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)
    _files: dict[Path, int] = field(default_factory=dict)

    @property
    def unit_s(self) -> float:
        """Seconds of the file's unit of time."""
        assert self.time_unit is not None
        return self.time_unit.seconds

    def json_rows(self, path: Path) -> Iterator[tuple[Place, Fields]]:
        """Yield the objects of a JSONL file; blank lines are skipped, bad ones counted."""
        for number, line in lines_of(path):
            if isinstance(line, bytes) and not line.strip():
                continue
            place = Place(path, number)
            self.num_rows += 1
            fields = self.attempt(place, partial(parse_object, line))
            if fields is not None:
                yield place, fields

    def csv_rows(self, path: Path, columns: Sequence[str]) -> Iterator[tuple[Place, Fields]]:
        """Yield the rows of a CSV file by the names of ``columns``, all of which must be there.

        Names are compared by their letters and digits in lower case; so are others named.

        Raises:
            InvalidValueError: a column is missing.
        """
        reader = csv.reader(self._text_lines(path))
        known = {plain(name): name for name in columns}
        header = [known.get(plain(name), plain(name)) for name in next(reader, [])]
        missing = [name for name in columns if name not in header]
        if missing:
            raise InvalidValueError(f"{path}:1", f"has no column {', '.join(missing)}")
        try:
            for cells in reader:
                if cells:
                    self.num_rows += 1
                    row = dict(zip(header, cells, strict=False))
                    yield Place(path, reader.line_num), row
        except csv.Error as error:
            self.bad(Place(path, reader.line_num), str(error))

    def _text_lines(self, path: Path) -> Iterator[str]:
        for number, line in lines_of(path):
            if isinstance(line, ValueError):
                self.bad(Place(path, number), str(line))
                yield "\n"  # keeps the numbers of the lines that follow
            else:
                # A byte that is no text makes the value it stands in a bad one, not the file.
                yield line.decode("utf-8-sig" if number == 1 else "utf-8", errors="replace")

    def attempt(self, place: Place, parse: Callable[[], _Row]) -> _Row | None:
        """Parse a row; a bad one is counted and gives None.

        Raises:
            InvalidValueError: an option is missing, or the row is bad and the reading strict.
        """
        try:
            return parse()
        except InvalidValueError:
            raise
        except ValueError as error:
            self.bad(place, str(error))
            return None

    def bad(self, place: Place, reason: str) -> None:
        """Count a bad row.

        Raises:
            InvalidValueError: the reading is strict.
        """
        if self.options.is_strict:
            raise InvalidValueError(str(place), reason)
        self.num_bad += 1
        if self.num_bad <= MAX_NAMED_BAD_ROWS:
            self.bad_rows.append(BadRow(place, reason))

    def is_failed(self, output_tokens: int) -> bool:
        """Say whether a request failed, as one without output did, and count it."""
        has_failed = output_tokens == 0 and not self.options.does_keep_failed
        self.num_failed += has_failed
        return has_failed

    def unique(self, place: Place) -> str:
        """Make a name that no other place has; files of equal names may lie in several folders."""
        number = self._files.setdefault(place.path, len(self._files))
        return f"{self.format_name}/{number}:{place.line}"

    def note(self, text: str) -> None:
        """Add a sentence to the report, once."""
        if text not in self.notes:
            self.notes.append(text)

    def text_tokens(self, text: str) -> int:
        """Estimate the tokens of a text.

        Raises:
            InvalidValueError: it was not told how.
        """
        ratio = self.options.chars_per_token
        if ratio is None:
            raise InvalidValueError(
                "chars_per_token",
                "must be given: the file holds text and no numbers of tokens (English: about 4)",
            )
        return max(1, round(len(text) / ratio))


def own_prompt(name: str, tokens: int) -> tuple[Segment, ...]:
    """Make a prompt that shares nothing."""
    return (Segment(name, tokens),)


def plain(name: str) -> str:
    """Reduce a column's name to its letters and digits, so that dialects agree."""
    return "".join(letter for letter in name.lower() if letter.isalnum())
