"""What of a pool changed since the journal last asked: names of things, never their values."""

from dataclasses import dataclass, field
from typing import Final

from justitia.core.units import NanoWeight, Ticks
from justitia_scheduler.store import SampleRow

#: Samples that wait for a disk that refuses; beyond it the newest are not recorded.
MAX_WAITING_SAMPLES: Final = 1000


@dataclass(slots=True)
class PoolChanges:
    """Bounded by the pool's own size, whatever the disk does.

    ``flows``: (F, sequence, weight) of ended runs that the fluid system may still serve (rule V3).
    """

    runs: dict[str, None] = field(default_factory=dict)
    settled_runs: dict[str, None] = field(default_factory=dict)
    applications: dict[str, None] = field(default_factory=dict)
    engines: dict[str, None] = field(default_factory=dict)
    flows: list[tuple[Ticks, int, NanoWeight]] = field(default_factory=list)
    samples: list[SampleRow] = field(default_factory=list)
    forgotten: list[str] = field(default_factory=list)
    is_pool_dirty: bool = True
    is_ladder_dirty: bool = False

    def run(self, run_id: str) -> None:
        """A run is new or changed."""
        self.runs[run_id] = None
        self.is_pool_dirty = True

    def ended(self, run_id: str, sequence: int, true_finish: Ticks, weight: NanoWeight) -> None:
        """A run is over; in the fluid system it goes on until V reaches ``true_finish``."""
        self.run(run_id)
        self.settled_runs[run_id] = None
        self.flows.append((true_finish, sequence, weight))

    def settled(self, run_id: str) -> None:
        """The fair ratio of an ended run is known."""
        self.settled_runs[run_id] = None

    def application(self, name: str, *, is_gone: bool = False) -> None:
        """An application was declared, edited or removed."""
        self.applications[name] = None
        if is_gone:
            self.forgotten.append(name)
            self.is_ladder_dirty = True

    def sample(self, row: SampleRow) -> None:
        """A finished run is to be recorded."""
        if len(self.samples) < MAX_WAITING_SAMPLES:
            self.samples.append(row)
