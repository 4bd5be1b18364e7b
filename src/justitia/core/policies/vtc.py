"""Virtual Token Counter: least served first (arXiv 2401.00588), with the run as the client."""

from typing import ClassVar

from justitia.core.cost import vtc_cost_tokens
from justitia.core.policies.base import UNKNOWN_RUN_KEY, Inference, Key, Policy, Service


class Vtc(Policy):
    """Smallest counter of weighted tokens (p + 2d) first, then arrival of the run.

    A run that comes back lifts its counter to the least among those waiting, or, if nobody waits,
    to that of the run that stopped waiting last: nobody banks credit.
    """

    name: ClassVar[str] = "vtc"
    counts_tokens: ClassVar[bool] = True

    def __init__(self) -> None:
        self._counter: dict[str, int] = {}
        self._arrival: dict[str, int] = {}
        self._last_left = 0

    def start_run(self, run_id: str, sequence: int) -> None:
        """Start at 0; the lift follows when it first waits."""
        self._counter.setdefault(run_id, 0)
        self._arrival.setdefault(run_id, sequence)

    def end_run(self, run_id: str) -> None:
        """Forget it."""
        self._counter.pop(run_id, None)
        self._arrival.pop(run_id, None)

    def activate(self, run_id: str, least_waiting: Key | None) -> bool:
        """Lift the counter."""
        if run_id not in self._counter:
            return False
        floor = self._last_left if least_waiting is None else least_waiting[0]
        lifted = max(self._counter[run_id], floor)
        has_moved = lifted != self._counter[run_id]
        self._counter[run_id] = lifted
        return has_moved

    def deactivate(self, run_id: str) -> None:
        """Remember the counter for the next lift of an empty queue."""
        self._last_left = self._counter.get(run_id, self._last_left)

    def charge(self, run_id: str, service: Service) -> bool:
        """Count p at admission and 2 for each generated token."""
        cost = vtc_cost_tokens(service.prompt_tokens, service.output_tokens)
        if run_id not in self._counter or cost == 0:
            return False
        self._counter[run_id] += cost
        return True

    def key(self, inference: Inference) -> Key:
        """Counter of the run."""
        run_id = inference.run_id
        if run_id not in self._counter:
            return UNKNOWN_RUN_KEY
        return self._counter[run_id], self._arrival[run_id]
