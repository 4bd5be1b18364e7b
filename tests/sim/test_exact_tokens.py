"""Token ids of streams."""

from itertools import pairwise

from justitia.sim.exact.tokens import first_token_of, tokens_of
from justitia.sim.scenario import MAX_TOKENS, Segment


def test_prompts_share_the_tokens_of_the_shorter_part_of_one_stream():
    long = tokens_of((Segment("system", 9), Segment("a", 3)))
    short = tokens_of((Segment("system", 5), Segment("b", 7)))
    assert len(long) == len(short) == 12
    assert long[:5] == short[:5]
    assert not set(long) & set(short[5:])


def test_an_answer_goes_on_in_a_later_prompt():
    first = first_token_of("answer")
    assert tokens_of((Segment("answer", 3),)) == [first, first + 1, first + 2]


def test_the_longest_streams_do_not_meet():
    starts = sorted(first_token_of(f"stream {number}") for number in range(2_000))
    gaps = [after - before for before, after in pairwise(starts)]
    assert min(gaps) > MAX_TOKENS
    assert starts[-1] + MAX_TOKENS < 2**63


def test_ids_are_the_same_in_every_process():
    assert first_token_of("system") == 0x5DE2F330F0000000, "39 bits of the name's SHA-256"
