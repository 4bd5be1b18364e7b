"""How fairly a run was served: reference finish, fair ratio and critical path (rule R1)."""

import heapq
from bisect import bisect_left
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Final

from justitia.core.units import Ticks

_MAX_HISTORY: Final = 65_536


@dataclass(frozen=True, slots=True)
class InferenceTimes:
    """When one finished inference arrived, was first computed, and ended; seconds of one clock.

    ``computed_s`` is how long it was computed, where that is known: less than from start to end if
    it was preempted and queued again. ``useful_kvtt`` is what it cost (rule C4); None where that is
    not known, or says nothing of the others since it was aborted (rule K2).
    """

    arrived_at_s: float
    started_at_s: float
    finished_at_s: float
    computed_s: float | None = None
    useful_kvtt: int | None = None

    @property
    def computing_s(self) -> float:
        """Seconds of computing, never more than from its start to its end."""
        spell_s = max(0.0, self.finished_at_s - self.started_at_s)
        return spell_s if self.computed_s is None else min(self.computed_s, spell_s)


def critical_path_s(inferences: Iterable[InferenceTimes], *, arrived_at_s: float) -> float:
    """Length of a run's own longest chain of inferences, in seconds of computing (rule R1).

    An inference depends on those that had finished when it arrived; of two that overlap neither
    waits for the other. Computing counts, queueing does not, be it before the first admission or
    after a preemption. A time at which nothing of the run was in flight (tools, thinking), between
    its arrival at ``arrived_at_s`` and its first inference too, is part of every chain that comes
    after it. O(n log n).
    """
    ordered = sorted(inferences, key=lambda i: i.arrived_at_s)
    # (finish, longest chain that ends with it), by finish.
    open_chains: list[tuple[float, float]] = []
    longest = done = 0.0
    last_finish = arrived_at_s
    for inference in ordered:
        while open_chains and open_chains[0][0] <= inference.arrived_at_s:
            last_finish, chain = heapq.heappop(open_chains)
            done = max(done, chain)
        if not open_chains:
            done += max(0.0, inference.arrived_at_s - last_finish)
        chain = done + inference.computing_s
        heapq.heappush(open_chains, (inference.finished_at_s, chain))
        longest = max(longest, chain)
    return longest


@dataclass(frozen=True, slots=True)
class FairRatio:
    """What became of a run against the reference: rho = JCT / reference JCT (rule R1)."""

    run_id: str
    application: str
    jct_s: float
    reference_jct_s: float

    @property
    def ratio(self) -> float:
        """Rho; 1 where the reference took no time at all and the run neither."""
        if self.reference_jct_s <= 0:
            return 1.0
        return self.jct_s / self.reference_jct_s


@dataclass(frozen=True, slots=True)
class _Ended:
    run_id: str
    application: str
    arrived_at_s: float
    finished_at_s: float
    critical_path_s: float

    def ratio(self, fluid_finish_s: float) -> FairRatio:
        reference = max(fluid_finish_s - self.arrived_at_s, self.critical_path_s)
        return FairRatio(
            self.run_id, self.application, self.finished_at_s - self.arrived_at_s, reference
        )


class FairnessTracker:
    """Finds the time at which V reaches a run's S + C_true / w, past or still to come.

    ``note`` is told every (time, V) in order; between two points V is taken as linear. A run
    that really ended before the fluid system would have ended it waits here until V gets there, or
    until the fluid system is empty (then everybody would be done).
    """

    def __init__(self) -> None:
        self._times_s: list[float] = []
        self._values: list[Ticks] = []
        self._pending: list[tuple[Ticks, int, _Ended]] = []
        self._sequence = 0

    def note(self, now_s: float, value: Ticks) -> None:
        """Take note of V at ``now_s``; a time before the last one counts as the last one."""
        if self._times_s:
            now_s = max(now_s, self._times_s[-1])
        if self._values[-2:] == [value, value]:
            self._times_s[-1] = now_s  # V stands still: keep the first and the last time of it
        else:
            self._append(now_s, value)

    def observe(self, now_s: float, value: Ticks, *, is_fluid_empty: bool) -> list[FairRatio]:
        """Take note of V at ``now_s``; returns the ratios that are settled by now."""
        self.note(now_s, value)
        settled = []
        while self._pending and (is_fluid_empty or self._pending[0][0] <= value):
            target, _, ended = heapq.heappop(self._pending)
            at_s = self._time_of(target) if target <= value else self._times_s[-1]
            settled.append(ended.ratio(at_s))
        return settled

    def end(
        self,
        run_id: str,
        application: str,
        *,
        true_finish: Ticks,
        arrived_at_s: float,
        finished_at_s: float,
        critical_path_s: float,
    ) -> None:
        """Hand over a run that has ended; a later ``observe`` settles it."""
        ended = _Ended(run_id, application, arrived_at_s, finished_at_s, critical_path_s)
        self._sequence += 1
        heapq.heappush(self._pending, (true_finish, self._sequence, ended))

    def _append(self, now_s: float, value: Ticks) -> None:
        self._times_s.append(now_s)
        self._values.append(value)
        if len(self._values) > _MAX_HISTORY:  # thin the older half: every other point goes
            half = _MAX_HISTORY // 2
            self._times_s[:half] = self._times_s[:half:2]
            self._values[:half] = self._values[:half:2]

    def _time_of(self, target: Ticks) -> float:
        after = bisect_left(self._values, target)
        if after == 0:
            return self._times_s[0]
        v0, v1 = self._values[after - 1], self._values[after]
        t0, t1 = self._times_s[after - 1], self._times_s[after]
        return t0 + (t1 - t0) * ((target - v0) / (v1 - v0))
