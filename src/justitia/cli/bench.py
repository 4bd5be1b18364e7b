"""``justitia bench``: the same agents' runs on a real vLLM under one policy after another."""

import asyncio
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from rich.console import Console

from justitia.cli.options import DEFAULT_CACHE_DIR, POLICY_NAMES, CacheDir, require_policy
from justitia.local.engine_kind import EngineKind
from justitia.local.errors import LocalModeError

if TYPE_CHECKING:
    from collections.abc import Sequence

    from justitia.local.comparison import ComparisonSettings
    from justitia.local.results import PolicyOutcome


def bench(
    *,
    policies: Annotated[
        str, typer.Option(help=f"comma separated, of {POLICY_NAMES}")
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

    settings = prepare(
        policies=names,
        size=ComparisonSize.of(engine).changed(num_runs=num_runs, window_s=window_s),
        seed=seed,
        engine=engine,
        engine_changes={"kv_blocks": kv_blocks, "watermark": watermark},
        cache_dir=cache_dir,
        log_dir=report.parent / "logs",
    )
    outcomes: list[PolicyOutcome] = []
    try:
        with TerminalProgress() as progress:
            asyncio.run(compare(settings, progress, outcomes.append))
    finally:
        # Also what a failure or Ctrl-C leaves of minutes of work.
        if outcomes:
            _show(outcomes, report, _conditions(settings, outcomes))


def _conditions(settings: "ComparisonSettings", outcomes: "Sequence[PolicyOutcome]") -> str:
    if len(outcomes) == len(settings.policies):
        return settings.conditions
    return f"{settings.conditions}; ended early, after {len(outcomes)} of {len(settings.policies)}"


def _show(outcomes: "Sequence[PolicyOutcome]", report: Path, conditions: str) -> None:
    from justitia.local.report import terminal_table, write_report
    from justitia.local.results import summarize_all

    console = Console()
    console.print(terminal_table(summarize_all(outcomes)))
    try:
        write_report(
            report, outcomes, title="The same runs under each policy", conditions=conditions
        )
    except OSError as error:
        raise LocalModeError(
            f"{report}: the report cannot be written ({error.strerror}); choose another --report"
        ) from None
    console.print(f"report: {report.resolve().as_uri()}", highlight=False, soft_wrap=True)


def _policy_names(text: str) -> tuple[str, ...]:
    names = tuple(name.strip() for name in text.split(",") if name.strip())
    if not names:
        raise typer.BadParameter(f"name at least one of {POLICY_NAMES}", param_hint="--policies")
    for name in names:
        require_policy(name, flag="--policies")
    if len(set(names)) < len(names):
        raise typer.BadParameter(f"names a policy twice: {text}", param_hint="--policies")
    return names
