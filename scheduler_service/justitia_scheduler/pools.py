"""One pool as the service runs it: the core's pool, the estimates and the applications.

All methods are synchronous and are called from the one event loop: that is what serialises changes.
No method reads a clock but the injected ones. How runs end: ``pool_endings``; the engines' side:
``pool_engines``; what is journalled: ``pool_records``.
"""

from dataclasses import dataclass
from typing import Final, Protocol

import structlog

from justitia.core.errors import RunExistsError
from justitia.core.pool import Clock, Pool
from justitia.core.privacy import Privacy, strictest
from justitia.core.runs import RunState, RunView
from justitia.core.units import ticks_to_kvtt, weight_to_float
from justitia_scheduler.applications import Application, Track
from justitia_scheduler.backlog import Backlog
from justitia_scheduler.clocks import Clocks
from justitia_scheduler.limits import MAX_APPLICATIONS
from justitia_scheduler.metrics import Metrics
from justitia_scheduler.model_watch import ModelWatch
from justitia_scheduler.outcomes import CallError, Outcome
from justitia_scheduler.pool_changes import PoolChanges
from justitia_scheduler.pool_endings import PoolEndings
from justitia_scheduler.pool_estimates import PoolEstimates, Predicted
from justitia_scheduler.pool_learning import PoolLearning
from justitia_scheduler.pool_objectives import PoolObjectives
from justitia_scheduler.prompt_use import privacy_of
from justitia_scheduler.run_facts import (
    EndedRuns,
    RunFacts,
    RunOrder,
)

#: Prompts of open runs that are held for samples, all together.
MAX_HELD_PROMPT_BYTES: Final = 64 << 20

_log = structlog.get_logger()


class Listener(Protocol):
    """Who wants to hear of changes; calls must return at once."""

    def run_changed(self, run_id: str, *, has_new_tag: bool) -> None:
        """An open run is new or changed; ``has_new_tag`` if engines must hear of it."""

    def run_ended(self, run_id: str) -> None:
        """A run is over."""

    def settings_changed(self) -> None:
        """Weights or the mode changed."""


@dataclass(frozen=True, kw_only=True, slots=True)
class PoolOptions:
    """Settings that every pool shares; see ``settings``."""

    default_application: str = "default"
    default_cost_kvtt: int = 1_000_000
    max_open_runs: int = 100_000
    clock: Clock = Clock.DELIVERED
    is_learning: bool = True


