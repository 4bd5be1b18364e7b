"""Prompts as segments of streams, from what traces tell of shared prefixes."""

from collections.abc import Sequence
from dataclasses import dataclass, field

from justitia.sim.scenario import Segment


class GrowingPrompt:
    """Prompts of one thread, each of which shares a prefix with the one before.

    While the whole of it is shared they are one stream that gets longer; where it is not (the
    history was compacted or edited), a new stream begins after what is shared.
    """

    def __init__(self, name: str) -> None:
        self._name = name
        self._segments: list[Segment] = []
        self._num_streams = 0
        self._may_extend = False

    @property
    def tokens(self) -> int:
        """Length of the last prompt."""
        return sum(segment.tokens for segment in self._segments)

    def next(self, total_tokens: int, shared_tokens: int) -> tuple[Segment, ...]:
        """Make the next prompt; of the last one at most its own length is shared."""
        have_tokens = self.tokens
        shared = min(shared_tokens, total_tokens, have_tokens)
        if shared < have_tokens:
            self._cut(shared)
        new_tokens = total_tokens - shared
        if new_tokens:
            if self._may_extend and self._segments:
                last = self._segments.pop()
                self._segments.append(Segment(last.stream, last.tokens + new_tokens))
            else:
                self._segments.append(Segment(f"{self._name}/{self._num_streams}", new_tokens))
                self._num_streams += 1
            self._may_extend = True
        return tuple(self._segments)

    def _cut(self, tokens: int) -> None:
        kept: list[Segment] = []
        for segment in self._segments:
            if tokens <= 0:
                break
            kept.append(Segment(segment.stream, min(segment.tokens, tokens)))
            tokens -= segment.tokens
        self._segments = kept
        # What is left is the beginning of a stream that went on otherwise.
        self._may_extend = False


@dataclass
class _Branch:
    stream: str
    ids: list[object]
    #: Branches that leave after so many ids, by their first id.
    branches: dict[int, dict[object, "_Branch"]] = field(default_factory=dict)


class BlockTree:
    """Prompts from ids of blocks, of which equal ones after equal ones are equal tokens.

    A radix tree: what prompts have in common is one stream, whatever their order is.
    """

    def __init__(self, name: str, block_size_tokens: int) -> None:
        self._name = name
        self._block_size_tokens = block_size_tokens
        self._roots: dict[object, _Branch] = {}
        self._num_streams = 0

    def prompt(
        self, ids: Sequence[object], total_tokens: int, own_name: str
    ) -> tuple[Segment, ...]:
        """Make the prompt of ``total_tokens`` whose blocks these are.

        The last id may stand for a block that is not full, or what comes after the last full block
        may have none; then it is shared with nobody.

        Raises:
            ValueError: there are more or less ids than the prompt has blocks.
        """
        size = self._block_size_tokens
        if len(ids) not in (total_tokens // size, -(-total_tokens // size)):
            raise ValueError(f"{len(ids)} blocks of {size} tokens are not {total_tokens} tokens")
        covered = min(len(ids) * size, total_tokens)
        segments = self._walk(list(ids), covered) if ids else []
        if covered < total_tokens:
            segments.append(Segment(f"{own_name}/tail", total_tokens - covered))
        return tuple(segments)

    def _walk(self, ids: list[object], covered_tokens: int) -> list[Segment]:
        segments: list[Segment] = []
        level, place, left_tokens = self._roots, 0, covered_tokens
        while True:
            branch = level.get(ids[place])
            if branch is None:
                branch = level[ids[place]] = _Branch(self._new_stream(), ids[place:])
            rest = ids[place:]
            num = _common(branch.ids, rest)
            if num == len(branch.ids):
                branch.ids.extend(rest[num:])
                num = len(rest)
            if num == len(rest):
                return [*segments, Segment(branch.stream, left_tokens)]
            segments.append(Segment(branch.stream, num * self._block_size_tokens))
            left_tokens -= num * self._block_size_tokens
            place += num
            level = branch.branches.setdefault(num, {})

    def _new_stream(self) -> str:
        self._num_streams += 1
        return f"{self._name}/{self._num_streams - 1}"


def _common(left: list[object], right: list[object]) -> int:
    """Tell how many first ids are equal."""
    least, most = 0, min(len(left), len(right))
    if left[:most] == right[:most]:
        return most
    while most - least > 1:
        middle = (least + most) // 2
        if left[least:middle] == right[least:middle]:
            least = middle
        else:
            most = middle
    return least
