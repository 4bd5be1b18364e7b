"""What an engine is doing: one step, or several decode steps of the same sequences."""

from dataclasses import dataclass

from justitia.sim.fast.sequence import Sequence
from justitia.step_time import DecodePace


@dataclass(slots=True)
class Flight:
    """Steps that were planned at ``start_s``; all but one only where nothing but decoding happens.

    ``chunks``: what is computed of prompts, and of what is computed again. ``stalled``: sequences
    that would decode but had to miss this step.
    """

    start_s: float
    due_s: float
    steps: int = 1
    pace: DecodePace | None = None
    chunks: tuple[tuple[Sequence, int], ...] = ()
    stalled: tuple[Sequence, ...] = ()

    def planned(self, now_s: float) -> int:
        """Count the steps that have begun by now."""
        if self.pace is None or self.steps == 1:
            return self.steps
        return self.pace.steps_by(now_s - self.start_s, self.steps)

    def done(self, now_s: float) -> int:
        """Count the steps that have ended by now."""
        begun = self.planned(now_s)
        if self.pace is None or self.pace.of(begun) > now_s - self.start_s:
            return begun - 1
        return begun

    def cut(self, now_s: float) -> None:
        """End with the step that is under way."""
        if self.pace is not None and self.steps > 1:
            self.steps = self.planned(now_s)
            self.due_s = self.start_s + self.pace.of(self.steps)
