"""Drops recorded runs that are older than they may be kept, also where nothing new comes in."""

import asyncio
from typing import Final

import structlog

from justitia_scheduler.clocks import Clocks
from justitia_scheduler.journal import Journal
from justitia_scheduler.store import Store, WriteError

_PERIOD_S: Final = 3600.0
#: A service that is restarted more often than once an hour must look too; clocks are set by then.
_FIRST_S: Final = 300.0
#: A wall clock that moved by so much more or less than time did has been set: no age is known.
_MAX_JUMP_S: Final = 300.0

_log = structlog.get_logger()


class SampleRetention:
    """Deletes samples by age, once an hour. ``retention_s`` 0: for ever."""

    def __init__(
        self, store: Store, journal: Journal, clocks: Clocks, *, retention_s: float
    ) -> None:
        self._store = store
        self._journal = journal
        self._clocks = clocks
        self._retention_s = retention_s
        self._last = (clocks.wall_s(), clocks.monotonic_s())

    async def run(self) -> None:
        """Look after five minutes and then once an hour, until cancelled."""
        wait_s = _FIRST_S
        while self._retention_s:
            await asyncio.sleep(wait_s)
            await self.look()
            wait_s = _PERIOD_S

    async def look(self) -> int:
        """Drop what is too old; returns how many.

        Right after the wall clock was set nothing is dropped (FS7): the next look, an hour later,
        goes by the new time.
        """
        before, self._last = self._last, (self._clocks.wall_s(), self._clocks.monotonic_s())
        jump_s = (self._last[0] - before[0]) - (self._last[1] - before[1])
        if not self._retention_s or abs(jump_s) > _MAX_JUMP_S:
            return 0
        oldest_s = self._last[0] - self._retention_s
        try:
            num_dropped = await self._journal.call(self._store.drop_samples, before_s=oldest_s)
        except WriteError as error:
            _log.warning("old samples could not be dropped", error=str(error))
            return 0
        if num_dropped:
            _log.info("old samples dropped", num_samples=num_dropped)
        return num_dropped
