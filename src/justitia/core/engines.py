"""What engines say they did, made safe to repeat, lose and reorder.

An engine's reports carry counters that only grow during one incarnation (one start of its process)
and a sequence number, so a report that is repeated, late or lost changes nothing in the end.
"""

from collections.abc import Iterable
from dataclasses import dataclass, field

from justitia.core.fairness import InferenceTimes


@dataclass(frozen=True, slots=True)
class RunReport:
    """One run in a report: counters are totals of this incarnation, what is in flight is so now."""

    run_id: str
    useful_kvtt: int
    wasted_kvtt: int = 0
    num_waiting: int = 0
    num_running: int = 0
    finished: tuple[InferenceTimes, ...] = ()


@dataclass(frozen=True, slots=True)
class EngineReport:
    """What one engine did up to ``sequence``. ``steps`` is a total of this incarnation."""

    engine_id: str
    incarnation: str
    sequence: int
    steps: int
    runs: tuple[RunReport, ...] = ()
    #: Runs whose counters the engine has dropped: if one comes back it counts from 0 again.
    closed: tuple[str, ...] = ()
    kv_used_tokens: int = 0


@dataclass(frozen=True, slots=True)
class Delivery:
    """What a report adds to what was known before."""

    useful_kvtt_by_run: dict[str, int]
    wasted_kvtt_by_run: dict[str, int]
    steps: int
    num_refused: int


@dataclass(slots=True)
class EngineAccount:
    """Counters of one engine incarnation as last seen."""

    engine_id: str
    incarnation: str
    kv_capacity_tokens: int
    last_sequence: int = -1
    steps: int = 0
    kv_used_tokens: int = 0
    useful_kvtt_by_run: dict[str, int] = field(default_factory=dict)
    wasted_kvtt_by_run: dict[str, int] = field(default_factory=dict)
    in_flight: set[str] = field(default_factory=set)

    def accept(self, report: EngineReport) -> Delivery | None:
        """Take a report; None if it is another incarnation's, repeated or late.

        A counter that shrank is refused and counted: it can only be a fault.
        """
        if report.incarnation != self.incarnation or report.sequence <= self.last_sequence:
            return None
        self.last_sequence = report.sequence
        self.kv_used_tokens = report.kv_used_tokens
        delivery = self.catch_up(report.runs, report.steps)
        for run_id in report.closed:
            self.useful_kvtt_by_run.pop(run_id, None)
            self.wasted_kvtt_by_run.pop(run_id, None)
        return delivery

    def catch_up(self, runs: Iterable[RunReport], steps: int) -> Delivery:
        """Raise the counters to these totals; what they grew by is what was delivered."""
        delta_steps = max(0, steps - self.steps)
        self.steps += delta_steps
        useful: dict[str, int] = {}
        wasted: dict[str, int] = {}
        refused = 0
        for run in runs:
            refused += _grow(self.useful_kvtt_by_run, run.run_id, run.useful_kvtt, useful)
            refused += _grow(self.wasted_kvtt_by_run, run.run_id, run.wasted_kvtt, wasted)
        return Delivery(useful, wasted, delta_steps, refused)


def _grow(totals: dict[str, int], run_id: str, total: int, deltas: dict[str, int]) -> int:
    """Raise ``totals[run_id]`` to ``total``, note the difference; 1 if it would shrink, else 0."""
    before = totals.get(run_id, 0)
    if total < before:
        return 1
    if total > before:
        totals[run_id] = total
        deltas[run_id] = deltas.get(run_id, 0) + total - before
    return 0
