"""What of a pool is journalled, and how a pool comes back from it.

Records hold exact integers. Times are on the wall clock, since the monotonic one starts anew. A
run's record also holds what each engine had counted for it, so that what an engine did while the
service was away is delivered when it comes back, once.
"""

import asyncio
import heapq
from collections import OrderedDict
from collections.abc import Callable
from typing import Any, Final

import structlog

from justitia.core.engines import EngineAccount
from justitia.core.estimates import Estimate
from justitia.core.virtual_time import Flow
from justitia_scheduler.pool_changes import TakenChanges
from justitia_scheduler.pool_reader import PoolReader, Records
from justitia_scheduler.pools import PoolService
from justitia_scheduler.run_facts import RunFacts
from justitia_scheduler.store import Key, Transaction

#: Records of runs of which nothing but the account moved, in one transaction.
_MAX_PROGRESSED: Final = 300
#: Records that are built before others get their turn: about 5 ms of work.
_SLICE: Final = 100

_log = structlog.get_logger()


class PoolRecords:
    """Reads and writes one pool: pool, ladder, lessons, app, run, ended, flow, engine."""

    def __init__(self, pool: PoolService) -> None:
        self._pool = pool
        self._flows: list[Flow] = []
        #: Engines of the journal that have not come back: (incarnation, steps, KV capacity).
        self.engines: dict[str, tuple[str, int, int]] = {}
        #: Accounts of engines that left this process's pool and may come back.
        self.left: OrderedDict[str, EngineAccount] = OrderedDict()

    # -- writing -----------------------------------------------------------------------------------

    async def put_changes(self, into: Transaction) -> None:
        """Add what changed, and forget that it did; what changes meanwhile is for the next call."""
        has_head = self._pool.changes.is_pool_dirty
        taken = self._pool.changes.take(most_progressed=_MAX_PROGRESSED)
        self._move_flows(taken.flows, into)
        await self._put(taken, into)
        if has_head:
            self._put_pool(into)

    async def put_everything(self, into: Transaction) -> None:
        """Add the whole state, for a transaction that replaces all."""
        pool = self._pool
        taken = pool.changes.take(most_progressed=len(pool.changes.progressed))
        self._move_flows(taken.flows, Transaction())
        for flow in self._flows:
            self._put_flow(flow, into)
        here = [account.engine_id for account in pool.core.engines()]
        everything = TakenChanges(
            runs=list(pool.facts),
            ended=[facts.run_id for facts in pool.ended.all()],
            applications=list(pool.applications),
            engines=[*here, *self.left, *self.engines],
            flows=[],
            is_ladder_dirty=True,
            lessons=pool.learning.applications(),
            num_blanked=taken.num_blanked,
            num_lost=taken.num_lost,
        )
        await self._put(everything, into)
        self._put_pool(into)

    def written(self, transaction: Transaction) -> None:
        """Let go of what the store has taken now."""
        ours = self._pool.name
        forgotten = [name for pool, name in transaction.forgotten if pool == ours]
        blanked = [name for pool, name in transaction.blanked if pool == ours]
        self._pool.changes.written(transaction, forgotten=forgotten, blanked=blanked)

    async def _put(self, taken: TakenChanges, into: Transaction) -> None:
        """Add records, a slice at a time.

        What is gone is dropped before the first pause: a run that ends during a later one is the
        next transaction's, together with what is left of it in the fluid system. V comes after
        this, so that no run starts behind it.
        """
        pool = self._pool
        self._count_unrecorded(taken)
        into.samples.extend(pool.changes.samples)
        into.blanked.extend((pool.name, name) for name in pool.changes.blanked)
        into.forgotten.extend((pool.name, name) for name in pool.changes.forgotten)
        for run_id in taken.runs:
            if run_id not in pool.facts:
                into.deletes.append(self._key("run", run_id))
        self._drop_evicted(into)
        for engine_id in taken.engines:
            self._put_engine(engine_id, into)
        if taken.is_ladder_dirty:
            self._put_ladder(into)
        await _in_slices(self._put_application, taken.applications, into)
        await _in_slices(self._put_lessons, taken.lessons, into)
        await _in_slices(self._put_ended, taken.ended, into)
        await _in_slices(self._put_run, taken.runs, into)

    def _count_unrecorded(self, taken: TakenChanges) -> None:
        pool, metrics = self._pool.name, self._pool.metrics
        metrics.count(metrics.samples_dropped, pool, by=taken.num_blanked)
        metrics.count(metrics.samples_lost, pool, by=taken.num_lost)

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

    def _put_lessons(self, application: str, into: Transaction) -> None:
        lessons = self._pool.learning.lessons(application)
        key = self._key("lessons", application)
        if lessons is None:
            into.deletes.append(key)
        else:
            into.puts[key] = lessons

    def _put_engine(self, engine_id: str, into: Transaction) -> None:
        """Write an engine that is here or may come back; another one is forgotten."""
        key = self._key("engine", engine_id)
        here = (a for a in self._pool.core.engines() if a.engine_id == engine_id)
        account = next(here, self.left.get(engine_id))
        if account is not None:
            facts = (account.incarnation, account.steps, account.kv_capacity_tokens)
        elif engine_id in self.engines:
            facts = self.engines[engine_id]
        else:
            into.deletes.append(key)
            return
        into.puts[key] = dict(
            zip(("incarnation", "steps", "kv_capacity_tokens"), facts, strict=True)
        )

    def _put_run(self, run_id: str, into: Transaction) -> None:
        facts = self._pool.facts.get(run_id)
        if facts is not None:
            accounts = [*self.left.values(), *self._pool.core.engines()]
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
            "privacy": facts.privacy,
            "prompt_length": view.prompt_length,
            "client_kvtt": facts.client_kvtt,
            "useful_kvtt": view.useful_kvtt,
            "wasted_kvtt": view.wasted_kvtt,
            "learned_kvtt": view.learned_kvtt,
            "ends_when_idle": facts.ends_when_idle,
            "counters": {**facts.counters, **_counters_of(run_id, accounts)},
        }

    def _put_ended(self, run_id: str, into: Transaction) -> None:
        facts = self._pool.ended.get(run_id)
        if facts is not None:
            into.puts[self._key("ended", run_id)] = facts.to_record()

    def _drop_evicted(self, into: Transaction) -> None:
        ended = self._pool.ended
        for run_id in ended.evicted:
            if run_id not in ended:
                into.deletes.append(self._key("ended", run_id))
        ended.evicted.clear()

    def _put_flow(self, flow: Flow, into: Transaction) -> None:
        key = self._key("flow", str(flow.sequence))
        into.puts[key] = {"finish": flow.finish, "weight": flow.weight}

    def _move_flows(self, new: list[Flow], into: Transaction) -> None:
        """Add new flows of ended runs, and drop those that V has passed."""
        value = self._pool.core.value
        for flow in new:
            if flow.finish > value:
                heapq.heappush(self._flows, flow)
                self._put_flow(flow, into)
        while self._flows and self._flows[0].finish <= value:
            passed = heapq.heappop(self._flows)
            into.deletes.append(self._key("flow", str(passed.sequence)))

    # -- reading -----------------------------------------------------------------------------------

    def restore(self, records: Records) -> int:
        """Bring the pool back; returns how many records made no sense and were left out."""
        reader = PoolReader(self._pool, records)
        pool = self._pool
        pool.core = reader.core()
        pool.next_sequence = max(pool.next_sequence, reader.next_sequence)
        pool.is_shadow = reader.is_shadow
        for flow in reader.flows:
            heapq.heappush(self._flows, flow)
        for application in reader.applications():
            pool.applications[application.name] = application
        for ended in reader.ended_runs():
            pool.ended.add(ended)
        for means in reader.ladders():
            pool.ladder.restore(*means)
        reader.read("lessons", lambda key, body: pool.learning.restore(key[2], body))
        self.engines = reader.engines()
        for run_id, facts in reader.facts.items():
            pool.open_facts(pool.core.run(run_id), facts)
        pool.changes.decided.clear()  # all of it is in the journal
        pool.carry_weights_through()
        return reader.num_bad


async def _in_slices(
    put: Callable[[str, Transaction], None], names: list[str], into: Transaction
) -> None:
    for number, name in enumerate(names, start=1):
        put(name, into)
        if number % _SLICE == 0:
            await asyncio.sleep(0)


def _estimate_record(estimate: Estimate) -> dict[str, Any]:
    return {
        "cost_kvtt": estimate.cost_kvtt,
        "source": estimate.source,
        "model_version": estimate.model_version,
    }


def _counters_of(run_id: str, accounts: list[EngineAccount]) -> dict[str, tuple[str, int, int]]:
    """What engines counted for a run: (incarnation, useful, wasted) by engine."""
    return {
        account.engine_id: (
            account.incarnation,
            account.useful_kvtt_by_run[run_id],
            account.wasted_kvtt_by_run.get(run_id, 0),
        )
        for account in accounts
        if run_id in account.useful_kvtt_by_run
    }
