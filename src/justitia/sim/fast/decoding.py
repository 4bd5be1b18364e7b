"""The sequences of an engine that decode: each step gives every one of them a token.

Because all go on together, a sequence's state is what it was when it joined, and a tick that counts
the steps since. So many steps are taken in one go, whatever the number of sequences.
"""

import heapq

from justitia.sim.fast.sequence import Sequence


class DecodeGroup:
    """Counts of the sequences that decode; ``tick`` is the number of steps taken so far."""

    def __init__(self, block_size: int) -> None:
        self.tick = 0
        self.num = 0
        self._block_size = block_size
        # Tokens held now, less the tick for each.
        self._base = 0
        # Those that need a new block for the step that begins at a tick of this phase.
        self._by_phase = [0] * block_size
        # (tick at which it has all its tokens, order, serial of its joining, sequence).
        self._ends: list[tuple[int, int, int, Sequence]] = []
        self._num_joins = 0

    @property
    def held_tokens(self) -> int:
        """Tokens in the KV cache of those that decode, shared ones counted each time."""
        return self._base + self.num * self.tick

    def computed(self, sequence: Sequence) -> int:
        """Tokens that a sequence, decoding or not, has in the KV cache now."""
        if not sequence.is_decoding:
            return sequence.computed
        return sequence.computed + self.tick - sequence.tick

    def join(self, sequence: Sequence) -> None:
        """A sequence goes on from here; all but its last token is computed."""
        tick = self.tick
        sequence.is_decoding = True
        sequence.tick = tick
        self._num_joins += 1
        sequence.join = self._num_joins
        offset = sequence.computed - tick
        self.num += 1
        self._base += offset
        self._by_phase[-offset % self._block_size] += 1
        last_tick = tick + sequence.output - sequence.generated
        heapq.heappush(self._ends, (last_tick, sequence.order, sequence.join, sequence))
        account = sequence.account
        account.settle(tick)
        account.num_decoding += 1
        account.base += offset - sequence.foreign * self._block_size

    def leave(self, sequence: Sequence) -> None:
        """A sequence stops; its own counts are up to date afterwards."""
        steps = self.tick - sequence.tick
        offset = sequence.computed - sequence.tick
        self.num -= 1
        self._base -= offset
        self._by_phase[-offset % self._block_size] -= 1
        account = sequence.account
        account.settle(self.tick)
        account.num_decoding -= 1
        own = offset - sequence.foreign * self._block_size
        account.base -= own
        sequence.useful_kvtt += steps * own + _ticks(sequence.tick, self.tick)
        sequence.is_decoding = False
        sequence.computed += steps
        sequence.generated += steps
        sequence.mark = max(sequence.mark, sequence.computed)
        sequence.blocks = -(-sequence.computed // self._block_size)

    def inherit(self, sequence: Sequence, blocks: int) -> None:
        """A decoding sequence pays from now on for ``blocks`` blocks that another one has paid."""
        sequence.account.settle(self.tick)
        sequence.account.base += blocks * self._block_size
        # Until now it has not: ``leave`` charges it for all of its steps.
        sequence.useful_kvtt -= (self.tick - sequence.tick) * blocks * self._block_size

    def steps_to_first_end(self) -> int:
        """Steps until the first sequence has all its tokens; there must be one."""
        while not self._is_live(self._ends[0]):
            heapq.heappop(self._ends)
        return self._ends[0][0] - self.tick

    def pop_ended(self) -> list[Sequence]:
        """List those that have all their tokens by now, in order of admission; they stay."""
        ended = []
        while self._ends and self._ends[0][0] <= self.tick:
            entry = heapq.heappop(self._ends)
            if self._is_live(entry):
                ended.append(entry[3])
        return ended

    @staticmethod
    def _is_live(entry: tuple[int, int, int, Sequence]) -> bool:
        """Whether the sequence is still there since it joined with this entry."""
        _, _, join, sequence = entry
        return sequence.is_decoding and sequence.join == join

    def blocks_for(self, steps: int) -> int:
        """Count the new blocks that the next ``steps`` steps take."""
        if steps == 1:
            return self._by_phase[self.tick % self._block_size]
        rounds, rest = divmod(steps, self._block_size)
        size, tick = self._block_size, self.tick
        return rounds * self.num + sum(self._by_phase[(tick + i) % size] for i in range(rest))

    def steps_within(self, blocks: int, most: int) -> int:
        """Count the next steps, up to ``most``, for which ``blocks`` new blocks are enough."""
        size, tick = self._block_size, self.tick
        rounds = min(blocks // self.num, most // size)
        left, steps = blocks - rounds * self.num, rounds * size
        while steps < most:
            left -= self._by_phase[(tick + steps) % size]
            if left < 0:
                return steps
            steps += 1
        return steps


def _ticks(after: int, last: int) -> int:
    """Sum of the ticks after one, up to the last."""
    return (last * (last + 1) - after * (after + 1)) // 2
