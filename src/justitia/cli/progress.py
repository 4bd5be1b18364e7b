"""Progress of a comparison on the terminal."""

from dataclasses import dataclass, field
from types import TracebackType
from typing import Self

from rich.console import Console
from rich.progress import (
    BarColumn,
    MofNCompleteColumn,
    Progress,
    TaskID,
    TextColumn,
    TimeElapsedColumn,
)


@dataclass
class TerminalProgress:
    """Bars on the terminal: one for each policy."""

    console: Console = field(default_factory=lambda: Console(stderr=True))

    def __enter__(self) -> Self:
        """Start drawing."""
        columns = (
            TextColumn("{task.fields[policy]:>9}"),
            BarColumn(),
            MofNCompleteColumn(),
            TextColumn("runs"),
            TimeElapsedColumn(),
            TextColumn("{task.description}"),
        )
        self._progress = Progress(*columns, console=self.console)
        self._progress.start()
        self._tasks: dict[str, TaskID] = {}
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        """Stop drawing."""
        self._progress.stop()

    def phase(self, policy: str, what: str) -> None:
        """Tell what goes on under a policy."""
        if policy not in self._tasks:
            self._tasks[policy] = self._progress.add_task(what, total=None, policy=policy)
        self._progress.update(self._tasks[policy], description=what)

    def done(self, policy: str, num_done: int, num_all: int) -> None:
        """Tell how many runs have ended."""
        what = "done" if num_done == num_all else "playing"
        self._progress.update(
            self._tasks[policy],
            completed=num_done,
            total=num_all,
            description=what,
        )
