"""Two engines, two classes weighted 4 : 1, and traffic that comes in unevenly."""

from collections.abc import Iterator, Mapping, Sequence
from functools import partial
from types import MappingProxyType
from typing import Any, Final

from justitia.sim.loop import PlaySettings
from justitia.sim.reproduce.beyond.tenants import PER_ENGINE, Shares, measure
from justitia.sim.reproduce.experiment import (
    Cell,
    Experiment,
    Measurement,
    Outcomes,
    Scale,
    Section,
    Table,
)
from justitia.sim.reproduce.telling import Spread, listed_seeds, number, over_seeds
from justitia.sim.workloads.cases import proportionate
from justitia.sim.workloads.mixes import MIXES
from justitia.sim.workloads.tables import PAPER_ENGINE

_GOLD: Final = "gold"
_BASIC: Final = "basic"
_WEIGHTS: Final = MappingProxyType({_BASIC: 1, _GOLD: 4})
_WANTED: Final = _WEIGHTS[_GOLD] / _WEIGHTS[_BASIC]
_TOLERANCE: Final = 0.05
_NUM_ENGINES: Final = 2
_NUM_RUNS: Final = 150
_QUICK_RUNS: Final = 40
_QUARTERS: Final = (0.25, 0.5, 0.75)

_Ingress = Mapping[str, Sequence[int]]
_ROUTED: Final = "any engine"
_APART: Final = "each class at its own engine"
_INGRESS: Final[Mapping[str, _Ingress]] = MappingProxyType(
    {
        _ROUTED: {},
        "gold at any engine, basic at the second": {_BASIC: (1,)},
        "basic at any engine, gold at the first": {_GOLD: (0,)},
        "four fifths of a class at its own engine": {
            _GOLD: (0, 0, 0, 0, 1),
            _BASIC: (1, 1, 1, 1, 0),
        },
        _APART: {_GOLD: (0,), _BASIC: (1,)},
    }
)
"""Engines at which a class's runs come in, and stay; those of any other class are routed."""
_SHARED: Final = "justitia"


def measure_ingress(*, seed: int, ingress: str, policy: str, num_runs: int) -> dict[str, Any]:
    """Play a class of weight 1 and one of weight 4 that comes in somewhere; meter their service."""
    scenario = proportionate(
        _WEIGHTS,
        seed=seed,
        num_runs=num_runs,
        window_s=float(num_runs),
        engines=(PAPER_ENGINE,) * _NUM_ENGINES,
        ingress=_INGRESS[ingress],
        mix=MIXES["hermes"],
    )
    return measure(scenario, policy, PlaySettings())


def possible_ratio(ingress: _Ingress) -> float:
    """Gold's service for each unit of basic's in weighted fluid sharing, all engines full.

    What comes in somewhere stays there. Both pinned: each engine divides itself among its own. One
    pinned to a single engine: it gets its share of the pool, but not more than that engine.
    """
    if not ingress:
        return _WANTED
    pinned = dict(ingress)
    if len(pinned) == 1:
        [(name, _)] = pinned.items()
        share = min(1.0, _NUM_ENGINES * _WEIGHTS[name] / sum(_WEIGHTS.values()))
        rest = _NUM_ENGINES - share
        return share / rest if name == _GOLD else rest / share
    served = dict.fromkeys(_WEIGHTS, 0.0)
    for engine in range(_NUM_ENGINES):
        there = {
            name: _WEIGHTS[name] * pinned[name].count(engine) / len(pinned[name])
            for name in _WEIGHTS
        }
        for name, weight in there.items():
            served[name] += weight / sum(there.values())
    return served[_GOLD] / served[_BASIC]


def _job(seed: int, *, scale: Scale, ingress: str, policy: str) -> Measurement:
    runs = _QUICK_RUNS if scale.is_quick else _NUM_RUNS
    return Measurement.of(measure_ingress, seed=seed, ingress=ingress, policy=policy, num_runs=runs)