class PoolService:
    """Open and ended runs, applications, estimates and accounts of one pool."""

    def __init__(self, name: str, options: PoolOptions, clocks: Clocks, metrics: Metrics) -> None:
        self.name = name
        self.options = options
        self.clocks = clocks
        self.metrics = metrics
        self.core = Pool(clock=options.clock)
        self.estimates = PoolEstimates(name, options.default_cost_kvtt, metrics)
        self.ladder = self.estimates.ladder
        self.is_shadow = False
        self.applications: dict[str, Application] = {}
        self.tracks: dict[str, Track] = {}
        self.facts: dict[str, RunFacts] = {}
        self.ended = EndedRuns()
        self.changes = PoolChanges()
        self.backlog = Backlog()
        self.listeners: set[Listener] = set()
        self.next_sequence = 0
        self._default = Application(name=options.default_application)
        self.held_prompt_bytes = 0
        self.endings = PoolEndings(self)
        self.objectives = PoolObjectives(self)
        self.learning = PoolLearning(self)
        self.models = ModelWatch(self)
        metrics.begin_pool(name)

    # -- applications ------------------------------------------------------------------------------

    def application(self, name: str) -> Application:
        """Look up an application; an undeclared one is served as the default application."""
        declared = self.applications.get(name)
        if declared is not None:
            return declared
        return self.applications.get(self._default.name, self._default)

    def apply_application(self, application: Application) -> None:
        """Declare an application or replace what was declared (rule V5 where the weight moves)."""
        if application.name not in self.applications and len(self.applications) >= MAX_APPLICATIONS:
            raise CallError(
                Outcome.EXHAUSTED,
                f"application.name: a pool has at most {MAX_APPLICATIONS} of them",
            )
        self.applications[application.name] = application
        self.changes.application(application.name)
        self._reweigh(application.name)

    def delete_application(self, name: str) -> None:
        """Remove an application with its history and metrics; its open runs go on."""
        if self.applications.pop(name, None) is None:
            return
        self.ladder.forget(name)
        self.learning.forget(name)
        track = self.tracks.pop(name, None)
        if track is not None and track.num_open:
            self.tracks[name] = Track(num_by_state=track.num_by_state)
        self.changes.application(name, is_gone=True)
        self._reweigh(name)
        self.objectives.forget(name)
        self.metrics.forget_application(self.name, name)

    def _reweigh(self, name: str) -> None:
        """Rule V5; that all runs of it have their new tags in the journal, nobody waits for."""
        weight = self.application(name).weight
        changed = [view.run_id for view in self.core.reweigh(name, weight)]
        self.backlog.add(self.note_moved, changed)
        for listener in self.listeners:
            listener.settings_changed()

    def note_moved(self, run_id: str) -> None:
        """The F of an open run has moved and nobody waits for it: to be journalled and told."""
        if run_id in self.core:
            self.changes.progress(run_id)
            self._tell(run_id, has_new_tag=True)

    def carry_weights_through(self) -> None:
        """After a restart: finish an edit of a weight that had reached only some of the runs."""
        views = self.core.runs()
        behind = {
            view.application
            for view in views
            if view.weight != self.application(view.application).weight
        }
        for name in behind:
            self._reweigh(name)

    def set_mode(self, *, is_shadow: bool) -> None:
        """Put the order in force, or only measure."""
        self.is_shadow = is_shadow
        self.changes.is_pool_dirty = True
        for listener in self.listeners:
            listener.settings_changed()

    def weights(self) -> dict[str, float]:
        """Weights of the declared applications and of the default one."""
        shown = {self._default.name: self._default, **self.applications}
        return {name: weight_to_float(application.weight) for name, application in shown.items()}

    # -- opening -----------------------------------------------------------------------------------

    def wants_prediction(self, order: RunOrder) -> bool:
        """Whether a model may look at the prompt, and could say something new."""
        if order.client_kvtt is not None:
            return False
        if not self.usable_prompt(order):
            return False
        is_open = order.run_id in self.core
        return not is_open or self.core.run(order.run_id).estimate.source.is_provisional

    def usable_prompt(self, order: RunOrder) -> str:
        """What of an order's prompt may be looked at: as far as all its applications allow."""
        return order.prompt_for(self._privacy(order))

    def _privacy(self, order: RunOrder) -> Privacy:
        facts = self.facts.get(order.run_id)
        if facts is not None:
            return privacy_of(facts, self.application, named=order.application)
        requested = self.application(order.application)
        served = self.application(self._default.name) if self._is_full(requested) else requested
        return strictest(requested.privacy, served.privacy)

    def start_run(
        self, order: RunOrder, prediction: Predicted | None = None, *, age_s: float = 0.0
    ) -> RunView:
        """Open a run, or answer a repeat (rules V2, E1, E2).

        ``age_s``: how long ago the engine that tells of it met it.

        Raises:
            CallError: an undeclared application in a client's call, or no room.
            RunExistsError: the id is open with another application or another declared cost.
        """
        if order.run_id in self.core:
            return self._repeat(order, prediction)
        served = self._served(order)
        if len(self.core) >= self.options.max_open_runs:
            self.metrics.count(self.metrics.refused_runs, self.name)
            raise CallError(
                Outcome.EXHAUSTED,
                f"run_id: the pool has {len(self.core)} open runs, its largest number",
            )
        now_s = self.clocks.monotonic_s()
        estimate = self.estimates.estimate(served, order, prediction)
        view = self.core.start_run(
            order.run_id,
            served.name,
            weight=served.weight,
            estimate=estimate,
            now_s=now_s,
            prompt_length=order.prompt_length,
            age_s=age_s,
        )
        self.next_sequence = view.sequence + 1
        self.open_facts(view, RunFacts(order.application, self.clocks.wall_s() - age_s, now_s))
        self.facts[order.run_id].ends_when_idle = order.ends_when_idle
        self._note_order(order)
        self.metrics.count(self.metrics.started, self.name, served.name)
        self.metrics.count(self.metrics.estimates, self.name, served.name, estimate.source)
        return view

    def open_facts(self, view: RunView, facts: RunFacts) -> None:
        """Begin to keep what the core does not: new, adopted and restored runs alike."""
        self.facts[view.run_id] = facts
        facts.served = view.application
        self.ended.drop(view.run_id)
        track = self.tracks.setdefault(view.application, Track())
        track.num_by_state[facts.state] += 1
        track.last_estimate = view.estimate
        self.endings.schedule_check(view, facts.idle_from_s)
        self._changed(view.run_id, has_new_tag=True)

    def _served(self, order: RunOrder) -> Application:
        """Decide which application a run is served in."""
        name = order.application or self._default.name
        served = self.application(name)
        if served.name != name:
            if not order.is_from_engine:
                raise CallError(
                    Outcome.NOT_FOUND,
                    f"application: {name!r} is not declared in pool {self.name!r};"
                    " declare it with `justitia apply`",
                )
            self.metrics.count(self.metrics.unknown_applications, self.name)
        if self._is_full(served):
            self.metrics.count(self.metrics.over_limit, self.name)
            return self.application(self._default.name)
        return served

    def _is_full(self, application: Application) -> bool:
        limit = application.max_concurrent_runs
        return bool(limit) and self.track(application.name).num_open >= limit

    def _repeat(self, order: RunOrder, prediction: Predicted | None) -> RunView:
        facts = self.facts[order.run_id]
        named = {name for name in (order.application, facts.requested) if name}
        if len(named) > 1 and not order.is_from_engine:
            raise RunExistsError(
                f"application: run {order.run_id!r} is open with {facts.requested!r},"
                f" not {order.application!r}"
            )
        declared, cost_kvtt = facts.client_kvtt, order.client_kvtt
        if cost_kvtt is not None and declared is not None and cost_kvtt != declared:
            raise RunExistsError(
                f"cost_kvtt: run {order.run_id!r} is open with {declared!r}, not {cost_kvtt!r}"
            )
        view = self.core.run(order.run_id)
        self._note_order(order)
        if cost_kvtt is None and (prediction is None or not view.estimate.source.is_provisional):
            return view
        estimate = self.estimates.estimate(self.application(view.application), order, prediction)
        if estimate == view.estimate:
            return view
        self.metrics.count(self.metrics.estimates, self.name, view.application, estimate.source)
        view = self.core.re_estimate(view.run_id, estimate)
        self._changed(view.run_id, has_new_tag=True)
        return view

    def _note_order(self, order: RunOrder) -> None:
        """Keep what a client added: its declared cost, and the prompt where that is allowed."""
        facts = self.facts[order.run_id]
        facts.privacy = self._privacy(order)
        facts.client_kvtt = (
            order.client_kvtt if order.client_kvtt is not None else facts.client_kvtt
        )
        prompt = order.prompt_for(facts.privacy)
        if facts.prompt_text or not prompt:
            return
        size = len(prompt.encode())
        if self.held_prompt_bytes + size > MAX_HELD_PROMPT_BYTES:
            self.metrics.count(self.metrics.samples_dropped, self.name)
            return
        self.held_prompt_bytes += size
        facts.prompt_text, facts.prompt_bytes = prompt, size
        facts.prompt_privacy = facts.privacy

    # -- views -------------------------------------------------------------------------------------

    def label(self, application: str) -> str | None:
        """Label of an application in metrics; None for one that is no longer declared."""
        if application in self.applications or application == self._default.name:
            return application
        return None

    def show_gauges(self) -> None:
        """Set the gauges of the pool; called about once a second. O(applications)."""
        metrics, core = self.metrics, self.core
        metrics.show(metrics.virtual_time, self.name, value=ticks_to_kvtt(core.value))
        metrics.show(metrics.fluid_weight, self.name, value=core.total_weight / 1e9)
        metrics.show(metrics.surplus, self.name, value=core.surplus_kvtt)
        for name, track in self.tracks.items():
            label = self.label(name)
            for state in RunState if label is not None else ():
                count = track.num_by_state[state]
                metrics.show(metrics.open, self.name, str(label), state, value=count)
        self.objectives.show()

    def track(self, name: str) -> Track:
        """What became of an application's runs; empty where there was none."""
        return self.tracks.get(name, Track())

    @property
    def num_waiting_runs(self) -> int:
        """Runs of which something waits and nothing is computed."""
        return sum(track.num_by_state[RunState.WAITING] for track in self.tracks.values())

    def note_state(self, run_id: str, state: RunState) -> None:
        """Count a run under its present state."""
        facts = self.facts[run_id]
        self.estimates.check(facts, self.core.run(run_id), self.label(facts.served))
        track = self.tracks.get(facts.served)
        if facts.state is not state and track is not None:
            track.num_by_state[facts.state] -= 1
            track.num_by_state[state] += 1
        facts.state = state
        self._changed(run_id, has_new_tag=False)

    def _changed(self, run_id: str, *, has_new_tag: bool) -> None:
        if has_new_tag:
            self.changes.decide(run_id)
        else:
            self.changes.progress(run_id)
        self._tell(run_id, has_new_tag=has_new_tag)

    def _tell(self, run_id: str, *, has_new_tag: bool) -> None:
        for listener in self.listeners:
            listener.run_changed(run_id, has_new_tag=has_new_tag)
