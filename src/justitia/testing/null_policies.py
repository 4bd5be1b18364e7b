"""Orders that nobody should use: a fairness test that they pass tests nothing."""

import random
from typing import ClassVar

from justitia.core.policies import Inference, Key, Policy


class Lifo(Policy):
    """Last run first."""

    name: ClassVar[str] = "lifo"

    def __init__(self) -> None:
        self._arrival: dict[str, int] = {}

    def start_run(self, run_id: str, sequence: int) -> None:
        """Note the arrival."""
        self._arrival.setdefault(run_id, sequence)

    def key(self, inference: Inference) -> Key:
        """Latest arrival first."""
        return (-self._arrival.get(inference.run_id, 0),)


class Shuffled(Policy):
    """Runs in an arbitrary, fixed order."""

    name: ClassVar[str] = "shuffled"

    def __init__(self, seed: int = 0) -> None:
        self._random = random.Random(seed)
        self._place: dict[str, int] = {}

    def key(self, inference: Inference) -> Key:
        """Draw a place at first sight."""
        if inference.run_id not in self._place:
            self._place[inference.run_id] = self._random.randrange(10**9)
        return (self._place[inference.run_id],)
