"""The measurements, one after another on the same control plane."""

import asyncio
import random
import time

from conflicts import measure_conflicts
from fleet import connected

from justitia.core.quantiles import quantile

NUM_NAMESPACES = 10
SINGLES = "singles"
_CREATORS = 8
_LARGEST_BURST = 5
_PAUSES_S = (0.2, 1.0)
_GONE_POLL_S = 0.02
_LOOKED_POLL_S = 0.5
_TELL_S = 30.0


async def measure_all(plane, options, *, seed, progress):
    """Returns the figures by name."""
    chance = random.Random(seed)
    async with connected(plane) as (api, fleet):
        await fleet.until_operator_ready()
        phases = Phases(plane, fleet, options, chance, progress)
        figures = await phases.fill()
        figures |= await phases.ready_and_gone()
        figures |= await measure_conflicts(
            plane, api, fleet, chance, seconds=options.edits_s, progress=progress
        )
        figures |= await phases.rest()
        figures |= await phases.restart(loses_all=False)
        figures |= await phases.restart(loses_all=True)
    figures["memory_mib"] = round(plane.operator_peak_mib(), 1)
    first = ("ready_p99_s", "resync_s", "memory_mib", "idle_writes")
    return {name: figures[name] for name in first} | figures


class Phases:
    """What needs no writer but the benchmark's own."""

    def __init__(self, plane, fleet, options, chance, progress):
        self._plane = plane
        self._fleet = fleet
        self._options = options
        self._random = chance
        self._progress = progress

    async def fill(self):
        """Create the applications that are there all the time, as fast as the server takes them."""
        fleet, audit = self._fleet, self._plane.audit
        for number in range(NUM_NAMESPACES):
            await fleet.make_namespace(f"team-{number}")
        await fleet.make_namespace(SINGLES)
        place, begun_s = audit.here(), time.monotonic()
        left = [_key(number) for number in reversed(range(self._options.applications))]

        async def create():
            while left:
                await fleet.apply(left.pop(), self._weight())

        await asyncio.gather(*(create() for _ in range(_CREATORS)))
        created_s = time.monotonic() - begun_s
        self._progress(f"{len(fleet.wanted)} applications created in {created_s:.1f} s")
        await fleet.until_settled()
        settled_s = time.monotonic() - begun_s
        writes = audit.writes_since(place)
        self._progress(f"all Ready after {settled_s:.1f} s; {len(writes)} writes")
        return {
            "fill_created_s": round(created_s, 1),
            "fill_ready_s": round(settled_s, 1),
            "writes_per_new_application": round(len(writes) / len(fleet.wanted), 2),
        }

    async def ready_and_gone(self):
        """Create applications a few at a time, then delete them a few at a time."""
        keys = [(SINGLES, f"single-{number}") for number in range(self._options.singles)]
        ready, gone = [], []
        for burst in self._bursts(keys):
            ready += await asyncio.gather(*(self._time_ready(key) for key in burst))
            await asyncio.sleep(self._random.uniform(*_PAUSES_S))
        self._progress(f"{len(ready)} more became Ready, p99 {quantile(ready, 0.99):.3f} s")
        for burst in self._bursts(keys):
            gone += await self._time_gone(burst)
            await asyncio.sleep(self._random.uniform(*_PAUSES_S))
        self._progress(f"{len(gone)} left the service, p99 {quantile(gone, 0.99):.3f} s")
        return _quantiles("ready", ready) | _quantiles("gone", gone)

    def _bursts(self, keys):
        keys = list(keys)
        while keys:
            size = self._random.randint(1, _LARGEST_BURST)
            yield keys[:size]
            keys = keys[size:]

    async def _time_ready(self, key):
        fleet = self._fleet
        sent_at_s = await fleet.apply(key, self._weight())
        await fleet.until(f"{key} is Ready", lambda: fleet.is_ready(key))
        return fleet.ready_at_s[fleet.wanted[key].uid] - sent_at_s

    async def _time_gone(self, keys):
        sent_at_s = dict(
            zip(keys, await asyncio.gather(*map(self._fleet.delete, keys)), strict=True)
        )
        seconds, left = [], set(keys)

        async def are_gone():
            held, now_s = await self._fleet.held(SINGLES), time.monotonic()
            seconds.extend(now_s - sent_at_s[key] for key in left if key not in held)
            left.intersection_update(held)
            return not left

        await self._fleet.until("the service forgets", are_gone, period_s=_GONE_POLL_S)
        return seconds

    async def rest(self):
        """Change nothing and count what the operator writes all the same."""
        self._progress(f"{self._options.settle_s:g} s until it is at rest ...")
        await asyncio.sleep(self._options.settle_s)
        place, cpu_s = self._plane.audit.here(), self._plane.operator_cpu_s()
        left_s = self._options.idle_s
        while left_s > 0:
            step_s = min(_TELL_S, left_s)
            await asyncio.sleep(step_s)
            left_s -= step_s
            writes = self._plane.audit.writes_since(place)
            self._progress(f"at rest: {len(writes)} writes; {left_s:.0f} s more")
        requests = self._plane.audit.since(place)
        cpu_s = self._plane.operator_cpu_s() - cpu_s
        return {
            "idle_writes": sum(request.is_write for request in requests),
            # Reads show that it was at work all the time.
            "idle_reads": sum(not request.is_write for request in requests),
            "idle_cpu_share": round(cpu_s / self._options.idle_s, 4),
        }

    async def restart(self, *, loses_all):
        """Restart the operator; see ``resync_s`` in the program's own description."""
        plane, fleet = self._plane, self._fleet
        plane.stop_operator(is_crash=loses_all)
        if loses_all:
            plane.restart_service(loses_all=True)
            await fleet.until_service_answers()
        await self._change_some()
        place, begun_s = plane.audit.here(), time.monotonic()
        plane.operator.start()
        await fleet.until_settled()
        await fleet.until("each is looked at", self._has_looked, period_s=_LOOKED_POLL_S)
        seconds = time.monotonic() - begun_s
        writes = len(plane.audit.writes_since(place))
        name = "resync" if loses_all else "resync_kept"
        self._progress(f"{name}: {seconds:.1f} s, {writes} writes")
        return {f"{name}_s": round(seconds, 2), f"{name}_writes": writes}

    async def _has_looked(self):
        return await self._fleet.num_looks() >= len(self._fleet.wanted)

    async def _change_some(self):
        """While nobody looks: a fiftieth is edited, deleted or created, a third of them each."""
        fleet = self._fleet
        chosen = self._random.sample(sorted(fleet.wanted), len(fleet.wanted) // 50)
        third = -(-len(chosen) // 3)
        for key in chosen[:third]:
            await fleet.apply(key, int(fleet.wanted[key].weight) % 9 + 1)
        for key in chosen[third : 2 * third]:
            await fleet.delete(key)
        for namespace, name in chosen[2 * third :]:
            await fleet.apply((namespace, f"{name}-new"), self._weight())

    def _weight(self):
        return self._random.randint(1, 9)


def _key(number):
    return f"team-{number % NUM_NAMESPACES}", f"application-{number}"


def _quantiles(name, seconds):
    return {
        f"{name}_p50_s": round(quantile(seconds, 0.5), 3),
        f"{name}_p99_s": round(quantile(seconds, 0.99), 3),
        f"{name}_max_s": round(max(seconds), 3),
    }
