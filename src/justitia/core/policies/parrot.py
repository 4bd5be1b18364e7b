"""First come, first served, by run: Parrot's order (arXiv 2405.19888)."""

from typing import ClassVar

from justitia.core.policies.base import Inference, Key, Policy


class Parrot(Policy):
    """Order of arrival of runs; a run's later inferences keep its place."""

    name: ClassVar[str] = "parrot"

    def __init__(self) -> None:
        self._arrival: dict[str, int] = {}

    def start_run(self, run_id: str, sequence: int) -> None:
        """Note the arrival."""
        self._arrival.setdefault(run_id, sequence)

    def end_run(self, run_id: str) -> None:
        """Forget it."""
        self._arrival.pop(run_id, None)

    def key(self, inference: Inference) -> Key:
        """Arrival of the run."""
        return (self._arrival.get(inference.run_id, -1),)
