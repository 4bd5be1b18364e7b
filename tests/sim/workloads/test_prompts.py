from itertools import takewhile

import pytest
from hypothesis import given
from hypothesis import strategies as st

from justitia.sim.workloads.readers.prompts import BlockTree, GrowingPrompt

BLOCK = 4
#: Few different ids, so that prefixes meet; an id after other ids is another block.
PREFIXES = st.lists(st.integers(0, 2), max_size=7)


def common(left, right):
    return sum(
        1 for _ in takewhile(lambda pair: pair[0] == pair[1], zip(left, right, strict=False))
    )


@given(st.lists(PREFIXES, min_size=2, max_size=12))
def test_prompts_share_exactly_the_blocks_that_their_ids_have_in_common(shared_tokens, lists):
    tree = BlockTree("t", BLOCK)
    prompts = [tree.prompt(ids, BLOCK * len(ids), f"own-{n}") for n, ids in enumerate(lists)]
    for n, prompt in enumerate(prompts):
        assert sum(segment.tokens for segment in prompt) == BLOCK * len(lists[n])
        assert all(segment.tokens > 0 for segment in prompt)
        for m in range(n):
            assert shared_tokens(prompts[m], prompt) == BLOCK * common(lists[m], lists[n])


@given(st.lists(st.integers(0, 5), max_size=6), st.integers(1, 3))
def test_tokens_that_fill_no_block_are_the_last_ids_or_nobodys(ids, rest):
    with_last = BlockTree("t", BLOCK).prompt([*ids, 9], BLOCK * len(ids) + rest, "own")
    without = BlockTree("t", BLOCK).prompt(ids, BLOCK * len(ids) + rest, "own")
    for prompt in (with_last, without):
        assert sum(segment.tokens for segment in prompt) == BLOCK * len(ids) + rest
    assert without[-1].stream == "own/tail"
    assert all(segment.stream != "own/tail" for segment in with_last)


@pytest.mark.parametrize("total", [0, 7, 13])
def test_ids_that_do_not_fit_the_length_are_refused(total):
    with pytest.raises(ValueError, match="2 blocks of 4 tokens are not"):
        BlockTree("t", BLOCK).prompt([1, 2], 12 if total == 0 else total + 6, "own")


def test_what_only_gets_longer_stays_one_segment():
    tree = BlockTree("t", BLOCK)
    for num in range(1, 50):
        assert len(tree.prompt(range(num), BLOCK * num, "own")) == 1


@given(st.lists(st.tuples(st.integers(1, 60), st.integers(0, 80)), min_size=1, max_size=12))
def test_a_growing_prompt_shares_what_it_is_told_to(shared_tokens, steps):
    """Against the tokens themselves, as a list in which every new one is another."""
    prompt, numbers = GrowingPrompt("t"), iter(range(10**6))
    history, made = [], []
    for total, told in steps:
        shared = min(told, total, len(history))
        history = history[:shared] + [next(numbers) for _ in range(total - shared)]
        made.append((history, prompt.next(total, told)))
        assert prompt.tokens == total
    for n, (tokens, segments) in enumerate(made):
        for other_tokens, other_segments in made[:n]:
            assert shared_tokens(other_segments, segments) == common(other_tokens, tokens)
