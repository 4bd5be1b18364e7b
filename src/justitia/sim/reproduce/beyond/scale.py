"""Time and memory of a play as runs and engines grow together."""

import gc
import math
import multiprocessing
import resource
import time
from collections.abc import Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from typing import Any, Final

from justitia.growth import growth_exponent
from justitia.sim.loop import PlaySettings, play
from justitia.sim.reproduce.experiment import (
    Experiment,
    Figure,
    Measurement,
    Outcomes,
    Scale,
    Section,
    Series,
    Table,
)
from justitia.sim.reproduce.telling import number
from justitia.sim.reproduce.worker import stay_with_parent
from justitia.sim.workloads.cases import crowd

_SIZES: Final = (1000, 3000, 10_000)
_QUICK_SIZES: Final = (300, 1000)
_RUNS_PER_ENGINE: Final = 100
_LARGEST: Final = 100_000
_MIB: Final = 1024
#: The same at every size; small pools would report more often by themselves.
_SETTINGS: Final = PlaySettings(report_period_s=1.0)


def measure_size(*, num_runs: int, num_engines: int, seed: int) -> dict[str, Any]:
    """Play a crowd in a process of its own, so that its memory is its own too."""
    context = multiprocessing.get_context("spawn")
    with ProcessPoolExecutor(1, context, stay_with_parent) as apart:
        return apart.submit(_measure_here, num_runs, num_engines, seed).result()


def _measure_here(num_runs: int, num_engines: int, seed: int) -> dict[str, Any]:
    before_mib = _peak_mib()
    scenario = crowd(seed=seed, num_runs=num_runs, num_engines=num_engines)
    gc.freeze()  # the scenario stays: no need to look through it again and again
    drawn_mib, began_s = _peak_mib(), time.process_time()
    played = play(scenario, "justitia", _SETTINGS)
    return {
        "play_s": time.process_time() - began_s,
        "play_mib": _peak_mib() - drawn_mib,
        "scenario_mib": drawn_mib - before_mib,
        "peak_mib": _peak_mib(),
        "inferences": sum(len(run.inferences) for run in scenario.runs),
        "steps": sum(engine.steps for engine in played.engines),
    }


def _peak_mib() -> float:
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / _MIB


def _sizes(scale: Scale) -> tuple[int, ...]:
    return _QUICK_SIZES if scale.is_quick else _SIZES


def _job(scale: Scale, num_runs: int) -> Measurement:
    return Measurement.timed(
        measure_size,
        num_runs=num_runs,
        num_engines=num_runs // _RUNS_PER_ENGINE,
        seed=scale.seeds[0],
    )


def _jobs(scale: Scale) -> Sequence[Measurement]:
    return [_job(scale, num_runs) for num_runs in _sizes(scale)]


def _tell(scale: Scale, outcomes: Outcomes) -> Section:
    found = {num_runs: outcomes[_job(scale, num_runs)] for num_runs in _sizes(scale)}
    times = [(float(num_runs), each["play_s"]) for num_runs, each in found.items()]
    return Section(
        paragraphs=tuple(_paragraphs(times)),
        tables=(_table(scale, found),),
        figures=(
            Figure(
                name="scale",
                title="CPU time of a play",
                kind="lines",
                x=tuple(size for size, _ in times),
                series=(
                    Series(label="measured", values=tuple(seconds for _, seconds in times)),
                    Series(label="n log n", values=tuple(_n_log_n(times))),
                ),
                x_label="runs",
                y_label="CPU time, s",
                is_log_x=True,
                is_log_y=True,
            ),
        ),
    )


def _n_log_n(times: Sequence[tuple[float, float]]) -> Iterator[float]:
    first, first_s = times[0]
    return (first_s * n * math.log(n) / (first * math.log(first)) for n, _ in times)


def _table(scale: Scale, found: dict[int, dict[str, Any]]) -> Table:
    return Table(
        title="A play by size",
        columns=(
            "runs",
            "engines",
            "inferences",
            "steps",
            "CPU time, s",
            "us an inference",
            "largest memory, MiB",
            "of it for the play, MiB",
        ),
        rows=tuple(
            (
                f"{num_runs:,}",
                f"{num_runs // _RUNS_PER_ENGINE:,}",
                f"{each['inferences']:,}",
                f"{each['steps']:,}",
                number(each["play_s"]),
                number(1e6 * each["play_s"] / each["inferences"]),
                number(each["peak_mib"]),
                number(each["play_mib"]),
            )
            for num_runs, each in found.items()
        ),
        note=(
            f"The Hermes mix, overloaded by half, {_RUNS_PER_ENGINE} runs an engine; Justitia, "
            f"exact estimates, seed {scale.seeds[0]}; each size in a process of its own, on one "
            "core of this machine."
        ),
    )


def _paragraphs(times: Sequence[tuple[float, float]]) -> Iterator[str]:
    wanted = growth_exponent(list(zip((n for n, _ in times), _n_log_n(times), strict=True)))
    found = growth_exponent(times)
    yield (
        f"CPU time grows with the {number(found)}th power of the size; n log n would be "
        f"{number(wanted)} over these sizes. {_LARGEST:,} runs on "
        f"{_LARGEST // _RUNS_PER_ENGINE:,} engines are measured by `make bench "
        "NAME=simulator_scale`, which takes longer than all of this report may."
    )


EXPERIMENT: Final = Experiment(
    name="scale",
    title="The simulator's own time and memory",
    source="",
    about="Up to 10,000 runs on 100 engines.",
    jobs=_jobs,
    tell=_tell,
)
