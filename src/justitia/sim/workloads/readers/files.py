"""Lines of a file or a folder, plain or compressed, one at a time and with their numbers."""

import bz2
import contextlib
import gzip
import importlib
import lzma
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import IO, Final, NamedTuple, cast

from justitia.core.errors import InvalidValueError
from justitia.numbered_lines import READ_ERRORS, numbered_lines

MAX_LINE_BYTES: Final = 64 * 2**20
"""Longest line; the rest of a longer one is skipped without being held in memory."""

MAX_DOCUMENT_BYTES: Final = 2**30
"""Largest file that is one JSON document, unpacked."""

_ZSTD_MAGIC: Final = b"\x28\xb5\x2f\xfd"
_COMPRESSED: Final = (".gz", ".bz2", ".xz", ".zst")


class Place(NamedTuple):
    """Where something stands in a file; ``line`` counts from 1, 0 is the file as a whole."""

    path: Path
    line: int = 0

    def __str__(self) -> str:
        return f"{self.path}:{self.line}" if self.line else str(self.path)


def find_files(path: Path, suffixes: Sequence[str]) -> list[Path]:
    """List the file, or those below a folder that end so, compressed or not, in order of names.

    Raises:
        InvalidValueError: there is none.
    """
    if not path.is_dir():
        if not path.exists():
            raise InvalidValueError(str(path), "does not exist")
        return [path]
    endings = tuple(suffix + packed for suffix in suffixes for packed in ("", *_COMPRESSED))
    found = sorted(
        each for each in path.rglob("*") if each.is_file() and each.name.endswith(endings)
    )
    if not found:
        raise InvalidValueError(str(path), f"holds no files that end with {', '.join(suffixes)}")
    return found


def lines_of(path: Path) -> Iterator[tuple[int, bytes | ValueError]]:
    """Yield numbered lines; one that is too long or unreadable comes as the error saying so.

    Raises:
        InvalidValueError: the file cannot be opened.
    """
    with open_bytes(path) as stream:
        yield from numbered_lines(stream, max_line_bytes=MAX_LINE_BYTES)


def document_of(path: Path) -> bytes:
    """Read a file that is one document.

    Raises:
        InvalidValueError: it cannot be opened.
        ValueError: it cannot be read to its end, or is larger than ``MAX_DOCUMENT_BYTES``.
    """
    try:
        with open_bytes(path) as stream:
            content = stream.read(MAX_DOCUMENT_BYTES + 1)
    except READ_ERRORS as error:
        raise ValueError(f"the file cannot be read: {error}") from None
    if len(content) > MAX_DOCUMENT_BYTES:
        raise ValueError(f"the file is larger than {MAX_DOCUMENT_BYTES} bytes")
    return content


@contextlib.contextmanager
def open_bytes(path: Path) -> Iterator[IO[bytes]]:
    """Open a file, unpacking gzip, bzip2, xz and Zstandard by their first bytes.

    Raises:
        InvalidValueError: it cannot be opened, or is Zstandard's and ``zstandard`` is missing.
    """
    with contextlib.ExitStack() as stack:
        try:
            raw = stack.enter_context(path.open("rb"))
            magic = raw.read(6)
            raw.seek(0)
            stream = stack.enter_context(_unpacked(raw, magic, path))
        except OSError as error:
            raise InvalidValueError(str(path), f"cannot be opened: {error.strerror}") from None
        yield stream


def _unpacked(raw: IO[bytes], magic: bytes, path: Path) -> IO[bytes]:
    if magic.startswith(b"\x1f\x8b"):
        return cast("IO[bytes]", gzip.open(raw, "rb"))
    if magic.startswith(b"BZh"):
        return cast("IO[bytes]", bz2.open(raw, "rb"))
    if magic.startswith(b"\xfd7zXZ\x00"):
        return cast("IO[bytes]", lzma.open(raw, "rb"))
    if magic.startswith(_ZSTD_MAGIC):
        return _zstandard(raw, path)
    return raw


def _zstandard(raw: IO[bytes], path: Path) -> IO[bytes]:
    try:
        module = importlib.import_module("zstandard")
    except ImportError:
        raise InvalidValueError(
            str(path), "is packed by Zstandard: install the Python package zstandard, or unpack it"
        ) from None
    return cast("IO[bytes]", module.open(raw, "rb"))
