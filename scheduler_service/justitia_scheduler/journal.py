"""Writes what changed to the store, in one thread, many changes a commit.

Nothing queues: the pools remember *what* changed, and each commit takes the state as it is then. So
a slow disk makes commits larger and rarer, never the memory. While the disk refuses, scheduling
goes on from memory; the first commit that works again replaces the whole state.
"""

import asyncio
import contextlib
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
#: Pause after a commit that failed; each further one doubles it, up to the longest: writing the
#: whole state is work.
RETRY_S: Final = 1.0
MAX_RETRY_S: Final = 8.0
#: Longest that a call waits for its commit; a hanging disk delays nobody for longer.
MAX_WAIT_S: Final = 2.0

_log = structlog.get_logger()


class Source(Protocol):
    """Where the journal takes changes from."""

    async def changes(self) -> Transaction:
        """Take what changed since the last call."""

    async def everything(self) -> Transaction:
        """Take the whole state, as a transaction that replaces all; also forgets what changed."""

    def written(self, transaction: Transaction) -> None:
        """Note that the store has taken a transaction; until then what is only there is kept."""


class Journal:
    """Write-behind with group commit. ``is_healthy`` says whether the last commit worked."""

    def __init__(self, store: Store, source: Source, metrics: Metrics, clocks: Clocks) -> None:
        self._store = store
        self._source = source
        self._metrics = metrics
        self._clocks = clocks
        self._thread = ThreadPoolExecutor(max_workers=1, thread_name_prefix="journal")
        self._wake = asyncio.Event()
        self._closing = asyncio.Event()
        self._waiters: list[asyncio.Future[None]] = []
        self._must_replace_all = False
        self.is_healthy = True

    def replace_all(self) -> None:
        """Let the next commit write the whole state: what the store holds is not to be trusted."""
        self._must_replace_all = True

    async def call(self, method: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> T:
        """Run one of the store's methods in its thread."""
        loop = asyncio.get_running_loop()
        return await loop.run_in_executor(self._thread, lambda: method(*args, **kwargs))

    async def committed(self) -> None:
        """Wait until all that has changed by now is durable, or the store has refused it.

        While it refuses everything nobody waits: the next attempt may be seconds away.
        """
        self._wake.set()
        if not self.is_healthy:
            return
        waiter = asyncio.get_running_loop().create_future()
        self._waiters.append(waiter)
        await asyncio.wait([waiter], timeout=MAX_WAIT_S)

    async def run(self) -> None:
        """Commit until ``begin_close``."""
        pause_s = RETRY_S
        while not self._closing.is_set():
            if await self.flush():
                pause_s = RETRY_S
                await _wait(self._wake, INTERVAL_S)
            else:
                await _wait(self._closing, pause_s)
                pause_s = min(2 * pause_s, MAX_RETRY_S)

    async def flush(self) -> bool:
        """Commit what changed; says whether the store took it."""
        self._wake.clear()
        waiters, self._waiters = self._waiters, []
        try:
            await self._commit()
            self._note_success()
        except WriteError as error:
            self._note_failure(str(error))
        except Exception as error:  # noqa: BLE001  a fault of ours must not end it in silence
            _log.exception("a commit could not be made")
            self._note_failure(repr(error))
        finally:
            for waiter in waiters:
                if not waiter.done():
                    waiter.set_result(None)
        return self.is_healthy

    def begin_close(self) -> None:
        """Let ``run`` return after the commit that it is at."""
        self._closing.set()
        self._wake.set()

    async def close(self) -> None:
        """Commit what is left and release the store; ``run`` has returned."""
        await self.flush()
        await self.call(self._store.close)
        self._thread.shutdown(wait=False)

    async def _commit(self) -> None:
        source, replaces_all = self._source, self._must_replace_all
        # Whatever goes wrong from here on, what was taken is not in the store.
        self._must_replace_all = True
        transaction = await (source.everything() if replaces_all else source.changes())
        if transaction:
            before_s = self._clocks.monotonic_s()
            await self.call(self._store.commit, transaction)
            self._metrics.journal_committed(self._clocks.monotonic_s() - before_s)
            source.written(transaction)
        self._must_replace_all = False

    def _note_success(self) -> None:
        if not self.is_healthy:
            _log.warning("the journal works again: the whole state was written")
        self.is_healthy = True
        self._metrics.journal_health(is_healthy=True)

    def _note_failure(self, why: str) -> None:
        if self.is_healthy:
            _log.error("the journal cannot be written: going on from memory", error=why)
        self.is_healthy = False
        self._metrics.journal_failed()
        self._metrics.journal_health(is_healthy=False)


async def _wait(event: asyncio.Event, longest_s: float) -> None:
    with contextlib.suppress(TimeoutError):
        async with asyncio.timeout(longest_s):
            await event.wait()
