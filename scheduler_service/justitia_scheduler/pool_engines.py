"""The engines' side of a pool: who is here, what they know, what they report."""

import functools
from collections import OrderedDict, defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Final

from justitia.core.engines import EngineAccount, EngineReport, RunReport
from justitia.core.runs import RunState
from justitia.core.snapshot import RunRecord
from justitia.core.units import Ticks
from justitia_scheduler.engine_facts import EngineFacts, FinishedFacts, KnownRun, ReportFacts
from justitia_scheduler.limits import MAX_ENGINES
from justitia_scheduler.outcomes import CallError
from justitia_scheduler.pool_records import PoolRecords
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

        They keep their S and F. What the engine counted for them before is credited to them, unless
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
                self._open_known(facts, run)
            else:
                self._adopt(facts, run, run.finish)
        return over

    def _open_known(self, facts: EngineFacts, run: KnownRun) -> None:
        """Open a run that has no tag of ours, or whose id came back after its end."""
        run_id = run.report.run_id
        has_been_here = run_id in self._pool.ended  # then its earlier service was that run's
        order = RunOrder(
            run_id=run_id,
            application=run.application,
            prompt_tokens=run.prompt_tokens or None,
            is_from_engine=True,
            ends_when_idle=run.ends_when_idle,
        )
        self._open(order, run.age_s)
        if run_id in self._pool.core and not has_been_here:
            useful_kvtt, wasted_kvtt = self._known_before(facts, run)
            self._pool.core.credit(run_id, useful_kvtt=useful_kvtt, wasted_kvtt=wasted_kvtt)

    def _known_before(self, facts: EngineFacts, run: KnownRun) -> tuple[int, int]:
        """Useful and wasted service of a run that the join to come takes as known."""
        known = self._records.engines.get(facts.engine_id)
        is_in_journal = known is not None and known[0] == facts.incarnation
        if is_in_journal or self._pool.core.has_account(facts.engine_id, facts.incarnation):
            return 0, 0
        return run.report.useful_kvtt, run.report.wasted_kvtt

    def _adopt(self, facts: EngineFacts, run: KnownRun, finish: Ticks) -> None:
        pool = self._pool
        now_s = pool.clocks.monotonic_s()
        record = RunRecord(
            run.report.run_id,
            pool.application(run.application).name,
            run.sequence,
            run.weight,
            run.start,
            finish,
            run.estimate,
            now_s - run.age_s,
            run.prompt_tokens or None,
            *self._known_before(facts, run),
            run.learned_kvtt,
        )
        view = pool.core.adopt_run(record, now_s=now_s)
        pool.next_sequence = max(pool.next_sequence, view.sequence + 1)
        arrived_wall_s = pool.clocks.wall_s() - run.age_s
        run_facts = RunFacts(run.application, arrived_wall_s, now_s)
        run_facts.ends_when_idle = run.ends_when_idle
        pool.open_facts(view, run_facts)

    def join(self, facts: EngineFacts, known: Sequence[KnownRun], last_value: Ticks) -> None:
        """Open or resume an engine's account; V is then at least what the engine has heard of.

        Raises:
            InvalidValueError: the KV capacity makes no sense.
        """
        pool, engine_id = self._pool, facts.engine_id
        baseline = [facts.unowned, *(run.report for run in known)]
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
        self._records.left.pop(engine_id, None)
        pool.backlog.add(
            functools.partial(self._note_joined, engine_id, facts.incarnation),
            [run.run_id for run in baseline],
        )
        pool.changes.is_pool_dirty = True
        metrics = pool.metrics
        metrics.show(metrics.engine_up, pool.name, engine_id, value=1)
        metrics.show(metrics.kv_capacity, pool.name, engine_id, value=facts.kv_capacity_tokens)

    def _note_joined(self, engine_id: str, incarnation: str, run_id: str) -> None:
        """Forget what the journal knew of an engine that is here, and count the run's state."""
        facts = self._pool.facts.get(run_id)
        if facts is not None:
            known = facts.counters.pop(engine_id, None)
            facts.has_lost |= known is not None and known[0] != incarnation
            self._pool.note_state(run_id, self._pool.core.run(run_id).state)

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
        account = next((a for a in pool.core.engines() if a.engine_id == engine_id), None)
        if account is not None:
            in_flight = list(account.in_flight)
            for run_id in in_flight:
                if run_id in pool.facts:
                    pool.facts[run_id].has_lost = True  # before a run that waits for it ends
            pool.core.leave_engine(engine_id)
            self._remember(account)
            left_at_s = pool.clocks.monotonic_s()
            pool.backlog.add(functools.partial(self._note_left, left_at_s), in_flight)
        pool.endings.heard_from(engine_id)
        self._show_left(engine_id, state)

    def _remember(self, account: EngineAccount) -> None:
        """Keep the account of an engine that left for as long as a run of it is open."""
        left, facts = self._records.left, self._pool.facts
        left[account.engine_id] = account
        over = [
            engine_id
            for engine_id, other in left.items()
            if other is not account and not any(run in facts for run in other.useful_kvtt_by_run)
        ]
        if len(left) - len(over) > MAX_ENGINES:
            over.append(next(iter(left)))
        for engine_id in over:
            left.pop(engine_id, None)
            self._pool.changes.engines[engine_id] = None

    def _note_left(self, left_at_s: float, run_id: str) -> None:
        """A run that an engine took with it is idle from then on, unless others have it too."""
        facts = self._pool.facts.get(run_id)
        if facts is not None:
            facts.idle_from_s = max(facts.idle_from_s, left_at_s)
            self._pool.note_state(run_id, self._pool.core.run(run_id).state)

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
        """Take a report: new runs first, so that their service is theirs (rules V1 and V4).

        What is new and closed at once was over before anyone could order it: its service counts in
        V, and nothing is opened.
        """
        pool, report = self._pool, facts.report
        over = frozenset(report.closed)
        for order, age_s in facts.new_runs:
            if order.run_id not in over:
                self._open(order, age_s)
        useful = self._count_delivery(report.engine_id, report.runs)
        now_s = pool.clocks.monotonic_s()
        for inference in facts.finished:
            self._note_finished(inference)
        for run in report.runs:
            self._note_first_report(run, now_s)
        pool.core.note_lost(facts.lost)
        ratios = pool.core.report(report, now_s=now_s)
        pool.endings.bound.note_delivery(useful, now_s)
        pool.learning.look(run.run_id for run in report.runs)
        self._note_states(report)
        pool.changes.engines[report.engine_id] = None
        pool.changes.is_pool_dirty = True
        pool.endings.settle(ratios)
        for run in report.runs:
            pool.endings.finish_single(run.run_id)
        self._show(facts)
        pool.endings.heard_from(report.engine_id)

    def _note_states(self, report: EngineReport) -> None:
        pool = self._pool
        for run in report.runs:
            if run.run_id in pool.facts:
                pool.note_state(run.run_id, pool.core.run(run.run_id).state)
        for run_id in report.closed:
            if run_id in pool.facts:
                pool.note_state(run_id, pool.core.run(run_id).state)

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
        pool.endings.bound.note_inference(times.computing_s)
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
            served = pool.options.default_application if facts is None else facts.served
            label = pool.label(served) or pool.options.default_application
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
