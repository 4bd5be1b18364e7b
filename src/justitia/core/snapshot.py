"""What must survive a restart, as frozen values; how they are stored is the store's affair."""

from dataclasses import dataclass

from justitia.core.runs import RunRecord
from justitia.core.virtual_time import FluidState

__all__ = ["PoolSnapshot", "RunRecord"]


@dataclass(frozen=True, slots=True)
class PoolSnapshot:
    """One pool: its clock's name, the next arrival sequence, the fluid system and the open runs."""

    clock: str
    next_sequence: int
    fluid: FluidState
    runs: tuple[RunRecord, ...]
