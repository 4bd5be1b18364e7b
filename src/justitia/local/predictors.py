"""Predictors of local mode: read what was recorded, train with a progress bar."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Final

import typer
from rich.console import Console
from rich.progress import BarColumn, Progress, TaskProgressColumn, TextColumn

from justitia.local.engine_kind import STEP_BUDGET_TOKENS
from justitia.local.errors import LocalModeError
from justitia.predictor.model import TrainingMetrics
from justitia.predictor.recordings import Recordings, read_recordings
from justitia.predictor.samples import Sample
from justitia.predictor.settings import TrainingSettings
from justitia.predictor.training import TrainingProgress, TrainingReport, train_all

_MAX_WARNINGS: Final = 3


def read_samples(path: Path) -> dict[str, list[Sample]]:
    """Read recorded runs by application, warning of bad lines on stderr."""
    return read_runs(path).samples(step_budget_tokens=STEP_BUDGET_TOKENS)


def read_runs(path: Path) -> Recordings:
    """Read recorded runs, warning of bad lines on stderr.

    Raises:
        LocalModeError: the file cannot be opened, or it holds lines but no run.
    """
    try:
        found = read_recordings(path)
    except OSError as error:
        raise LocalModeError(
            f"{path}: cannot be read ({error.strerror}); `justitia record` makes it"
        ) from None
    if found.num_bad_lines and not found.runs:
        raise LocalModeError(
            f"{path} holds no recorded run; line {found.bad_lines[0].number}: "
            f"{found.bad_lines[0].reason}. `justitia record` makes such a file"
        )
    for bad in found.bad_lines[:_MAX_WARNINGS]:
        typer.echo(f"warning: {path}:{bad.number}: {bad.reason}", err=True)
    if found.num_bad_lines > _MAX_WARNINGS:
        typer.echo(f"warning: {path}: {found.num_bad_lines} lines are no recorded run", err=True)
    return found


def train_with_progress(
    samples: Mapping[str, Sequence[Sample]], *, settings: TrainingSettings, console: Console
) -> TrainingReport:
    """Train every application with a progress bar; in a log, with a line for each that is done."""
    columns = (TextColumn("{task.description}"), BarColumn(), TaskProgressColumn())
    with Progress(*columns, console=console, transient=True) as progress:
        task = progress.add_task("training", total=len(samples))
        done_by_application = dict.fromkeys(samples, 0.0)

        def show(step: TrainingProgress) -> None:
            done_by_application[step.application] = step.fraction
            progress.update(
                task,
                completed=sum(done_by_application.values()),
                description=f"training {step.application}",
            )
            if step.fraction >= 1 and not console.is_terminal:
                num_done = sum(done >= 1 for done in done_by_application.values())
                console.print(
                    f"trained {step.application} ({num_done} of {len(samples)})",
                    highlight=False,
                    markup=False,
                )

        return train_all(samples, settings=settings, on_progress=show)


def metrics_of(report: TrainingReport) -> dict[str, TrainingMetrics]:
    """Return how well each application's predictor did on prompts that it had not seen."""
    return {name: model.metrics for name, model in report.models.items()}
