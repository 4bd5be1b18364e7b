"""Writes what changed to the store, in one thread, many changes a commit.

Nothing queues: the pools remember *what* changed, and each commit takes the state as it is then. So
a slow disk makes commits larger and rarer, never the memory. While the disk refuses, scheduling
goes on from memory; the first commit that works again replaces the whole state.
"""

import asyncio
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Final, ParamSpec, Protocol, TypeVar

import structlog

from justitia_scheduler.clocks import Clocks
from justitia_scheduler.metrics import Metrics
from justitia_scheduler.store import Store, Transaction, WriteError

P = ParamSpec("P")
T = TypeVar("T")

#: How long progress may stay unwritten.
INTERVAL_S: Final = 0.2
#: Pause after a commit that failed.
RETRY_S: Final = 1.0
#: Longest that a call waits for its commit; a hanging disk delays nobody for longer.
MAX_WAIT_S: Final = 2.0

_log = structlog.get_logger()


class Source(Protocol):
    """Where the journal takes changes from."""

    def changes(self) -> Transaction:
        """Take (and forget) what changed since the last call."""

    def everything(self) -> Transaction:
        """Take the whole state, as a transaction that replaces all; also forgets what changed."""


class Journal:
    """Write-behind with group commit. ``is_healthy`` says whether the last commit worked."""

    def __init__(self, store: Store, source: Source, metrics: Metrics, clocks: Clocks) -> None:
        self._store = store
        self._source = source
        self._metrics = metrics
        self._clocks = clocks
        self._thread = ThreadPoolExecutor(max_workers=1, thread_name_prefix="journal")
        self._wake = asyncio.Event()
        self._waiters: list[asyncio.Future[None]] = []
        self.is_healthy = True

    async def call(self, method: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> T:
        """Run one of the store's methods in its thread."""
        loop = asyncio.get_running_loop()
        return await loop.run_in_executor(self._thread, lambda: method(*args, **kwargs))

    async def committed(self) -> None:
        """Wait until all that has changed by now is durable, or the store has refused it."""
        waiter = asyncio.get_running_loop().create_future()
        self._waiters.append(waiter)
        self._wake.set()
        await asyncio.wait([waiter], timeout=MAX_WAIT_S)

    async def run(self) -> None:
        """Commit for as long as the service lives."""
        while True:
            worked = await self.flush()
            if not worked:
                await asyncio.sleep(RETRY_S)
            try:
                async with asyncio.timeout(INTERVAL_S):
                    await self._wake.wait()
            except TimeoutError:
                continue

    async def flush(self) -> bool:
        """Commit what changed; says whether the store took it."""
        self._wake.clear()
        waiters, self._waiters = self._waiters, []
        transaction = self._source.changes() if self.is_healthy else self._source.everything()
        try:
            if transaction:
                before_s = self._clocks.monotonic_s()
                await self.call(self._store.commit, transaction)
                self._metrics.journal_committed(self._clocks.monotonic_s() - before_s)
            self._note(is_healthy=True)
        except WriteError as error:
            self._note(is_healthy=False, error=error)
        finally:
            for waiter in waiters:
                if not waiter.done():
                    waiter.set_result(None)
        return self.is_healthy

    async def close(self) -> None:
        """Commit what is left and release the store."""
        await self.flush()
        await self.call(self._store.close)
        self._thread.shutdown(wait=False)

    def _note(self, *, is_healthy: bool, error: WriteError | None = None) -> None:
        self._metrics.journal_health(is_healthy=is_healthy)
        if is_healthy and not self.is_healthy:
            _log.warning("the journal works again: the whole state was written")
        if error is not None:
            if self.is_healthy:
                _log.error("the journal cannot be written: going on from memory", error=str(error))
            self._metrics.journal_failed()
        self.is_healthy = is_healthy
