"""Three tenants with weights 1, 2 and 4: what they are served, and how long they wait."""

import statistics
from collections.abc import Iterator, Sequence
from functools import partial
from types import MappingProxyType
from typing import Any, Final

from justitia.core.quantiles import quantile
from justitia.sim.loop import PlaySettings
from justitia.sim.reproduce.beyond.tenants import WEIGHTED_DRR, Shares, mean_jct_s, measure
from justitia.sim.reproduce.experiment import (
    Cell,
    Experiment,
    Figure,
    Measurement,
    Outcomes,
    Scale,
    Section,
    Series,
    Table,
)
from justitia.sim.reproduce.telling import Spread, listed_seeds, number, over_seeds
from justitia.sim.workloads.cases import proportionate, weighted
from justitia.sim.workloads.mixes import MIXES

_WEIGHTS: Final = MappingProxyType({"bronze": 1, "silver": 2, "gold": 4})
_TENANTS: Final = tuple(_WEIGHTS)
_LIGHTEST: Final = _TENANTS[0]
_POLICIES: Final = ("justitia", "fcfs", "vtc", "drr", WEIGHTED_DRR)
_UNWEIGHTED: Final = "justitia, all weights 1"
_NUM_POINTS: Final = 10
_NUM_DRAWS: Final = 200
_QUICK_DRAWS: Final = 30
_RUNS_PER_S: Final = 300 / 360


def measure_proportionate(*, seed: int, policy: str, num_runs: int) -> dict[str, Any]:
    """Play tenants who ask in proportion to their weights; meter their service."""
    scenario = proportionate(
        _WEIGHTS, seed=seed, num_runs=num_runs, window_s=float(num_runs), mix=MIXES["hermes"]
    )
    return measure(scenario, policy, PlaySettings())


def measure_alike(*, seed: int, policy: str, num_runs: int) -> dict[str, Any]:
    """Play tenants who send alike at 3x; meter their service."""
    is_weighted = policy != _UNWEIGHTED
    scenario = weighted(
        {name: float(weight) if is_weighted else 1.0 for name, weight in _WEIGHTS.items()},
        seed=seed,
        num_runs=num_runs,
        window_s=num_runs / _RUNS_PER_S,
    )
    return measure(scenario, policy if is_weighted else "justitia", PlaySettings())


def _proportionate(seed: int, *, scale: Scale, policy: str) -> Measurement:
    num_runs = _QUICK_DRAWS if scale.is_quick else _NUM_DRAWS
    return Measurement.of(measure_proportionate, seed=seed, policy=policy, num_runs=num_runs)


def _alike(seed: int, *, scale: Scale, policy: str) -> Measurement:
    num_runs = 120 if scale.is_quick else 300
    return Measurement.of(measure_alike, seed=seed, policy=policy, num_runs=num_runs)


def _jobs(scale: Scale) -> Sequence[Measurement]:
    return [
        *(_proportionate(s, scale=scale, policy=name) for name in _POLICIES for s in scale.seeds),
        *(
            _alike(seed, scale=scale, policy=name)
            for name in (*_POLICIES, _UNWEIGHTED)
            for seed in scale.seeds
        ),
    ]


def _tell(scale: Scale, outcomes: Outcomes) -> Section:
    told = _Told(scale, outcomes)
    return Section(
        paragraphs=tuple(told.paragraphs()),
        tables=(told.shares(), told.completion()),
        figures=(told.figure(),),
    )


