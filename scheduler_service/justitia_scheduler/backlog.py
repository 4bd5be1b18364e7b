"""Work on very many runs at once, done a slice at a time so that nobody waits for all of it."""

from collections import deque
from collections.abc import Callable, Iterable, Iterator
from itertools import islice
from typing import Final

#: Runs of one slice: about 2 ms of work.
_SLICE: Final = 100

Step = Callable[[str], None]


class Backlog:
    """Steps to be taken for each of many runs, in order.

    For what may come a moment later: what accounts and bounds hang on is done at once by whoever
    adds to this. A step looks at what is so when it is taken, never at what was.
    """

    def __init__(self) -> None:
        self._jobs: deque[tuple[Step, Iterator[str]]] = deque()

    def __bool__(self) -> bool:
        return bool(self._jobs)

    def add(self, step: Step, run_ids: Iterable[str]) -> None:
        """Take a step for each of these runs; a few of them are served at once."""
        is_first = not self._jobs
        self._jobs.append((step, iter(run_ids)))
        if is_first:
            self.run_slice()

    def run_slice(self) -> None:
        """Do a little of the work."""
        if not self._jobs:
            return
        step, run_ids = self._jobs[0]
        left = _SLICE
        for run_id in islice(run_ids, _SLICE):
            step(run_id)
            left -= 1
        if left:
            self._jobs.popleft()

    def run_all(self) -> None:
        """Do all of the work: nobody will come back to it."""
        while self._jobs:
            self.run_slice()
