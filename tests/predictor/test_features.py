import subprocess
import sys
from collections import Counter

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from justitia.predictor import features
from justitia.predictor.features import (
    LENGTH_FEATURES,
    MAX_EXCERPT_CHARS,
    MAX_LENGTH_DEVIATION,
    MAX_TERM_CHARS,
    MAX_WORDS,
    analyse,
    excerpt_of,
    length_features,
    words_of,
)
from justitia.predictor.vectoriser import build_vectoriser, fit_featuriser

TEXTS = [
    "def f(x):\n    return x_1 + 12345  # why?",
    "def g(y):\n    return y_1 + 12300",
    "请总结这篇文章 please",
    "请总结 this article",
    "",
    "a",
    "7",
    "return return return return this this y",
]

# Any string at all: lone surrogates included.
any_text = st.text(st.characters(exclude_categories=[]), max_size=300)


@pytest.fixture(scope="module")
def featuriser():
    return fit_featuriser(TEXTS, max_terms=500)


def test_words_are_letters_digit_groups_and_single_unspaced_characters():
    assert words_of("Ein Über_maß 12345 漢字kana x1") == [
        *("ein", "über", "maß", "123", "45", "漢", "字", "kana", "x", "1"),
    ]


def test_terms_are_words_and_pairs_of_neighbours():
    assert analyse("One two THREE") == ["one", "two", "three", "one two", "two three"]


@given(st.text(st.characters(max_codepoint=127), max_size=300))
@settings(max_examples=50, deadline=None)
def test_the_fast_path_for_ascii_finds_the_same_words(text):
    assert words_of(text) == features._WORD.findall(text.lower())


@given(any_text)
@settings(max_examples=60, deadline=None)
def test_any_text_gives_finite_bounded_features(featuriser, text):
    row = featuriser.transform(text)
    assert np.isfinite(row.weights).all()
    assert np.isclose(np.linalg.norm(row.weights), 0 if row.is_unknown else 1, atol=1e-5)
    assert row.lengths.shape == (len(LENGTH_FEATURES),)
    assert (np.abs(row.lengths) <= MAX_LENGTH_DEVIATION).all()
    assert len(set(row.columns.tolist())) == len(row.columns)


@given(st.lists(any_text, min_size=1, max_size=8))
@settings(max_examples=30, deadline=None)
def test_any_texts_can_be_learnt_from(texts):
    featuriser = fit_featuriser(texts, max_terms=50)
    assert len(featuriser.vocabulary) <= 50
    assert (featuriser.length_std > 0).all()
    assert np.isfinite(featuriser.dense(texts)).all()


@given(text=any_text)
@settings(max_examples=40, deadline=None)
def test_the_weights_equal_those_of_scikit_learn(text):
    texts = [*TEXTS, text]
    vectoriser = build_vectoriser(max_terms=500, min_documents=2).fit(texts)
    featuriser = fit_featuriser(texts, max_terms=500)
    expected = vectoriser.transform(texts).toarray()
    dense = featuriser.dense(texts)[:, : len(featuriser.vocabulary)]
    np.testing.assert_allclose(dense, expected, atol=1e-6)


@pytest.mark.parametrize(
    ("text", "is_unknown"),
    [("return article", False), ("zzz qqq", True), ("", True), ("?!", True), ("\ud800", True)],
)
def test_a_text_without_a_known_term_is_marked(featuriser, text, is_unknown):
    assert featuriser.transform(text).is_unknown is is_unknown


def test_a_large_text_is_read_at_its_head_and_tail_only():
    text = "head " + "x" * 2**20 + " tail"
    excerpt = excerpt_of(text)
    assert len(excerpt) == MAX_EXCERPT_CHARS + 1
    assert words_of(excerpt)[0] == "head"
    assert words_of(excerpt)[-1] == "tail"


def test_the_number_of_terms_is_bounded_for_the_worst_text():
    terms = analyse("漢" * 2**20)
    assert len(terms) == 2 * MAX_WORDS - 1
    assert max(map(len, analyse("w" * 2**20))) <= MAX_TERM_CHARS


def test_length_features_speak_of_the_whole_text():
    named = dict(
        zip(LENGTH_FEATURES, np.expm1(length_features("why 12?\n" * 100_000)), strict=True)
    )
    assert named["log_chars"] == pytest.approx(800_000, rel=0.001)
    assert named["log_words"] == pytest.approx(200_000, rel=0.01)
    assert named["log_lines"] == pytest.approx(100_000, rel=0.01)
    assert named["log_questions"] == pytest.approx(100_000, rel=0.01)
    assert named["log_digits"] == pytest.approx(200_000, rel=0.01)
    assert named["log_bytes"] == pytest.approx(800_000, rel=0.01)


def test_terms_that_two_texts_share_are_preferred_but_not_required():
    assert fit_featuriser(["a b", "b c"], max_terms=9).vocabulary == ("b",)
    assert fit_featuriser(["a", "b"], max_terms=9).vocabulary == ("a", "b")
    assert fit_featuriser(["?", ""], max_terms=9).vocabulary == ()


def test_serving_loads_neither_torch_nor_scikit_learn():
    code = (
        "import sys, justitia.predictor.serving, justitia.predictor.artefact;"
        "sys.exit(bool({'torch', 'sklearn'} & set(sys.modules)))"
    )
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0


@given(any_text)
@settings(max_examples=100, deadline=None)
def test_words_are_what_the_regular_expression_finds_in_any_text(text):
    assert words_of(text) == features._WORD.findall(text.lower())


@pytest.mark.parametrize(
    "text",
    ["ÀÉ Σοφος ΑΣ", "x" * 33 + " y", "a1b22c3333 ", "\u00a0a\u2028b\x1cc\ufeffd", "I\u0130\ud800i"],
)
def test_words_at_the_borders_of_ascii_and_length_are_found_alike(text):
    assert words_of(text) == features._WORD.findall(text.lower())


@given(st.lists(st.sampled_from(["return", "this", "y", "x", "1", "123", "\u8bf7", "zz"])))
@settings(max_examples=50, deadline=None)
def test_known_terms_are_counted_in_the_order_in_which_they_first_stand(featuriser, words):
    counts = Counter(term for term in features.terms_of(words) if term in featuriser.vocabulary)
    row = featuriser.transform(" ".join(words))
    assert [featuriser.vocabulary[column] for column in row.columns] == list(counts)


def test_digits_of_other_scripts_are_no_decimal_digits():
    named = dict(zip(LENGTH_FEATURES, np.expm1(length_features("\u0663 7 \uff17 8")), strict=True))
    assert named["log_digits"] == pytest.approx(2)
