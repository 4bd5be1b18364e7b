"""Progress of an evaluation on the terminal."""

import re
from types import TracebackType
from typing import TYPE_CHECKING, Final, Self

from rich.console import Console
from rich.markup import escape
from rich.progress import (
    BarColumn,
    MofNCompleteColumn,
    Progress,
    TextColumn,
    TimeElapsedColumn,
    TimeRemainingColumn,
)
from rich.table import Column

if TYPE_CHECKING:
    from justitia.sim.reproduce.experiment import Job
    from justitia.sim.reproduce.worker import Failure

#: Of all columns but the last, and the spaces between them.
_WIDTH: Final = 56
_MODULE: Final = re.compile(r"justitia\.[\w.]*\.")


class JobProgress:
    """One bar: jobs that are done, the time that is left, and what has begun last.

    Where there is no terminal, such as in a log, every tenth of the jobs is a line.
    """

    def __init__(self, num_jobs: int, num_kept: int) -> None:
        self._console = console = Console(stderr=True, highlight=False)
        self._progress = Progress(
            BarColumn(bar_width=16, table_column=_fixed(16)),
            MofNCompleteColumn(table_column=_fixed(2 * len(str(num_jobs)) + 1)),
            TextColumn("jobs", table_column=_fixed(4)),
            TimeElapsedColumn(table_column=_fixed(7)),
            TextColumn("left", table_column=_fixed(4)),
            TimeRemainingColumn(table_column=_fixed(7)),
            TextColumn("{task.description}", table_column=_up_to(console.width - _WIDTH)),
            console=console,
        )
        self._num_jobs = num_jobs
        self._num_done = num_kept
        self._num_failed = 0
        self._task = self._progress.add_task("", total=num_jobs, completed=num_kept)

    def __enter__(self) -> Self:
        """Start drawing."""
        self._progress.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        """Stop drawing."""
        self._progress.stop()

    def started(self, job: "Job") -> None:
        """Show what has begun."""
        failed = f"[red]{self._num_failed} failed[/red] " if self._num_failed else ""
        self._progress.update(self._task, description=failed + escape(_short(job)))

    def ended(self, _: "Job", failure: "Failure | None") -> None:
        """Count a job."""
        self._num_failed += failure is not None
        self._num_done += 1
        self._progress.advance(self._task)
        tenths, before = (10 * n // self._num_jobs for n in (self._num_done, self._num_done - 1))
        if tenths > before and not self._console.is_terminal:
            self._console.print(f"{self._num_done} of {self._num_jobs} jobs done")


def _up_to(width: int) -> Column:
    """Make a column for long names, which it cuts."""
    return Column(max_width=max(1, width), no_wrap=True, overflow="ellipsis")


def _fixed(width: int) -> Column:
    """Make a column that a long name beside it does not squeeze."""
    return Column(min_width=width, no_wrap=True)


def _short(job: "Job") -> str:
    """Leave away where functions live, and what is the same for most plays."""
    from justitia.sim.reproduce.experiment import Play

    name = job.name
    if isinstance(job, Play):
        name = f"{job.case.name} {job.policy} {job.settings.estimator}"
    return _MODULE.sub("", name)
