"""``justitia record``: real runs of the agents on the real model, for predictors to learn from."""

import asyncio
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
    runs_per_application: Annotated[int, typer.Option("--runs", min=1)] = 40,
    max_runs_at_once: Annotated[int, typer.Option("--at-once", min=1)] = 14,
    output: Annotated[Path, typer.Option("--output", "-o")] = Path(
        "examples/recordings/runs.jsonl.gz"
    ),
    log_dir: Annotated[Path, typer.Option(help="of the engine")] = Path("reports/logs"),
    cache_dir: CacheDir = DEFAULT_CACHE_DIR,
) -> None:
    """Record runs on an engine of its own; what is there already is kept and not played again."""
    from justitia.local.engine import MODEL_NAME, EngineServer, cpu_engine
    from justitia.local.models import ensure_model
    from justitia.local.processes import free_port
    from justitia.local.recorder import RecorderSettings

    console = Console(stderr=True)
    model_dir = ensure_model(EngineKind.CPU, cache_dir, console)
    log_path = log_dir / "vllm-record.log"
    engine = cpu_engine(
        model_dir, port=free_port(), log_path=log_path, policy="fcfs", kv_blocks=512
    )
    settings = RecorderSettings(
        base_url=engine.base_url,
        model=MODEL_NAME,
        output_path=output,
        runs_per_application=runs_per_application,
        max_runs_at_once=max_runs_at_once,
    )
    num_runs = asyncio.run(_record(EngineServer(engine), settings, console))
    console.print(f"{num_runs} runs in {output}", highlight=False)


async def _record(server: "EngineServer", settings: "RecorderSettings", console: Console) -> int:
    from rich.progress import MofNCompleteColumn, Progress, TimeElapsedColumn

    from justitia.local.recorder import record as record_runs

    with console.status("starting vLLM (about half a minute)"):
        await server.__aenter__()
    try:
        columns = (*Progress.get_default_columns(), MofNCompleteColumn(), TimeElapsedColumn())
        with Progress(*columns, console=console) as progress:
            return len(await record_runs(settings, progress))
    finally:
        await server.__aexit__(None, None, None)
