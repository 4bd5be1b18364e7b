"""A queue of what to look at again: each thing once, not before its time, one worker at a time.

What is woken while it is being looked at is looked at again afterwards. After a failure the waits
double up to a bound, so that a refused write is repeated and never becomes a storm.
"""

import asyncio
import heapq
from collections.abc import Hashable
from typing import Final, Generic, TypeVar

T = TypeVar("T", bound=Hashable)

_FIRST_RETRY_S: Final = 1.0
_MAX_RETRY_S: Final = 60.0
_MAX_DOUBLINGS: Final = 10


class Wakeups(Generic[T]):
    """See the module. Used in one event loop, whose clock it reads."""

    def __init__(self) -> None:
        self._due_s: dict[T, float] = {}
        self._heap: list[tuple[float, int, T]] = []
        self._busy: set[T] = set()
        self._failures: dict[T, int] = {}
        self._sequence = 0
        self._changed = asyncio.Event()

    def __len__(self) -> int:
        return len(self._due_s) + len(self._busy)

    def wake(self, item: T, *, in_s: float = 0.0) -> None:
        """Look at a thing in a while; an earlier wake-up stands."""
        at_s = asyncio.get_running_loop().time() + in_s
        if at_s < self._due_s.get(item, float("inf")):
            self._due_s[item] = at_s
            self._sequence += 1
            heapq.heappush(self._heap, (at_s, self._sequence, item))
            self._changed.set()

    async def take(self) -> T:
        """Wait for a thing that is due; ``done`` or ``failed`` must follow."""
        while True:
            wait_s = self._next_wait_s()
            if wait_s is not None and wait_s <= 0:
                return self._pop()
            self._changed.clear()
            try:
                async with asyncio.timeout(wait_s):
                    await self._changed.wait()
            except TimeoutError:
                continue

    def done(self, item: T) -> None:
        """Say that a thing was looked at."""
        self._failures.pop(item, None)
        self._release(item)

    def failed(self, item: T, *, in_s: float | None = None) -> None:
        """Say that it could not be, so that it is tried again, in a while that grows."""
        count = self._failures.get(item, 0)
        self._failures[item] = min(count + 1, _MAX_DOUBLINGS)
        self.wake(item, in_s=in_s or min(_MAX_RETRY_S, _FIRST_RETRY_S * 2**count))
        self._release(item)

    def _release(self, item: T) -> None:
        self._busy.discard(item)
        if item in self._due_s:
            self._sequence += 1
            heapq.heappush(self._heap, (self._due_s[item], self._sequence, item))
            self._changed.set()

    def _next_wait_s(self) -> float | None:
        while self._heap:
            at_s, _, item = self._heap[0]
            if self._due_s.get(item) != at_s or item in self._busy:
                heapq.heappop(self._heap)  # outdated, or to be pushed again by ``_release``
                continue
            return at_s - asyncio.get_running_loop().time()
        return None

    def _pop(self) -> T:
        _, _, item = heapq.heappop(self._heap)
        self._due_s.pop(item, None)
        self._busy.add(item)
        return item
