"""Table III: time of a scheduling decision by the rate at which runs arrive."""

import time
from collections.abc import Iterator, Mapping, Sequence
from typing import Final

from justitia.core.quantiles import quantile
from justitia.sim.reproduce import paper_numbers as paper
from justitia.sim.reproduce.decision_load import DecisionLoad
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
from justitia.sim.reproduce.telling import Spread, listed_seeds, number

_OPEN_MINUTES: Final = 60
_DECISIONS: Final = 2000
_WARM_UP: Final = 200
_MINUTE_S: Final = 60.0
_RATES: Final = tuple(paper.OVERHEAD_MS)


def decision_times_ms(*, runs_per_minute: int, seed: int) -> dict[str, float]:
    """Time decisions, with as many open runs as an hour brings."""
    load = DecisionLoad(_OPEN_MINUTES * runs_per_minute, seed)
    taken_ms = []
    for number_ in range(_WARM_UP + _DECISIONS):
        now_s = number_ * _MINUTE_S / runs_per_minute
        begun = time.perf_counter()
        run_id = load.decide(now_s)
        taken_ms.append(1000 * (time.perf_counter() - begun))
        load.settle(run_id)
    timed = taken_ms[_WARM_UP:]
    return {
        "median": quantile(timed, 0.5),
        "mean": sum(timed) / len(timed),
        "p99": quantile(timed, 0.99),
    }


def _measurement(runs_per_minute: int, seed: int) -> Measurement:
    return Measurement.timed(decision_times_ms, runs_per_minute=runs_per_minute, seed=seed)


def _jobs(scale: Scale) -> Sequence[Measurement]:
    return [_measurement(rate, seed) for rate in _RATES for seed in scale.seeds]


def _tell(scale: Scale, outcomes: Outcomes) -> Section:
    means_ms = {rate: _over_seeds(scale, outcomes, rate, "mean") for rate in _RATES}
    return Section(
        paragraphs=tuple(_paragraphs(scale, outcomes, means_ms)),
        tables=(_table(scale, outcomes, means_ms),),
        figures=(_figure(means_ms),),
    )


def _paragraphs(scale: Scale, outcomes: Outcomes, means_ms: Mapping[int, Spread]) -> Iterator[str]:
    worst = max(_RATES, key=lambda rate: means_ms[rate].median)
    first, last = _RATES[0], _RATES[-1]
    few, many = (_over_seeds(scale, outcomes, rate, "median").median for rate in (first, last))
    papers = paper.OVERHEAD_MS[last].value / paper.OVERHEAD_MS[first].value
    yield (
        f"A decision takes {number(means_ms[worst].median)} ms in the mean at the worst rate, "
        f"{worst} runs a minute (paper: {paper.OVERHEAD_MS[worst]} ms). At {last} runs a minute, "
        f"with {_OPEN_MINUTES * last:,} open runs, half of all decisions take at most "
        f"{number(many / few)} times as long as at {first} (paper's means: {number(papers)} times)."
    )
    yield (
        "Times are of this machine, the paper's of its own, and what the paper counts as a "
        "decision is not known. Here it is what an arrival needs of the core: the report that "
        "moves V, S and F, the tag, the inference into the queue and the next one out. "
        "Prediction and the network are not in it."
    )


def _over_seeds(scale: Scale, outcomes: Outcomes, rate: int, what: str) -> Spread:
    return Spread.of(outcomes[_measurement(rate, seed)][what] for seed in scale.seeds)


def _table(scale: Scale, outcomes: Outcomes, means_ms: Mapping[int, Spread]) -> Table:
    rows = tuple(
        (
            rate,
            _OPEN_MINUTES * rate,
            str(means_ms[rate]),
            str(paper.OVERHEAD_MS[rate]),
            str(_over_seeds(scale, outcomes, rate, "median")),
            str(_over_seeds(scale, outcomes, rate, "p99")),
        )
        for rate in _RATES
    )
    return Table(
        title="Time of a decision",
        columns=("runs a minute", "open runs", "mean, ms", "paper's, ms", "median, ms", "P99, ms"),
        rows=rows,
        note=f"{_DECISIONS:,} decisions each; {listed_seeds(scale)}.",
    )


def _figure(means_ms: Mapping[int, Spread]) -> Figure:
    return Figure(
        name="overhead",
        title="Time of a decision",
        kind="lines",
        x=tuple(float(rate) for rate in _RATES),
        series=(
            Series(label="here", values=tuple(means_ms[rate].median for rate in _RATES)),
            Series(
                label="paper",
                values=tuple(paper.OVERHEAD_MS[rate].value for rate in _RATES),
                is_paper=True,
            ),
        ),
        x_label="runs a minute",
        y_label="ms",
        is_log_y=True,
    )


EXPERIMENT: Final = Experiment(
    name="overhead",
    title="Time of a decision",
    source="Table III",
    about="How long the core takes, from 15 to 100 runs a minute.",
    jobs=_jobs,
    tell=_tell,
)
