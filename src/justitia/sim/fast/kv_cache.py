"""Paged KV cache of one engine: how many blocks are free, and what is taken from whom.

As vLLM's block pool: a block without content is used first, then the cached ones that nobody holds,
in the order in which they were freed.
"""

from dataclasses import dataclass, field

from justitia.core.errors import InvariantError
from justitia.sim.fast.prefix_tree import PrefixTree
from justitia.sim.fast.sequence import Sequence


@dataclass(slots=True)
class KvCache:
    """Blocks of one engine. Without a prefix cache only their number counts."""

    blocks: int
    block_size: int
    has_prefix_cache: bool = True
    _num_blank: int = field(init=False)
    _tree: PrefixTree = field(init=False)

    def __post_init__(self) -> None:
        self._num_blank = self.blocks
        self._tree = PrefixTree(self.block_size)

    @property
    def num_free(self) -> int:
        """Blocks that somebody could have, cached ones among them."""
        return self._num_blank + self._tree.num_idle

    def blocks_of(self, tokens: int) -> int:
        """Blocks that so many tokens fill or begin."""
        return -(-tokens // self.block_size)

    def find(self, sequence: Sequence) -> tuple[int, int]:
        """Count a waiting sequence's blocks that are cached, and those of them that are free."""
        return self._tree.find(sequence) if self.has_prefix_cache else (0, 0)

    def take(self, blocks: int) -> None:
        """Hand out free blocks; they lose what they held.

        Raises:
            InvariantError: there are not so many.
        """
        if blocks <= self._num_blank:
            self._num_blank -= blocks
            return
        self._tree.evict(blocks - self._num_blank)
        self._num_blank = 0

    def give_back(self, blocks: int) -> None:
        """Take back blocks that ``take`` has handed out and that nothing was written to."""
        self._num_blank += blocks

    def admit(self, sequence: Sequence, hit: int) -> None:
        """Give a sequence its first ``hit`` blocks, which ``find`` has found."""
        if hit:
            self._tree.hold(sequence, hit, is_hit=True)
            sequence.blocks = hit

    def fill(self, sequence: Sequence, tokens: int) -> None:
        """A sequence has ``tokens`` tokens in its blocks: those that are full are cached."""
        if self.has_prefix_cache:
            # A block that was computed anew while a copy of it lay idle is one block, not two.
            self._num_blank += self._tree.hold(sequence, tokens // self.block_size)

    def release(self, sequence: Sequence, tokens: int) -> list[tuple[Sequence, int]]:
        """Take back the blocks of a sequence that has ``tokens`` tokens in them.

        Returns the sequences that now pay for more (rule C3), and for how many blocks.
        """
        if not self.has_prefix_cache:
            self._num_blank += sequence.blocks
            sequence.blocks = 0
            return []
        self.fill(sequence, tokens)
        self._num_blank += sequence.blocks - sequence.known + sequence.copies
        sequence.blocks = 0
        return self._tree.release(sequence)

    def check(self) -> None:
        """Raise unless all blocks are free: nobody is here, so nobody may hold any.

        Raises:
            InvariantError: blocks have leaked.
        """
        if self.num_free != self.blocks:
            raise InvariantError(f"{self.blocks - self.num_free} blocks have leaked")
