"""One pool: engines that serve one model and share one virtual time.

Every call that changes something takes ``now_s``, seconds of one clock that never goes back.
Virtual time is settled before anything else changes (rule V4): with the delivered clock it is
settled by the reports themselves, so between two reports V stands where the last one left it.
"""

import heapq
from collections import OrderedDict
from collections.abc import Iterable
from enum import StrEnum

from justitia.core.engines import Delivery, EngineAccount, EngineReport, RunReport
from justitia.core.errors import InvalidValueError, RunExistsError, UnknownRunError
from justitia.core.estimates import Estimate
from justitia.core.fairness import FairnessTracker, FairRatio, critical_path_s
from justitia.core.learning import Learner
from justitia.core.runs import (
    EndedRun,
    Explanation,
    Run,
    RunRecord,
    RunState,
    RunView,
    reason_to_wait,
)
from justitia.core.snapshot import PoolSnapshot
from justitia.core.units import (
    FINE_PER_KVTT,
    MAX_COST_KVTT,
    NanoWeight,
    Ticks,
    service_ticks,
)
from justitia.core.virtual_time import Flow, FluidClock

_MAX_TIMES_PER_RUN = 10_000
_MAX_AHEAD_SHOWN = 20
_MAX_LEFT_ENGINES = 16
#: A provisional estimate that changes by less is left.
_MIN_CHANGE = 0.05


class Clock(StrEnum):
    """What makes V grow (rule V1)."""

    DELIVERED = "delivered"  # the useful service that engines report
    CAPACITY = "capacity"  # the paper's: KV capacity x steps, used or not


