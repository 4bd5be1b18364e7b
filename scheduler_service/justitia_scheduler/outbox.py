"""Ids whose latest state a stream's reader has yet to be told: bounded by coalescing."""

import asyncio

from justitia_scheduler.limits import MAX_PENDING_IDS


class Outbox:
    """Changed and ended ids, each once, in order of their first change.

    A reader that falls behind gets the latest state of each id, never a backlog. ``is_overfull``
    once even the ids are too many.
    """

    def __init__(self) -> None:
        self._changed: dict[str, float] = {}
        self._ended: dict[str, None] = {}
        self._wake = asyncio.Event()

    @property
    def is_overfull(self) -> bool:
        """Whether the reader must start again."""
        return len(self._changed) + len(self._ended) > MAX_PENDING_IDS

    def change(self, run_id: str, now_s: float) -> None:
        """A run is new or changed, at ``now_s``."""
        self._ended.pop(run_id, None)
        self._changed.setdefault(run_id, now_s)
        self._wake.set()

    def end(self, run_id: str) -> None:
        """A run is over."""
        self._changed.pop(run_id, None)
        self._ended[run_id] = None
        self._wake.set()

    def merge(self, changed: dict[str, float], ended: dict[str, None]) -> None:
        """Take in many changes at once; an id is in one of the two at most."""
        for run_id in changed.keys() & self._ended.keys():
            del self._ended[run_id]
        for run_id in ended.keys() & self._changed.keys():
            del self._changed[run_id]
        self._changed.update(changed)
        self._ended.update(ended)
        self._wake.set()

    def wake(self) -> None:
        """Something else is to be told."""
        self._wake.set()

    @property
    def has_news(self) -> bool:
        """Whether there is something to tell."""
        return self._wake.is_set()

    async def wait(self) -> None:
        """Wait until there is something to tell."""
        await self._wake.wait()

    def take(self, most: int) -> tuple[dict[str, float], list[str]]:
        """Take up to ``most`` changed ids, with the time of their first change, and ended ids."""
        changed = {run_id: self._changed.pop(run_id) for run_id in list(self._changed)[:most]}
        ended = list(self._ended)[:most]
        for run_id in ended:
            del self._ended[run_id]
        if not self._changed and not self._ended:
            self._wake.clear()
        return changed, ended
