"""Plays a scenario under a policy: a virtual clock, a pool, and engines of whatever kind.

Nothing here reads a clock or draws a random number. At one moment, steps end first, then runs and
inferences arrive, then engines plan: what has come by the end of a step is seen by the next one.
"""

import heapq
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from enum import IntEnum
from functools import partial
from itertools import count
from typing import TYPE_CHECKING, Any, Final

from justitia.core.errors import InvariantError
from justitia.core.estimates import Estimate
from justitia.core.learning import Learner, LearningRules
from justitia.core.policies import EVERY_POLICY, Policy, make_policy
from justitia.core.pool import Clock, Pool
from justitia.core.runs import EndedRun, RunView
from justitia.core.units import UNIT_WEIGHT, parse_weight
from justitia.sim.checks import check_scenario
from justitia.sim.engine import Ended, Engine, RunTag, Submission
from justitia.sim.estimators import HISTORY, Estimator, make_estimator
from justitia.sim.fast.engine import FastEngine
from justitia.sim.results import PlayResult
from justitia.sim.router import Routing, make_router
from justitia.sim.run_progress import RunProgress
from justitia.sim.scenario import EnginePlan, RunPlan, Scenario
from justitia.sim.step_models import step_time_of

if TYPE_CHECKING:
    from justitia.core.fairness import FairRatio

#: Up to so many engines all of them report whenever a run comes.
_FEW_ENGINES: Final = 4
#: Beyond, an engine reports at most this often for each engine of the pool, and once a second at
#: least while runs come: reports would take most of the time of a play.
_PERIOD_PER_ENGINE_S: Final = 0.0125
_LONGEST_PERIOD_S: Final = 1.0
_INCARNATION: Final = "1"

MakeEngine = Callable[[str, EnginePlan, Policy], Engine]


@dataclass(frozen=True, slots=True, kw_only=True)
class PlaySettings:
    """How a scenario is played.

    ``estimator``: see ``justitia.sim.estimators``. ``report_period_s``: engines that have reported
    within it need not report when a run arrives, so V may be older by that; None: 0 for up to four
    engines, then 12.5 ms for each engine of the pool, 1 s at most; in the product it is 50 ms.
    ``is_stepwise``: plan every step by itself, slow. ``learning``: when what a run's own inferences
    show moves its F (rule K2), and open runs learn from ended ones (rule E2); None: never.
    """

    estimator: str = "exact"
    routing: Routing = Routing.LEAST_KV
    clock: Clock = Clock.DELIVERED
    report_period_s: float | None = None
    is_stepwise: bool = False
    learning: LearningRules | None = None


def fast_engines(settings: PlaySettings) -> MakeEngine:
    """Return what makes fast engines."""

    def make(engine_id: str, plan: EnginePlan, policy: Policy) -> Engine:
        step_time = step_time_of(plan.step_time)
        return FastEngine(engine_id, plan, policy, step_time, is_stepwise=settings.is_stepwise)

    return make


def play(
    scenario: Scenario,
    policy: str | Callable[[], Policy],
    settings: PlaySettings | None = None,
    *,
    make_engine: MakeEngine | None = None,
    learner: Learner | None = None,
    warm_up: Scenario | None = None,
    estimator: Estimator | None = None,
) -> PlayResult:
    """Play a scenario to its end.

    ``learner``: one that has learned from other plays, and goes on to; None: one that
    ``settings.learning`` makes anew, if any. ``warm_up``: what it is to see before. ``estimator``:
    one that nobody here knows how to make, such as a real predictor; it estimates the runs of the
    warm-up too, and learns from them. None: one of the name in ``settings``, anew for each but
    for ``history``, which goes on to know what it has learned.

    Raises:
        InvalidValueError: the policy, the estimator or a step-time model is unknown, or an
            inference can never be served; the message names it.
    """
    settings = settings or PlaySettings()
    check_scenario(scenario)
    if learner is None and settings.learning is not None:
        learner = Learner(settings.learning)
    make_engine = make_engine or fast_engines(settings)
    if warm_up is not None and learner is not None:
        check_scenario(warm_up)
        before = _Loop(warm_up, policy, settings, make_engine, learner, estimator=estimator)
        before.play()
        if settings.estimator == HISTORY:
            estimator = before.estimator
    return _Loop(scenario, policy, settings, make_engine, learner, estimator=estimator).play()


def _period_s(num_engines: int) -> float:
    if num_engines <= _FEW_ENGINES:
        return 0.0
    return min(_LONGEST_PERIOD_S, num_engines * _PERIOD_PER_ENGINE_S)


class _Kind(IntEnum):
    """What happens; of things at one moment the smaller ones come first."""

    STEPS_END = 0
    RUN_ARRIVES = 1
    INFERENCE_ARRIVES = 2


