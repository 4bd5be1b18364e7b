"""Objects of a JSON file that is an array or JSON lines, one at a time whatever its size."""

import codecs
import json
from collections.abc import Iterator
from pathlib import Path
from typing import IO, Final

from justitia.core.errors import InvalidValueError
from justitia.sim.workloads.readers.fields import Fields
from justitia.sim.workloads.readers.files import MAX_LINE_BYTES, Place, open_bytes
from justitia.sim.workloads.readers.reading import Reading

_CHUNK_BYTES: Final = 2**16


def objects_of(reading: Reading, path: Path) -> Iterator[tuple[Place, Fields]]:
    """Yield objects with their lines; of an array the line is the place in it, from 1.

    What is no object is counted as bad; an array that breaks off ends there.
    """
    with open_bytes(path) as stream:
        is_array = stream.read(_CHUNK_BYTES).lstrip(codecs.BOM_UTF8).lstrip()[:1] == b"["
    if not is_array:
        yield from reading.json_rows(path)
        return
    for number, value in enumerate(_items(reading, path), 1):
        reading.num_rows += 1
        if isinstance(value, dict):
            yield Place(path, number), value
        else:
            reading.bad(Place(path, number), "a row: must be an object")


def _items(reading: Reading, path: Path) -> Iterator[object]:
    with open_bytes(path) as stream:
        try:
            yield from _array_items(stream)
        except InvalidValueError:
            raise
        except (ValueError, EOFError, OSError, RecursionError) as error:
            reading.bad(Place(path), f"the array cannot be read any further: {error}")


def _array_items(stream: IO[bytes]) -> Iterator[object]:
    decoder = json.JSONDecoder()
    text = _Text(stream)
    text.skip_space()
    text.take("[")
    text.skip_space()
    while not text.buffer.startswith("]"):
        yield text.value(decoder)
        text.skip_space()
        if text.buffer.startswith(","):
            text.take(",")
            text.skip_space()
        elif not text.buffer.startswith("]"):
            raise ValueError("an item is not followed by a comma")


class _Text:
    """Text of a stream as far as it is not read yet."""

    def __init__(self, stream: IO[bytes]) -> None:
        self.buffer = ""
        self._stream = stream
        self._decode = codecs.getincrementaldecoder("utf-8-sig")(errors="replace").decode

    def more(self) -> bool:
        """Read on; False at the end."""
        chunk = self._stream.read(_CHUNK_BYTES)
        self.buffer += self._decode(chunk, final=not chunk)
        return bool(chunk)

    def skip_space(self) -> None:
        """Go to the next sign that is no space."""
        self.buffer = self.buffer.lstrip()
        while not self.buffer and self.more():
            self.buffer = self.buffer.lstrip()

    def take(self, sign: str) -> None:
        """Take one sign.

        Raises:
            ValueError: another one is there.
        """
        if not self.buffer.startswith(sign):
            raise ValueError(f"{sign} is missing")
        self.buffer = self.buffer[len(sign) :]

    def value(self, decoder: json.JSONDecoder) -> object:
        """Take one value.

        Raises:
            ValueError: there is none, or it is too long.
        """
        while True:
            try:
                found, end = decoder.raw_decode(self.buffer)
            except ValueError:
                # Perhaps it is not all there yet. Twice as much each time keeps this linear.
                if len(self.buffer) > MAX_LINE_BYTES or not self._double():
                    raise
                continue
            # A number may go on in what is not read yet.
            if end == len(self.buffer) and self.more():
                continue
            self.buffer = self.buffer[end:]
            value: object = found
            return value

    def _double(self) -> bool:
        wanted = 2 * len(self.buffer) + 1
        grew = False
        while len(self.buffer) < wanted and self.more():
            grew = True
        return grew
