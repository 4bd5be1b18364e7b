"""What of a prompt leaves the client."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from justitia.client.prompts import PromptPolicy, hash_prompt
from justitia.core.limits import MAX_PROMPT_BYTES
from justitia.core.privacy import Privacy
from justitia.predictor.features import excerpt_of

KEY, OTHER_KEY = b"a key of enough bytes", b"another key of that sort"


def test_equal_words_stay_equal_and_the_order_is_gone():
    hashed = hash_prompt("pay the bill, then file the bill", KEY).split()
    assert len(hashed) == 7
    assert len(set(hashed)) == 5
    assert hashed == sorted(hashed)
    assert hash_prompt("file the BILL, then pay the bill", KEY).split() == hashed


def test_without_the_key_nobody_can_test_a_guess():
    assert not set(hash_prompt("bill", KEY).split()) & set(hash_prompt("bill", OTHER_KEY).split())


@given(st.text(max_size=300))
def test_any_prompt_becomes_plain_words(prompt):
    hashed = hash_prompt(prompt, KEY)
    assert hashed.isascii()
    assert set(hashed) <= set("abcdefghijklmnopqrstuvwxyz ?\n")
    PromptPolicy(privacy=Privacy.HASHED, key=KEY).fields(prompt)


def test_lines_questions_and_the_length_of_long_prompts_stay():
    prompt = "One? Two?\nThree\n" + "word " * 5000 + "\nlast"
    hashed = hash_prompt(prompt, KEY)
    assert len(hashed) == len(prompt)
    assert hashed.count("?") == prompt.count("?")
    assert "word" not in hashed
    assert hash_prompt("a?\n\nb", KEY).count("\n") == 2


@given(st.text(alphabet="ab ?\n", min_size=1, max_size=100), st.text("a?\n", max_size=100))
@settings(max_examples=20, deadline=None)
def test_what_a_predictor_reads_has_as_many_lines_and_questions_as_the_prompt(part, end):
    prompt = part * (8193 // len(part) + 1) + end
    read, hashed = excerpt_of(prompt), excerpt_of(hash_prompt(prompt, KEY))
    for mark in "?\n":
        assert hashed.count(mark) == read.count(mark)


@pytest.mark.parametrize("prompt", ["a " * 5000, "a " * 4000, "\u4e00" * 3000])
def test_no_cut_leaves_a_part_of_a_word(prompt):
    hashed = hash_prompt(prompt, KEY)
    assert set(hashed.split()) == set(excerpt_of(hashed).split())
    assert {len(word) for word in hashed.split()} == {5}


@pytest.mark.parametrize("prompt", ["x" * 2**20 + "y", "a\u4e00" * 2**20, "w " * 2**20])
def test_a_prompt_that_the_service_would_refuse_is_sent_as_its_ends(prompt):
    text = PromptPolicy().fields(prompt)["prompt_text"]
    assert MAX_PROMPT_BYTES - 8 < len(text.encode()) <= MAX_PROMPT_BYTES
    assert prompt.startswith(text[:1000])
    assert prompt.endswith(text[-1000:])
    hashed = PromptPolicy(privacy=Privacy.HASHED, key=KEY).fields(prompt)["hashed_prompt"]
    assert len(hashed) == min(len(prompt), MAX_PROMPT_BYTES)


def test_a_policy_shows_its_key_to_nobody():
    assert "enough" not in repr(PromptPolicy(privacy=Privacy.HASHED, key=KEY))


@pytest.mark.parametrize("key", [b"", b"short", b"x" * 65])
def test_hashing_without_a_proper_key_is_refused(key):
    with pytest.raises(ValueError, match="prompt_key must have 16 to 64 bytes"):
        PromptPolicy(privacy=Privacy.HASHED, key=key)


def test_of_a_withheld_prompt_its_length_is_sent():
    assert PromptPolicy(privacy=Privacy.NONE).fields("abc\ud800") == {"prompt_chars": 4}
    assert PromptPolicy().fields("abc\ud800") == {"prompt_text": "abc?"}
