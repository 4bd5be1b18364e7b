"""Lines of a stream of bytes with their numbers, however long, cut or damaged it is."""

import gzip
import lzma
import zlib
from collections.abc import Iterator
from typing import IO, Final

#: What a stream raises that cannot be read any further, unpacked or not.
READ_ERRORS: Final = (EOFError, OSError, zlib.error, lzma.LZMAError)
_CHUNK_BYTES: Final = 2**20


def numbered_lines(
    stream: IO[bytes], *, max_line_bytes: int
) -> Iterator[tuple[int, bytes | ValueError]]:
    """Yield lines, counted from 1; one that is too long or unreadable comes as the error saying so.

    The rest of a line that is too long is skipped without being held in memory.
    """
    number = 0
    while True:
        number += 1
        try:
            line = stream.readline(max_line_bytes + 1)
            is_too_long = len(line) > max_line_bytes
            if is_too_long:
                _skip_rest_of_line(stream)
        except READ_ERRORS as error:
            # gzip quotes the bytes that it does not know, and they may be of a prompt.
            reason = "no gzip" if isinstance(error, gzip.BadGzipFile) else error
            yield number, ValueError(f"the file cannot be read any further: {reason}")
            return
        if not line:
            return
        yield number, ValueError(f"longer than {max_line_bytes} bytes") if is_too_long else line


def _skip_rest_of_line(stream: IO[bytes]) -> None:
    chunk = stream.readline(_CHUNK_BYTES)
    while chunk and not chunk.endswith(b"\n"):
        chunk = stream.readline(_CHUNK_BYTES)
