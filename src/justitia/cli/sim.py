"""``justitia sim``: play scenarios on a virtual clock."""

import time
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Final

import typer
from rich.console import Console
from rich.table import Table

from justitia.cli import sim_workloads
from justitia.cli.sim_parity import parity
from justitia.cli.sim_reproduce import reproduce
from justitia.core.policies import EVERY_POLICY, make_policy
from justitia.local.errors import LocalModeError

if TYPE_CHECKING:
    from collections.abc import Sequence

    from justitia.sim.loop import MakeEngine, PlaySettings
    from justitia.sim.results import PlayResult
    from justitia.sim.scenario import Scenario

sim = typer.Typer(
    name="sim",
    help="Play scenarios under policies on a virtual clock: no GPU, no vLLM.",
    no_args_is_help=True,
)

_POLICY_NAMES: Final = ", ".join(sorted(EVERY_POLICY))
_ROUTINGS: Final = "least-kv, round-robin"


class SimEngine(StrEnum):
    """Kinds of engines."""

    FAST = "fast"
    EXACT = "exact"
    EXACT_ASYNC = "exact-async"


@sim.command("run")
def run(
    scenario_file: Annotated[
        Path, typer.Argument(metavar="SCENARIO", help="scenario file (*.jsonl, *.jsonl.gz)")
    ],
    *,
    policies: Annotated[
        list[str] | None,
        typer.Option("--policy", help=f"one of {_POLICY_NAMES}; may be given again"),
    ] = None,
    estimator: Annotated[
        str,
        typer.Option(help="what is known on arrival: exact, history, paper, tokens, error:0.53"),
    ] = "exact",
    routing: Annotated[
        str, typer.Option(help=f"where runs go that the scenario does not pin: {_ROUTINGS}")
    ] = "least-kv",
    engine: Annotated[
        SimEngine,
        typer.Option(help="exact: vLLM's own scheduler; exact-async: with two steps in flight"),
    ] = SimEngine.FAST,
    learning: Annotated[
        bool,
        typer.Option("--learning", help="re-estimate runs by what they show (rule K2)"),
    ] = False,
    warm_up_file: Annotated[
        Path | None,
        typer.Option("--warm-up", help="scenario that --learning has seen before"),
    ] = None,
) -> None:
    """Play a scenario under each policy; end with a table."""
    names = policies or ["fcfs", "vtc", "justitia"]
    for name in names:
        _require_policy(name)
    settings = _settings(estimator, routing, is_learning=learning)
    scenario = _read(scenario_file)
    if warm_up_file is not None and not learning:
        raise typer.BadParameter("needs --learning", param_hint="--warm-up")
    warm_up = None if warm_up_file is None else _read(warm_up_file)
    console = Console(highlight=False)
    console.print(_about(scenario), markup=False, soft_wrap=True)
    plays = [_play(scenario, name, settings, engine, warm_up) for name in names]
    results = [result for result, _ in plays]
    console.print(_completion(results))
    console.print(_service(results, [wall_s for _, wall_s in plays]))
    console.print(
        f"not later: runs whose JCT is at most that under {results[0].policy}; worst: the largest"
        " quotient of the two",
        soft_wrap=True,
    )


sim.command("parity")(parity)
sim.command("reproduce")(reproduce)
sim.add_typer(sim_workloads.app)


def _require_policy(name: str) -> None:
    try:
        make_policy(name, among=EVERY_POLICY)
    except ValueError as error:
        raise typer.BadParameter(str(error), param_hint="--policy") from None


def _settings(estimator: str, routing: str, *, is_learning: bool) -> "PlaySettings":
    from justitia.core.learning import LearningRules
    from justitia.sim.loop import PlaySettings
    from justitia.sim.router import Routing

    try:
        return PlaySettings(
            estimator=estimator,
            routing=Routing(routing),
            learning=LearningRules() if is_learning else None,
        )
    except ValueError:
        raise typer.BadParameter(
            f"must be one of {_ROUTINGS}; got {routing!r}", param_hint="--routing"
        ) from None


def _read(path: Path) -> "Scenario":
    from justitia.core.errors import InvalidValueError
    from justitia.sim.scenario_file import read_scenario

    try:
        return read_scenario(path)
    except InvalidValueError as error:
        raise LocalModeError(str(error)) from None
    except (OSError, UnicodeDecodeError) as error:
        reason = getattr(error, "strerror", None) or error
        raise LocalModeError(f"{path}: the scenario cannot be read ({reason})") from None


def _play(
    scenario: "Scenario",
    policy: str,
    settings: "PlaySettings",
    engine: SimEngine,
    warm_up: "Scenario | None",
) -> "tuple[PlayResult, float]":
    from justitia.core.errors import InvalidValueError
    from justitia.sim.loop import play

    try:
        make_engine = _maker(engine)
        start_s = time.perf_counter()
        result = play(scenario, policy, settings, make_engine=make_engine, warm_up=warm_up)
    except InvalidValueError as error:
        raise LocalModeError(str(error)) from None
    return result, time.perf_counter() - start_s


def _maker(engine: SimEngine) -> "MakeEngine | None":
    if engine is SimEngine.FAST:
        return None
    from justitia.sim.exact.make import exact_engines

    return exact_engines(is_async=engine is SimEngine.EXACT_ASYNC)


def _about(scenario: "Scenario") -> str:
    num_inferences = sum(len(each.inferences) for each in scenario.runs)
    last_s = scenario.runs[-1].arrival_s if scenario.runs else 0.0
    kv_tokens = sum(engine.kv_capacity_tokens for engine in scenario.engines)
    about = f"{scenario.about}: " if scenario.about else ""
    return (
        f"{about}{len(scenario.runs)} runs, {num_inferences} inferences within {last_s:.0f} s;"
        f" {len(scenario.engines)} engines with {kv_tokens:,} KV tokens; seed {scenario.seed}"
    )


def _table(*columns: str) -> Table:
    table = Table()
    table.add_column("policy", overflow="fold")
    for name in columns:
        table.add_column(name, justify="right", overflow="fold")
    return table


def _completion(results: "Sequence[PlayResult]") -> Table:
    """How long runs took, and how many of them no longer than under the first policy."""
    table = _table("JCT mean", "P50", "P90", "P99", "not later", "worst")
    for result in results:
        summary, against = result.summarize(), result.against(results[0])
        table.add_row(
            result.policy,
            f"{summary.mean_jct_s:.1f} s",
            f"{summary.p50_jct_s:.1f} s",
            f"{summary.p90_jct_s:.1f} s",
            f"{summary.p99_jct_s:.1f} s",
            f"{against.share_not_later:.0%}",
            f"{against.worst:.2f}",
        )
    return table


def _service(results: "Sequence[PlayResult]", wall_s: "Sequence[float]") -> Table:
    """How fairly runs were served, and what the engines did for it."""
    table = _table("ρ p50", "ρ p99", "ρ worst", "preempted", "wasted", "cached", "played in")
    for result, played_in_s in zip(results, wall_s, strict=True):
        summary = result.summarize()
        table.add_row(
            result.policy,
            f"{summary.ratio_p50:.2f}",
            f"{summary.ratio_p99:.2f}",
            f"{summary.worst_ratio:.2f}",
            str(summary.num_preemptions),
            f"{summary.wasted_share:.1%}",
            f"{summary.cached_share:.0%}",
            f"{played_in_s:.1f} s",
        )
    return table
