"""``justitia sim parity``: how far the fast engines are from vLLM's own scheduler."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from rich.console import Console
from rich.table import Table

from justitia.cli.options import POLICY_NAMES, require_policy
from justitia.core.errors import InvalidValueError
from justitia.local.errors import LocalModeError

if TYPE_CHECKING:
    from justitia.sim.exact.parity import Parity


def parity(
    scenario_files: Annotated[
        list[Path],
        typer.Argument(metavar="SCENARIO...", help="scenario files (*.jsonl, *.jsonl.gz)"),
    ],
    *,
    policies: Annotated[
        list[str] | None,
        typer.Option("--policy", help=f"one of {POLICY_NAMES}; may be given again"),
    ] = None,
    is_async: Annotated[
        bool,
        typer.Option("--async", help="exact engines keep two steps in flight, as vLLM on a GPU"),
    ] = False,
) -> None:
    """Play scenarios on fast and on exact engines (vLLM's own scheduler); compare the two."""
    names = [
        require_policy(name, flag="--policy") for name in policies or ["fcfs", "vtc", "justitia"]
    ]
    table = Table()
    for column in ("scenario", "policy"):
        table.add_column(column, overflow="fold")
    for column in ("JCT fast", "JCT exact", "apart", "one run", "order", "preempted", "faster"):
        table.add_column(column, justify="right", overflow="fold")
    for path in scenario_files:
        for name in names:
            table.add_row(path.name, name, *_row(_compare(path, name, is_async=is_async)))
    console = Console(highlight=False)
    console.print(table)
    console.print(
        "apart: of the means; one run: the largest difference of one; order: rank correlation of"
        " the orders of completion; preempted: fast, exact; faster: wall time of exact by fast",
        soft_wrap=True,
    )


def _compare(path: Path, policy: str, *, is_async: bool) -> "Parity":
    from justitia.sim.exact.parity import compare
    from justitia.sim.scenario_file import read_scenario

    try:
        return compare(read_scenario(path), policy, is_async=is_async)
    except InvalidValueError as error:
        raise LocalModeError(str(error)) from None
    except (OSError, UnicodeDecodeError) as error:
        reason = getattr(error, "strerror", None) or error
        raise LocalModeError(f"{path}: the scenario cannot be read ({reason})") from None


def _row(found: "Parity") -> tuple[str, ...]:
    fast, exact = found.fast.summarize(), found.exact.summarize()
    return (
        f"{fast.mean_jct_s:.3f} s",
        f"{exact.mean_jct_s:.3f} s",
        f"{found.jct_difference:+.2%}",
        f"{found.largest_difference:.1%}",
        f"{found.order_correlation:.4f}",
        f"{fast.num_preemptions}, {exact.num_preemptions}",
        f"{found.speed_quotient:.0f}×",
    )
