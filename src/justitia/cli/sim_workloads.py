"""``justitia sim generate`` and ``import``: scenarios from tables, from traces, from recordings."""

from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Final

import typer

from justitia.core.errors import InvalidValueError
from justitia.sim.scenario import EnginePlan
from justitia.sim.workloads.readers.options import IdScope, ReadOptions, RunIs, TimeUnit
from justitia.sim.workloads.tables import PAPER_ENGINE

if TYPE_CHECKING:
    from collections.abc import Callable

    from justitia.sim.scenario import Scenario
    from justitia.sim.workloads.arrivals import Arrivals

app = typer.Typer(no_args_is_help=True, add_completion=False)

Output = Annotated[
    Path | None, typer.Option("--output", "-o", help="scenario file to write; without it none is")
]
Seed = Annotated[int, typer.Option(min=0)]
Window = Annotated[
    float | None, typer.Option("--window", min=0, help="seconds within which the runs arrive")
]


Engines = Annotated[int, typer.Option("--engines", min=1, help="number of equal engines")]
Blocks = Annotated[int, typer.Option(min=1, help="of an engine's KV cache, 16 tokens each")]
MaxModelLen = Annotated[int, typer.Option("--max-model-len", min=1, help="context, tokens")]
StepTime = Annotated[str, typer.Option(help="model of the time of a step")]
PrefixCache = Annotated[bool, typer.Option(help="of the engines")]


class Load(StrEnum):
    """The paper's loads."""

    ONE = "1x"
    TWO = "2x"
    THREE = "3x"


class Case(StrEnum):
    """Single scenarios; ``mix`` is what the other options describe."""

    MIX = "mix"
    MERGERS = "two-mergers"
    THREE = "three-applications"
    ELEPHANT = "elephant"
    STEADY = "steady"
    WEIGHTED = "weighted"
    SKEWED = "skewed"
    WAVES = "waves"
    CROWD = "crowd"
    CODING = "coding-sessions"


class ArrivalKind(StrEnum):
    """How runs arrive; ``trace`` needs a file."""

    POISSON = "poisson"
    UNIFORM = "uniform"
    ON_OFF = "on-off"
    TRACE = "trace"


_CASE_HELP: Final = "a single scenario in place of the mix (docs/workloads.md)"


@app.command("generate")
def generate(
    *,
    case: Annotated[Case, typer.Option(help=_CASE_HELP)] = Case.MIX,
    mix: Annotated[str, typer.Option(help="paper, hermes or TYPE=SHARE,...")] = "paper",
    load: Annotated[Load, typer.Option(help="the paper's window; --window wins")] = Load.THREE,
    num_runs: Annotated[int | None, typer.Option("--runs", min=1)] = None,
    window_s: Window = None,
    seed: Seed = 0,
    arrivals: Annotated[ArrivalKind, typer.Option()] = ArrivalKind.POISSON,
    trace: Annotated[Path | None, typer.Option(help="Mooncake file whose bursts are used")] = None,
    bucket_s: Annotated[float, typer.Option("--bucket", min=0, help="its resolution, s")] = 3.0,
    on_s: Annotated[float, typer.Option("--on", help="seconds on, of on-off")] = 30.0,
    off_s: Annotated[float, typer.Option("--off", help="seconds off")] = 60.0,
    rho: Annotated[float, typer.Option(help="load of the case steady")] = 0.8,
    mice: Annotated[int, typer.Option(min=0, help="of the case elephant")] = 100,
    num_engines: Engines = 1,
    output: Output = None,
) -> None:
    """Draw a scenario from the tables of the paper's nine types, and describe it."""
    from justitia.sim.workloads.generate import LOADS_S, PAPER_RUNS
    from justitia.sim.workloads.generate import generate as draw
    from justitia.sim.workloads.mixes import parse_mix

    def from_mix() -> "Scenario":
        return draw(
            parse_mix(mix),
            seed=seed,
            num_runs=num_runs or PAPER_RUNS,
            window_s=LOADS_S[load.value] if window_s is None else window_s,
            arrivals=_arrivals(arrivals, trace, bucket_s=bucket_s, on_s=on_s, off_s=off_s),
            engines=(PAPER_ENGINE,) * num_engines,
        )

    if case is Case.MIX:
        _finish(from_mix, output)
    else:
        _finish(lambda: _case(case, seed=seed, num_runs=num_runs, rho=rho, mice=mice), output)


