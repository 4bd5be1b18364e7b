"""Scenarios drawn from the tables by a seed.

The same seed gives the same runs whatever the arrivals, the window, the engines or the weights are,
so that loads can be compared on equal work.
"""

import random
from collections.abc import Mapping, Sequence
from types import MappingProxyType
from typing import Final

from justitia.core.errors import InvalidValueError
from justitia.sim.scenario import ApplicationPlan, EnginePlan, Scenario
from justitia.sim.workloads.arrivals import Arrivals, Poisson
from justitia.sim.workloads.draw import draw_run
from justitia.sim.workloads.mixes import MIXES, apportion
from justitia.sim.workloads.tables import KINDS, PAPER_ENGINE

PAPER_RUNS: Final = 300
LOADS_S: Final[Mapping[str, float]] = MappingProxyType({"1x": 1080.0, "2x": 540.0, "3x": 360.0})
"""The paper's loads: seconds within which its 300 runs arrive."""


def generate(
    mix: Mapping[str, float] = MIXES["paper"],
    *,
    seed: int,
    num_runs: int = PAPER_RUNS,
    window_s: float = LOADS_S["3x"],
    arrivals: Arrivals = Poisson(),  # noqa: B008 - immutable
    engines: Sequence[EnginePlan] = (PAPER_ENGINE,),
    tenants: Mapping[str, float] = MappingProxyType({}),
    about: str = "",
) -> Scenario:
    """Draw ``num_runs`` runs that arrive within ``window_s`` seconds.

    Types come in the exact shares of ``mix`` (largest remainders), in random order. ``tenants``:
    names and weights of those who share the engines; runs are dealt to them in turn, and an
    application is then a tenant's type, as ``gold/self-consistency``.

    Raises:
        InvalidValueError: ``num_runs`` < 1, a window that is not a finite number >= 0, or what
            ``apportion`` and the arrivals refuse.
    """
    if num_runs < 1 or not 0 <= window_s < float("inf"):
        raise InvalidValueError(
            "num_runs and window_s", f"must be >= 1 and finite >= 0, got {num_runs} and {window_s}"
        )
    names = apportion(mix, num_runs)
    _generator(seed, "types").shuffle(names)
    times_s = arrivals.times_s(_generator(seed, "arrivals"), num_runs, window_s)
    owners = list(tenants) or [""]
    runs = []
    for number, (name, at_s) in enumerate(zip(names, times_s, strict=True)):
        owner = owners[number % len(owners)]
        run = draw_run(
            KINDS[name],
            _generator(seed, f"run/{number}"),
            run_id=f"run-{number:0{len(str(num_runs - 1))}}",
            arrival_s=round(at_s, 6),
            application=f"{owner}/{name}" if owner else name,
        )
        runs.append(run)
    return Scenario(
        engines=tuple(engines),
        runs=tuple(runs),
        applications=_applications(mix, tenants),
        seed=seed,
        about=about or f"{num_runs} runs within {window_s:g} s, {arrivals.about}, seed {seed}",
    )


def _applications(
    mix: Mapping[str, float], tenants: Mapping[str, float]
) -> tuple[ApplicationPlan, ...]:
    if not tenants:
        return tuple(ApplicationPlan(name=name) for name in sorted(mix))
    return tuple(
        ApplicationPlan(name=f"{owner}/{name}", weight=weight)
        for owner, weight in tenants.items()
        for name in sorted(mix)
    )


def _generator(seed: int, purpose: str) -> random.Random:
    """Make the generator of numbers for one purpose; they do not disturb one another."""
    return random.Random(f"{seed}/{purpose}")  # noqa: S311 - repeatable, not secret
