"""What ``justitia train`` does with models, and how it shows them."""

import errno
import os
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

from rich.console import Console
from rich.table import Table

from justitia.client import SchedulerError, UnreachableError
from justitia.local.errors import LocalModeError

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from justitia.local.unfinished import Unfinished
    from justitia.predictor.samples import Sample
    from justitia.predictor.settings import TrainingSettings
    from justitia.predictor.training import Trained, TrainingReport


@dataclass
class Outputs:
    """Where models go, each as soon as it is ready: what is interrupted has kept those before."""

    console: Console
    folder: "Unfinished | None" = None
    publish: "Callable[[Trained], str] | None" = None
    num_kept: int = 0
    refusals: list[str] = field(default_factory=list)

    def save_in(self, folder: "Unfinished") -> None:
        """Save models in a folder, which is made once there is one.

        Raises:
            LocalModeError: it cannot be made: told before anything is trained.
        """
        nearest = next(path for path in (folder.path, *folder.path.parents) if path.exists())
        if not nearest.is_dir():
            raise _unwritable(folder.path, os.strerror(errno.ENOTDIR))
        if not os.access(nearest, os.W_OK):
            raise _unwritable(folder.path, os.strerror(errno.EACCES))
        self.folder = folder

    def train(
        self, samples: "Mapping[str, Sequence[Sample]]", settings: "TrainingSettings"
    ) -> "TrainingReport":
        """Train every application, and show how well each is predicted.

        Raises:
            LocalModeError: a model cannot be written.
            UnreachableError: the service does not answer.
        """
        from justitia.local.predictors import train_with_progress

        try:
            report = train_with_progress(
                samples,
                settings=settings,
                console=self.console,
                recall=None if self.folder is None else self.folder.recall,
                on_ready=self.take,
            )
        except KeyboardInterrupt:
            if self.folder is not None and self.num_kept:
                self._tell(
                    f"models in {self.folder.path}: {self.num_kept} of {len(samples)}; "
                    "the same command goes on from there"
                )
            raise
        self.console.print(_table(report))
        if self.folder is not None and not self.refusals:
            self.folder.end()
        return report

    def take(self, trained: "Trained") -> None:
        """Write and publish a model, as far as that is asked for."""
        if self.folder is not None:
            self.num_kept += 1
            if not self.folder.has(trained):
                self._tell(f"wrote {self._saved(self.folder, trained)}")
        if self.publish is not None:
            try:
                self._tell(self.publish(trained))
            except UnreachableError:
                raise
            except SchedulerError as error:
                self.refusals.append(f"{trained.model.application}: {error}")

    def require_published(self, report: "TrainingReport") -> None:
        """Fail where nothing was published, or the service refused a model."""
        if not report.models:
            declined = (f"{name}: {why}" for name, why in sorted(report.declined.items()))
            raise LocalModeError(f"nothing to publish: {'; '.join(declined)}")
        if self.refusals:
            raise LocalModeError(f"not published: {'; '.join(self.refusals)}")

    def _saved(self, folder: "Unfinished", trained: "Trained") -> Path:
        try:
            return folder.save(trained)
        except OSError as error:
            raise _unwritable(folder.path, error.strerror) from None

    def _tell(self, line: str) -> None:
        self.console.print(line, highlight=False, markup=False, soft_wrap=True)


def _unwritable(folder: Path, why: str | None) -> LocalModeError:
    return LocalModeError(
        f"{folder}: models cannot be written there ({why}); choose another --output"
    )


def _table(report: "TrainingReport") -> Table:
    table = Table(title="Predictors, judged on runs that training did not see")
    table.add_column("application", no_wrap=True)
    for name in ("samples", "judged on", "relative error", "median", "rank correlation"):
        table.add_column(name, justify="right")
    table.add_column("version", no_wrap=True)
    for name, model in sorted(report.models.items()):
        metrics = model.metrics
        table.add_row(
            name,
            str(metrics.num_samples),
            str(metrics.num_held_out),
            _share(metrics.mean_relative_error),
            _share(metrics.median_relative_error),
            "-" if metrics.rank_correlation is None else f"{metrics.rank_correlation:.2f}",
            model.version[:12],
        )
    for name, declined in sorted(report.declined.items()):
        table.add_row(name, "-", "-", str(declined), "-", "-", "-")
    return table


def _share(value: float | None) -> str:
    return "-" if value is None else f"{value:.0%}"
