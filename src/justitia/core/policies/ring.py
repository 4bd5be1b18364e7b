"""Rounds around a ring of places: what round robin and deficit round robin have in common.

An engine that walks around a ring looks at everybody in each round. Here whoever waits knows the
round of its next turn instead, so (round, place) is a key that moves only with its own turns.
"""


class Ring:
    """Remembers whose turn it was: the largest (round, place) that was ever served.

    Places are unique numbers that do not change.
    """

    def __init__(self) -> None:
        self._round = 0
        self._place = -1

    def next_round(self, place: int) -> int:
        """Round in which the walk next comes to a place."""
        return self._round + (place <= self._place)

    def visit(self, round_number: int, place: int) -> None:
        """The walk serves here."""
        self._round, self._place = max((self._round, self._place), (round_number, place))
