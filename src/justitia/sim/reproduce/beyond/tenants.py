"""What tenants with weights get of a pool: service over time, completion times, fair ratios."""

import statistics
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial
from typing import Any, Final

from justitia.core.policies import Policy
from justitia.core.policies.drr import DeficitRoundRobin
from justitia.core.units import parse_weight
from justitia.sim.loop import PlaySettings
from justitia.sim.reproduce.beyond.per_engine import JustitiaPerEngine
from justitia.sim.scenario import Scenario
from justitia.sim.service_curve import ServiceCurves, by_tenant, play_with_meter

PER_ENGINE: Final = JustitiaPerEngine.name
WEIGHTED_DRR: Final = "drr, weighted"
_QUANTUM_TOKENS: Final = 4096
_ALMOST_ALL: Final = 0.95


def _policy(name: str, scenario: Scenario) -> str | Callable[[], Policy]:
    """Make what ``play`` takes; two have the applications' weights from the scenario."""
    weights = {each.name: each.weight for each in scenario.applications}
    if name == PER_ENGINE:
        nano = {app: parse_weight(weight) for app, weight in weights.items()}
        return partial(JustitiaPerEngine, nano)
    if name == WEIGHTED_DRR:
        quanta = {app: round(_QUANTUM_TOKENS * weight) for app, weight in weights.items()}
        return partial(DeficitRoundRobin, quanta_tokens=quanta)
    return name


def measure(scenario: Scenario, policy: str, settings: PlaySettings) -> dict[str, Any]:
    """Play with a meter; what comes out, JSON can hold (``Shares.of_json``)."""
    made = _policy(policy, scenario)
    played, curves = play_with_meter(scenario, made, settings, group_of=by_tenant)
    jcts: dict[str, list[float]] = {}
    ratios: dict[str, list[float]] = {}
    for plan, run in zip(scenario.runs, played.runs, strict=True):
        jcts.setdefault(by_tenant(plan), []).append(run.jct_s)
        ratios.setdefault(by_tenant(plan), []).append(run.ratio)
    return {"curves": curves.as_json(), "jct_s": jcts, "ratio": ratios}


@dataclass(frozen=True, slots=True)
class Shares:
    """Service of tenants over time, while all of them have something to do."""

    curves: ServiceCurves

    @classmethod
    def of_json(cls, outcome: Mapping[str, Any]) -> "Shares":
        """Read the outcome of ``measure``."""
        return cls(ServiceCurves.of_json(outcome["curves"]))

    @property
    def until_s(self) -> float:
        """Time at which the first tenant has got 95 % of all that it asks for.

        By then it may lack work to fill its share.
        """
        curves = [self.curves.of(name) for name in self.curves.kvtt_by_group]
        return min(curve.time_of(_ALMOST_ALL * curve.work_kvtt[-1]) for curve in curves)

    def between(self, first: float, last: float) -> dict[str, float]:
        """Service of each tenant in a part of that time; ``first`` and ``last`` from 0 to 1."""
        until_s = self.until_s
        return {
            name: curve.work_at(last * until_s) - curve.work_at(first * until_s)
            for name in self.curves.kvtt_by_group
            for curve in [self.curves.of(name)]
        }

    def ratio(self, tenant: str, other: str, *, first: float = 0.0, last: float = 1.0) -> float:
        """Service of one tenant for each unit of the other's."""
        served = self.between(first, last)
        return served[tenant] / served[other]


def mean_jct_s(outcome: Mapping[str, Any], tenant: str) -> float:
    """Mean JCT of a tenant's runs."""
    return statistics.fmean(outcome["jct_s"][tenant])