@dataclass(slots=True)
class _Seat:
    """An engine in the loop. ``due_event`` is the last one queued for it; others are void.

    ``turn`` counts how often it has finished steps, ``reported_turn`` is what its last report knew.
    """

    engine: Engine
    place: int
    due_event: int = -1
    turn: int = 0
    reported_turn: int = -1


class _Loop:
    def __init__(
        self,
        scenario: Scenario,
        policy: str | Callable[[], Policy],
        settings: PlaySettings,
        make_engine: MakeEngine,
        learner: Learner | None,
        *,
        estimator: Estimator | None,
    ) -> None:
        make = (
            partial(make_policy, policy, among=EVERY_POLICY) if isinstance(policy, str) else policy
        )
        self._policy_name = make().name
        self._scenario = scenario
        self._pool = Pool(clock=settings.clock)
        self._learner = learner
        self.estimator = estimator or make_estimator(settings.estimator, scenario)
        self._seats = [
            _Seat(make_engine(f"engine-{place}", plan, make()), place)
            for place, plan in enumerate(scenario.engines)
        ]
        for seat in self._seats:
            self._pool.join_engine(
                seat.engine.engine_id,
                _INCARNATION,
                kv_capacity_tokens=seat.engine.kv_capacity_tokens,
            )
        self._router = make_router(settings.routing, [seat.engine for seat in self._seats])
        period_s = settings.report_period_s
        if period_s is None:
            period_s = _period_s(len(self._seats))
        self._report_period_s = period_s
        self._weights = {each.name: parse_weight(each.weight) for each in scenario.applications}
        self._open: dict[str, RunProgress] = {}
        self._ended: dict[str, RunProgress] = {}
        self._ratios: dict[str, FairRatio] = {}
        # (time, kind, engine's place, serial number, what). The place comes before the serial
        # number so that it does not matter when an engine planned what ends now.
        self._events: list[tuple[float, int, int, int, Any]] = []
        self._serial = count()
        self._to_plan: dict[int, _Seat] = {}
        self._settled_at_s = -1.0

    # -- the clock ----------------------------------------------------

    def play(self) -> PlayResult:
        """Let everything happen in its order."""
        events, to_plan = self._events, self._to_plan
        # One at a time: the heap stays as small as what is under way.
        arrivals = iter(self._scenario.runs)
        self._await_run(arrivals)
        now_s = 0.0
        while events:
            now_s, kind, _, serial, what = heapq.heappop(events)
            if kind == _Kind.STEPS_END:
                self._end_steps(what, serial, now_s)
            elif kind == _Kind.RUN_ARRIVES:
                self._await_run(arrivals)
                self._start_run(what, now_s)
            else:
                progress, place = what
                self._submit(progress, place, now_s)
            if to_plan and (not events or events[0][0] > now_s):
                for seat in to_plan.values():
                    seat.engine.plan(now_s)
                    self._watch(seat)
                to_plan.clear()
        return self._result(now_s)

    def _await_run(self, arrivals: Iterator[RunPlan]) -> None:
        run = next(arrivals, None)
        if run is not None:
            self._push(run.arrival_s, _Kind.RUN_ARRIVES, run)

    def _push(self, at_s: float, kind: _Kind, what: object, place: int = 0) -> int:
        serial = next(self._serial)
        heapq.heappush(self._events, (at_s, kind, place, serial, what))
        return serial

    def _watch(self, seat: _Seat) -> None:
        """An engine has planned, or what it planned has changed: wait for its end."""
        due_s = seat.engine.due_s
        if due_s is not None:
            seat.due_event = self._push(due_s, _Kind.STEPS_END, seat, seat.place)
        self._router.changed(seat.place)

    # -- what happens ----------------------------------------------------

    def _end_steps(self, seat: _Seat, serial: int, now_s: float) -> None:
        if serial != seat.due_event:
            return
        seat.turn += 1
        self._to_plan[seat.place] = seat
        for ended in seat.engine.finish_steps(now_s):
            self._end_inference(seat, ended, now_s)
        self._router.changed(seat.place)

    def _start_run(self, plan: RunPlan, now_s: float) -> None:
        if now_s - self._settled_at_s >= self._report_period_s:
            self._settled_at_s = now_s
            for seat in self._seats:
                self._report(seat, now_s)
        estimate = self.estimator.run(plan)
        view = self._pool.start_run(
            plan.id,
            plan.application,
            weight=self._weights.get(plan.application, UNIT_WEIGHT),
            estimate=estimate,
            now_s=now_s,
        )
        tag = RunTag(plan.id, view.finish, view.sequence, estimate.cost_kvtt, plan.application)
        progress = self._open[plan.id] = RunProgress(plan, estimate, tag)
        for place in progress.first():
            self._submit_later(progress, place, now_s)
        if self._learner is not None:  # the fan-out is to be seen
            for place in progress.turn_by_place:
                self._report(self._seats[place], now_s)

    def _submit_later(self, progress: RunProgress, place: int, now_s: float) -> None:
        at_s = now_s + progress.plan.inferences[place].pause_s
        if at_s > now_s:
            self._push(at_s, _Kind.INFERENCE_ARRIVES, (progress, place))
        else:
            self._submit(progress, place, now_s)

    def _submit(self, progress: RunProgress, place: int, now_s: float) -> None:
        plan = progress.plan
        pinned = self._scenario.engine_of_run.get(plan.id)
        seat = self._seats[self._router.choose() if pinned is None else pinned]
        if seat.place not in progress.turn_by_place:
            progress.turn_by_place[seat.place] = -1
            seat.engine.tag(progress.tag, now_s)
        expected_kvtt = self.estimator.inference(plan, place)
        submission = Submission(
            plan.id,
            plan.application,
            place,
            plan.inferences[place],
            expected_kvtt,
            plan.priority,
        )
        before_s = seat.engine.due_s
        seat.engine.submit(submission, now_s)
        after_s = seat.engine.due_s
        if after_s is None:
            self._to_plan[seat.place] = seat
            self._router.changed(seat.place)
        elif after_s != before_s:
            self._watch(seat)
        else:
            self._router.changed(seat.place)

    def _end_inference(self, seat: _Seat, ended: Ended, now_s: float) -> None:
        progress = self._open[ended.run_id]
        progress.turn_by_place[seat.place] = seat.turn
        for place in progress.end_inference(ended):
            self._submit_later(progress, place, now_s)
        if progress.is_over:
            self._end_run(progress, now_s)
        elif self._learner is not None:
            self._report(seat, now_s)

    def _end_run(self, progress: RunProgress, now_s: float) -> None:
        plan = progress.plan
        for place, turn in progress.turn_by_place.items():
            seat = self._seats[place]
            if seat.reported_turn < turn:
                self._report(seat, now_s)
        progress.ended = self._pool.end_run(plan.id, now_s=now_s)
        for place in progress.turn_by_place:
            self._seats[place].engine.end_run(plan.id)
        del self._open[plan.id]
        self._ended[plan.id] = progress
        news = self.estimator.learn(plan, progress.ended.true_cost_kvtt)
        if self._learner is not None:
            self._teach(self._learner, progress.ended, news, now_s)

    def _report(self, seat: _Seat, now_s: float) -> None:
        seat.reported_turn = seat.turn
        report = seat.engine.report(now_s)
        for ratio in self._pool.report(report, now_s=now_s):
            self._ratios[ratio.run_id] = ratio
        if self._learner is not None:
            run_ids = [run.run_id for run in report.runs]
            for view in self._pool.relearn(run_ids, self._learner):
                self._retag(view, now_s)

    def _teach(
        self, learner: Learner, ended: EndedRun, news: Estimate | None, now_s: float
    ) -> None:
        """Let an ended run say how far its like are off, and what open ones cost (K2 and E2)."""
        learner.learn(
            ended.application,
            estimate=ended.estimate,
            true_kvtt=ended.true_cost_kvtt,
            marks=ended.marks,
        )
        if news is not None:
            for run_id in self._pool.runs_of(ended.application):
                view = self._pool.estimate_anew(run_id, ended.application, news)
                if view is not None:
                    self._retag(view, now_s)

    def _retag(self, view: RunView, now_s: float) -> None:
        """The F of a run has moved: tell the engines that know it."""
        progress = self._open[view.run_id]
        progress.tag = progress.tag._replace(finish=view.finish, cost_kvtt=view.cost_kvtt)
        for place in progress.turn_by_place:
            seat = self._seats[place]
            before_s = seat.engine.due_s
            seat.engine.tag(progress.tag, now_s)
            if seat.engine.due_s != before_s:
                self._watch(seat)

    # -- the end ----------------------------------------------------

    def _result(self, now_s: float) -> PlayResult:
        if self._open:
            raise InvariantError(f"{len(self._open)} runs have not ended")
        for seat in self._seats:
            self._report(seat, now_s)
        for ratio in self._pool.advance_to(self._pool.value, now_s=now_s):
            self._ratios[ratio.run_id] = ratio
        return PlayResult(
            policy=self._policy_name,
            runs=tuple(
                self._ended[run.id].result(self._ratios[run.id]) for run in self._scenario.runs
            ),
            engines=tuple(seat.engine.totals for seat in self._seats),
            duration_s=now_s,
            useful_kvtt=self._pool.useful_kvtt,
            wasted_kvtt=self._pool.wasted_kvtt,
            surplus_kvtt=self._pool.surplus_kvtt,
        )
