"""The prefix cache against one that keeps every block by itself, as vLLM's does."""

from collections import OrderedDict

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from justitia.core.errors import InvariantError
from justitia.core.policies import Inference
from justitia.sim.fast.kv_cache import KvCache
from justitia.sim.fast.sequence import RunAccount, Sequence, path_of
from justitia.sim.scenario import Segment

SIZE = 4
BLOCKS = 12


class PlainCache:
    """Blocks by the hash of all that they hold and all before it; the unused ones in order."""

    def __init__(self):
        self.num_blank = BLOCKS
        self.users = {}
        self.unused = OrderedDict()
        self.payer = {}

    @property
    def num_free(self):
        return self.num_blank + len(self.unused)

    def hashes(self, tokens):
        return [tuple(tokens[: end + SIZE]) for end in range(0, len(tokens) - SIZE + 1, SIZE)]

    def find(self, tokens):
        hits = []
        for name in self.hashes(tokens)[: (len(tokens) - 1) // SIZE]:
            if name not in self.users and name not in self.unused:
                break
            hits.append(name)
        return hits

    def admit(self, who, tokens):
        """Compute all tokens; None if there is no room."""
        hits = self.find(tokens)
        needed = -(-len(tokens) // SIZE) - len(hits)
        if needed + sum(name in self.unused for name in hits) > self.num_free:
            return None
        for name in hits:
            self.unused.pop(name, None)
            self.users.setdefault(name, []).append(who)
        for _ in range(needed):
            if self.num_blank:
                self.num_blank -= 1
            else:
                self.unused.popitem(last=False)
        for name in self.hashes(tokens)[len(hits) :]:
            self.users[name] = [who]
        return len(hits)

    def release(self, who, tokens):
        self.num_blank += len(tokens) % SIZE > 0
        for name in reversed(self.hashes(tokens)):
            self.users[name].remove(who)
            if not self.users[name]:
                del self.users[name]
                self.unused[name] = None

    def foreign(self, who, tokens):
        """Blocks for which another one pays: the first of those who use it."""
        return sum(self.users[name][0] != who for name in self.hashes(tokens))


def tokens_of(prompt):
    """Spell a prompt out; a token says after which whole segments it comes."""
    past, spelled = (), []
    for stream, length in prompt:
        spelled += [(past, stream, place) for place in range(length)]
        past = (*past, (stream, length))
    return spelled


def sequence_of(number, prompt):
    segments = [Segment(stream, tokens) for stream, tokens in prompt]
    return Sequence(
        Inference(f"i{number}", "r", number),
        RunAccount("r"),
        0,
        sum(tokens for _, tokens in prompt),
        1,
        path_of(segments, f"out-{number}", SIZE),
        0.0,
    )


# Never a whole number of blocks: the copy of a last block is the one thing that differs.
PROMPTS = (
    st.lists(
        st.tuples(st.sampled_from("abc"), st.sampled_from([1, 3, 4, 8, 9])), min_size=1, max_size=3
    )
    .map(tuple)
    .filter(lambda prompt: sum(tokens for _, tokens in prompt) % SIZE)
)
MOVES = st.lists(st.one_of(PROMPTS, st.integers(0, 5)), min_size=1, max_size=40)


@settings(derandomize=True, deadline=None, max_examples=200, database=None)
@given(moves=MOVES)
def test_hits_free_blocks_and_who_pays_are_those_of_a_cache_that_keeps_every_block(moves):
    cache, plain = KvCache(BLOCKS, SIZE), PlainCache()
    here = []
    for number, move in enumerate(moves):
        if isinstance(move, int):
            if move < len(here):
                sequence, tokens = here.pop(move)
                cache.release(sequence, len(tokens))
                plain.release(sequence, tokens)
        else:
            sequence, tokens = sequence_of(number, move), tokens_of(move)
            hit, idle = cache.find(sequence)
            assert hit == len(plain.find(tokens))
            needed = cache.blocks_of(len(tokens)) - hit
            if plain.admit(sequence, tokens) is None:
                assert needed + idle > cache.num_free
                continue
            cache.admit(sequence, hit)
            cache.take(needed)
            sequence.blocks += needed
            cache.fill(sequence, len(tokens))
            here.append((sequence, tokens))
        assert cache.num_free == plain.num_free
        for sequence, tokens in here:
            assert sequence.foreign == plain.foreign(sequence, tokens)
    for sequence, tokens in here:
        cache.release(sequence, len(tokens))
    cache.check()


def test_a_copy_of_a_block_that_another_one_holds_is_given_back_once():
    """Both compute the last block of the same 8 tokens."""
    cache = KvCache(BLOCKS, SIZE)
    both = [sequence_of(number, (("a", 8),)) for number in range(2)]
    for sequence in both:
        hit, _ = cache.find(sequence)
        cache.admit(sequence, hit)
        cache.take(2 - hit)
        sequence.blocks = 2
        cache.fill(sequence, 8)
    assert cache.num_free == BLOCKS - 3
    assert both[1].foreign == 1, "the first block; its last one is its own"
    for sequence in both:
        cache.release(sequence, 8)
    cache.check()


def test_more_blocks_than_there_are_cannot_be_taken():
    with pytest.raises(InvariantError, match="1 blocks are missing"):
        KvCache(BLOCKS, SIZE).take(BLOCKS + 1)
