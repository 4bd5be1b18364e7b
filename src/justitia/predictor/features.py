"""Text to features: the one implementation of tokenisation, for training and for serving.

A run's text becomes the TF-IDF weights of its known terms and a few length features: a run's cost
depends on how much text it works through, in how many parts, and on numbers that the user names
("in 5 steps"), more than on words. scikit-learn learns the vocabulary
(`vectoriser`); the transformation of one text is done here over the stored vocabulary, because it
is several times faster for one row than ``TfidfVectorizer.transform`` and needs no scikit-learn.

The work for one text is bounded whatever its size: only an excerpt of at most `MAX_EXCERPT_CHARS`
is read, its head and its tail, and of its words at most `MAX_WORDS`. The number of characters is
exact; what must be counted (words, lines, ...) is counted in the excerpt and scaled up. The first
and the last number are read as they stand.
"""

import re
from dataclasses import dataclass
from functools import cached_property
from itertools import pairwise
from typing import Final

import numpy as np
from numpy.typing import NDArray

from justitia.predictor.term_index import Columns, TermIndex

FloatArray = NDArray[np.float32]

MAX_EXCERPT_CHARS: Final = 8 * 1024
"""Characters of a text that are read: half from its head, half from its tail. The usual request is
shorter, and the worst text of this length still takes less than the deadline of a prediction."""

MAX_WORDS: Final = 2048
"""Words of an excerpt that become terms: half from its head, half from its tail."""

MAX_TERM_CHARS: Final = 2 * 32 + 1
"""Longest term: two words and the blank between them."""

LENGTH_FEATURES: Final = (
    "log_chars",
    "log_words",
    "log_lines",
    "log_questions",
    "log_digits",
    "log_distinct",
    "log_bytes",
    "log_sentences",
    "log_commas",
    "log_numbers",
    "log_items",
    "log_blank_lines",
    "log_indented_lines",
    "log_signs",
    "log_brackets",
    "log_quotes",
    "log_first_number",
    "log_last_number",
)
"""Names of the length features, each ln(1 + count), in the order of the columns; the last two are
those of numbers that stand in the text, 0 where there is none."""

MAX_LENGTH_DEVIATION: Final = 4.0
"""Length features are held within so many standard deviations of the training texts' mean."""

# Scripts written without blanks: each character is a word. Everything else: runs of letters, and
# digits in groups of three, so that numbers can only ever add 1,110 terms.
_UNSPACED = "\u3040-\u30ff\u3400-\u9fff\uf900-\ufaff\U00020000-\U0003ffff"
_WORD = re.compile(rf"[^\W\d_{_UNSPACED}]{{1,32}}|\d{{1,3}}|[{_UNSPACED}]")
_ASCII_WORD = re.compile(r"[a-z]{1,32}|[0-9]{1,3}")  # what _WORD means for ASCII, in half the time
_MAX_WORD_CHARS = 32
_DIGITS = b"0123456789"
_SIGN_SETS = (b".:;!", b",", b"+-*/=<>^%", b"([{", b"\"'`")
_MAX_NUMBER_DIGITS = 6
_NUMBER = re.compile(rb"[0-9]+")
_ITEM = re.compile(rb"\n[ \t]*(?:[0-9]{1,4}[.)]|[-*\xb7])[ \t]")  # of a numbered or bulleted list
# Of UTF-8: ASCII letters in lower case, digits and all that is beyond ASCII as they are, the rest
# blanks. No word reaches across one of these.
_BLANKED = bytes(
    code if code > 127 or chr(code).isalnum() else ord(" ")  # noqa: PLR2004 - where ASCII ends
    for code in bytes(range(256)).lower()
)


def excerpt_of(text: str) -> str:
    """Return the part of a text that is read: all, or its head and tail on lines of their own."""
    if len(text) <= MAX_EXCERPT_CHARS:
        return text
    half = MAX_EXCERPT_CHARS // 2
    return f"{text[:half]}\n{text[-half:]}"


def words_of(excerpt: str) -> list[str]:
    """Return the words of an excerpt in lower case, in order.

    Most of what stands between blanks is one word already: a regular expression, which costs five
    times as much, looks only into what is not.
    """
    lowered = excerpt if excerpt.isascii() else excerpt.lower()
    blanked = lowered.encode("utf-8", "surrogatepass").translate(_BLANKED)
    words: list[str] = []
    for part in blanked.decode("utf-8", "surrogatepass").split():
        if part.isalpha() and part.isascii() and len(part) <= _MAX_WORD_CHARS:
            words.append(part)
        else:
            words += (_ASCII_WORD if part.isascii() else _WORD).findall(part)
    return words


