"""Which clock drives virtual time (rule V1): service delivered, or the paper's M a step."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Final

from justitia.core.pool import Clock
from justitia.core.quantiles import quantile
from justitia.sim.loop import PlaySettings
from justitia.sim.reproduce.cases import elephant, mix, num_runs
from justitia.sim.reproduce.decisions.bounds import bound_scenario
from justitia.sim.reproduce.experiment import (
    Case,
    Cell,
    Experiment,
    Outcomes,
    Play,
    Scale,
    Section,
    Table,
)
from justitia.sim.reproduce.telling import Spread, listed_seeds, number, quotient, versus
from justitia.sim.reproduce.telling import mean_jct_s as mean_s
from justitia.sim.results import PlayResult
from justitia.sim.workloads.cases import steady

CaseOf = Callable[[Scale, int], Case]

_MICE: Final = 300


def _bound(scale: Scale, seed: int, bound: str, *, has_weights: bool = False) -> Case:
    return Case.of(
        bound_scenario, bound=bound, seed=seed, num_runs=num_runs(scale), has_weights=has_weights
    )


def _mice(scale: Scale) -> int:
    return _MICE // 3 if scale.is_quick else _MICE


CASES: Final[Mapping[str, CaseOf]] = {
    "mix at 3x": lambda scale, seed: mix(seed, "3x", num_runs=num_runs(scale)),
    "mix at 1x": lambda scale, seed: mix(seed, "1x", num_runs=num_runs(scale)),
    "weights 1, 2, 4 at 3x": lambda scale, seed: _bound(scale, seed, "kv", has_weights=True),
    "elephant and mice": lambda scale, seed: elephant(seed, _mice(scale)),
    "steady, load 0.9": lambda scale, seed: Case.of(
        steady, rho=0.9, seed=seed, num_runs=num_runs(scale)
    ),
    "steady, load 0.6": lambda scale, seed: Case.of(
        steady, rho=0.6, seed=seed, num_runs=num_runs(scale)
    ),
    "6 sequences at a time": lambda scale, seed: _bound(scale, seed, "places"),
    "48 tokens a step": lambda scale, seed: _bound(scale, seed, "budget"),
    "6 sequences, weights": lambda scale, seed: _bound(scale, seed, "places", has_weights=True),
}
"""In the last three the KV cache is ten times as large, and something else binds."""

_QUICK: Final = ("mix at 3x", "steady, load 0.6", "6 sequences at a time")
_CAPACITY: Final = PlaySettings(clock=Clock.CAPACITY)


class _Plays:
    """The plays of one case."""

    def __init__(self, scale: Scale, case_of: CaseOf) -> None:
        self._scale = scale
        self._case_of = case_of

    def case(self, seed: int) -> Case:
        return self._case_of(self._scale, seed)

    def vtc(self, seed: int) -> Play:
        return Play(self.case(seed), "vtc")

    def delivered(self, seed: int) -> Play:
        return Play(self.case(seed), "justitia")

    def capacity(self, seed: int) -> Play:
        return Play(self.case(seed), "justitia", _CAPACITY)


def _cases(scale: Scale) -> Iterator[tuple[str, _Plays]]:
    for name, case_of in CASES.items():
        if not scale.is_quick or name in _QUICK:
            yield name, _Plays(scale, case_of)


def _jobs(scale: Scale) -> Sequence[Play]:
    return [
        play(seed)
        for _, plays in _cases(scale)
        for seed in scale.seeds
        for play in (plays.vtc, plays.delivered, plays.capacity)
    ]


def _tell(scale: Scale, outcomes: Outcomes) -> Section:
    rows = tuple(_row(scale, outcomes, name, plays) for name, plays in _cases(scale))
    quotients = {
        name: quotient(scale, outcomes, plays.capacity, plays.delivered, mean_s)
        for name, plays in _cases(scale)
    }
    return Section(
        paragraphs=tuple(_paragraphs(quotients)),
        tables=(
            Table(
                title="The capacity clock against the delivered one",
                columns=(
                    "case",
                    "KV cache used, %",
                    "mean JCT, capacity ÷ delivered",
                    "not later than VTC, delivered",
                    "capacity",
                    "worst ÷ VTC, delivered",
                    "capacity",
                    "ρ P99, delivered",
                    "capacity",
                ),
                rows=rows,
                note=f"{listed_seeds(scale)}. ρ has one reference for both, that of the play with "
                "the delivered clock (rule R1). In the last three cases the KV cache is ten times "
                "as large, and places or tokens of a step bind.",
            ),
        ),
    )


def _paragraphs(quotients: Mapping[str, Spread]) -> Iterator[str]:
    worst = max(quotients, key=lambda name: quotients[name].median)
    best = min(quotients, key=lambda name: quotients[name].median)
    num_better = sum(each.most < 1 for each in quotients.values())
    num_worse = sum(each.least > 1 for each in quotients.values())
    yield (
        "Justitia with exact costs, under either clock of rule V1. *delivered*: V grows by the "
        "useful service that the engines report. *capacity*: V grows by the size of the KV cache "
        "a step, used or not, as in the paper. Where the cache is full they are the same clock; "
        "where something else binds, capacity runs ahead of what can be served, every run's fluid "
        "finish passes soon, and what is left is the order of arrival."
    )
    yield (
        f"Of {len(quotients)} cases the capacity clock has the lower mean JCT under every seed in "
        f"{num_better}, the higher one under every seed in {num_worse}. Its mean is "
        f"{quotients[best]} of the delivered clock's where it does best ({best}) and "
        f"{quotients[worst]} where it does worst ({worst})."
    )


def _row(scale: Scale, outcomes: Outcomes, name: str, plays: _Plays) -> tuple[Cell, ...]:
    seeds = scale.seeds
    kv_tokens = plays.case(seeds[0]).scenario().engines[0].kv_capacity_tokens
    used = Spread.of(_used(outcomes[plays.delivered(seed)], kv_tokens) for seed in seeds)
    delivered = versus(scale, outcomes, plays.delivered, plays.vtc)
    capacity = versus(scale, outcomes, plays.capacity, plays.vtc)
    ratios = [
        Spread.of(
            late_ratio(outcomes[play(seed)], outcomes[plays.delivered(seed)]) for seed in seeds
        )
        for play in (plays.delivered, plays.capacity)
    ]
    return (
        name,
        number(100 * used.median),
        str(quotient(scale, outcomes, plays.capacity, plays.delivered, mean_s)),
        delivered.share_not_later.as_percent,
        capacity.share_not_later.as_percent,
        str(delivered.worst),
        str(capacity.worst),
        *(str(each) for each in ratios),
    )


def _used(result: PlayResult, kv_tokens: int) -> float:
    steps = sum(engine.steps for engine in result.engines)
    return result.useful_kvtt / (steps * kv_tokens) if steps else 0.0


def late_ratio(result: PlayResult, reference: PlayResult) -> float:
    """99th percentile of JCT over the reference JCT (rule R1) that another play has found."""
    reference_s = {run.run_id: run.reference_jct_s for run in reference.runs}
    known = [run for run in result.runs if reference_s[run.run_id] > 0]
    return quantile([run.jct_s / reference_s[run.run_id] for run in known], 0.99)


EXPERIMENT: Final = Experiment(
    name="clock",
    title="The clock: service delivered or capacity",
    source="",
    about="Mixes, loads, weights, an elephant, and engines that something else binds.",
    jobs=_jobs,
    tell=_tell,
)
