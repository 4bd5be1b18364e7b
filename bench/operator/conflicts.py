"""Other writers at the same objects: how many requests of the operator each edit costs.

Five ways to edit. Four at a pace at which the operator can answer each edit by itself, on twenty
objects:

* ``spec``: read, change, PUT with the version that was read, as ``kubectl edit`` does; a 409 that
  the operator's status brought about is answered by another attempt. Needs one status of it.
* ``labels``: changes nothing that the operator decides on. Needs no write.
* ``status``: throws the operator's conditions away. Needs one status, and one event.
* ``recreate``: deletes and creates under the same name, twice within the time that the operator
  takes, so that what it is about to write is about an object that is gone: the API server answers
  with 409, or with 404. Needs one status and one event for each object.

And ``hot``: eight writers change the spec of one object as fast as they can.
"""

import asyncio
import itertools
import time

from api import MERGE, RefusedError, application_path

_NUM_OBJECTS = 20
_PACED_WRITERS = 4
_HOT_WRITERS = 8
_PAUSE_S = 0.2
#: About what the operator takes from an object to its status.
_LOOK_S = 0.06
_CONFLICT = 409
_GONE = (404, _CONFLICT)
_WAYS = ("spec", "labels", "status", "recreate", "hot")


async def measure_conflicts(plane, api, fleet, chance, *, seconds, progress):
    """Returns the figures of all ways to edit."""
    figures = {}
    num_refused, settled_s, num_edits = 0, [], 0
    for way in _WAYS:
        others = Others(api, fleet, chance)
        place = plane.audit.here()
        await others.edit(way, seconds)
        ended_s = time.monotonic()
        await fleet.until_settled()
        settled_s.append(time.monotonic() - ended_s)
        requests = plane.audit.since(place)
        refused = sum(request.code in _GONE for request in requests)
        progress(
            f"{way}: {others.num_edits} edits, {others.num_refused} refused with 409; operator:"
            f" {len(requests)} requests, {sum(r.is_write for r in requests)} writes, {refused}"
            f" answered with 409 or 404; settled {settled_s[-1]:.1f} s later"
        )
        figures[f"conflict_requests_per_edit_{way}"] = round(len(requests) / others.num_edits, 2)
        num_refused += refused
        num_edits += others.num_edits
    return {
        "conflict_requests_per_edit": max(figures.values()),
        **figures,
        "conflict_edits": num_edits,
        "conflict_refused": num_refused,
        "conflict_settled_s": round(max(settled_s), 2),
    }


class Others:
    """Writers that know nothing of the operator."""

    def __init__(self, api, fleet, chance):
        self._api = api
        self._fleet = fleet
        self._random = chance
        self._numbers = itertools.count()
        self.num_edits = 0
        #: Attempts of theirs that were answered with 409.
        self.num_refused = 0

    async def edit(self, way, seconds):
        """Edit for a while."""
        is_hot = way == "hot"
        keys = sorted(self._fleet.wanted)[: 1 if is_hot else _NUM_OBJECTS]
        turns = itertools.cycle(keys)
        change = self._spec if is_hot else getattr(self, f"_{way}")
        until_s = time.monotonic() + seconds

        async def write():
            while time.monotonic() < until_s:
                await self._insist(change, next(turns))
                if not is_hot:
                    await asyncio.sleep(self._random.uniform(0, 2 * _PAUSE_S))

        writers = _HOT_WRITERS if is_hot else _PACED_WRITERS
        await asyncio.gather(*(write() for _ in range(writers)))
        for key in keys:
            await self._fleet.read(key)

    async def _insist(self, change, key):
        while True:
            try:
                await change(key)
            except RefusedError as error:
                if error.status != _CONFLICT:
                    raise
                self.num_refused += 1
            else:
                self.num_edits += 1
                return

    async def _spec(self, key):
        body = await self._api.send("GET", application_path(key))
        body["spec"]["weight"] = 1 + next(self._numbers) % 1000
        await self._api.send("PUT", application_path(key), body)

    async def _labels(self, key):
        label = {"metadata": {"labels": {"edited": str(next(self._numbers))}}}
        await self._api.send("PATCH", application_path(key), label, kind=MERGE)

    async def _status(self, key):
        path = application_path(key, "/status")
        await self._api.send("PATCH", path, {"status": {"conditions": None}}, kind=MERGE)

    async def _recreate(self, key):
        weight = int(self._fleet.wanted[key].weight)
        for _ in range(2):
            await self._fleet.delete(key)
            await self._fleet.apply(key, weight)
            await asyncio.sleep(self._random.uniform(0, _LOOK_S))
        self.num_edits += 1  # the second; who called counts the first
