"""``justitia train``: predictors from recorded runs or from the service's samples."""

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from rich.console import Console
from rich.table import Table

from justitia.cli.options import DEFAULT_ADDRESS, Address, Pool, TlsCa, connected
from justitia.local.errors import LocalModeError

if TYPE_CHECKING:
    from justitia.predictor.model import TrainedModel
    from justitia.predictor.samples import Sample
    from justitia.predictor.training import TrainingReport


def train(
    *,
    recordings: Annotated[
        Path | None,
        typer.Option(help="recorded runs, JSON lines; without it the service's own samples"),
    ] = None,
    output: Annotated[
        Path | None, typer.Option("--output", "-o", help="folder for the models' files")
    ] = None,
    publish: Annotated[
        bool, typer.Option("--publish", help="make the models active in the service")
    ] = False,
    seed: Annotated[int, typer.Option(help="equal seeds give equal models")] = 0,
    min_samples: Annotated[int, typer.Option(help="decline below this many")] = 20,
    application: Annotated[
        str | None, typer.Option("--application", "-a", help="only this application")
    ] = None,
    address: Address = DEFAULT_ADDRESS,
    pool: Pool = "",
    tls_ca: TlsCa = None,
) -> None:
    """Train a predictor for each application and say how well it predicts runs it has not seen."""
    from justitia.local.predictors import read_samples, train_with_progress

    console = Console()
    if recordings is None:
        samples = _service_samples(address, pool, tls_ca, application)
    else:
        samples = read_samples(recordings)
    if application is not None:
        samples = {name: s for name, s in samples.items() if name == application}
    if not samples:
        raise LocalModeError(
            "no samples to train from: run the application first, or use --recordings"
        )
    report = train_with_progress(samples, seed=seed, min_samples=min_samples, console=console)
    console.print(_table(report))
    if output is not None:
        from justitia.predictor import artefact

        for model in report.models.values():
            console.print(f"wrote {artefact.save(model, output)}", highlight=False)
    if publish:
        _publish(report.models, address, pool, tls_ca)
        console.print(f"published {len(report.models)} models to {address}", highlight=False)
    elif output is None:
        console.print("nothing kept: use --output or --publish", highlight=False)


def _table(report: "TrainingReport") -> Table:
    table = Table(title="Predictors, judged on runs that training did not see")
    for name in (
        "application",
        "samples",
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
            _share(metrics.mean_relative_error),
            _share(metrics.median_relative_error),
            "-" if metrics.rank_correlation is None else f"{metrics.rank_correlation:.2f}",
            model.version[:12],
        )
    for name, declined in sorted(report.declined.items()):
        table.add_row(name, "-", str(declined), "-", "-", "-")
    return table


def _share(value: float | None) -> str:
    return "-" if value is None else f"{value:.0%}"


def _service_samples(
    address: str, pool: str, tls_ca: Path | None, application: str | None
) -> dict[str, list["Sample"]]:
    from justitia.predictor.samples import Sample

    samples: dict[str, list[Sample]] = {}
    with connected(address, tls_ca) as client:
        for s in client.export_samples(pool=pool, application=application or ""):
            sample = Sample(application=s.application, prompt=s.prompt_text, cost_kvtt=s.cost_kvtt)
            samples.setdefault(s.application, []).append(sample)
    return samples


def _publish(
    models: Mapping[str, "TrainedModel"], address: str, pool: str, tls_ca: Path | None
) -> None:
    from justitia.predictor import artefact

    with connected(address, tls_ca) as client:
        for name, model in models.items():
            client.publish_model(name, artefact.to_bytes(model), pool=pool)
