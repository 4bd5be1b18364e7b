"""The latest of many values, always in order, so that a quantile of them costs no sort."""

from bisect import bisect_left, insort
from collections import deque
from collections.abc import Collection, Iterable, Iterator
from dataclasses import dataclass, field


@dataclass(slots=True)
class Window(Collection[float]):
    """The last ``size`` values; iterates over them in ascending order."""

    size: int
    _latest: deque[float] = field(default_factory=deque)
    _ordered: list[float] = field(default_factory=list)

    def __len__(self) -> int:
        return len(self._ordered)

    def __contains__(self, value: object) -> bool:
        return value in self._ordered

    def __iter__(self) -> Iterator[float]:
        return iter(self._ordered)

    def append(self, value: float) -> None:
        """Take in a value; the oldest beyond ``size`` goes. O(size) moves of a pointer."""
        self._latest.append(value)
        insort(self._ordered, value)
        if len(self._latest) > self.size:
            del self._ordered[bisect_left(self._ordered, self._latest.popleft())]

    def extend(self, values: Iterable[float]) -> None:
        """Take in values one after another."""
        for value in values:
            self.append(value)

    def clear(self) -> None:
        """Forget all of them."""
        self._latest.clear()
        self._ordered.clear()

    @property
    def mean(self) -> float:
        """Mean; 0 where nothing was measured."""
        return sum(self._ordered) / len(self._ordered) if self._ordered else 0.0
