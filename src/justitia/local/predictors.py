"""Predictors of local mode: read what was recorded, train with a progress bar."""

from collections.abc import Mapping, Sequence
from pathlib import Path

import typer
from rich.console import Console
from rich.progress import BarColumn, Progress, TaskProgressColumn, TextColumn

from justitia.local.errors import LocalModeError
from justitia.local.recordings import STEP_BUDGET_TOKENS
from justitia.predictor.samples import Sample, read_recorded_runs
from justitia.predictor.settings import TrainingSettings
from justitia.predictor.training import TrainingProgress, TrainingReport, train_all


def read_samples(path: Path) -> dict[str, list[Sample]]:
    """Read recorded runs by application, warning of bad lines on stderr."""
    try:
        runs = read_recorded_runs(path, step_budget_tokens=STEP_BUDGET_TOKENS)
    except OSError as error:
        raise LocalModeError(
            f"{path}: cannot be read ({error.strerror}); `justitia record` makes it"
        ) from None
    for bad in runs.bad_lines:
        typer.echo(f"warning: {path}:{bad.number}: {bad.reason}", err=True)
    return runs.by_application()


def train_with_progress(
    samples: Mapping[str, Sequence[Sample]], *, seed: int, min_samples: int, console: Console
) -> TrainingReport:
    """Train every application with a progress bar."""
    try:
        settings = TrainingSettings(seed=seed, min_samples=min_samples)
    except ValueError as error:
        raise LocalModeError(str(error)) from None
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

        return train_all(samples, settings=settings, on_progress=show)
