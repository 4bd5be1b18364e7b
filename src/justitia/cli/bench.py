"""``justitia bench``: the same agents' runs on a real vLLM under one policy after another."""

import asyncio
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console

from justitia.cli.options import DEFAULT_CACHE_DIR, CacheDir
from justitia.core.policies import make_policy
from justitia.local.engine_kind import EngineKind


def bench(
    *,
    policies: Annotated[
        str, typer.Option(help="comma separated: fcfs, sjf, parrot, vtc, srjf, justitia")
    ] = "fcfs,vtc,justitia",
    num_runs: Annotated[int | None, typer.Option("--runs", min=1, help="runs to play")] = None,
    window_s: Annotated[
        float | None, typer.Option("--window", min=0, help="seconds within which they arrive")
    ] = None,
    seed: Annotated[int, typer.Option(min=0, help="of the workload")] = 1,
    engine: Annotated[EngineKind, typer.Option(help="what computes the tokens")] = EngineKind.CPU,
    kv_blocks: Annotated[int | None, typer.Option(min=1, help="size of the KV cache")] = None,
    watermark: Annotated[
        float | None,
        typer.Option(min=0, max=0.9, help="share of the KV cache that admission keeps free"),
    ] = None,
    report: Annotated[Path, typer.Option(help="HTML page to write")] = Path("reports/bench.html"),
    cache_dir: CacheDir = DEFAULT_CACHE_DIR,
) -> None:
    """Play real agents' runs under each policy; end with a table and an HTML report."""
    names = _policy_names(policies)

    from justitia.cli.progress import TerminalProgress
    from justitia.local.comparison import compare
    from justitia.local.preparation import ComparisonSize, prepare
    from justitia.local.report import terminal_table, write_report
    from justitia.local.results import summarize_all

    settings = prepare(
        policies=names,
        size=ComparisonSize.of(engine).changed(num_runs=num_runs, window_s=window_s),
        seed=seed,
        engine=engine,
        engine_changes={"kv_blocks": kv_blocks, "watermark": watermark},
        cache_dir=cache_dir,
        log_dir=report.parent / "logs",
    )
    with TerminalProgress() as progress:
        outcomes = asyncio.run(compare(settings, progress))
    title = "The same runs under each policy"
    write_report(report, outcomes, title=title, conditions=settings.conditions)
    console = Console()
    console.print(terminal_table(summarize_all(outcomes)))
    console.print(f"report: {report.resolve().as_uri()}", highlight=False, soft_wrap=True)


def _policy_names(text: str) -> tuple[str, ...]:
    names = tuple(name.strip() for name in text.split(",") if name.strip())
    for name in names:
        try:
            make_policy(name)
        except ValueError as error:
            raise typer.BadParameter(str(error), param_hint="--policies") from None
    return names
