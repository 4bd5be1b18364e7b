"""Which engine of a pool gets an inference."""

import heapq
from collections.abc import Sequence
from enum import StrEnum
from itertools import count
from typing import Protocol

from justitia.sim.engine import Engine


class Routing(StrEnum):
    """How a router chooses. Runs that the scenario pins go where it says, whatever the router."""

    LEAST_KV = "least-kv"  # fewest KV blocks that prompts fill or ask for
    ROUND_ROBIN = "round-robin"  # one engine after the other, by inference


class Router(Protocol):
    """Chooses among engines by their places."""

    def choose(self) -> int:
        """Return the place of the engine that gets the next inference."""

    def changed(self, place: int) -> None:
        """Something has happened in an engine."""


class RoundRobin:
    """One engine after the other."""

    def __init__(self, engines: Sequence[Engine]) -> None:
        self._num = len(engines)
        self._counter = count()

    def choose(self) -> int:
        """Take the next one."""
        return next(self._counter) % self._num

    def changed(self, place: int) -> None:
        """Nothing depends on it."""


class LeastKv:
    """The engine with the smallest load; of equal ones the first. O(log n)."""

    def __init__(self, engines: Sequence[Engine]) -> None:
        self._engines = engines
        self._loads = [engine.load_blocks for engine in engines]
        # Entries with another load than the engine's are void.
        self._heap: list[tuple[int, int]] = []
        self._fill()

    def _fill(self) -> None:
        self._heap = [(load, place) for place, load in enumerate(self._loads)]
        heapq.heapify(self._heap)

    def choose(self) -> int:
        """Take the one with the smallest load."""
        while True:
            load, place = self._heap[0]
            if load == self._loads[place]:
                return place
            heapq.heappop(self._heap)

    def changed(self, place: int) -> None:
        """Look at an engine's load."""
        load = self._engines[place].load_blocks
        if load != self._loads[place]:
            self._loads[place] = load
            heapq.heappush(self._heap, (load, place))
            if len(self._heap) > 4 * len(self._loads) + 64:
                self._fill()


def make_router(routing: Routing, engines: Sequence[Engine]) -> Router:
    """Make a router for engines that are empty."""
    if len(engines) == 1 or routing is Routing.ROUND_ROBIN:
        return RoundRobin(engines)
    return LeastKv(engines)
