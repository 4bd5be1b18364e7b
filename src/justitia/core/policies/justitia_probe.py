"""Justitia with a probe: the first tenth of every run goes first, so that errors show early.

A run whose cost was estimated much too low or too high shows it by what its first inferences cost.
Serving each newcomer's first tenth at once buys that knowledge for a tenth of the order; what is
made of it is the estimator's matter (rule K2), without which it only costs. The tenth is of
what the inferences that were begun are expected to cost: by what they have got, a wide run would
have begun all of its inferences before it is noticed. Not from the paper.
"""

from typing import ClassVar, Final

from justitia.core.policies.base import UNKNOWN_RUN_KEY, Inference, Key
from justitia.core.policies.justitia import Justitia

_PARTS: Final = 10


class JustitiaProbe(Justitia):
    """Runs of which less than a tenth of the estimated cost was begun, by arrival; then by F.

    A run whose cost nobody has estimated yet is probed (rule E2).
    """

    name: ClassVar[str] = "justitia-probe"

    def __init__(self) -> None:
        super().__init__()
        self._cost_kvtt: dict[str, int] = {}
        self._begun_kvtt: dict[str, int] = {}

    def start_run(self, run_id: str, sequence: int) -> None:
        """Begin to probe it."""
        super().start_run(run_id, sequence)
        self._cost_kvtt.setdefault(run_id, 0)
        self._begun_kvtt.setdefault(run_id, 0)

    def end_run(self, run_id: str) -> None:
        """Forget it."""
        super().end_run(run_id)
        self._cost_kvtt.pop(run_id, None)
        self._begun_kvtt.pop(run_id, None)

    def _is_probed(self, run_id: str) -> bool:
        cost_kvtt = self._cost_kvtt[run_id]
        return cost_kvtt == 0 or _PARTS * self._begun_kvtt[run_id] < cost_kvtt

    def set_cost(self, run_id: str, cost_kvtt: int) -> bool:
        """A tenth of it is the probe."""
        if run_id not in self._cost_kvtt:
            return False
        before = self._is_probed(run_id)
        self._cost_kvtt[run_id] = cost_kvtt
        return self._is_probed(run_id) != before

    def take(self, inference: Inference) -> None:
        """Count what is begun."""
        if inference.run_id in self._begun_kvtt:
            self._begun_kvtt[inference.run_id] += inference.expected_kvtt

    def key(self, inference: Inference) -> Key:
        """(Whether it is probed no longer, F or 0, arrival)."""
        run_id = inference.run_id
        if run_id not in self._cost_kvtt:
            return (0, *UNKNOWN_RUN_KEY)
        finish, sequence = self._key[run_id]
        return (0, 0, sequence) if self._is_probed(run_id) else (1, finish, sequence)
