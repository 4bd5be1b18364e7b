"""``justitia train``: predictors from recorded runs or from the service's samples."""

from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.console import Console

from justitia.cli.options import (
    DEFAULT_ADDRESS,
    Address,
    Pool,
    TlsCa,
    TlsCert,
    TlsKey,
    connected,
    warn,
)
from justitia.cli.train_outputs import Outputs
from justitia.local.errors import LocalModeError

if TYPE_CHECKING:
    from justitia.client import Client
    from justitia.predictor.samples import Sample
    from justitia.predictor.settings import TrainingSettings
    from justitia.predictor.training import TrainingReport
    from justitia.resources.profile import PredictorProfile

    Connection = Callable[[], Client]


def train(
    *,
    profile: Annotated[
        Path | None,
        typer.Option(help="manifest with a PredictorProfile; flags given here win over it"),
    ] = None,
    recordings: Annotated[
        Path | None,
        typer.Option(
            help="recorded runs, JSON lines, or a folder in place of the profile's ConfigMap or "
            "volume; without it the service's own samples"
        ),
    ] = None,
    output: Annotated[
        Path | None,
        typer.Option(
            "--output",
            "-o",
            help="folder for the models' files; interrupted, the same command goes on there",
        ),
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
    seed: Annotated[
        int | None, typer.Option(help="equal seeds give equal models (default 0)")
    ] = None,
    min_samples: Annotated[
        int | None, typer.Option(help="decline below this many (default 20)")
    ] = None,
    max_samples: Annotated[
        int | None, typer.Option(help="use the last so many (default 5000)")
    ] = None,
    validation_fraction: Annotated[
        float | None, typer.Option(help="share of the prompts that judges the model (default 0.2)")
    ] = None,
    kind: Annotated[
        str | None,
        typer.Option(help="gaussian-process (default), or network: a multi-layer perceptron"),
    ] = None,
    hidden_layers: Annotated[
        str | None, typer.Option(help="outputs of a network's hidden layers (default 64,32,16)")
    ] = None,
    max_terms: Annotated[
        int | None, typer.Option(help="terms of the vocabulary (default 2048)")
    ] = None,
    selected_terms: Annotated[
        int | None, typer.Option(help="terms that the model reads at most (default 128)")
    ] = None,
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
    from justitia.local.publishing import publish_model
    from justitia.local.unfinished import Unfinished

    if datasheet is not None and recordings is None:
        raise typer.BadParameter("needs --recordings", param_hint="--datasheet")
    if force and not publish:
        raise typer.BadParameter("needs --publish", param_hint="--force")
    console = Console()
    connection = partial(connected, address, tls_ca, cert=tls_cert, key=tls_key)
    read = None if profile is None else _read_profile(profile, application, recordings)
    settings = _settings(
        read,
        seed=seed,
        min_samples=min_samples,
        max_samples=max_samples,
        validation_fraction=validation_fraction,
        kind=kind,
        hidden_widths=None if hidden_layers is None else _widths(hidden_layers),
        max_terms=max_terms,
        selected_terms=selected_terms,
    )
    path = _recordings_path(read, recordings)
    samples = _samples(path, application, pool, connection)
    outputs = Outputs(console)
    with ExitStack() as stack:
        if output is not None:
            outputs.save_in(Unfinished(output, samples, settings))
        if publish:
            client = stack.enter_context(connection())
            outputs.publish = partial(publish_model, client, pool=pool, is_forced=force)
        report = outputs.train(samples, settings)
    if datasheet is not None and path is not None:
        _write_datasheet(datasheet, path, report)
        console.print(f"wrote {datasheet}", highlight=False)
    if publish:
        outputs.require_published(report)
    elif output is None and datasheet is None:
        console.print("nothing kept: use --output or --publish", highlight=False)


def _read_profile(
    path: Path, application: str | None, recordings: Path | None
) -> "PredictorProfile":
    from justitia.local.declare import unhonoured
    from justitia.local.profiles import read_profile

    profile = read_profile(path, application=application)
    # That nothing stands in for a ConfigMap is an error here, and told as one.
    warn(unhonoured([profile], is_training=True, recordings=recordings or path))
    return profile


def _recordings_path(profile: "PredictorProfile | None", given: Path | None) -> Path | None:
    from justitia.local.profiles import recordings_path

    return given if profile is None else recordings_path(profile.spec.samples, given)


def _write_datasheet(path: Path, recordings: Path, report: "TrainingReport") -> None:
    from justitia.local.datasheet import write_datasheet
    from justitia.local.predictors import metrics_of
    from justitia.predictor.recordings import read_recordings

    try:
        write_datasheet(path, read_recordings(recordings).runs, metrics_of(report))
    except OSError as error:
        raise LocalModeError(f"{path}: cannot be written ({error.strerror})") from None


def _settings(
    profile: "PredictorProfile | None", *, kind: str | None, **values: Any
) -> "TrainingSettings":
    """Take a profile's settings, or the defaults, and what flags say otherwise."""
    from justitia.local.predictors import settings_of
    from justitia.predictor.regressor import ModelKind
    from justitia.predictor.settings import TrainingSettings

    if kind is not None and kind not in list(ModelKind):
        raise LocalModeError(f"--kind: must be one of {', '.join(ModelKind)}, got {kind!r}")
    settings = TrainingSettings() if profile is None else settings_of(profile.spec)
    given = values | {"kind": None if kind is None else ModelKind(kind)}
    try:
        return replace(settings, **{k: value for k, value in given.items() if value is not None})
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
    from justitia.predictor.samples import num_without_prompt

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
    if not samples and recordings is not None:
        whose = "" if application is None else f" of application {application}"
        raise LocalModeError(f"{recordings}: there is no run{whose}")
    if not samples:
        raise LocalModeError(
            "no samples to train from: run the application first, or use --recordings"
        )
    for name, given in samples.items():
        if num_blank := num_without_prompt(given):
            warn(f"{name}: of {len(given)} samples {num_blank} are left out: without a prompt")
    return samples


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
