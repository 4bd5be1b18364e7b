"""The engines' side of a pool: who is here, what they know, what they report."""

from collections import OrderedDict, defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Final

from justitia.core.engines import RunReport
from justitia.core.runs import RunState
from justitia.core.snapshot import RunRecord
from justitia.core.units import Ticks
from justitia_scheduler.engine_facts import EngineFacts, FinishedFacts, KnownRun, ReportFacts
from justitia_scheduler.outcomes import CallError
from justitia_scheduler.pool_records import PoolRecords, counters_of
from justitia_scheduler.pools import PoolService
from justitia_scheduler.run_facts import RunFacts, RunOrder

#: Engines that left and still show ``engine_up`` 0, the latest ones.
_MAX_LEFT: Final = 64


@dataclass(slots=True)
class EngineState:
    """One connected engine: how it introduced itself, and the last totals of its report."""

    facts: EngineFacts
    preemptions: int = 0
    num_waiting: int = 0
    num_running: int = 0
    unidentified: int = 0
    malformed: int = 0
    steps: int = 0


class PoolEngines:
    """Engines of one pool."""

    def __init__(self, pool: PoolService, records: PoolRecords) -> None:
        self._pool = pool
        self._records = records
        self._left: OrderedDict[str, EngineState] = OrderedDict()
        self.states: dict[str, EngineState] = {}

    # -- coming and going --------------------------------------------------------------------------

    def adopt(self, facts: EngineFacts, known: Iterable[KnownRun]) -> list[str]:
        """Take over the runs that the journal lost; returns the ids of those that are over.

        They keep their S and F. What the engine counted for them before is taken as known, unless
        the join that follows delivers it.
        """
        over = []
        for run in known:
            run_id = run.report.run_id
            if run_id in self._pool.core:
                continue
            is_in_flight = run.report.num_waiting or run.report.num_running
            if run_id in self._pool.ended and not is_in_flight:
                over.append(run_id)
            elif run.finish is None or run_id in self._pool.ended:
                self._open(
                    RunOrder(run_id=run_id, application=run.application, is_from_engine=True),
                    run.age_s,
                )
            else:
                self._adopt(facts, run, run.finish)
        return over

    def _adopt(self, facts: EngineFacts, run: KnownRun, finish: Ticks) -> None:
        pool = self._pool
        now_s = pool.clocks.monotonic_s()
        known = self._records.engines.get(facts.engine_id)
        is_delivered_later = known is not None and known[0] == facts.incarnation
        record = RunRecord(
            run.report.run_id,
            pool.application(run.application).name,
            0,
            run.weight,
            run.start,
            finish,
            run.estimate,
            now_s - run.age_s,
            None,
            0 if is_delivered_later else run.report.useful_kvtt,
            0 if is_delivered_later else run.report.wasted_kvtt,
        )
        view = pool.core.adopt_run(record, now_s=now_s)
        pool.next_sequence = view.sequence + 1
        arrived_wall_s = pool.clocks.wall_s() - run.age_s
        pool.open_facts(view, RunFacts(run.application, arrived_wall_s, now_s))

    def join(self, facts: EngineFacts, known: Sequence[KnownRun], last_value: Ticks) -> None:
        """Open or resume an engine's account; V is then at least what the engine has heard of.

        Raises:
            InvalidValueError: the KV capacity makes no sense.
        """
        pool, engine_id = self._pool, facts.engine_id
        baseline = [run.report for run in known]
        self._prime(facts, baseline)
        pool.core.join_engine(
            engine_id,
            facts.incarnation,
            kv_capacity_tokens=facts.kv_capacity_tokens,
            baseline=baseline,
            steps=facts.steps,
        )
        pool.endings.settle(pool.core.advance_to(last_value, now_s=pool.clocks.monotonic_s()))
        left = self._left.pop(engine_id, None)
        is_resumed = left is not None and left.facts.incarnation == facts.incarnation
        state = left if left is not None and is_resumed else EngineState(facts, steps=facts.steps)
        state.facts = facts
        self.states[engine_id] = state
        pool.changes.engines[engine_id] = None
        for run in baseline:
            if run.run_id in pool.core:
                pool.facts[run.run_id].counters.pop(engine_id, None)
                pool.note_state(run.run_id, pool.core.run(run.run_id).state)
        pool.changes.is_pool_dirty = True
        metrics = pool.metrics
        metrics.show(metrics.engine_up, pool.name, engine_id, value=1)
        metrics.show(metrics.kv_capacity, pool.name, engine_id, value=facts.kv_capacity_tokens)

    def _prime(self, facts: EngineFacts, baseline: list[RunReport]) -> None:
        """Give the core the account that the journal holds of this incarnation, once.

        Then the join delivers what the engine did since. Runs that are over are taken as known.
        """
        known = self._records.engines.pop(facts.engine_id, None)
        if known is None or known[0] != facts.incarnation:
            return
        pool = self._pool
        counted = []
        for run in baseline:
            open_facts = pool.facts.get(run.run_id)
            if open_facts is None:
                counted.append(run)
                continue
            counter = open_facts.counters.get(facts.engine_id)
            if counter is not None and counter[0] == facts.incarnation:
                counted.append(RunReport(run.run_id, counter[1], counter[2]))
        pool.core.join_engine(
            facts.engine_id,
            facts.incarnation,
            kv_capacity_tokens=known[2],
            baseline=counted,
            steps=known[1],
        )
        pool.core.leave_engine(facts.engine_id)

    def leave(self, engine_id: str) -> None:
        """Take an engine out: its capacity and its running inferences; its runs stay open."""
        pool = self._pool
        state = self.states.pop(engine_id, None)
        if state is None:
            return
        accounts = [a for a in pool.core.engines() if a.engine_id == engine_id]
        in_flight = [run_id for account in accounts for run_id in account.in_flight]
        for account in accounts:
            for run_id in account.useful_kvtt_by_run:
                if run_id in pool.facts:
                    pool.facts[run_id].counters.update(counters_of(run_id, accounts))
        pool.core.leave_engine(engine_id)
        now_s = pool.clocks.monotonic_s()
        for run_id in in_flight:
            if run_id in pool.facts:
                pool.facts[run_id].idle_from_s = now_s
                pool.note_state(run_id, pool.core.run(run_id).state)
        pool.endings.heard_from(engine_id)
        self._show_left(engine_id, state)

    def _show_left(self, engine_id: str, state: EngineState) -> None:
        metrics, name = self._pool.metrics, self._pool.name
        metrics.show(metrics.engine_up, name, engine_id, value=0)
        for gauge in (metrics.kv_used, metrics.engine_waiting, metrics.engine_running):
            metrics.show(gauge, name, engine_id, value=0)
        self._left[engine_id] = state
        if len(self._left) > _MAX_LEFT:
            metrics.forget_engine(name, self._left.popitem(last=False)[0])

    # -- reports -----------------------------------------------------------------------------------

    def report(self, facts: ReportFacts) -> None:
        """Take a report: new runs first, so that their service is theirs (rules V1 and V4)."""
        pool, report = self._pool, facts.report
        for order, age_s in facts.new_runs:
            self._open(order, age_s)
        useful = self._count_delivery(report.engine_id, report.runs)
        now_s = pool.clocks.monotonic_s()
        for inference in facts.finished:
            self._note_finished(inference)
        for run in report.runs:
            self._note_first_report(run, now_s)
        ratios = pool.core.report(report, now_s=now_s)
        pool.endings.bound.note_delivery(useful, now_s)
        for run in report.runs:
            if run.run_id in pool.facts:
                pool.note_state(run.run_id, pool.core.run(run.run_id).state)
        for run_id in report.closed:
            if run_id in pool.facts:
                pool.changes.run(run_id)
        pool.changes.engines[report.engine_id] = None
        pool.changes.is_pool_dirty = True
        pool.endings.settle(ratios)
        for run in report.runs:
            if run.run_id in pool.facts:
                pool.endings.finish_single(run.run_id)
        self._show(facts)
        pool.endings.heard_from(report.engine_id)

    def _open(self, order: RunOrder, age_s: float) -> None:
        """Open a run that an engine has met; where there is no room the engine's own tag serves."""
        try:
            self._pool.start_run(order, age_s=age_s)
        except CallError:
            return

    def _note_first_report(self, run: RunReport, now_s: float) -> None:
        """A run is idle from the moment on at which an engine last had something of it."""
        facts = self._pool.facts.get(run.run_id)
        if facts is not None and facts.state is not RunState.IDLE:
            facts.idle_from_s = now_s

    def _note_finished(self, inference: FinishedFacts) -> None:
        pool, times = self._pool, inference.times
        facts = pool.facts.get(inference.run_id)
        if facts is None:
            return
        facts.last_end_s = max(facts.last_end_s or times.finished_at_s, times.finished_at_s)
        facts.num_aborted += inference.is_aborted
        if not inference.has_run:
            return
        pool.endings.bound.note_inference(times.finished_at_s - times.started_at_s)
        label = pool.label(facts.served)
        if label is not None:
            waited_s = max(0.0, times.started_at_s - times.arrived_at_s)
            pool.metrics.observe(pool.metrics.queue_wait, pool.name, label, value=waited_s)

    def _count_delivery(self, engine_id: str, runs: Iterable[RunReport]) -> int:
        """Count what a report adds, by application; returns the useful service of all."""
        pool = self._pool
        account = next((a for a in pool.core.engines() if a.engine_id == engine_id), None)
        if account is None:
            return 0
        useful: defaultdict[str, int] = defaultdict(int)
        wasted: defaultdict[str, int] = defaultdict(int)
        for run in runs:
            facts = pool.facts.get(run.run_id)
            if facts is None:
                continue
            label = pool.label(facts.served) or pool.options.default_application
            useful_before = account.useful_kvtt_by_run.get(run.run_id, 0)
            wasted_before = account.wasted_kvtt_by_run.get(run.run_id, 0)
            useful[label] += max(0, run.useful_kvtt - useful_before)
            wasted[label] += max(0, run.wasted_kvtt - wasted_before)
        for kind, by_label in (("useful", useful), ("wasted", wasted)):
            for label, kvtt in by_label.items():
                pool.metrics.count(pool.metrics.delivered, pool.name, label, kind, by=kvtt)
        return sum(useful.values())

    def _show(self, facts: ReportFacts) -> None:
        state = self.states.get(facts.report.engine_id)
        if state is None:
            return
        metrics, name, engine = self._pool.metrics, self._pool.name, facts.report.engine_id
        metrics.show(metrics.kv_used, name, engine, value=facts.report.kv_used_tokens)
        metrics.show(metrics.engine_waiting, name, engine, value=facts.num_waiting)
        metrics.show(metrics.engine_running, name, engine, value=facts.num_running)
        metrics.show(metrics.tag_delay, name, engine, value=facts.tag_delay_s)
        grown = (
            (metrics.preemptions, (name, engine), facts.preemptions - state.preemptions),
            (metrics.steps, (name, engine), facts.report.steps - state.steps),
            (metrics.unidentified, (name,), facts.unidentified - state.unidentified),
            (metrics.malformed, (name,), facts.malformed - state.malformed),
        )
        for counter, labels, by in grown:
            metrics.count(counter, *labels, by=max(0, by))
        for kind, number in facts.num_dropped.items():
            metrics.count(metrics.dropped, name, kind, by=number)
        state.preemptions = max(state.preemptions, facts.preemptions)
        state.steps = max(state.steps, facts.report.steps)
        state.unidentified = max(state.unidentified, facts.unidentified)
        state.malformed = max(state.malformed, facts.malformed)
        state.num_waiting, state.num_running = facts.num_waiting, facts.num_running