@app.command("import")
def import_trace(
    path: Annotated[Path, typer.Argument(help="file, or a folder of files")],
    *,
    format_name: Annotated[str, typer.Option("--format", help="docs/workloads.md lists them")],
    run_is: Annotated[RunIs | None, typer.Option(help="what becomes a run")] = None,
    time_unit: Annotated[TimeUnit | None, typer.Option(help="of the timestamps")] = None,
    block_size_tokens: Annotated[int | None, typer.Option("--block-size", min=1)] = None,
    id_scope: Annotated[IdScope | None, typer.Option(help="where ids of blocks are valid")] = None,
    application: Annotated[str, typer.Option(help="of the runs; else the format's name")] = "",
    window_s: Window = None,
    bucket_s: Annotated[
        float, typer.Option("--bucket", min=0, help="resolution of the timestamps, s")
    ] = 0.0,
    think_s: Annotated[
        float | None, typer.Option("--think", min=0, help="seconds between a session's turns")
    ] = None,
    max_pause_s: Annotated[
        float | None, typer.Option("--max-pause", min=0, help="cut longer pauses to it, s")
    ] = None,
    chars_per_token: Annotated[float | None, typer.Option(help="of files that hold text")] = None,
    output_tokens: Annotated[
        int | None, typer.Option(min=1, help="of requests that tell none")
    ] = None,
    max_runs: Annotated[int | None, typer.Option(min=1, help="read only so many")] = None,
    keep_failed: Annotated[bool, typer.Option(help="requests without output, too")] = False,
    absolute_sub_agents: Annotated[
        bool, typer.Option(help="sub-agents' times count from the session's begin")
    ] = False,
    strict: Annotated[bool, typer.Option(help="stop at the first bad row")] = False,
    num_engines: Engines = 1,
    blocks: Blocks = PAPER_ENGINE.blocks,
    max_model_len_tokens: MaxModelLen = PAPER_ENGINE.max_model_len_tokens,
    step_time: StepTime = PAPER_ENGINE.step_time,
    prefix_cache: PrefixCache = True,
    seed: Seed = 0,
    output: Output = None,
) -> None:
    """Read a trace as a scenario, and tell what was assumed, left out, and what it holds."""
    from justitia.sim.workloads.readers.registry import read_trace

    engine = EnginePlan(
        blocks=blocks,
        max_model_len_tokens=max_model_len_tokens,
        step_time=step_time,
        has_prefix_cache=prefix_cache,
    )

    def read() -> "Scenario":
        options = ReadOptions(
            seed=seed,
            application=application,
            run_is=run_is,
            time_unit=time_unit,
            block_size_tokens=block_size_tokens,
            id_scope=id_scope,
            window_s=window_s,
            bucket_s=bucket_s,
            max_pause_s=max_pause_s,
            think_s=think_s,
            chars_per_token=chars_per_token,
            output_tokens=output_tokens,
            max_runs=max_runs,
            does_keep_failed=keep_failed,
            are_sub_agents_absolute=absolute_sub_agents,
            is_strict=strict,
            engines=(engine,) * num_engines,
        )
        imported = read_trace(format_name, path, options)
        for line in imported.lines():
            typer.echo(line)
        return imported.scenario

    _finish(read, output)


@app.command("recorded")
def recorded(
    *,
    recordings: Annotated[Path, typer.Option(help="file of recorded runs")] = Path(
        "examples/recordings/runs.jsonl.gz"
    ),
    num_runs: Annotated[int, typer.Option("--runs", min=1)] = 225,
    window_s: Annotated[float, typer.Option("--window", min=0)] = 60.0,
    seed: Seed = 0,
    output: Output = None,
) -> None:
    """Let recorded runs of real agents arrive again, with their texts."""
    from justitia.sim.workloads.recorded import recorded_scenario

    _finish(
        lambda: recorded_scenario(recordings, seed=seed, num_runs=num_runs, window_s=window_s),
        output,
    )


def _case(case: Case, *, seed: int, num_runs: int | None, rho: float, mice: int) -> "Scenario":
    from justitia.sim.workloads import cases
    from justitia.sim.workloads.coding_sessions import coding_sessions

    size: dict[str, Any] = {} if num_runs is None else {"num_runs": num_runs}
    makers: dict[Case, Callable[[], Scenario]] = {
        Case.MERGERS: lambda: cases.two_document_mergers(seed=seed),
        Case.THREE: cases.three_applications,
        Case.ELEPHANT: lambda: cases.elephant_and_mice(num_mice=mice, seed=seed),
        Case.STEADY: lambda: cases.steady(rho, seed=seed, **size),
        Case.WEIGHTED: lambda: cases.weighted(seed=seed, **size),
        Case.SKEWED: lambda: cases.skewed_ingress(seed=seed, **size),
        Case.WAVES: lambda: cases.on_and_off(seed=seed, **size),
        Case.CROWD: lambda: cases.crowd(seed=seed, **size),
        Case.CODING: lambda: coding_sessions(seed=seed),
    }
    return makers[case]()


def _arrivals(
    kind: ArrivalKind, trace: Path | None, *, bucket_s: float, on_s: float, off_s: float
) -> "Arrivals":
    from justitia.sim.workloads.arrivals import OnOff, Poisson, Recorded, Uniform
    from justitia.sim.workloads.readers.registry import read_trace
    from justitia.sim.workloads.recorded import timestamps_s

    if kind is ArrivalKind.POISSON:
        return Poisson()
    if kind is ArrivalKind.UNIFORM:
        return Uniform()
    if kind is ArrivalKind.ON_OFF:
        return OnOff(on_s=on_s, off_s=off_s)
    if trace is None:
        raise InvalidValueError("trace", "must be given: whose bursts are to be used?")
    stamps = timestamps_s(read_trace("mooncake", trace).scenario)
    return Recorded(timestamps_s=stamps, bucket_s=bucket_s, source=trace.name)


def _finish(make: "Callable[[], Scenario]", output: Path | None) -> None:
    """Make the scenario, describe it, write it; what is wrong with the options is a usage error."""
    from justitia.sim.workloads.summary import describe

    try:
        scenario = make()
        for line in describe(scenario).lines():
            typer.echo(line)
        if output is not None:
            from justitia.sim.scenario_file import write_scenario

            write_scenario(output, scenario)
            typer.echo(f"written        {output}")
    except InvalidValueError as error:
        raise typer.BadParameter(str(error)) from None
    except OSError as error:
        raise typer.BadParameter(f"{error.filename}: {error.strerror}") from None
