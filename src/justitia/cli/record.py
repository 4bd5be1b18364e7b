"""``justitia record``: real runs of the agents on a real model, for predictors to learn from."""

import asyncio
import contextlib
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from rich.console import Console

from justitia.cli.options import DEFAULT_CACHE_DIR, CacheDir
from justitia.local.engine_kind import EngineKind

if TYPE_CHECKING:
    from justitia.local.engine import EngineServer
    from justitia.local.recorder import RecorderSettings


def record(
    *,
    applications: Annotated[
        list[str] | None,
        typer.Option("--application", help="record this agent alone; may be given several times"),
    ] = None,
    runs_per_application: Annotated[int, typer.Option("--runs", min=1)] = 150,
    max_runs_at_once: Annotated[int, typer.Option("--at-once", min=1)] = 14,
    output: Annotated[
        Path,
        typer.Option(
            "--output",
            "-o",
            help="file of these agents' runs of this model; another one's is refused",
        ),
    ] = Path("examples/recordings/runs.jsonl.gz"),
    base_url: Annotated[
        str,
        typer.Option(help="OpenAI address of a server that is up; without it one is started"),
    ] = "",
    model: Annotated[
        str, typer.Option(help="name under which that server serves its model")
    ] = "smollm2",
    agents: Annotated[Path, typer.Option(help="folder of agents")] = Path("examples/agents"),
    log_dir: Annotated[Path, typer.Option(help="of the engine")] = Path("reports/logs"),
    cache_dir: CacheDir = DEFAULT_CACHE_DIR,
) -> None:
    """Record runs; what is there already is kept and not played again. Tell how predictable."""
    from justitia.local.recorder import RecorderSettings, num_missing

    console = Console(stderr=True)
    settings = RecorderSettings(
        base_url=base_url,
        model=model,
        agents_path=agents,
        output_path=output,
        applications=tuple(applications or ()),
        runs_per_application=runs_per_application,
        max_runs_at_once=max_runs_at_once,
    )
    server = None
    if not base_url and num_missing(settings):
        server = _own_server(cache_dir, log_dir, console)
        settings = replace(settings, base_url=server.settings.base_url)
    num_runs = asyncio.run(_record(server, settings, console))
    console.print(f"{num_runs} runs in {output}", highlight=False)
    _write_errors(output, console)


def _own_server(cache_dir: Path, log_dir: Path, console: Console) -> "EngineServer":
    from justitia.local.engine import EngineServer, cpu_engine
    from justitia.local.models import ensure_model
    from justitia.local.processes import free_port

    model_dir = ensure_model(EngineKind.CPU, cache_dir, console)
    log_path = log_dir / "vllm-record.log"
    return EngineServer(cpu_engine(model_dir, port=free_port(), log_path=log_path, policy="fcfs"))


async def _record(
    server: "EngineServer | None", settings: "RecorderSettings", console: Console
) -> int:
    from rich.progress import MofNCompleteColumn, Progress, TimeElapsedColumn

    from justitia.local.recorder import record as record_runs

    async with contextlib.AsyncExitStack() as stack:
        if server is not None:
            with console.status("starting vLLM (about half a minute)"):
                await stack.enter_async_context(server)
        columns = (*Progress.get_default_columns(), MofNCompleteColumn(), TimeElapsedColumn())
        with Progress(*columns, console=console) as progress:
            return len(await record_runs(settings, progress))


def _write_errors(recordings: Path, console: Console) -> None:
    """Train on what was recorded, only to write down how well it can be predicted."""
    from justitia.local.datasheet import datasheet_path, write_datasheet
    from justitia.local.engine_kind import STEP_BUDGET_TOKENS
    from justitia.local.predictors import metrics_of, read_runs, train_with_progress
    from justitia.predictor.settings import TrainingSettings

    found = read_runs(recordings)
    samples = found.samples(step_budget_tokens=STEP_BUDGET_TOKENS)
    report = train_with_progress(samples, settings=TrainingSettings(), console=console)
    write_datasheet(datasheet_path(recordings), found.runs, metrics_of(report))
