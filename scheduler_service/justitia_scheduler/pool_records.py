"""What of a pool is journalled, and how a pool comes back from it.

Records hold exact integers. Times are on the wall clock, since the monotonic one starts anew. A
run's record also holds what each engine had counted for it, so that what an engine did while the
service was away is delivered when it comes back, once.
"""

import heapq
from collections.abc import Mapping
from typing import Any, Final

import structlog

from justitia.core.engines import EngineAccount
from justitia.core.estimates import Estimate
from justitia.core.pool import Pool
from justitia.core.snapshot import PoolSnapshot, RunRecord
from justitia.core.units import FINE_PER_KVTT, NanoWeight, Ticks
from justitia.core.virtual_time import FluidState
from justitia_scheduler.applications import Application
from justitia_scheduler.pools import PoolService
from justitia_scheduler.run_facts import EndedFacts, RunFacts, estimate_from
from justitia_scheduler.store import Key, Transaction

#: Run records of one transaction; the rest comes with the next, so that none holds the loop for
#: long.
_MAX_RUNS: Final = 300

_log = structlog.get_logger()

Records = Mapping[Key, Mapping[str, Any]]


class PoolRecords:
    """Reads and writes the records of one pool: pool, ladder, app, run, ended, flow, engine."""

    def __init__(self, pool: PoolService) -> None:
        self._pool = pool
        self._flows: list[tuple[Ticks, int, NanoWeight]] = []
        #: Engines of the journal that have not come back: (incarnation, steps, KV capacity).
        self.engines: dict[str, tuple[str, int, int]] = {}

    # -- writing -----------------------------------------------------------------------------------

    def take_changes(self, into: Transaction) -> None:
        """Add what changed since the last call, and forget that it did."""
        pool, changes = self._pool, self._pool.changes
        self._put_runs(list(changes.runs)[:_MAX_RUNS], into)
        self._put_ended(list(changes.settled_runs), into)
        self._move_flows(into)
        for name in changes.applications:
            self._put_application(name, into)
        for engine_id in changes.engines:
            self._put_engine(engine_id, into)
        into.samples.extend(changes.samples)
        into.forgotten.extend((pool.name, name) for name in changes.forgotten)
        if changes.is_pool_dirty:
            self._put_pool(into)
        if changes.is_ladder_dirty:
            self._put_ladder(into)
        self._reset(keep_runs=list(changes.runs)[_MAX_RUNS:])

    def take_everything(self, into: Transaction) -> None:
        """Add the whole state, for a transaction that replaces all."""
        pool, changes = self._pool, self._pool.changes
        self._put_runs(list(pool.facts), into)
        self._put_ended([facts.run_id for facts in pool.ended.all()], into)
        self._move_flows(Transaction())
        for flow in self._flows:
            self._put_flow(flow, into)
        for name in pool.applications:
            self._put_application(name, into)
        for account in pool.core.engines():
            self._put_engine(account.engine_id, into)
        into.samples.extend(changes.samples)
        into.forgotten.extend((pool.name, name) for name in changes.forgotten)
        self._put_pool(into)
        self._put_ladder(into)
        self._reset(keep_runs=[])

    def _reset(self, *, keep_runs: list[str]) -> None:
        changes = self._pool.changes
        for emptied in (changes.settled_runs, changes.applications, changes.engines):
            emptied.clear()
        changes.samples.clear()
        changes.forgotten.clear()
        changes.runs = dict.fromkeys(keep_runs)
        changes.is_pool_dirty = bool(keep_runs)
        changes.is_ladder_dirty = False

    def _key(self, kind: str, *names: str) -> Key:
        return (kind, self._pool.name, *names)

    def _put_pool(self, into: Transaction) -> None:
        core = self._pool.core
        into.puts[self._key("pool")] = {
            "value": core.value,
            "surplus_kvtt": core.surplus_kvtt,
            "next_sequence": self._pool.next_sequence,
            "is_shadow": self._pool.is_shadow,
        }

    def _put_ladder(self, into: Transaction) -> None:
        by_application, by_length = self._pool.ladder.history()
        into.puts[self._key("ladder")] = {
            "by_application": dict(by_application),
            "by_length": {str(size): mean for size, mean in by_length.items()},
        }

    def _put_application(self, name: str, into: Transaction) -> None:
        application = self._pool.applications.get(name)
        if application is None:
            into.deletes.append(self._key("app", name))
        else:
            into.puts[self._key("app", name)] = application.to_record()

    def _put_engine(self, engine_id: str, into: Transaction) -> None:
        for account in self._pool.core.engines():
            if account.engine_id == engine_id:
                into.puts[self._key("engine", engine_id)] = {
                    "incarnation": account.incarnation,
                    "steps": account.steps,
                    "kv_capacity_tokens": account.kv_capacity_tokens,
                }

    def _put_runs(self, run_ids: list[str], into: Transaction) -> None:
        accounts = self._pool.core.engines()
        for run_id in run_ids:
            facts = self._pool.facts.get(run_id)
            if facts is None:
                into.deletes.append(self._key("run", run_id))
            else:
                into.puts[self._key("run", run_id)] = self._run_record(run_id, facts, accounts)

    def _run_record(
        self, run_id: str, facts: RunFacts, accounts: list[EngineAccount]
    ) -> dict[str, Any]:
        view = self._pool.core.run(run_id)
        return {
            "application": view.application,
            "requested": facts.requested,
            "sequence": view.sequence,
            "weight": view.weight,
            "start": view.start,
            "finish": view.finish,
            "estimate": _estimate_record(view.estimate),
            "arrived_wall_s": facts.arrived_wall_s,
            "prompt_length": view.prompt_length,
            "client_kvtt": facts.client_kvtt,
            "useful_kvtt": view.useful_kvtt,
            "wasted_kvtt": view.wasted_kvtt,
            "counters": {**facts.counters, **counters_of(run_id, accounts)},
        }

    def _put_ended(self, run_ids: list[str], into: Transaction) -> None:
        ended = self._pool.ended
        for run_id in run_ids:
            facts = ended.get(run_id)
            if facts is not None:
                into.puts[self._key("ended", run_id)] = facts.to_record()
        for run_id in ended.evicted:
            if run_id not in ended:
                into.deletes.append(self._key("ended", run_id))
        ended.evicted.clear()

    def _put_flow(self, flow: tuple[Ticks, int, NanoWeight], into: Transaction) -> None:
        finish, sequence, weight = flow
        into.puts[self._key("flow", str(sequence))] = {"finish": finish, "weight": weight}

    def _move_flows(self, into: Transaction) -> None:
        """Add new flows of ended runs, and drop those that V has passed."""
        value = self._pool.core.value
        for flow in self._pool.changes.flows:
            if flow[0] > value:
                heapq.heappush(self._flows, flow)
                self._put_flow(flow, into)
        self._pool.changes.flows.clear()
        while self._flows and self._flows[0][0] <= value:
            _, sequence, _ = heapq.heappop(self._flows)
            into.deletes.append(self._key("flow", str(sequence)))

    # -- reading -----------------------------------------------------------------------------------

    def restore(self, records: Records) -> int:
        """Bring the pool back; returns how many records made no sense and were left out."""
        reader = _Reader(self._pool, records)
        pool = self._pool
        pool.core = reader.core()
        pool.next_sequence = max(pool.next_sequence, reader.next_sequence)
        pool.is_shadow = reader.is_shadow
        for finish, sequence, weight in reader.flows:
            heapq.heappush(self._flows, (finish, sequence, weight))
        for application in reader.read("app", _application_from):
            pool.applications[application.name] = application
        for ended in reader.read("ended", lambda _, body: EndedFacts.from_record(body)):
            pool.ended.add(ended)
        for means in reader.read("ladder", _ladder_from):
            pool.ladder.restore(*means)
        self.engines = dict(reader.read("engine", _engine_from))
        for run_id, facts in reader.facts.items():
            pool.open_facts(pool.core.run(run_id), facts)
        return reader.num_bad


