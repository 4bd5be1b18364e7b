"""Keeps Python's garbage collector from holding up the service.

A full collection looks at every object: with 100,000 open runs it takes 0.3 to 0.5 s, in which no
call is answered and no tag sent (`bench/core.py`, ``decision_max_ms``). Nearly all of these objects
form no cycles and go when the last reference does. So what has survived a second is set aside
(``gc.freeze``, which takes constant time) and full collections find little. Cycles that were set
aside are freed when few runs are open and a full collection is quick, or once a day.
"""

import asyncio
import gc
from collections.abc import Callable
from typing import Final, Protocol

PERIOD_S: Final = 1.0
#: With so few open runs a full collection takes milliseconds.
FEW_RUNS: Final = 2_000
FULL_PERIOD_S: Final = 600.0
LATEST_FULL_PERIOD_S: Final = 86_400.0


class Collector(Protocol):
    """What is used of Python's module ``gc``."""

    def collect(self, generation: int = 2) -> int: ...  # noqa: D102
    def freeze(self) -> None: ...  # noqa: D102
    def unfreeze(self) -> None: ...  # noqa: D102


class GarbageCare:
    """Sets survivors aside, and decides when everything is looked at."""

    def __init__(self, now_s: float, collector: Collector = gc) -> None:
        self._collector = collector
        self._full_at_s = now_s

    def tick(self, num_open_runs: int, now_s: float) -> None:
        """Do what is due; to be called every ``PERIOD_S``, on a clock that never goes back."""
        age_s = now_s - self._full_at_s
        is_few = num_open_runs < FEW_RUNS
        if age_s >= (FULL_PERIOD_S if is_few else LATEST_FULL_PERIOD_S):
            self._full_at_s = now_s
            self._collector.unfreeze()
            self._collector.collect()
        else:
            # Without this, cycles that died a moment ago would be set aside too.
            self._collector.collect(1)
        self._collector.freeze()


async def care_for_garbage(num_open_runs: Callable[[], int]) -> None:
    """Tick for ever. For the process that is the service, since a collector is a process's own."""
    loop = asyncio.get_running_loop()
    care = GarbageCare(loop.time())
    while True:
        care.tick(num_open_runs(), loop.time())
        await asyncio.sleep(PERIOD_S)
