"""WatchRuns: who watches the runs of a pool, and what each watcher has yet to be told.

All watchers of a pool share one listener: a change costs the pool the same whether nobody watches
or many do, and goes to the watchers with many others. A watcher that does not read is ended once
too many ids wait for it, whether it asks for the next event or not.
"""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from typing import Any, Final

from justitia.api.v1 import run_pb2
from justitia_scheduler.limits import MAX_WATCHERS
from justitia_scheduler.outbox import Outbox
from justitia_scheduler.outcomes import CallError, Outcome
from justitia_scheduler.pools import PoolService
from justitia_scheduler.run_messages import run_message

#: Runs that are looked at before others get their turn.
_SLICE: Final = 500
#: A watcher is told at most this often.
_GAP_S: Final = 0.1
#: Ids that changed and are not handed out yet.
_MAX_SHARED: Final = 2000

Send = Callable[[run_pb2.RunEvent], Awaitable[None]]


class RunWatchers:
    """All WatchRuns streams of the service."""

    def __init__(self) -> None:
        self._feeds: dict[str, _Feed] = {}

    def __len__(self) -> int:
        return sum(len(feed.watchers) for feed in self._feeds.values())

    async def serve(self, pool: PoolService, application: str, send: Send) -> None:
        """Send what is open, then every change at its latest state, until the service stops.

        Raises:
            CallError: there are too many watchers, or this one does not read.
        """
        if len(self) >= MAX_WATCHERS:
            raise CallError(
                Outcome.EXHAUSTED, f"the service has {MAX_WATCHERS} WatchRuns streams, its limit"
            )
        feed = self._feeds.setdefault(pool.name, _Feed(pool))
        watcher = _Watcher(feed, application)
        feed.add(watcher)
        try:
            await watcher.run(send)
        finally:
            feed.remove(watcher)
            if not feed.watchers:
                self._feeds.pop(pool.name, None)

    def close_all(self) -> None:
        """End every stream in good order: the service is being stopped."""
        for feed in self._feeds.values():
            for watcher in feed.watchers:
                watcher.close()


class _Feed:
    """What changed in a pool since it was last handed to its watchers."""

    def __init__(self, pool: PoolService) -> None:
        self.pool = pool
        self.watchers: set[_Watcher] = set()
        self._changed: dict[str, float] = {}
        self._ended: dict[str, None] = {}
        self._news = asyncio.Event()

    def add(self, watcher: "_Watcher") -> None:
        """Let a watcher hear of all that happens from now on."""
        self.spread()
        self.watchers.add(watcher)
        self.pool.listeners.add(self)

    def remove(self, watcher: "_Watcher") -> None:
        """Forget a watcher; without any, changes are not even noted."""
        self.watchers.discard(watcher)
        if not self.watchers:
            self.pool.listeners.discard(self)

    async def news(self) -> None:
        """Wait until there is something to hand out."""
        await self._news.wait()

    def spread(self) -> None:
        """Hand out what is there; who does not read it is ended."""
        if not self._news.is_set():
            return
        self._news.clear()
        changed, ended = self._changed, self._ended
        self._changed, self._ended = {}, {}
        for watcher in self.watchers:
            watcher.take(changed, ended)

    # -- what the pool tells -----------------------------------------------------------------------

    def run_changed(self, run_id: str, *, has_new_tag: bool) -> None:
        """Note a change."""
        del has_new_tag
        self._ended.pop(run_id, None)
        self._changed[run_id] = 0.0
        self._note()

    def run_ended(self, run_id: str) -> None:
        """Note an end."""
        self._changed.pop(run_id, None)
        self._ended[run_id] = None
        self._note()

    def settings_changed(self) -> None:
        """Nothing of a run changed."""

    def _note(self) -> None:
        self._news.set()
        if len(self._changed) + len(self._ended) > _MAX_SHARED:
            self.spread()


class _Watcher:
    """One reader of WatchRuns."""

    def __init__(self, feed: _Feed, application: str) -> None:
        self._feed = feed
        self._pool = feed.pool
        self._application = application
        self._outbox = Outbox()
        self._closed: asyncio.Future[CallError | None] = asyncio.get_running_loop().create_future()

    def take(self, changed: dict[str, float], ended: dict[str, None]) -> None:
        """Add to what this reader has yet to be told."""
        if self._closed.done():
            return
        self._outbox.merge(changed, ended)
        if self._outbox.is_overfull:
            self._outbox = Outbox()
            self.close(CallError(Outcome.EXHAUSTED, "the reader is too slow; start again"))

    def close(self, error: CallError | None = None) -> None:
        """End the stream; with an error, the reader is told it."""
        if not self._closed.done():
            self._closed.set_result(error)

    async def run(self, send: Send) -> None:
        """Send events until the stream is closed; a send that hangs does not keep it open."""
        writer = asyncio.create_task(self._write(send))
        try:
            waits: set[asyncio.Future[Any]] = {writer, self._closed}
            await asyncio.wait(waits, return_when=asyncio.FIRST_COMPLETED)
            if not self._closed.done():
                writer.result()
            elif (error := self._closed.result()) is not None:
                raise error
        finally:
            writer.cancel()
            await asyncio.gather(writer, return_exceptions=True)

    async def _write(self, send: Send) -> None:
        async for event in self._events():
            await send(event)

    async def _events(self) -> AsyncIterator[run_pb2.RunEvent]:
        kinds = run_pb2.RunEvent
        run_ids = list(self._pool.facts)
        for index, run_id in enumerate(run_ids):
            if index % _SLICE == 0:
                await asyncio.sleep(0)
            if run_id in self._pool.core and self._is_wanted(run_id):
                yield kinds(type=kinds.TYPE_OPEN, run=run_message(self._pool, run_id))
        yield kinds(type=kinds.TYPE_SYNCED)
        known = set(run_ids)
        while True:
            if not self._outbox.has_news:
                await self._feed.news()
                self._feed.spread()
            changed, ended = self._outbox.take(_SLICE)
            for run_id in (run_id for run_id in changed if self._is_wanted(run_id)):
                kind = kinds.TYPE_CHANGED if run_id in known else kinds.TYPE_OPEN
                known.add(run_id)
                yield kinds(type=kind, run=run_message(self._pool, run_id))
            for run_id in ended:
                known.discard(run_id)
                if self._is_wanted(run_id):
                    yield kinds(type=kinds.TYPE_ENDED, run=run_message(self._pool, run_id))
            await asyncio.sleep(_GAP_S)

    def _is_wanted(self, run_id: str) -> bool:
        if run_id in self._pool.core:
            application = self._pool.core.run(run_id).application
        else:
            ended = self._pool.ended.get(run_id)
            if ended is None:
                return False
            application = ended.application
        return self._application in ("", application)
