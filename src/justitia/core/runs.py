"""A run as the core keeps it, and the frozen views of it that go out."""

from dataclasses import dataclass, field, fields
from enum import StrEnum
from operator import attrgetter

from justitia.core.estimates import Estimate
from justitia.core.fairness import InferenceTimes
from justitia.core.learning import Mark, Trail
from justitia.core.units import NanoWeight, Ticks
from justitia.core.virtual_time import Flow


class RunState(StrEnum):
    """Where a run is; decided by what the engines list, not by paired increments."""

    IDLE = "idle"  # nothing in flight: new, or computing between its own inferences
    WAITING = "waiting"  # something waits, nothing is computed
    RUNNING = "running"  # something is computed


@dataclass(frozen=True, slots=True)
class RunRecord:
    """An open run without what is in flight: all that must survive a restart.

    S, F in ticks, ``sequence`` its place in order of arrival in the pool; ``arrived_at_s`` is on
    the clock of the process that wrote it. ``learned_kvtt`` is what the run is taken to
    cost by what it has shown (rule K2), 0 while ``estimate`` stands.
    """

    run_id: str
    application: str
    sequence: int
    weight: NanoWeight
    start: Ticks
    finish: Ticks
    estimate: Estimate
    arrived_at_s: float
    prompt_length: int | None = None
    useful_kvtt: int = 0
    wasted_kvtt: int = 0
    learned_kvtt: int = 0

    @property
    def cost_kvtt(self) -> int:
        """What the run is taken to cost: what it has shown, or the estimate."""
        return self.learned_kvtt or self.estimate.cost_kvtt

    @staticmethod
    def of(run: "Run") -> "RunRecord":
        """Freeze a run."""
        return RunRecord(*_record_of(run))

    def to_run(self, now_s: float) -> "Run":
        """Bring the run to life; what is in flight comes from the engines' own lists."""
        run = Run(*_record_of(self))
        run.arrived_at_s = min(self.arrived_at_s, now_s)
        run.last_seen_s = now_s
        run.trail = None
        return run


_record_of = attrgetter(*(field.name for field in fields(RunRecord)))


@dataclass(slots=True)
class Run:
    """One open run: the fields of its record, in the same order, and what is in flight."""

    run_id: str
    application: str
    sequence: int
    weight: NanoWeight
    start: Ticks
    finish: Ticks
    estimate: Estimate
    arrived_at_s: float
    prompt_length: int | None = None
    useful_kvtt: int = 0
    wasted_kvtt: int = 0
    learned_kvtt: int = 0
    last_seen_s: float = 0.0
    waiting_by_engine: dict[str, int] = field(default_factory=dict)
    running_by_engine: dict[str, int] = field(default_factory=dict)
    times: list[InferenceTimes] = field(default_factory=list)
    #: None where its beginning was not seen: it neither teaches nor is judged by others.
    trail: Trail | None = field(default_factory=Trail)

    @property
    def cost_kvtt(self) -> int:
        """What the run is taken to cost: what it has shown, or the estimate."""
        return self.learned_kvtt or self.estimate.cost_kvtt

    @property
    def order_key(self) -> tuple[Ticks, int]:
        """Place in the order of service: ascending (F, arrival) (rule O1)."""
        return self.finish, self.sequence

    @property
    def num_waiting(self) -> int:
        """Inferences that wait in some engine."""
        return sum(self.waiting_by_engine.values())

    @property
    def num_running(self) -> int:
        """Inferences that some engine computes."""
        return sum(self.running_by_engine.values())

    @property
    def state(self) -> RunState:
        """Idle, waiting or running."""
        if self.num_running:
            return RunState.RUNNING
        return RunState.WAITING if self.num_waiting else RunState.IDLE


@dataclass(frozen=True, slots=True, kw_only=True)
class RunView(RunRecord):
    """What others may know of an open run: its record and its state."""

    last_seen_s: float
    state: RunState
    num_waiting: int
    num_running: int
    num_finished: int
    is_in_fluid: bool

    @classmethod
    def look(cls, run: Run, *, is_in_fluid: bool) -> "RunView":
        """Look at a run."""
        return cls(
            *_record_of(run),
            last_seen_s=run.last_seen_s,
            state=run.state,
            num_waiting=run.num_waiting,
            num_running=run.num_running,
            num_finished=len(run.times),
            is_in_fluid=is_in_fluid,
        )


@dataclass(frozen=True, slots=True)
class EndedRun:
    """Facts of a run at its end (rule K1): ``true_cost_kvtt`` is useful service, at least 1.

    ``flow`` is what the fluid system goes on with until V gets to the true finish; None if it has
    done with the run.
    """

    run_id: str
    application: str
    estimate: Estimate
    true_cost_kvtt: int
    wasted_kvtt: int
    arrived_at_s: float
    finished_at_s: float
    prompt_length: int | None
    num_inferences: int
    flow: Flow | None = None
    #: What it had shown on its way; empty where it can't teach (rule K2).
    marks: tuple[Mark, ...] = ()
    #: What it was last taken to cost.
    learned_kvtt: int = 0

    @property
    def jct_s(self) -> float:
        """Job completion time in seconds."""
        return self.finished_at_s - self.arrived_at_s

    @property
    def relative_error(self) -> float:
        """|estimate - true| / true."""
        return abs(self.estimate.cost_kvtt - self.true_cost_kvtt) / self.true_cost_kvtt

    @property
    def learned_relative_error(self) -> float:
        """The same of what the run was last taken to cost (rule K2)."""
        cost_kvtt = self.learned_kvtt or self.estimate.cost_kvtt
        return abs(cost_kvtt - self.true_cost_kvtt) / self.true_cost_kvtt


@dataclass(frozen=True, slots=True)
class Explanation:
    """Why a run stands where it stands."""

    view: RunView
    value: Ticks
    num_open: int
    num_ahead: int
    ahead: tuple[RunView, ...]
    rest_in_fluid_kvtt: float
    reason: str


def reason_to_wait(run: Run, num_ahead: int, *, has_engine: bool) -> str:
    """Say in words what a run waits for, if it does, and what it is taken to cost by now."""
    reason = _reason_to_wait(run, num_ahead, has_engine=has_engine)
    if not run.learned_kvtt:
        return reason
    return f"{reason}; by what it has shown it is taken to cost {run.learned_kvtt:,} kvtt"


def _reason_to_wait(run: Run, num_ahead: int, *, has_engine: bool) -> str:
    if not has_engine:
        return "no engine of this pool is connected"
    if run.state is RunState.IDLE:
        return (
            "nothing of this run is in flight: it computes between its own inferences, or is over"
        )
    if run.state is RunState.RUNNING:
        waits = f", {run.num_waiting} wait for KV cache" if run.num_waiting else ""
        return f"{run.num_running} of its inferences are computed{waits}"
    if num_ahead:
        return f"{num_ahead} runs have a smaller virtual finish and are served first"
    return "it is next: it waits for running inferences to free KV cache"
