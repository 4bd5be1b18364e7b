"""How runs of a pool end: EndRun, idle and overlong runs; what an end teaches; fair ratios.

The other half of ``pools``; same rules: synchronous but for one wait, one event loop, injected
clocks.
"""

import asyncio
import heapq
from collections.abc import Iterable
from typing import TYPE_CHECKING, Final

import structlog

from justitia.core.errors import UnknownRunError
from justitia.core.fairness import FairRatio
from justitia.core.runs import EndedRun, RunState, RunView
from justitia_scheduler.bounds import DelayBound
from justitia_scheduler.prompt_use import privacy_of
from justitia_scheduler.run_facts import EndedFacts, Ending, EndReason, RunFacts
from justitia_scheduler.store import SampleRow

if TYPE_CHECKING:
    from justitia_scheduler.pools import PoolService

#: A pause of the process this long (suspend, stall) expires nobody: engines speak first.
_STALL_S: Final = 5.0
#: Checks of runs that are over stay until they outnumber those of open runs, and these.
_SPARE_CHECKS: Final = 64

_log = structlog.get_logger()


class PoolEndings:
    """Endings of one pool."""

    def __init__(self, pool: "PoolService") -> None:
        self._pool = pool
        self.bound = DelayBound(pool.clocks.monotonic_s)
        self._ending: set[str] = set()
        self._checks: list[tuple[float, int, str]] = []
        self._last_tick_s = pool.clocks.monotonic_s()
        self._no_expiry_before_s = 0.0

    # -- ending ------------------------------------------------------------------------------------

    async def end_run(self, run_id: str) -> EndedFacts:
        """Close a run once the engines' last word is in; see ``run_facts.Ending``.

        Raises:
            UnknownRunError: neither open nor among the ended runs that are remembered.
        """
        facts = self._pool.facts.get(run_id)
        if facts is None:
            known = self._pool.ended.get(run_id)
            if known is None:
                raise UnknownRunError(run_id)
            return known
        if facts.ending is None:
            engines = {account.engine_id for account in self._pool.core.engines()}
            done = asyncio.get_running_loop().create_future()
            facts.ending = Ending(self._pool.clocks.monotonic_s(), engines, done)
            self._ending.add(run_id)
        done = facts.ending.done
        self.finish_due()
        return await asyncio.shield(done)

    def heard_from(self, engine_id: str) -> None:
        """An engine has reported, or left: no run that ends waits for it any longer."""
        for run_id in self._ending:
            ending = self._pool.facts[run_id].ending
            if ending is not None:
                ending.engines.discard(engine_id)
        self.finish_due()

    def finish_due(self, *, is_forced: bool = False) -> None:
        """Close the runs whose EndRun has waited long enough, or all of them."""
        now_s = self._pool.clocks.monotonic_s()
        for run_id in list(self._ending):
            ending = self._pool.facts[run_id].ending
            if ending is not None and (
                is_forced or ending.is_due(self._pool.core.run(run_id).state, now_s)
            ):
                self._answer(run_id, ending, now_s)

    def _answer(self, run_id: str, ending: Ending, now_s: float) -> None:
        """Close a run; a fault in it is its caller's to hear, and nobody else's."""
        try:
            self._finish(run_id, EndReason.END_RUN, now_s)
        except Exception as error:  # noqa: BLE001  the others go on
            _log.exception("a run could not be ended", pool=self._pool.name, run_id=run_id)
            if ending.done.done():
                return
            ending.done.set_exception(error)

    def finish_single(self, run_id: str) -> None:
        """Close a run that was made for one inference, once that is over."""
        facts = self._pool.facts.get(run_id)
        if facts is None:
            return
        is_over = facts.ends_when_idle and facts.last_end_s is not None
        if is_over and facts.state is RunState.IDLE:
            self._finish(run_id, EndReason.SINGLE, self._pool.clocks.monotonic_s())

    def _finish(self, run_id: str, reason: EndReason, now_s: float) -> None:
        self._ending.discard(run_id)
        view, facts = self._pool.core.run(run_id), self._pool.facts[run_id]
        is_idle = view.state is RunState.IDLE
        finished_s = _last_end_s(view, facts) if is_idle else None
        finished_s = now_s if finished_s is None else finished_s
        ended = self._pool.core.end_run(run_id, now_s=finished_s)
        del self._pool.facts[run_id]
        self._pool.held_prompt_bytes -= facts.prompt_bytes
        self._pool.changes.end(run_id, ended.flow)
        remembered = EndedFacts.of(view, arrived_wall_s=facts.arrived_wall_s, jct_s=ended.jct_s)
        self._pool.ended.add(remembered)
        if facts.ending is not None and not facts.ending.done.done():
            facts.ending.done.set_result(remembered)
        for listener in self._pool.listeners:
            listener.run_ended(run_id)
        self._account_end(view, ended, reason, facts, is_whole=self._is_whole(view, facts))
        self.settle(self._pool.core.advance_to(self._pool.core.value, now_s=now_s))

    def _is_whole(self, view: RunView, facts: RunFacts) -> bool:
        """Whether nothing of a run was cut off, as far as anybody knows.

        Of one of which nothing has ended since the service restarted: whether the engines that had
        served it are those of then; one that went, is away, or began anew may have lost some of it.
        """
        if view.state is not RunState.IDLE or facts.num_aborted:
            return False
        return view.num_finished > 0 or (
            not facts.has_lost
            and all(
                self._pool.core.has_account(engine_id, incarnation)
                for engine_id, (incarnation, _, _) in facts.counters.items()
            )
        )

    def _account_end(
        self, view: RunView, ended: EndedRun, reason: EndReason, facts: RunFacts, *, is_whole: bool
    ) -> None:
        """Count an end; runs that did nothing, or were cut off, teach nothing (rules K1 and K2)."""
        label = self._pool.label(view.application)
        track = self._pool.tracks.get(view.application)
        if track is not None:
            track.num_by_state[facts.state] -= 1
            if label is None and not track.num_open:
                del self._pool.tracks[view.application]
        if label is not None:
            self._pool.metrics.count(self._pool.metrics.ended, self._pool.name, label, reason)
        if not _has_worked(view, facts):
            return
        if track is not None:
            track.note_end(ended)
        if label is not None:
            self._pool.metrics.observe(
                self._pool.metrics.jct, self._pool.name, label, value=ended.jct_s
            )
        if not is_whole or reason is EndReason.MAX_DURATION:
            return
        if label is not None:
            error = ended.relative_error
            self._pool.metrics.observe(
                self._pool.metrics.prediction_error, self._pool.name, label, value=error
            )
        self._pool.models.note_end(view.application, facts, ended.true_cost_kvtt)
        self.bound.note_run(ended.true_cost_kvtt)
        self._pool.learning.learn(ended)
        if label is not None:
            self._pool.changes.sample(self._sample(ended, facts))

    def _sample(self, ended: EndedRun, facts: RunFacts) -> SampleRow:
        # What is declared now counts too, not only what was when the prompt came.
        kind = facts.prompt_privacy
        is_allowed = privacy_of(facts, self._pool.application) is kind
        # Hashed words are no text, and teach nothing among samples that are.
        is_allowed = is_allowed and self._pool.application(ended.application).privacy is kind
        return SampleRow(
            pool=self._pool.name,
            application=ended.application,
            run_id=ended.run_id,
            prompt_text=facts.prompt_text if is_allowed else "",
            cost_kvtt=ended.true_cost_kvtt,
            num_inferences=ended.num_inferences,
            finished_at_s=facts.arrived_wall_s + ended.jct_s,
        )

    def settle(self, ratios: Iterable[FairRatio]) -> None:
        """Take note of fair ratios that are known now (rules R1 and D1)."""
        allowance_s = self.bound.allowance_s
        for ratio in ratios:
            known = self._pool.ended.get(ratio.run_id)
            # Without the times of its inferences nobody knows how fast it could have been.
            if known is None or not known.num_inferences:
                continue
            known.fairness_ratio = ratio.ratio
            self._pool.changes.settle(ratio.run_id)
            if ratio.application in self._pool.tracks:
                self._pool.tracks[ratio.application].ratios.append(ratio.ratio)
            self._pool.objectives.note(ratio.application, ratio.ratio)
            label = self._pool.label(ratio.application)
            if label is not None:
                metrics = self._pool.metrics
                metrics.observe(metrics.ratio, self._pool.name, label, value=ratio.ratio)
                metrics.observe(
                    metrics.reference, self._pool.name, label, value=ratio.reference_jct_s
                )
            if allowance_s is not None and ratio.jct_s > ratio.reference_jct_s + allowance_s:
                self._pool.metrics.count(self._pool.metrics.bound_violations, self._pool.name)

    # -- time --------------------------------------------------------------------------------------

    def tick(self) -> None:
        """Do what time alone makes due; called some 20 times a second."""
        now_s = self._pool.clocks.monotonic_s()
        if now_s - self._last_tick_s > _STALL_S:
            self._no_expiry_before_s = now_s + _STALL_S
        self._last_tick_s = now_s
        self.finish_due()
        # What an engine has just taken with it, or brought, is to be noted before anything expires.
        may_expire = now_s >= self._no_expiry_before_s and not self._pool.backlog
        while may_expire and self._checks and self._checks[0][0] <= now_s:
            check = heapq.heappop(self._checks)
            if self._is_of_open_run(check):
                self._expire_or_recheck(check[2], now_s)

    def _expire_or_recheck(self, run_id: str, now_s: float) -> None:
        """End a run that was idle or open for too long; one that waits or computes is not idle."""
        view, facts = self._pool.core.run(run_id), self._pool.facts[run_id]
        application = self._pool.application(view.application)
        longest_s = application.max_duration_s
        if longest_s and now_s >= view.arrived_at_s + longest_s:
            self._finish(run_id, EndReason.MAX_DURATION, now_s)
            return
        is_idle = view.state is RunState.IDLE
        idle_from_s = max(view.last_seen_s, facts.idle_from_s) if is_idle else now_s
        if now_s >= idle_from_s + application.idle_timeout_s:
            self._finish(run_id, EndReason.IDLE, now_s)
            return
        self.schedule_check(view, idle_from_s)

    def schedule_check(self, view: RunView, idle_from_s: float) -> None:
        """Look at a run again when it may be idle, or open, for too long."""
        application = self._pool.application(view.application)
        at_s = idle_from_s + application.idle_timeout_s
        if application.max_duration_s:
            at_s = min(at_s, view.arrived_at_s + application.max_duration_s)
        heapq.heappush(self._checks, (at_s, view.sequence, view.run_id))
        if len(self._checks) > 2 * len(self._pool.core) + _SPARE_CHECKS:
            self._checks = [check for check in self._checks if self._is_of_open_run(check)]
            heapq.heapify(self._checks)

    def _is_of_open_run(self, check: tuple[float, int, str]) -> bool:
        _, sequence, run_id = check
        return run_id in self._pool.core and self._pool.core.run(run_id).sequence == sequence


def _has_worked(view: RunView, facts: RunFacts) -> bool:
    """Whether something of a run has ended.

    Of one that was open when the service restarted service speaks; of others it does not: an engine
    that left may have taken with it what it had begun.
    """
    return view.num_finished > 0 or (facts.is_restored and view.useful_kvtt > 0)


def _last_end_s(view: RunView, facts: RunFacts) -> float | None:
    """When the last inference of an idle run ended; None: nothing has.

    Where that was before the service restarted: the restart, or when an engine last had something.
    """
    if facts.last_end_s is None and facts.is_restored and view.useful_kvtt > 0:
        return max(view.last_seen_s, facts.idle_from_s)
    return facts.last_end_s
