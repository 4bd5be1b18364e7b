"""Cases in which something else than the KV cache is what an engine has too little of."""

from collections.abc import Mapping
from dataclasses import replace
from types import MappingProxyType
from typing import Final

from justitia.sim.scenario import EnginePlan, Scenario
from justitia.sim.workloads.cases import weighted
from justitia.sim.workloads.generate import LOADS_S, PAPER_RUNS, generate
from justitia.sim.workloads.tables import PAPER_ENGINE

_ROOMY: Final = replace(PAPER_ENGINE, blocks=10 * PAPER_ENGINE.blocks)

ENGINES: Final[Mapping[str, EnginePlan]] = MappingProxyType(
    {
        "kv": PAPER_ENGINE,
        "places": replace(_ROOMY, max_num_seqs=6),
        "budget": replace(_ROOMY, max_num_batched_tokens=48),
    }
)
"""By what binds them: KV tokens; sequences at a time; tokens computed in a step."""


def bound_scenario(*, bound: str, seed: int, num_runs: int, has_weights: bool = False) -> Scenario:
    """Draw the paper's mix at 3x for one of ``ENGINES``; with weights, of three tenants."""
    window_s = LOADS_S["3x"] * num_runs / PAPER_RUNS
    if has_weights:
        drawn = weighted(seed=seed, num_runs=num_runs, window_s=window_s)
        return replace(drawn, engines=(ENGINES[bound],))
    return generate(seed=seed, num_runs=num_runs, window_s=window_s, engines=(ENGINES[bound],))