class _Told:
    def __init__(self, scale: Scale, outcomes: Outcomes) -> None:
        self._scale = scale
        self._outcomes = outcomes

    def _ratio(self, policy: str, tenant: str, last: float = 1.0) -> Spread:
        job = partial(_proportionate, scale=self._scale, policy=policy)
        return over_seeds(
            self._scale,
            self._outcomes,
            job,
            lambda outcome: Shares.of_json(outcome).ratio(tenant, _LIGHTEST, last=last),
        )

    def shares(self) -> Table:
        rows: list[tuple[Cell, ...]] = [
            (
                policy,
                *(str(self._ratio(policy, tenant)) for tenant in _TENANTS[1:]),
                *(number(self._ratio(policy, tenant, 0.5).median) for tenant in _TENANTS[1:]),
            )
            for policy in _POLICIES
        ]
        draws = _QUICK_DRAWS if self._scale.is_quick else _NUM_DRAWS
        return Table(
            title="Service for each unit of bronze's, weights 1 : 2 : 4",
            columns=(
                "policy",
                "silver",
                "gold",
                "silver, first half",
                "gold, first half",
            ),
            rows=tuple(rows),
            note=(
                f"One A100, the Hermes mix; {draws} runs of bronze within {draws} s, and with "
                "each one of silver that is twice and one of gold that is four times as large, "
                "so that ideal weighted sharing serves 1 : 2 : 4 from the first moment on. Until "
                "the first of them has got 95 % of its work; all have a queue until then. "
                f"Exact estimates; {listed_seeds(self._scale)}."
            ),
        )

    def _jct_s(self, policy: str, tenant: str) -> Spread:
        job = partial(_alike, scale=self._scale, policy=policy)
        return over_seeds(
            self._scale, self._outcomes, job, lambda outcome: mean_jct_s(outcome, tenant)
        )

    def _rho(self, policy: str, tenant: str) -> float:
        job = partial(_alike, scale=self._scale, policy=policy)
        return statistics.median(
            quantile(self._outcomes[job(seed)]["ratio"][tenant], 0.99) for seed in self._scale.seeds
        )

    def completion(self) -> Table:
        rows: list[tuple[Cell, ...]] = [
            (
                policy,
                *(str(self._jct_s(policy, tenant)) for tenant in _TENANTS),
                *(number(self._rho(policy, tenant)) for tenant in _TENANTS),
            )
            for policy in (*_POLICIES, _UNWEIGHTED)
        ]
        return Table(
            title="Tenants who send alike at 3x, weights 1 : 2 : 4",
            columns=(
                "policy",
                *(f"{tenant}: mean JCT, s" for tenant in _TENANTS),
                *(f"{tenant}: ρ P99" for tenant in _TENANTS),
            ),
            rows=tuple(rows),
            note=(
                "One A100, the paper's mix. ρ is against weighted fluid sharing of the same play "
                f"(rule R1). Exact estimates; {listed_seeds(self._scale)}."
            ),
        )

    def paragraphs(self) -> Iterator[str]:
        silver, gold = (self._ratio("justitia", tenant) for tenant in _TENANTS[1:])
        yield (
            f"Where all tenants have a queue, Justitia serves 1 : {silver} : {gold} for weights "
            "1 : 2 : 4, up to the size of a run: it serves whole runs one after another. FCFS "
            "serves what is asked for, which is that here too: the ratio tells Justitia from "
            "policies that share equally, not from those that do not share."
        )
        quick, slow = (self._jct_s("justitia", tenant) for tenant in (_TENANTS[-1], _LIGHTEST))
        plain = self._jct_s(_UNWEIGHTED, _LIGHTEST)
        yield (
            f"Tenants who send alike: gold's mean JCT is {number(quick.median / slow.median)} of "
            f"bronze's. Without weights bronze's would be {number(plain.median)} s instead of "
            f"{number(slow.median)} s."
        )
        yield (
            "A weight is a run's, not a tenant's: a tenant with more runs at a time gets more. In "
            "overload those of small weight pile up, so that tenants who send alike are not served "
            "1 : 2 : 4, under ideal sharing either. Who wants shares of tenants needs an order of "
            "tenants, as deficit round robin has, and pays with the completion times above."
        )

    def figure(self) -> Figure:
        parts = [(n + 1) / _NUM_POINTS for n in range(_NUM_POINTS)]
        return Figure(
            name="weights-service",
            title="Service for each unit of bronze's since the beginning",
            kind="lines",
            x=tuple(parts),
            series=tuple(
                Series(
                    label=f"{tenant}, {policy}",
                    values=tuple(self._ratio(policy, tenant, part).median for part in parts),
                )
                for policy in ("justitia", "vtc", WEIGHTED_DRR)
                for tenant in _TENANTS[1:]
            ),
            x_label="share of the time in which all have a queue",
            y_label="service ÷ bronze's",
        )


EXPERIMENT: Final = Experiment(
    name="weights",
    title="Tenants with weights 1, 2 and 4",
    source="",
    about="Shares of service and completion times by tenant.",
    jobs=_jobs,
    tell=_tell,
)