def terms_of(words: list[str]) -> list[str]:
    """Return the terms that are counted: every word and every pair of neighbours."""
    words = _bounded(words)
    return [*words, *map(" ".join, pairwise(words))]


def _bounded(words: list[str]) -> list[str]:
    if len(words) <= MAX_WORDS:
        return words
    return words[: MAX_WORDS // 2] + words[-MAX_WORDS // 2 :]


def analyse(text: str) -> list[str]:
    """Return the terms of a text; what the vectoriser learns from."""
    return terms_of(words_of(excerpt_of(text)))


def length_features(text: str) -> FloatArray:
    """Return the length features of a text, in the order of `LENGTH_FEATURES`, not standardised."""
    excerpt = excerpt_of(text)
    return _length_features(len(text), excerpt, words_of(excerpt))


def _length_features(num_chars: int, excerpt: str, words: list[str]) -> FloatArray:
    scale = num_chars / max(1, len(excerpt))
    encoded = excerpt.encode("utf-8", "surrogatepass")
    numbers = _NUMBER.findall(encoded)
    sentences, commas, signs, brackets, quotes = (_count(encoded, each) for each in _SIGN_SETS)
    counts = (
        len(excerpt),
        len(words),
        excerpt.count("\n"),
        excerpt.count("?") + excerpt.count("\uff1f"),
        _count(encoded, _DIGITS),
        len(set(words)),
        len(encoded),
        sentences + excerpt.count("\u3002"),
        commas + excerpt.count("\uff0c"),
        len(numbers),
        len(_ITEM.findall(b"\n" + encoded)),
        encoded.count(b"\n\n"),
        encoded.count(b"\n ") + encoded.count(b"\n\t"),
        signs,
        brackets,
        quotes,
    )
    named = [int(number[:_MAX_NUMBER_DIGITS]) for number in (numbers[:1] + numbers[-1:])] or [0, 0]
    return np.log1p([*(count * scale for count in counts), *named]).astype(np.float32)


def _count(encoded: bytes, wanted: bytes) -> int:
    """Return how many of these bytes there are."""
    return len(encoded) - len(encoded.translate(None, wanted))


@dataclass(frozen=True, kw_only=True, slots=True)
class FeatureRow:
    """The features of one text: its known terms (columns, counts) and standardised lengths.

    ``idf`` is that of the whole vocabulary.
    """

    columns: Columns
    counts: Columns
    idf: FloatArray
    lengths: FloatArray

    @property
    def weights(self) -> FloatArray:
        """TF-IDF of the known terms. Made when asked for: not every model reads it."""
        weights = (np.log(self.counts.astype(np.float32)) + 1) * self.idf[self.columns]
        norm = float(np.sqrt(np.sum(weights * weights)))
        return np.asarray(weights / norm if norm > 0 else weights, dtype=np.float32)

    @property
    def is_unknown(self) -> bool:
        """Whether no term of the text is known: only its length speaks."""
        return len(self.columns) == 0


@dataclass(frozen=True, kw_only=True)
class Featuriser:
    """What was learnt about texts; turns a text into a `FeatureRow`. Immutable, free of threads.

    ``idf`` belongs to ``vocabulary`` by position; ``length_mean`` and ``length_std`` to
    `LENGTH_FEATURES`. The weights equal scikit-learn's with sublinear tf, smooth idf and L2 norm.
    """

    vocabulary: tuple[str, ...]
    idf: FloatArray
    length_mean: FloatArray
    length_std: FloatArray

    @property
    def num_features(self) -> int:
        """Width of a dense row: terms, then lengths."""
        return len(self.vocabulary) + len(LENGTH_FEATURES)

    @cached_property
    def _terms(self) -> TermIndex:
        return TermIndex(self.vocabulary)

    def transform(self, text: str) -> FeatureRow:
        """Return the features of any text."""
        excerpt = excerpt_of(text)
        words = words_of(excerpt)
        columns, counts = self._terms.count(_bounded(words))
        lengths = (_length_features(len(text), excerpt, words) - self.length_mean) / self.length_std
        return FeatureRow(
            columns=columns,
            counts=counts,
            idf=self.idf,
            lengths=lengths.clip(-MAX_LENGTH_DEVIATION, MAX_LENGTH_DEVIATION),
        )

    def dense(self, texts: list[str]) -> FloatArray:
        """Return the rows of many texts as one matrix (for training)."""
        matrix = np.zeros((len(texts), self.num_features), dtype=np.float32)
        for index, text in enumerate(texts):
            row = self.transform(text)
            matrix[index, row.columns] = row.weights
            matrix[index, len(self.vocabulary) :] = row.lengths
        return matrix
