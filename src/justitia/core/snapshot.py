"""What must survive a restart, as frozen values; how they are stored is the store's affair."""

from dataclasses import dataclass

from justitia.core.estimates import Estimate
from justitia.core.runs import Run
from justitia.core.units import NanoWeight, Ticks
from justitia.core.virtual_time import FluidState


@dataclass(frozen=True, slots=True)
class RunRecord:
    """An open run. ``arrived_at_s`` is on the clock of the process that wrote it."""

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

    @classmethod
    def of(cls, run: Run) -> "RunRecord":
        """Freeze a run."""
        return cls(
            run.run_id,
            run.application,
            run.sequence,
            run.weight,
            run.start,
            run.finish,
            run.estimate,
            run.arrived_at_s,
            run.prompt_length,
            run.useful_kvtt,
            run.wasted_kvtt,
        )

    def to_run(self, now_s: float) -> Run:
        """Bring the run to life; what is in flight comes from the engines' own lists."""
        return Run(
            self.run_id,
            self.application,
            self.sequence,
            self.weight,
            self.start,
            self.finish,
            self.estimate,
            min(self.arrived_at_s, now_s),
            now_s,
            self.prompt_length,
            self.useful_kvtt,
            self.wasted_kvtt,
        )


@dataclass(frozen=True, slots=True)
class PoolSnapshot:
    """One pool: its clock's name, the next arrival sequence, the fluid system and the open runs."""

    clock: str
    next_sequence: int
    fluid: FluidState
    runs: tuple[RunRecord, ...]
