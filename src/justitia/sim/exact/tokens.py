"""Streams of tokens as token ids: the same for the same name and offset, in every process.

vLLM finds a cached block by its token ids, so what scenarios share it shares. A stream's ids are
consecutive numbers from one that its name decides: no two streams have an id in common, but for
names that agree in 39 bits of their hashes.
"""

from collections.abc import Iterable
from hashlib import sha256
from typing import Final

from justitia.sim.scenario import MAX_TOKENS, Segment

_OFFSET_BITS: Final = MAX_TOKENS.bit_length()
_NAME_BITS: Final = 63 - _OFFSET_BITS


def first_token_of(stream: str) -> int:
    """Id of a stream's first token; the one at an offset is that much larger."""
    digest = int.from_bytes(sha256(stream.encode(errors="surrogatepass")).digest()[:8])
    return (digest >> (64 - _NAME_BITS)) << _OFFSET_BITS


def tokens_of(prompt: Iterable[Segment]) -> list[int]:
    """List the ids of a prompt."""
    ids: list[int] = []
    for segment in prompt:
        first = first_token_of(segment.stream)
        ids.extend(range(first, first + segment.tokens))
    return ids
