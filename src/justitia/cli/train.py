"""``justitia train``: predictors from recorded runs or from the service's samples."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.console import Console
from rich.table import Table

from justitia.cli.options import (
    DEFAULT_ADDRESS,
    Address,
    Pool,
    TlsCa,
    TlsCert,
    TlsKey,
    connected,
)
from justitia.local.errors import LocalModeError

if TYPE_CHECKING:
    from justitia.client import Client
    from justitia.predictor.samples import Sample
    from justitia.predictor.settings import TrainingSettings
    from justitia.predictor.training import TrainingReport

    Connection = Callable[[], Client]


def train(
    *,
    recordings: Annotated[
        Path | None,
        typer.Option(help="recorded runs, JSON lines; without it the service's own samples"),
    ] = None,
    output: Annotated[
        Path | None, typer.Option("--output", "-o", help="folder for the models' files")
    ] = None,
    datasheet: Annotated[
        Path | None,
        typer.Option(help="page about the recordings, with the errors found here, to write"),
    ] = None,
    publish: Annotated[
        bool,
        typer.Option("--publish", help="make the models active in the service, unless worse"),
    ] = False,
    force: Annotated[
        bool, typer.Option("--force", help="with --publish: active, also if worse")
    ] = False,
    seed: Annotated[int, typer.Option(help="equal seeds give equal models")] = 0,
    min_samples: Annotated[int, typer.Option(help="decline below this many")] = 20,
    max_samples: Annotated[int, typer.Option(help="use the last so many")] = 5000,
    validation_fraction: Annotated[
        float, typer.Option(help="share of the prompts that judges the model")
    ] = 0.2,
    kind: Annotated[
        str, typer.Option(help="gaussian-process, or network: a multi-layer perceptron")
    ] = "gaussian-process",
    hidden_layers: Annotated[
        str, typer.Option(help="outputs of a network's hidden layers")
    ] = "64,32,16",
    max_terms: Annotated[int, typer.Option(help="terms of the vocabulary")] = 2048,
    selected_terms: Annotated[int, typer.Option(help="terms that the model reads at most")] = 128,
    application: Annotated[
        str | None, typer.Option("--application", "-a", help="only this application")
    ] = None,
    address: Address = DEFAULT_ADDRESS,
    pool: Pool = "",
    tls_ca: TlsCa = None,
    tls_cert: TlsCert = None,
    tls_key: TlsKey = None,
) -> None:
    """Train a predictor for each application and say how well it predicts runs it has not seen."""
    from justitia.local.predictors import train_with_progress

    if datasheet is not None and recordings is None:
        raise typer.BadParameter("needs --recordings", param_hint="--datasheet")
    if force and not publish:
        raise typer.BadParameter("needs --publish", param_hint="--force")
    console = Console()
    connection = partial(connected, address, tls_ca, cert=tls_cert, key=tls_key)
    settings = _settings(
        seed=seed,
        min_samples=min_samples,
        max_samples=max_samples,
        validation_fraction=validation_fraction,
        kind=kind,
        hidden_widths=_widths(hidden_layers),
        max_terms=max_terms,
        selected_terms=selected_terms,
    )
    samples = _samples(recordings, application, pool, connection)
    report = train_with_progress(samples, settings=settings, console=console)
    console.print(_table(report))
    if output is not None:
        for path in _save(report, output):
            console.print(f"wrote {path}", highlight=False)
    if datasheet is not None and recordings is not None:
        _write_datasheet(datasheet, recordings, report)
        console.print(f"wrote {datasheet}", highlight=False)
    if publish:
        for line in _publish(report, pool, connection, is_forced=force):
            console.print(line, highlight=False, markup=False, soft_wrap=True)
    elif output is None and datasheet is None:
        console.print("nothing kept: use --output or --publish", highlight=False)


def _save(report: "TrainingReport", output: Path) -> list[Path]:
    from justitia.predictor import artefact

    try:
        output.mkdir(parents=True, exist_ok=True)
        return [artefact.save(model, output) for model in report.models.values()]
    except OSError as error:
        raise LocalModeError(
            f"{output}: models cannot be written there ({error.strerror}); choose another --output"
        ) from None


def _write_datasheet(path: Path, recordings: Path, report: "TrainingReport") -> None:
    from justitia.local.datasheet import write_datasheet
    from justitia.local.predictors import metrics_of
    from justitia.predictor.recordings import read_recordings

    try:
        write_datasheet(path, read_recordings(recordings).runs, metrics_of(report))
    except OSError as error:
        raise LocalModeError(f"{path}: cannot be written ({error.strerror})") from None


def _settings(*, kind: str, **values: Any) -> "TrainingSettings":
    from justitia.predictor.regressor import ModelKind
    from justitia.predictor.settings import TrainingSettings

    if kind not in list(ModelKind):
        raise LocalModeError(f"--kind: must be one of {', '.join(ModelKind)}, got {kind!r}")
    try:
        return TrainingSettings(kind=ModelKind(kind), **values)
    except ValueError as error:
        raise LocalModeError(str(error)) from None


def _widths(text: str) -> tuple[int, ...]:
    try:
        return tuple(int(width) for width in text.split(","))
    except ValueError:
        raise LocalModeError(
            f"--hidden-layers: must be numbers such as 64,32,16, got {text!r}"
        ) from None


def _samples(
    recordings: Path | None, application: str | None, pool: str, connection: "Connection"
) -> Mapping[str, Sequence["Sample"]]:
    from justitia.local.predictors import read_samples

    if recordings is None:
        samples = _service_samples(pool, application, connection)
    else:
        samples = read_samples(recordings)
    if application is not None:
        # Recordings name applications without the namespace that a pool shared by several adds.
        short = application.rpartition("/")[2]
        found = samples.get(application) or samples.get(short) or []
        renamed = [replace(sample, application=application) for sample in found]
        samples = {application: renamed} if found else {}
    if not samples:
        raise LocalModeError(
            "no samples to train from: run the application first, or use --recordings"
        )
    return samples


def _table(report: "TrainingReport") -> Table:
    table = Table(title="Predictors, judged on runs that training did not see")
    for name in (
        "application",
        "samples",
        "judged on",
        "relative error",
        "median",
        "rank correlation",
        "version",
    ):
        table.add_column(name, justify="left" if name in {"application", "version"} else "right")
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


def _service_samples(
    pool: str, application: str | None, connection: "Connection"
) -> dict[str, list["Sample"]]:
    from justitia.predictor.samples import Sample

    samples: dict[str, list[Sample]] = {}
    with connection() as client:
        for s in client.export_samples(pool=pool, application=application or ""):
            sample = Sample(
                application=s.application,
                prompt=s.prompt_text,
                cost_kvtt=s.cost_kvtt,
                run_id=s.run_id,
            )
            samples.setdefault(s.application, []).append(sample)
    return samples


def _publish(
    report: "TrainingReport", pool: str, connection: "Connection", *, is_forced: bool
) -> "Iterator[str]":
    """Publish what was trained, and tell what the service made of each model."""
    from justitia.api.v1 import training_pb2
    from justitia.predictor import artefact

    if not report.models:
        declined = "; ".join(f"{name}: {why}" for name, why in sorted(report.declined.items()))
        raise LocalModeError(f"nothing to publish: {declined}")
    with connection() as client:
        for name, model in report.models.items():
            held_out = (
                training_pb2.HeldOutRun(
                    run_id=run.run_id, cost_kvtt=run.cost_kvtt, predicted_kvtt=run.predicted_kvtt
                )
                for run in report.held_out[name]
            )
            answer = client.publish_model(
                name, artefact.to_bytes(model), pool=pool, held_out=held_out, is_forced=is_forced
            )
            verdict = "active" if answer.is_active else "stored, not active"
            yield f"published {name} {answer.version[:12]}: {verdict}: {answer.reason}"
