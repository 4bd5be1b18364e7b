"""Counts the known terms among a text's words: one dictionary access a word, then arrays.

Words become small numbers, and a pair of neighbours the number of both, so that no pair's text is
joined or looked up. Part of serving: a prediction spends most of its time on this.
"""

from collections.abc import Sequence
from itertools import repeat

import numpy as np
from numpy.typing import NDArray

Columns = NDArray[np.intp]

_UNKNOWN = 0
_NO_COLUMN = -1


class TermIndex:
    """The terms of a vocabulary by their words. A term is a word, or two with a blank between."""

    def __init__(self, vocabulary: Sequence[str]) -> None:
        split = [term.partition(" ") for term in vocabulary]
        words = dict.fromkeys(word for first, _, second in split for word in (first, second))
        self._number_by_word = {word: number for number, word in enumerate(words, start=1)}
        self._num_columns = len(vocabulary)
        self._base = len(words) + 1
        self._column_by_number = np.full(self._base, _NO_COLUMN, dtype=np.intp)
        column_by_pair: dict[int, int] = {}
        for column, (first, blank, second) in enumerate(split):
            number = self._number_by_word[first]
            if blank:
                pair = number * self._base + self._number_by_word[second]
                column_by_pair[pair] = column
            else:
                self._column_by_number[number] = column
        pairs = sorted(column_by_pair)
        # The last one is beyond every pair of a text: whatever is looked up finds a place.
        self._pairs = np.array([*pairs, self._base**2], dtype=np.intp)
        self._column_by_place = np.array([*map(column_by_pair.get, pairs), -1], dtype=np.intp)

    def count(self, words: Sequence[str]) -> tuple[Columns, Columns]:
        """Return the columns of the known terms and how often each stands among the words.

        The terms are every word and every pair of neighbours. Columns come in the order in which
        their terms first stand, words before pairs: the last digits of sums depend on it.
        """
        numbers = np.fromiter(
            map(self._number_by_word.get, words, repeat(_UNKNOWN)), dtype=np.intp, count=len(words)
        )
        singles = self._column_by_number[numbers]
        pairs = numbers[:-1] * self._base + numbers[1:]
        places = self._pairs.searchsorted(pairs)
        found = np.concatenate(
            (singles[singles >= 0], self._column_by_place[places[self._pairs[places] == pairs]])
        )
        nth = np.arange(len(found))
        first_nth = np.empty(self._num_columns, dtype=np.intp)
        first_nth[found[::-1]] = nth[::-1]  # of equal columns the last one written stays
        columns = found[first_nth[found] == nth]
        return columns, np.bincount(found, minlength=self._num_columns)[columns]