def _policies(ingress: str) -> tuple[str, ...]:
    """Engines on their own take long to play: where neither is routed nor apart, pins decide."""
    return (_SHARED, PER_ENGINE) if ingress in (_ROUTED, _APART) else (_SHARED,)


def _jobs(scale: Scale) -> Sequence[Measurement]:
    return [
        _job(seed, scale=scale, ingress=ingress, policy=policy)
        for ingress in _INGRESS
        for policy in _policies(ingress)
        for seed in scale.seeds
    ]


def _tell(scale: Scale, outcomes: Outcomes) -> Section:
    told = _Told(scale, outcomes)
    return Section(paragraphs=tuple(told.paragraphs()), tables=(told.table(),))


class _Told:
    def __init__(self, scale: Scale, outcomes: Outcomes) -> None:
        self._scale = scale
        self._outcomes = outcomes

    def _ratio(self, ingress: str, policy: str, last: float = 1.0) -> Spread:
        job = partial(_job, scale=self._scale, ingress=ingress, policy=policy)
        return over_seeds(
            self._scale,
            self._outcomes,
            job,
            lambda outcome: Shares.of_json(outcome).ratio(_GOLD, _BASIC, last=last),
        )

    def table(self) -> Table:
        rows: list[tuple[Cell, ...]] = [
            (
                ingress,
                "the pool's" if policy == _SHARED else "each engine's own",
                number(possible_ratio(_INGRESS[ingress])),
                str(self._ratio(ingress, policy)),
                *(number(self._ratio(ingress, policy, last).median) for last in _QUARTERS),
            )
            for ingress in _INGRESS
            for policy in _policies(ingress)
        ]
        runs = _QUICK_RUNS if self._scale.is_quick else _NUM_RUNS
        return Table(
            title="Service of gold for each unit of basic's, weights 4 : 1",
            columns=(
                "where runs may come in",
                "virtual time",
                "possible",
                "served",
                *(f"in the first {share:.0%}" for share in _QUARTERS),
            ),
            rows=tuple(rows),
            note=(
                f"Two A100s, the Hermes mix; {runs} runs of basic within {runs} s, and with each "
                "one of gold that is four times as large, so that weighted sharing serves 4 : 1 "
                "all the time. Until the first class has got 95 % of its work; both have a queue "
                "until then. "
                f"Possible: weighted fluid sharing where runs stay. Exact estimates; "
                f"{listed_seeds(self._scale)}."
            ),
        )

    def paragraphs(self) -> Iterator[str]:
        shared, apart = self._ratio(_ROUTED, _SHARED), self._ratio(_APART, PER_ENGINE)
        yield (
            f"Two engines with virtual times of their own, each with the traffic of one class, "
            f"serve {apart} : 1: each class has an engine to itself, whatever its weight. One pool "
            f"with one virtual time, to which it does not matter where traffic comes in, serves "
            f"{shared} : 1, {'within' if _is_kept(shared) else 'NOT within'} {_TOLERANCE:.0%} of "
            "4 : 1."
        )
        pinned, alone = self._ratio(_APART, _SHARED), self._ratio(_ROUTED, PER_ENGINE)
        if not _is_kept(pinned):
            yield (
                "A virtual time that is shared does not do that alone: where the runs of a class "
                f"stay at one engine, the pool's serves {pinned} : 1. No order of service moves "
                "work from one engine to another, and gold cannot have more than the engine that "
                "it is at; the column `possible` is the bound."
            )
        if _is_kept(alone):
            yield (
                "And where the router sends all runs, engines with virtual times of their own "
                f"serve {alone} : 1: it gives each of them the same mixture."
            )


def _is_kept(ratio: Spread) -> bool:
    return all(abs(one / _WANTED - 1) <= _TOLERANCE for one in (ratio.least, ratio.most))


EXPERIMENT: Final = Experiment(
    name="skewed-ingress",
    title="Weights across engines that get uneven traffic",
    source="",
    about="What one virtual time for a pool can do, and what it cannot.",
    jobs=_jobs,
    tell=_tell,
)
