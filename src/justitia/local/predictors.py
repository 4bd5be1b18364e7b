"""Predictors of local mode: read what was recorded, train with a progress bar."""

import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Final

import typer
from rich.console import Console
from rich.progress import BarColumn, Progress, TaskProgressColumn, TextColumn

from justitia.local.engine_kind import STEP_BUDGET_TOKENS
from justitia.local.errors import LocalModeError
from justitia.predictor.model import TrainingMetrics
from justitia.predictor.recordings import Recordings, read_recordings
from justitia.predictor.regressor import ModelKind
from justitia.predictor.samples import Sample
from justitia.predictor.settings import TrainingSettings
from justitia.predictor.training import (
    Trained,
    TrainingDeclined,
    TrainingProgress,
    TrainingReport,
    train_and_judge,
)
from justitia.resources.profile import ProfileSpec

_MAX_WARNINGS: Final = 3
#: In a log: how often a long training says how far it is.
_LINE_PERIOD_S: Final = 10.0

#: Gives a model that need not be trained again; is told of each model that is ready.
Recall = Callable[[str], Trained | None]
ReadyListener = Callable[[Trained], None]


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
    if found.num_left_out:
        typer.echo(f"warning: {path}: the first {found.num_left_out} runs are left out", err=True)
    if found.num_bad_lines > _MAX_WARNINGS:
        typer.echo(f"warning: {path}: {found.num_bad_lines} lines are no recorded run", err=True)
    return found


def settings_of(spec: ProfileSpec) -> TrainingSettings:
    """Say how a PredictorProfile wants models to be built."""
    return TrainingSettings(
        kind=ModelKind(spec.model.kind.trainer_name),
        hidden_widths=spec.model.hidden_layers,
        min_samples=spec.training.min_samples,
        max_samples=spec.training.max_samples,
        validation_fraction=spec.training.validation_fraction,
        seed=spec.training.seed,
        max_terms=spec.features.max_terms,
        selected_terms=spec.features.selected_terms,
    )


def train_with_progress(
    samples: Mapping[str, Sequence[Sample]],
    *,
    settings: TrainingSettings,
    console: Console,
    recall: Recall | None = None,
    on_ready: ReadyListener | None = None,
) -> TrainingReport:
    """Train every application with a progress bar; in a log, with some lines for each.

    ``recall`` may give the model of an application, which then is not trained again. ``on_ready``
    is told of each model before the next application's training begins.
    """
    report = TrainingReport()
    columns = (TextColumn("{task.description}"), BarColumn(), TaskProgressColumn())
    with Progress(*columns, console=console, transient=True) as progress:
        shown = _Shown(progress, console, num_applications=len(samples))
        for application, given in samples.items():
            known = None if recall is None else recall(application)
            try:
                trained = known or train_and_judge(given, settings=settings, on_progress=shown.step)
            except TrainingDeclined as declined:
                report.declined[application] = declined
                shown.declined(application)
                continue
            report.models[application] = trained.model
            report.held_out[application] = trained.held_out
            shown.done(application, "trained" if known is None else "kept")
            if on_ready is not None:
                on_ready(trained)
    return report


class _Shown:
    """What is seen of trainings: a bar that grows, or lines of a log."""

    def __init__(self, progress: Progress, console: Console, *, num_applications: int) -> None:
        self._progress = progress
        self._console = console
        self._num_applications = num_applications
        self._num_done = 0
        self._told_s = time.monotonic()
        self._task = progress.add_task("training", total=num_applications)

    def step(self, step: TrainingProgress) -> None:
        self._progress.update(
            self._task,
            completed=self._num_done + step.fraction,
            description=f"training {step.application}",
        )
        if step.fraction < 1 and time.monotonic() - self._told_s >= _LINE_PERIOD_S:
            self._tell(f"training {step.application}: {step.fraction:.0%}")

    def done(self, application: str, what: str) -> None:
        self.declined(application)
        self._tell(f"{what} {application} ({self._num_done} of {self._num_applications})")

    def declined(self, application: str) -> None:
        self._num_done += 1
        self._progress.update(self._task, completed=self._num_done, description=application)

    def _tell(self, line: str) -> None:
        self._told_s = time.monotonic()
        if not self._console.is_terminal:
            self._console.print(line, highlight=False, markup=False)


def metrics_of(report: TrainingReport) -> dict[str, TrainingMetrics]:
    """Return how well each application's predictor did on prompts that it had not seen."""
    return {name: model.metrics for name, model in report.models.items()}