class Pool:
    """Open runs, engines' accounts and the virtual time of one pool."""

    def __init__(self, *, clock: Clock = Clock.DELIVERED) -> None:
        self.clock = clock
        self._fluid = FluidClock()
        self._runs: dict[str, Run] = {}
        self._engines: dict[str, EngineAccount] = {}
        # Accounts of engines that left, for when one comes back with its counters.
        self._left: OrderedDict[str, EngineAccount] = OrderedDict()
        self._fairness = FairnessTracker()
        self._next_sequence = 0
        self._sequences: set[int] = set()
        self.num_late_reports = 0
        self.num_refused_counters = 0
        self.unowned_kvtt = 0
        self.useful_kvtt = 0
        self.wasted_kvtt = 0

    @property
    def value(self) -> Ticks:
        """Virtual time V in ticks."""
        return self._fluid.value

    @property
    def total_weight(self) -> int:
        """W in nano-weights: the runs active in the fluid system."""
        return self._fluid.total_weight

    @property
    def surplus_kvtt(self) -> float:
        """Service that came while the fluid system was empty."""
        return self._fluid.surplus_kvtt

    def __len__(self) -> int:
        return len(self._runs)

    def __contains__(self, run_id: str) -> bool:
        return run_id in self._runs

    # -- runs --------------------------------------------------------------------------------------

    def start_run(
        self,
        run_id: str,
        application: str,
        *,
        weight: NanoWeight,
        estimate: Estimate,
        now_s: float,
        prompt_length: int | None = None,
        age_s: float = 0.0,
    ) -> RunView:
        """Open a run: S = V, F = S + C/w (rules V2 and V6). O(log n).

        ``age_s`` >= 0 dates its arrival back for JCT and reference alike, where an engine met it
        before we heard of it; S is V of now all the same, since service before now is counted.

        Raises:
            RunExistsError: the id is open already; the caller knows whether that is a repeat.
        """
        if run_id in self._runs:
            raise RunExistsError(
                f"run_id: {run_id!r} is an open run of {self._runs[run_id].application!r}"
            )
        sequence = self._take_sequence()
        start, finish = self._fluid.arrive(sequence, estimate.cost_kvtt, weight)
        run = Run(
            run_id,
            application,
            sequence,
            weight,
            start,
            finish,
            estimate,
            now_s - age_s,
            prompt_length,
            last_seen_s=now_s,
        )
        self._runs[run_id] = run
        self._fairness.note(now_s, self._fluid.value)
        return self._view(run)

    def re_estimate(self, run_id: str, estimate: Estimate) -> RunView:
        """Replace a provisional estimate by a better one (rules E2 and K2).

        F = S + max(C, attained) / w.
        """
        run = self._require(run_id)
        run.estimate = estimate
        run.learned_kvtt = 0
        if run.trail is not None:
            run.trail.forget()
        self._take_for(run, estimate.cost_kvtt)
        return self._view(run)

    def runs_of(self, application: str) -> list[str]:
        """Name an application's open runs, in order of arrival. O(n)."""
        return [run.run_id for run in self._runs.values() if run.application == application]

    def estimate_anew(self, run_id: str, application: str, estimate: Estimate) -> RunView | None:
        """More is known of an application: take a run of it for that (rule E2). O(log n).

        None: it is left as it is, since client or model have estimated it, it has moved by what it
        has shown (rule K2), or its cost would change by at most 5 %; or no such run is open now.
        """
        run = self._runs.get(run_id)
        if run is None or run.application != application or not _is_vaguer(run, estimate):
            return None
        return self.re_estimate(run_id, estimate)

    def relearn(
        self,
        run_ids: Iterable[str],
        learner: Learner,
        *,
        max_cost_kvtt: int = MAX_COST_KVTT,
    ) -> list[RunView]:
        """Look anew at the cost of runs of which a report has told (rule K2).

        To be called after each ``report``, with the runs in it, in any order. Returns those whose F
        has moved: for what their own inferences have shown, or because they have got far more than
        they were taken to cost; ``LearningRules`` say when. A moved F is at least S + attained / w.
        O(log n) for each run that moves, O(1) for the others.
        """
        moved = []
        for run_id in run_ids:
            run = self._runs.get(run_id)
            if run is not None and self._relearn(run, learner, max_cost_kvtt):
                moved.append(self._view(run))
        return moved

    def _relearn(self, run: Run, learner: Learner, max_cost_kvtt: int) -> bool:
        trail, rules = run.trail, learner.rules
        is_over = run.useful_kvtt >= rules.patience_for(run.estimate.source) * run.cost_kvtt
        if trail is not None:
            trail.look(run.num_waiting + run.num_running)
        has_news = trail is not None and trail.has_news
        if not (has_news or is_over):
            return False
        cost_kvtt = _learned_kvtt(run, learner, max_cost_kvtt)
        change_kvtt = abs(cost_kvtt - run.cost_kvtt)
        is_early = run.useful_kvtt <= rules.early_share * cost_kvtt
        if not is_over and (not is_early or change_kvtt <= rules.min_change * run.cost_kvtt):
            return False
        run.learned_kvtt = cost_kvtt
        self._take_for(run, cost_kvtt)
        return True

    def _take_for(self, run: Run, cost_kvtt: int) -> None:
        cost = max(cost_kvtt, run.useful_kvtt)
        run.finish = Ticks(run.start + service_ticks(cost, run.weight))
        self._fluid.move(run.sequence, run.finish, run.weight)

    def credit(self, run_id: str, *, useful_kvtt: int, wasted_kvtt: int = 0) -> RunView:
        """Count what an engine did for a run before we knew it (rule K1).

        Its true cost then holds all of it. V is left alone: that service was delivered before. F is
        at least S + attained / w (rule K2).
        """
        run = self._require(run_id)
        run.useful_kvtt += useful_kvtt
        run.wasted_kvtt += wasted_kvtt
        if useful_kvtt:
            run.trail = None
        return self.re_estimate(run_id, run.estimate)

    def reweigh(self, application: str, weight: NanoWeight) -> list[RunView]:
        """Give every open run of an application another weight (rule V5).

        What a run still has to get in the fluid system stays the same, and so does what it has got:
        S moves as if it had had this weight all along (so S may come to lie below 0). All divisions
        round to the run's loss, so changing back and forth gains nothing. O(n).
        """
        changed = []
        for run in self._runs.values():
            if run.application == application and run.weight != weight:
                total_fine = (run.finish - run.start) * run.weight
                run.finish = self._fluid.reweigh(run.sequence, weight) or run.finish
                run.start = Ticks(run.finish - total_fine // weight)
                run.weight = weight
                changed.append(self._view(run))
        return changed

    def end_run(self, run_id: str, *, now_s: float) -> EndedRun:
        """Close a run, whether it finished, was cancelled or timed out (rule K1).

        Its true cost takes the place of the estimate: if the fluid system still serves it, it
        leaves when V reaches S + C_true / w. If it left already (the estimate was too low), it does
        not come back: work that found the fluid system empty since then would be asked for twice.
        Where it was the last open run the busy period is over: what is left in the fluid system is
        work that too high estimates had it do in vain, and nobody asks for it any more.
        ``now_s`` is the time at which its last inference ended.
        """
        run = self._require(run_id)
        del self._runs[run_id]
        self._sequences.discard(run.sequence)
        true_cost_kvtt = max(1, run.useful_kvtt)
        true_finish = Ticks(run.start + service_ticks(true_cost_kvtt, run.weight))
        if run.sequence in self._fluid:
            self._fluid.move(run.sequence, true_finish, run.weight)
        if not self._runs:
            self._fairness.note(now_s, self._fluid.value)
            self._fluid.rest()
            self._fairness.note(now_s, self._fluid.value)
        goes_on = run.sequence in self._fluid
        ended = EndedRun(
            run_id,
            run.application,
            run.estimate,
            true_cost_kvtt,
            run.wasted_kvtt,
            run.arrived_at_s,
            max(run.arrived_at_s, now_s),
            run.prompt_length,
            len(run.times),
            Flow(true_finish, run.sequence, run.weight) if goes_on else None,
            () if run.trail is None else run.trail.lesson,
            run.learned_kvtt,
        )
        self._fairness.end(
            run_id,
            run.application,
            true_finish=true_finish,
            arrived_at_s=run.arrived_at_s,
            finished_at_s=ended.finished_at_s,
            critical_path_s=critical_path_s(run.times, arrived_at_s=run.arrived_at_s),
        )
        return ended

    # -- engines -----------------------------------------------------------------------------------

    def join_engine(
        self,
        engine_id: str,
        incarnation: str,
        *,
        kv_capacity_tokens: int,
        baseline: Iterable[RunReport] = (),
        steps: int = 0,
    ) -> None:
        """Open or resume an engine's account.

        ``baseline`` and ``steps`` are the engine's own totals now. Those of a new incarnation are
        taken as known. One that was here before, also if it left meanwhile, keeps its counters:
        what it did while it was out of touch is delivered now. What is in flight is what
        ``baseline`` lists.
        """
        if kv_capacity_tokens < 1:
            raise InvalidValueError(
                "kv_capacity_tokens", f"must be at least 1, got {kv_capacity_tokens}"
            )
        self.leave_engine(engine_id)
        runs = tuple(baseline)
        account = self._left.pop(engine_id, None)
        if account is None or account.incarnation != incarnation:
            account = EngineAccount(engine_id, incarnation, kv_capacity_tokens)
            account.catch_up(runs, steps)
        account.kv_capacity_tokens = kv_capacity_tokens
        account.last_sequence = -1
        self._engines[engine_id] = account
        delivery = account.catch_up(runs, steps)
        self.note_lost(delivery.useful_kvtt_by_run)
        self._take(account, delivery, runs)

    def has_account(self, engine_id: str, incarnation: str) -> bool:
        """Whether ``join_engine`` would resume an account: what came since is then delivered."""
        account = self._engines.get(engine_id) or self._left.get(engine_id)
        return account is not None and account.incarnation == incarnation

    def leave_engine(self, engine_id: str) -> None:
        """Take an engine out: its capacity and what was in flight on it; its runs stay open.

        What finished on it and was not reported yet will not be told: its runs teach nothing.
        """
        account = self._engines.pop(engine_id, None)
        if account is None:
            return
        self.note_lost(account.in_flight)
        self.note_lost(account.useful_kvtt_by_run)
        for run_id in tuple(account.in_flight):
            self._land(account, run_id)
        self._left[engine_id] = account
        if len(self._left) > _MAX_LEFT_ENGINES:
            self._left.popitem(last=False)

    def note_lost(self, run_ids: Iterable[str]) -> None:
        """Finished inferences of these runs may never be told of: they teach nothing (rule K2)."""
        for run_id in run_ids:
            run = self._runs.get(run_id)
            if run is not None and run.trail is not None:
                run.trail.is_whole = False

    def report(self, report: EngineReport, *, now_s: float) -> list[FairRatio]:
        """Take an engine's report: V grows by what it delivered (rule V1). Returns fair ratios.

        Reports of engines that never joined, of other incarnations, repeated or late ones change
        nothing and are counted in ``num_late_reports``.
        """
        account = self._engines.get(report.engine_id)
        delivery = None if account is None else account.accept(report)
        if account is None or delivery is None:
            self.num_late_reports += 1
            return []
        self._take(account, delivery, report.runs)
        for run_report in report.runs:
            self._note_finished(run_report, now_s)
        for run_id in report.closed:
            self._land(account, run_id)
        return self._observe(now_s)

    def _take(
        self, account: EngineAccount, delivery: Delivery, runs: tuple[RunReport, ...]
    ) -> None:
        self.num_refused_counters += delivery.num_refused
        self._charge(delivery)
        for run in runs:
            self._note_flight(account, run)
        self._fluid.deliver(self._work(account, delivery))

    def _work(self, account: EngineAccount, delivery: Delivery) -> int:
        if self.clock is Clock.CAPACITY:
            return account.kv_capacity_tokens * delivery.steps
        return sum(delivery.useful_kvtt_by_run.values())

    def _charge(self, delivery: Delivery) -> None:
        for run_id, useful in delivery.useful_kvtt_by_run.items():
            self.useful_kvtt += useful
            if run_id in self._runs:
                self._runs[run_id].useful_kvtt += useful
            else:
                self.unowned_kvtt += useful
        for run_id, wasted in delivery.wasted_kvtt_by_run.items():
            self.wasted_kvtt += wasted
            if run_id in self._runs:
                self._runs[run_id].wasted_kvtt += wasted

    def _note_flight(self, account: EngineAccount, report: RunReport) -> None:
        run = self._runs.get(report.run_id)
        if run is None:
            account.in_flight.discard(report.run_id)
            return
        _put(run.waiting_by_engine, account.engine_id, report.num_waiting)
        _put(run.running_by_engine, account.engine_id, report.num_running)
        if report.num_waiting or report.num_running:
            account.in_flight.add(run.run_id)
        else:
            account.in_flight.discard(run.run_id)

    def _land(self, account: EngineAccount, run_id: str) -> None:
        """Nothing of a run is in flight on this engine any longer."""
        account.in_flight.discard(run_id)
        run = self._runs.get(run_id)
        if run is not None:
            run.waiting_by_engine.pop(account.engine_id, None)
            run.running_by_engine.pop(account.engine_id, None)

    def _note_finished(self, report: RunReport, now_s: float) -> None:
        run = self._runs.get(report.run_id)
        if run is not None:
            run.last_seen_s = max(run.last_seen_s, now_s)
            room = _MAX_TIMES_PER_RUN - len(run.times)
            run.times.extend(report.finished[:room])
            if run.trail is not None:
                for times in report.finished:
                    run.trail.finish(times.useful_kvtt)

    def _observe(self, now_s: float) -> list[FairRatio]:
        is_empty = len(self._fluid) == 0
        return self._fairness.observe(now_s, self._fluid.value, is_fluid_empty=is_empty)

    # -- views -------------------------------------------------------------------------------------

    def run(self, run_id: str) -> RunView:
        """Look at one open run."""
        return self._view(self._require(run_id))

    def runs(self) -> list[RunView]:
        """All open runs, in order of arrival."""
        return [self._view(run) for run in self._runs.values()]

    def engines(self) -> list[EngineAccount]:
        """Accounts of the engines that are here; to be read only."""
        return list(self._engines.values())

    def explain(self, run_id: str) -> Explanation:
        """Say what stands ahead of a run and what its F is made of. O(n)."""
        run = self._require(run_id)
        ahead = [
            other
            for other in self._runs.values()
            if other.order_key < run.order_key and other.state is not RunState.IDLE
        ]
        nearest = heapq.nsmallest(_MAX_AHEAD_SHOWN, ahead, key=lambda other: other.order_key)
        rest_ticks = max(0, run.finish - self.value)
        return Explanation(
            self._view(run),
            self.value,
            len(self._runs),
            len(ahead),
            tuple(self._view(other) for other in nearest),
            rest_ticks * run.weight / FINE_PER_KVTT,
            reason_to_wait(run, len(ahead), has_engine=bool(self._engines)),
        )

    def _take_sequence(self, wanted: int = -1) -> int:
        """Take a place in order of arrival: the wanted one, or the next where that is taken."""
        is_free = wanted not in self._sequences and wanted not in self._fluid
        sequence = wanted if wanted >= 0 and is_free else self._next_sequence
        self._next_sequence = max(self._next_sequence, sequence + 1)
        self._sequences.add(sequence)
        return sequence

    def _require(self, run_id: str) -> Run:
        run = self._runs.get(run_id)
        if run is None:
            raise UnknownRunError(run_id)
        return run

    def _view(self, run: Run) -> RunView:
        return RunView.look(run, is_in_fluid=run.sequence in self._fluid)

    # -- recovery ----------------------------------------------------------------------------------

    def snapshot(self) -> PoolSnapshot:
        """Freeze what must survive: V, the fluid system and the open runs."""
        records = tuple(RunRecord.of(run) for run in self._runs.values())
        return PoolSnapshot(self.clock, self._next_sequence, self._fluid.state(), records)

    @classmethod
    def restore(cls, snapshot: PoolSnapshot, *, now_s: float) -> "Pool":
        """Rebuild a pool from a snapshot; engines join again by themselves."""
        pool = cls(clock=Clock(snapshot.clock))
        pool._fluid = FluidClock(snapshot.fluid)
        pool._next_sequence = snapshot.next_sequence
        for record in snapshot.runs:
            pool._runs[record.run_id] = record.to_run(now_s)
        pool._sequences.update(run.sequence for run in pool._runs.values())
        pool._observe(now_s)
        return pool

    def advance_to(self, value: Ticks, *, now_s: float) -> list[FairRatio]:
        """An engine saw a later V than the journal holds: V never goes back (rule V4)."""
        self._fluid.advance_to(value)
        return self._observe(now_s)

    def adopt_run(self, record: RunRecord, *, now_s: float) -> RunView:
        """Take over a run that an engine knows and the journal has lost: it keeps its S and F.

        It keeps its place in order of arrival too, unless another run has that one.
        """
        if record.run_id in self._runs:
            raise RunExistsError(f"run_id: {record.run_id!r} is open")
        run = record.to_run(now_s)
        run.sequence = self._take_sequence(record.sequence)
        self._runs[run.run_id] = run
        self._fluid.move(run.sequence, run.finish, run.weight)
        return self._view(run)


def _is_vaguer(run: Run, estimate: Estimate) -> bool:
    """Whether a run is not known as well as this estimate has it, and by a difference."""
    is_known = run.learned_kvtt or not run.estimate.source.is_provisional
    change_kvtt = abs(estimate.cost_kvtt - run.estimate.cost_kvtt)
    return not is_known and change_kvtt > _MIN_CHANGE * run.estimate.cost_kvtt


def _learned_kvtt(run: Run, learner: Learner, max_cost_kvtt: int) -> int:
    """Say what a run is to be taken to cost by what it has shown, at least what it has got."""
    trail = run.trail
    if trail is not None and trail.has_news:
        learner.revise(run.application, trail, estimate=run.estimate)
    if trail is None or trail.belief is None:
        return max(run.cost_kvtt, run.useful_kvtt)
    learned_kvtt = learner.cost_kvtt(trail.belief, above_kvtt=run.useful_kvtt)
    return max(min(learned_kvtt, max_cost_kvtt), run.useful_kvtt)


def _put(counts: dict[str, int], engine_id: str, count: int) -> None:
    if count > 0:
        counts[engine_id] = count
    else:
        counts.pop(engine_id, None)
