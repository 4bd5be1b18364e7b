"""Justitia: the order in which ideal weighted fair sharing would finish the runs (rule O1)."""

from typing import ClassVar

from justitia.core.policies.base import UNKNOWN_RUN_KEY, Inference, Key, Policy


class Justitia(Policy):
    """Smallest virtual finish F first, then arrival of the run in the pool.

    F comes from a ``Pool`` (the scheduler service's or a local one); until it does, a run has the
    key of F = 0: a first inference is never held back by prediction (rule E2).
    """

    name: ClassVar[str] = "justitia"

    def __init__(self) -> None:
        self._key: dict[str, Key] = {}

    def start_run(self, run_id: str, sequence: int) -> None:
        """Stand in front until F is known."""
        self._key.setdefault(run_id, (0, sequence))

    def end_run(self, run_id: str) -> None:
        """Forget it."""
        self._key.pop(run_id, None)

    def set_finish(self, run_id: str, finish: int, sequence: int) -> bool:
        """Take its place in the order."""
        key = (finish, sequence)
        if run_id not in self._key or self._key[run_id] == key:
            return False
        self._key[run_id] = key
        return True

    def key(self, inference: Inference) -> Key:
        """(F, arrival)."""
        return self._key.get(inference.run_id, UNKNOWN_RUN_KEY)
