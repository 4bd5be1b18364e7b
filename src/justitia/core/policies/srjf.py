"""Shortest remaining run first: the paper's efficiency limit, which starves the big."""

from typing import ClassVar

from justitia.core.policies.base import UNKNOWN_RUN_KEY, Inference, Key, Policy, Service


class ShortestRemainingRunFirst(Policy):
    """Smallest estimated cost minus attained service first, then arrival of the run.

    A run whose cost nobody has estimated yet counts as 0 left, so it is never held back by that.
    """

    name: ClassVar[str] = "srjf"
    counts_kvtt: ClassVar[bool] = True

    def __init__(self) -> None:
        self._left_kvtt: dict[str, int] = {}
        self._cost_kvtt: dict[str, int] = {}
        self._arrival: dict[str, int] = {}

    def start_run(self, run_id: str, sequence: int) -> None:
        """Note the arrival."""
        if run_id in self._arrival:
            return
        self._arrival[run_id] = sequence
        self._left_kvtt[run_id] = self._cost_kvtt[run_id] = 0

    def end_run(self, run_id: str) -> None:
        """Forget it."""
        for table in (self._left_kvtt, self._cost_kvtt, self._arrival):
            table.pop(run_id, None)

    def set_cost(self, run_id: str, cost_kvtt: int) -> bool:
        """Move what is left by the change of the estimate."""
        if run_id not in self._cost_kvtt:
            return False
        self._left_kvtt[run_id] += cost_kvtt - self._cost_kvtt[run_id]
        self._cost_kvtt[run_id] = cost_kvtt
        return True

    def charge(self, run_id: str, service: Service) -> bool:
        """Take off what it got."""
        if run_id not in self._left_kvtt or service.useful_kvtt == 0:
            return False
        self._left_kvtt[run_id] -= service.useful_kvtt
        return True

    def key(self, inference: Inference) -> Key:
        """What is left, never below 0."""
        run_id = inference.run_id
        if run_id not in self._arrival:
            return UNKNOWN_RUN_KEY
        return max(0, self._left_kvtt[run_id]), self._arrival[run_id]