def _estimate_record(estimate: Estimate) -> dict[str, Any]:
    return {
        "cost_kvtt": estimate.cost_kvtt,
        "source": estimate.source,
        "model_version": estimate.model_version,
    }


def counters_of(run_id: str, accounts: list[EngineAccount]) -> dict[str, tuple[str, int, int]]:
    """What connected engines counted for a run: (incarnation, useful, wasted) by engine."""
    return {
        account.engine_id: (
            account.incarnation,
            account.useful_kvtt_by_run[run_id],
            account.wasted_kvtt_by_run.get(run_id, 0),
        )
        for account in accounts
        if run_id in account.useful_kvtt_by_run
    }


class _Reader:
    """Reads one pool's records; one that makes no sense is counted and left out."""

    def __init__(self, pool: PoolService, records: Records) -> None:
        self._pool = pool
        self._of_kind: dict[str, list[tuple[Key, Mapping[str, Any]]]] = {}
        for key, body in records.items():
            self._of_kind.setdefault(key[0], []).append((key, body))
        self.num_bad = 0
        self.next_sequence = 0
        self.is_shadow = False
        self.flows: list[tuple[Ticks, int, NanoWeight]] = []
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

    def core(self) -> Pool:
        """Rebuild the core's pool from the fluid system's value and the runs."""
        runs: list[RunRecord] = self.read("run", self._run_from)
        heads = self.read("pool", self._head_from)
        value, surplus_kvtt = heads[0] if heads else (Ticks(0), 0.0)
        if not heads and runs:  # the head is lost: V was at least where the last run started
            value = Ticks(max(0, *(run.start for run in runs)))
        self.flows = [flow for flow in self.read("flow", _flow_from) if flow[0] > value]
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
        )
        facts = RunFacts(str(body["requested"]), arrived_wall_s, clocks.monotonic_s())
        facts.client_kvtt = body["client_kvtt"]
        facts.counters = {
            engine_id: (str(incarnation), int(useful), int(wasted))
            for engine_id, (incarnation, useful, wasted) in body["counters"].items()
        }
        self.facts[record.run_id] = facts
        return record


def _application_from(_: Key, body: Mapping[str, Any]) -> Application:
    return Application.from_record(body)


def _ladder_from(
    _: Key, body: Mapping[str, Any]
) -> tuple[dict[str, tuple[int, int]], dict[int, tuple[int, int]]]:
    by_application = {name: (int(n), int(t)) for name, (n, t) in body["by_application"].items()}
    by_length = {int(size): (int(n), int(t)) for size, (n, t) in body["by_length"].items()}
    return by_application, by_length


def _engine_from(key: Key, body: Mapping[str, Any]) -> tuple[str, tuple[str, int, int]]:
    steps, capacity = int(body["steps"]), int(body["kv_capacity_tokens"])
    return key[2], (str(body["incarnation"]), steps, max(1, capacity))


def _flow_from(key: Key, body: Mapping[str, Any]) -> tuple[Ticks, int, NanoWeight]:
    return Ticks(int(body["finish"])), int(key[2]), NanoWeight(max(1, int(body["weight"])))
