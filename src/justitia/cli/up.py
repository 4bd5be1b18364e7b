"""``justitia up``: the scheduler service and one vLLM engine on this machine."""

import asyncio
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from rich.console import Console

from justitia.cli.options import (
    DEFAULT_CACHE_DIR,
    MAX_PORT,
    POLICY_NAMES,
    CacheDir,
    require_policy,
    warn,
)
from justitia.local.engine_kind import EngineKind

if TYPE_CHECKING:
    from collections.abc import Sequence

    from justitia.local.stack import Companion
    from justitia.local.trainer import Child
    from justitia.resources.reading import Resource

_HOST = "127.0.0.1"
_POOL = "default"


def up(
    *,
    file: Annotated[
        Path | None, typer.Option("--file", "-f", help="manifests to apply: a file or a folder")
    ] = None,
    recordings: Annotated[
        Path | None,
        typer.Option(
            help="file or folder of recorded runs in place of the ConfigMap or volume of a "
            "PredictorProfile"
        ),
    ] = None,
    engine: Annotated[EngineKind, typer.Option(help="what computes the tokens")] = EngineKind.CPU,
    policy: Annotated[
        str, typer.Option(help=f"order of service, one of {POLICY_NAMES}")
    ] = "justitia",
    port: Annotated[int, typer.Option(min=1, max=MAX_PORT, help="of the OpenAI API")] = 8000,
    scheduler_port: Annotated[
        int, typer.Option(min=1, max=MAX_PORT, help="of the scheduler service's gRPC")
    ] = 50051,
    metrics_port: Annotated[
        int, typer.Option(min=1, max=MAX_PORT, help="of its Prometheus metrics")
    ] = 9095,
    data_dir: Annotated[
        Path | None, typer.Option(help="where runs, samples and models survive a restart")
    ] = None,
    log_dir: Annotated[Path, typer.Option(help="of both processes")] = Path("reports/logs"),
    cache_dir: CacheDir = DEFAULT_CACHE_DIR,
) -> None:
    """Run the scheduler service and a vLLM engine until Ctrl-C.

    Predictors of applications that name a PredictorProfile are trained when it says so.
    """
    require_policy(policy, flag="--policy")

    from justitia.local.declare import unhonoured
    from justitia.local.engine import EngineServer, cpu_engine, emulated_engine
    from justitia.local.manifests import read_manifests
    from justitia.local.models import ensure_model
    from justitia.local.processes import require_free_port
    from justitia.local.service import SchedulerService
    from justitia.local.stack import serve

    console = Console(stderr=True, highlight=False)
    manifests = [] if file is None else read_manifests(file)
    warn(unhonoured(manifests, only_pool=_POOL, is_training=True, recordings=recordings))
    flags = {"--port": port, "--scheduler-port": scheduler_port, "--metrics-port": metrics_port}
    for flag, number in flags.items():
        require_free_port(_HOST, number, flag=flag)
    model_dir = ensure_model(engine, cache_dir, console)
    service = SchedulerService(
        port=scheduler_port,
        metrics_port=metrics_port,
        journal_path=None if data_dir is None else data_dir / "journal.db",
        log_path=log_dir / "scheduler.log",
    )
    make = cpu_engine if engine is EngineKind.CPU else emulated_engine
    server = EngineServer(
        make(
            model_dir,
            port=port,
            log_path=log_dir / "vllm.log",
            policy=policy,
            scheduler_address=service.address,
            pool=_POOL,
        )
    )
    beside = None
    if file is not None:
        from justitia.local.trainer import Child

        child = Child(
            manifests=file, recordings=recordings, address=service.address, log_dir=log_dir
        )
        beside = _trainer(manifests, child, console)
    asyncio.run(serve(service, server, manifests, console, beside=beside))


def _trainer(
    manifests: "Sequence[Resource]", child: "Child", console: Console
) -> "Companion | None":
    """Make what trains predictors; None where the manifests ask for none."""
    from justitia.local.trainer import train_when_due, trainees

    listed = trainees(manifests, recordings=child.recordings)
    if not listed:
        return None
    tell = partial(console.print, markup=False, soft_wrap=True)
    return partial(train_when_due, listed, child, tell=tell)
