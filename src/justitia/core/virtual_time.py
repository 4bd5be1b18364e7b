"""The fluid reference: virtual time V and the runs that are active in it (rules V1 to V5).

The fluid system serves every active run at once, each in proportion to its weight, and does exactly
as much work as the real engines deliver: dV = work / W, W the sum of active weights. Where V passes
a run's virtual finish F that run leaves and W shrinks, also in the middle of a report. All
arithmetic is on integers (``units``), and what is left over below one tick is carried on, so V is
the same however the same work is cut into reports.

The other clock of rule V1 (``capacity``: M tokens per step) feeds ``deliver`` with M x steps
instead of what was delivered; nothing else changes.
"""

import heapq
from collections.abc import Iterator
from dataclasses import dataclass
from typing import NamedTuple

from justitia.core.errors import InvariantError
from justitia.core.units import FINE_PER_KVTT, NanoWeight, Ticks, service_ticks


@dataclass(slots=True)
class _Flow:
    finish: Ticks
    weight: NanoWeight


class Flow(NamedTuple):
    """One run in the fluid system; ascending order is the order of departure (rule V3)."""

    finish: Ticks
    sequence: int
    weight: NanoWeight


@dataclass(frozen=True, slots=True)
class FluidState:
    """Everything that a ``FluidClock`` is made of, to be stored and restored."""

    value: Ticks
    carry_fine: int
    surplus_fine: int
    flows: tuple[tuple[int, Ticks, NanoWeight], ...]


class FluidClock:
    """Virtual time of one pool. Flows are named by small integers (the arrival sequence of a run).

    Every method settles nothing itself: the caller delivers the work done so far before it changes
    the set of flows (rule V4). ``deliver`` and ``advance_to`` are O(k log n) for k departures, the
    other methods O(log n).
    """

    def __init__(self, state: FluidState | None = None) -> None:
        self._value = Ticks(0) if state is None else state.value
        self._carry_fine = 0 if state is None else state.carry_fine
        self._surplus_fine = 0 if state is None else state.surplus_fine
        self._flows: dict[int, _Flow] = {}
        self._heap: list[tuple[Ticks, int]] = []
        self._total_weight = 0
        for flow, finish, weight in () if state is None else state.flows:
            self._enter(flow, finish, weight)

    @property
    def value(self) -> Ticks:
        """V in ticks; never decreases."""
        return self._value

    @property
    def total_weight(self) -> int:
        """W in nano-weights; 0 when no run is active in the fluid system."""
        return self._total_weight

    @property
    def surplus_kvtt(self) -> float:
        """Work for which V stood still: no run was active (estimates were too low).

        Also what a departure between two deliveries leaves over below one tick.
        """
        return self._surplus_fine / FINE_PER_KVTT

    def __len__(self) -> int:
        return len(self._flows)

    def __contains__(self, flow: int) -> bool:
        return flow in self._flows

    def state(self) -> FluidState:
        """Freeze the clock."""
        flows = tuple((n, f.finish, f.weight) for n, f in sorted(self._flows.items()))
        return FluidState(self._value, self._carry_fine, self._surplus_fine, flows)

    def deliver(self, work_kvtt: int) -> None:
        """Let the fluid system do ``work_kvtt`` (>= 0) of work (rules V1 and V3)."""
        if work_kvtt < 0:
            raise InvariantError(f"negative work {work_kvtt} delivered")
        fine = work_kvtt * FINE_PER_KVTT + self._carry_fine
        self._carry_fine = 0
        while (head := self._head()) is not None:
            needed = (head - self._value) * self._total_weight
            if fine < needed:
                ticks, self._carry_fine = divmod(fine, self._total_weight)
                self._value = Ticks(self._value + ticks)
                return
            fine -= needed
            self._value = head
            self._depart()
        self._surplus_fine += fine

    def advance_to(self, value: Ticks) -> None:
        """Move V forward to ``value`` if it is behind: another witness saw a later V (recovery)."""
        if value > self._value:
            self._value = value
            self._depart()

    def rest(self) -> None:
        """Let everybody leave at once, V at the last of their F: nobody wants anything any more."""
        for flow in self._flows.values():
            self._value = max(self._value, flow.finish)
        self._depart()

    def arrive(self, flow: int, cost_kvtt: int, weight: NanoWeight) -> tuple[Ticks, Ticks]:
        """Let a run arrive now: S = V, F = S + C/w (rule V2). Returns (S, F)."""
        start = self._value
        finish = Ticks(start + service_ticks(cost_kvtt, weight))
        self._enter(flow, finish, weight)
        return start, finish

    def move(self, flow: int, finish: Ticks, weight: NanoWeight) -> Ticks:
        """Give a run another F; it leaves at once if V is there already. Returns max(F, V)."""
        self._drop(flow)
        if finish > self._value:
            self._enter(flow, finish, weight)
        self._spill()
        return max(finish, self._value)

    def reweigh(self, flow: int, weight: NanoWeight) -> Ticks | None:
        """Change a weight (rule V5): the run still has to get the same, so F = V + rest / w'.

        The division rounds up, so changing back and forth can only cost the run ticks, never gain
        any. Returns the new F, or None if the run has left the fluid system already.
        """
        current = self._flows.get(flow)
        if current is None:
            return None
        rest_fine = (current.finish - self._value) * current.weight
        return self.move(flow, Ticks(self._value - (-rest_fine // weight)), weight)

    def leave(self, flow: int) -> None:
        """Take a run out, if it is in."""
        self._drop(flow)
        self._spill()

    def _drop(self, flow: int) -> None:
        current = self._flows.pop(flow, None)
        if current is not None:
            self._total_weight -= current.weight

    def _spill(self) -> None:
        """Keep the carry below one tick where W shrank: V would jump at the next delivery."""
        if self._carry_fine >= self._total_weight:
            self._surplus_fine += self._carry_fine
            self._carry_fine = 0

    def _enter(self, flow: int, finish: Ticks, weight: NanoWeight) -> None:
        self._flows[flow] = _Flow(finish, weight)
        self._total_weight += weight
        heapq.heappush(self._heap, (finish, flow))
        if len(self._heap) > 2 * len(self._flows) + 64:
            self._heap = [(f.finish, n) for n, f in self._flows.items()]
            heapq.heapify(self._heap)

    def _live(self) -> Iterator[tuple[Ticks, int]]:
        """Yield the head of the heap, dropping entries that moves and departures left behind."""
        while self._heap:
            finish, flow = self._heap[0]
            current = self._flows.get(flow)
            if current is not None and current.finish == finish:
                yield finish, flow
            else:
                heapq.heappop(self._heap)

    def _head(self) -> Ticks | None:
        return next((finish for finish, _ in self._live()), None)

    def _depart(self) -> None:
        for finish, flow in self._live():
            if finish > self._value:
                return
            heapq.heappop(self._heap)
            self.leave(flow)
