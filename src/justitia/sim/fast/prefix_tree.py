"""What the blocks of a KV cache contain: the prefix cache of one engine.

vLLM hashes a full block together with all that comes before it. Here a block is named by the
stream in which it ends and by what comes before that stream, so that a run of blocks is one number
and no block is looked at by itself. A strand is such a run: all blocks that end in one stream after
one past. Of a strand always its first blocks are cached, because vLLM frees a sequence's blocks
from the last to the first and evicts in the order of freeing.

One thing is not as in vLLM: where a sequence computes a block anew that others hold, its copy is
freed as an empty block, not kept as a second entry of the cache.
"""

import heapq
from dataclasses import dataclass, field

from justitia.core.errors import InvariantError
from justitia.sim.fast.sequence import Sequence


@dataclass(slots=True, eq=False)
class Strand:
    """Blocks that end in one stream after one past; the first ``cached`` ones are in the cache.

    The first ``held`` of them belong to somebody. The others wait to be evicted in stretches of
    ``idle``: (last block, stamp of its release), the first one freed last.
    """

    parent: "Strand | None" = None
    key: tuple[int, str] = (0, "")
    #: Place of its first block in a sequence.
    first_block: int = 0
    serial: int = 0
    cached: int = 0
    held: int = 0
    idle: list[tuple[int, int]] = field(default_factory=list)
    #: By holder, in the order in which they came: blocks held, and those that another one pays for.
    holders: dict[Sequence, tuple[int, int]] = field(default_factory=dict)
    children: "dict[tuple[int, str], Strand]" = field(default_factory=dict)


class PrefixTree:
    """All strands. Counts blocks; whose they are physically is the cache's affair."""

    def __init__(self, block_size: int) -> None:
        self._block_size = block_size
        self._root = Strand()
        self._num_strands = 0
        self._stamp = 0
        #: (stamp, -first block, serial, strand): what was freed first goes first, its end before
        #: its beginning. Entries whose stretch is gone are dropped when they come up.
        self._queue: list[tuple[int, int, int, Strand]] = []
        #: Blocks that are cached and held by nobody.
        self.num_idle = 0

    def find(self, sequence: Sequence) -> tuple[int, int]:
        """Count the blocks from the start that are cached, and those among them that are idle.

        Of a sequence that is cached as a whole the last token is left to be computed.
        """
        most = (sequence.target - 1) // self._block_size
        strand, past, found, idle = self._root, 0, 0, 0
        for stream, tokens, blocks in sequence.path:
            child = strand.children.get((past, stream))
            if child is None:
                break
            have = min(child.cached, blocks, most - found)
            found += have
            if have > child.held:
                idle += have - child.held
            if have < blocks:
                break
            strand, past = child, tokens
        return found, idle

    def hold(self, sequence: Sequence, blocks: int, *, is_hit: bool = False) -> int:
        """Let a sequence hold its first ``blocks`` blocks; returns how many of the idle it took.

        ``is_hit``: it found them in the cache. Otherwise it has computed them: what is new is
        cached from now on; what somebody holds already is a copy.
        """
        taken = 0
        while sequence.known < blocks:
            if not sequence.strands:
                self._enter(sequence)
            strand = sequence.strands[-1]
            room = sequence.path[len(sequence.strands) - 1].blocks
            length, foreign = strand.holders[sequence]
            if room == length:
                self._enter(sequence)
                continue
            step = min(room - length, blocks - sequence.known)
            reached = length + step
            if length < strand.held:  # others hold what it holds now
                shared = min(reached, strand.held) - length
                if is_hit:
                    foreign += shared
                    sequence.foreign += shared
                else:
                    sequence.copies += shared
            strand.holders[sequence] = (reached, foreign)
            sequence.known += step
            if reached > strand.held:
                taken += self._reach(strand, reached)
        return taken

    def _reach(self, strand: Strand, length: int) -> int:
        """Somebody holds more of a strand than anybody did; returns the idle blocks it took."""
        taken = min(length, strand.cached) - strand.held
        strand.held = length
        if taken:
            self.num_idle -= taken
            while strand.idle and strand.idle[0][0] <= length:
                strand.idle.pop(0)
        strand.cached = max(strand.cached, length)
        return taken

    def _enter(self, sequence: Sequence) -> None:
        """Go on to the next stream of a sequence's path."""
        depth = len(sequence.strands)
        parent = sequence.strands[-1] if depth else self._root
        past = sequence.path[depth - 1].tokens if depth else 0
        key = (past, sequence.path[depth].stream)
        strand = parent.children.get(key)
        if strand is None:
            self._num_strands += 1
            strand = Strand(parent, key, sequence.known, self._num_strands)
            parent.children[key] = strand
        strand.holders[sequence] = (0, 0)
        sequence.strands.append(strand)

    def release(self, sequence: Sequence) -> list[tuple[Sequence, int]]:
        """A sequence lets go of all it holds.

        Returns the sequences that now pay for more, and for how many blocks.
        """
        self._stamp += 1
        heirs: list[tuple[Sequence, int]] = []
        for strand in reversed(sequence.strands):
            del strand.holders[sequence]
            held = self._shift(strand, heirs) if strand.holders else 0
            if held < strand.held:
                strand.idle.insert(0, (strand.held, self._stamp))
                entry = (self._stamp, -strand.first_block, strand.serial, strand)
                heapq.heappush(self._queue, entry)
                self.num_idle += strand.held - held
                strand.held = held
            self._prune(strand)
        sequence.strands.clear()
        sequence.known = sequence.foreign = sequence.copies = 0
        return heirs

    @staticmethod
    def _shift(strand: Strand, heirs: list[tuple[Sequence, int]]) -> int:
        """Let the first of those who are left pay; returns how many blocks are still held."""
        paid = 0
        for holder, (length, foreign) in strand.holders.items():
            still = min(foreign, paid, length)
            if still < foreign:
                strand.holders[holder] = (length, still)
                holder.foreign -= foreign - still
                heirs.append((holder, foreign - still))
            paid = max(paid, length)
        return paid

    def evict(self, blocks: int) -> None:
        """Drop the content of ``blocks`` idle blocks, those first that were freed first."""
        self.num_idle -= blocks
        if self.num_idle < 0:
            raise InvariantError(f"{-self.num_idle} blocks are missing to be evicted")
        while blocks:
            stamp, _, _, strand = self._queue[0]
            if not strand.idle or strand.idle[-1][1] != stamp:
                heapq.heappop(self._queue)
                continue
            start = max(strand.held, strand.idle[-2][0] if len(strand.idle) > 1 else 0)
            gone = min(blocks, strand.cached - start)
            strand.cached -= gone
            blocks -= gone
            if strand.cached > start:
                strand.idle[-1] = (strand.cached, stamp)
            else:
                strand.idle.pop()
                heapq.heappop(self._queue)
                self._prune(strand)

    def _prune(self, strand: Strand) -> None:
        """Forget strands of which nothing is cached, nothing held and nothing hangs."""
        while not (strand.cached or strand.holders or strand.children):
            if strand.parent is None:
                return
            del strand.parent.children[strand.key]
            strand = strand.parent
