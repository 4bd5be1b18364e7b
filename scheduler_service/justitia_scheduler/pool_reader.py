"""How a pool comes back from its records; what they hold: ``pool_records``."""

from collections.abc import Mapping
from typing import Any

from justitia.core.pool import Pool
from justitia.core.privacy import Privacy
from justitia.core.snapshot import PoolSnapshot, RunRecord
from justitia.core.units import FINE_PER_KVTT, NanoWeight, Ticks
from justitia.core.virtual_time import Flow, FluidState
from justitia_scheduler.applications import Application
from justitia_scheduler.pools import PoolService
from justitia_scheduler.run_facts import EndedFacts, RunFacts, estimate_from
from justitia_scheduler.store import Key

Records = Mapping[Key, Mapping[str, Any]]
#: (count, total kvtt) by application, and by class of prompt length.
Means = tuple[dict[str, tuple[int, int]], dict[int, tuple[int, int]]]


class PoolReader:
    """Reads one pool's records; one that makes no sense is counted and left out."""

    def __init__(self, pool: PoolService, records: Records) -> None:
        self._pool = pool
        self._of_kind: dict[str, list[tuple[Key, Mapping[str, Any]]]] = {}
        for key, body in records.items():
            self._of_kind.setdefault(key[0], []).append((key, body))
        self.num_bad = 0
        self.next_sequence = 0
        self.is_shadow = False
        self.flows: list[Flow] = []
        self.facts: dict[str, RunFacts] = {}

    def read(self, kind: str, parse: Any) -> list[Any]:
        """Parse all records of a kind."""
        found = []
        for key, body in self._of_kind.get(kind, ()):
            try:
                found.append(parse(key, body))
            except (KeyError, TypeError, ValueError, AttributeError):
                self.num_bad += 1
        return found

    def applications(self) -> list[Application]:
        """Read what was declared."""
        return self.read("app", lambda _, body: Application.from_record(body))

    def ended_runs(self) -> list[EndedFacts]:
        """Read the runs that are over."""
        return self.read("ended", lambda _, body: EndedFacts.from_record(body))

    def ladders(self) -> list[Means]:
        """Read what finished runs taught: nothing, or one item."""
        return self.read("ladder", _ladder_from)

    def engines(self) -> dict[str, tuple[str, int, int]]:
        """Read the engines: (incarnation, steps, KV capacity) by id."""
        return dict(self.read("engine", _engine_from))

    def core(self) -> Pool:
        """Rebuild the core's pool from the fluid system's value and the runs."""
        runs: list[RunRecord] = self.read("run", self._run_from)
        heads = self.read("pool", self._head_from)
        value, surplus_kvtt = heads[0] if heads else (Ticks(0), 0.0)
        if not heads and runs:  # the head is lost: V was at least where the last run started
            value = Ticks(max(0, *(run.start for run in runs)))
        self.flows = [flow for flow in self.read("flow", _flow_from) if flow.finish > value]
        flows = [(run.sequence, run.finish, run.weight) for run in runs if run.finish > value]
        flows += [(sequence, finish, weight) for finish, sequence, weight in self.flows]
        taken = [flow[0] for flow in flows] + [run.sequence for run in runs]
        self.next_sequence = max(self.next_sequence, 1 + max(taken, default=-1))
        fluid = FluidState(value, 0, round(surplus_kvtt * FINE_PER_KVTT), tuple(flows))
        runs.sort(key=lambda run: run.sequence)
        clock = self._pool.options.clock
        snapshot = PoolSnapshot(clock, self.next_sequence, fluid, tuple(runs))
        return Pool.restore(snapshot, now_s=self._pool.clocks.monotonic_s())

    def _head_from(self, _: Key, body: Mapping[str, Any]) -> tuple[Ticks, float]:
        self.next_sequence = max(0, int(body["next_sequence"]))
        self.is_shadow = bool(body["is_shadow"])
        return Ticks(max(0, int(body["value"]))), float(body["surplus_kvtt"])

    def _run_from(self, key: Key, body: Mapping[str, Any]) -> RunRecord:
        clocks = self._pool.clocks
        arrived_wall_s = float(body["arrived_wall_s"])
        record = RunRecord(
            key[2],
            str(body["application"]),
            int(body["sequence"]),
            NanoWeight(max(1, int(body["weight"]))),
            Ticks(int(body["start"])),
            Ticks(int(body["finish"])),
            estimate_from(body["estimate"]),
            clocks.monotonic_at(arrived_wall_s),
            body["prompt_length"],
            int(body["useful_kvtt"]),
            int(body["wasted_kvtt"]),
            max(0, int(body.get("learned_kvtt", 0))),
        )
        facts = RunFacts(str(body["requested"]), arrived_wall_s, clocks.monotonic_s())
        facts.privacy = Privacy(body.get("privacy", Privacy.TEXT))
        facts.is_restored = True
        facts.client_kvtt = body["client_kvtt"]
        facts.ends_when_idle = bool(body["ends_when_idle"])
        facts.counters = {
            engine_id: (str(incarnation), int(useful), int(wasted))
            for engine_id, (incarnation, useful, wasted) in body["counters"].items()
        }
        self.facts[record.run_id] = facts
        return record


def _ladder_from(_: Key, body: Mapping[str, Any]) -> Means:
    by_application = {name: (int(n), int(t)) for name, (n, t) in body["by_application"].items()}
    by_length = {int(size): (int(n), int(t)) for size, (n, t) in body["by_length"].items()}
    return by_application, by_length


def _engine_from(key: Key, body: Mapping[str, Any]) -> tuple[str, tuple[str, int, int]]:
    steps, capacity = int(body["steps"]), int(body["kv_capacity_tokens"])
    return key[2], (str(body["incarnation"]), steps, max(1, capacity))


def _flow_from(key: Key, body: Mapping[str, Any]) -> Flow:
    weight = NanoWeight(max(1, int(body["weight"])))
    return Flow(Ticks(int(body["finish"])), int(key[2]), weight)
