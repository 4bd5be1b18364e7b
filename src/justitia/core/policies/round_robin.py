"""Round robin by run: llm-d's ``round-robin-fairness-policy`` over its fairness ids.

llm-d walks over the ids in alphabetical order and forgets where it was when nothing waits; here the
ring is in order of arrival of the runs, and the walk goes on where it was. A turn is one inference,
whatever its size; there are no weights. llm-d takes turns before an engine is chosen, so a
preemption takes none there; here a preempted inference needs another turn.
"""

from typing import ClassVar

from justitia.core.policies.base import UNKNOWN_RUN_KEY, Inference, Key, Policy
from justitia.core.policies.ring import Ring


class RoundRobin(Policy):
    """Earliest turn first; who waits again takes its place in the round under way."""

    name: ClassVar[str] = "round-robin"

    def __init__(self) -> None:
        self._ring = Ring()
        self._round: dict[str, int] = {}
        self._arrival: dict[str, int] = {}

    def start_run(self, run_id: str, sequence: int) -> None:
        """Join the ring."""
        self._round.setdefault(run_id, self._ring.next_round(sequence))
        self._arrival.setdefault(run_id, sequence)

    def end_run(self, run_id: str) -> None:
        """Leave the ring."""
        self._round.pop(run_id, None)
        self._arrival.pop(run_id, None)

    def activate(self, run_id: str, least_waiting: Key | None) -> bool:  # noqa: ARG002 - as in Policy
        """Turns that went by while nothing waited are lost."""
        if run_id not in self._round:
            return False
        before = self._round[run_id]
        self._round[run_id] = max(before, self._ring.next_round(self._arrival[run_id]))
        return self._round[run_id] != before

    def take(self, inference: Inference) -> None:
        """That was its turn."""
        run_id = inference.run_id
        if run_id in self._round:
            self._ring.visit(self._round[run_id], self._arrival[run_id])
            self._round[run_id] += 1

    def key(self, inference: Inference) -> Key:
        """(Round, arrival of the run)."""
        run_id = inference.run_id
        if run_id not in self._round:
            return UNKNOWN_RUN_KEY
        return self._round[run_id], self._arrival[run_id]
