"""Single scenarios: the paper's small experiments, and loads that show one property each."""

import random
from collections.abc import Mapping, Sequence
from dataclasses import replace
from types import MappingProxyType
from typing import Final

from justitia.core.errors import InvalidValueError
from justitia.sim.scenario import (
    ApplicationPlan,
    EnginePlan,
    InferencePlan,
    RunPlan,
    Scenario,
    Segment,
    in_order,
)
from justitia.sim.workloads.arrivals import OnOff
from justitia.sim.workloads.draw import draw_run
from justitia.sim.workloads.generate import generate
from justitia.sim.workloads.mixes import MIXES
from justitia.sim.workloads.summary import total_cost_kvtt
from justitia.sim.workloads.tables import (
    DOCUMENT_MERGING,
    FULL_STEP_S,
    MAP_REDUCE,
    MICE,
    PAPER_ENGINE,
)

_ELEPHANT_PARTS: Final = 64
FIGURE_SEVEN_UNIT_S: Final = 40 * 0.0101
_CLASSES: Final[Mapping[str, float]] = MappingProxyType({"gold": 4.0, "basic": 1.0})


def two_document_mergers(*, seed: int = 0) -> Scenario:
    """The paper's Fig. 3: two equal runs of document merging that arrive together.

    They are one standard deviation above the typical run, which makes the two together take about
    4,000 steps at a full cache, as in the figure. Its mean JCT: 210 s sharing, 166 s in turn.
    """
    first = draw_run(DOCUMENT_MERGING, _rng(seed, "merger"), run_id="merger-1", size=1.0)
    second = draw_run(DOCUMENT_MERGING, _rng(seed, "merger"), run_id="merger-2", size=1.0)
    return Scenario(
        engines=(PAPER_ENGINE,),
        runs=(first, second),
        seed=seed,
        about="two equal runs of document merging (Fig. 3)",
    )


def three_applications() -> Scenario:
    """The paper's Fig. 7 (``docs/algorithm.md``): its unit of cost is 22,000 kvtt here.

    The engine computes two inferences at a time. One of 2.5 units has 500 + 100 tokens and takes
    100 steps, one of 4 units has 500 + 153; so a unit of the figure's time is 40 steps. The fluid
    order is app-1, app-3, app-2.
    """
    output_tokens = {2.5: 100, 4.0: 153}
    arrivals_and_units = {
        "app-1": (0, (2.5, 2.5)),
        "app-2": (1, (4.0, 2.5, 2.5, 2.5)),
        "app-3": (4, (2.5, 2.5, 2.5)),
    }
    runs = tuple(
        RunPlan(
            id=name,
            application=name,
            arrival_s=at * FIGURE_SEVEN_UNIT_S,
            inferences=tuple(
                InferencePlan(
                    prompt=(Segment(f"{name}/{number}", 500),), output_tokens=output_tokens[unit]
                )
                for number, unit in enumerate(units, 1)
            ),
        )
        for name, (at, units) in arrivals_and_units.items()
    )
    engine = EnginePlan(blocks=82, max_num_seqs=2, has_prefix_cache=False)
    return Scenario(engines=(engine,), runs=runs, about="three applications (Fig. 7)")


def elephant_and_mice(
    *,
    num_mice: int,
    seed: int,
    mice_per_s: float = 1.0,
    mouse_size: float = -1.0,
    elephant_parts: int = _ELEPHANT_PARTS,
) -> Scenario:
    """The paper's Fig. 11: a large map-reduce summarization, then one small run a second.

    Mice are of ``MICE`` in turn, ``mouse_size`` standard deviations above the typical run of their
    type. By default they take about three quarters of the engine's time. The elephant summarizes 64
    parts, or as many as ``elephant_parts``.

    Raises:
        InvalidValueError: there are less than 0 mice or no part, or their rate is not above 0.
    """
    if num_mice < 0 or not 0 < mice_per_s < float("inf"):
        raise InvalidValueError(
            "num_mice and mice_per_s", f"must be >= 0 and > 0, got {num_mice} and {mice_per_s}"
        )
    if elephant_parts < 1:
        raise InvalidValueError("elephant_parts", f"must be >= 1, got {elephant_parts}")
    elephant = draw_run(
        MAP_REDUCE,
        _rng(seed, "elephant"),
        run_id="elephant",
        size=1.0,
        counts={"map": elephant_parts},
    )
    mice = (
        replace(
            draw_run(
                MICE[number % len(MICE)],
                _rng(seed, f"mouse/{number}"),
                run_id=f"mouse-{number:05}",
                arrival_s=round((number + 1) / mice_per_s, 6),
                size=mouse_size,
            ),
            size_class="mouse",
        )
        for number in range(num_mice)
    )
    return Scenario(
        engines=(PAPER_ENGINE,),
        runs=(replace(elephant, size_class="elephant"), *mice),
        seed=seed,
        about=f"an elephant and {num_mice} mice, {mice_per_s:g} a second (Fig. 11)",
    )


def steady(
    rho: float,
    *,
    seed: int,
    num_runs: int = 1000,
    mix: Mapping[str, float] = MIXES["hermes"],
    engines: Sequence[EnginePlan] = (PAPER_ENGINE,),
    full_step_s: float = FULL_STEP_S,
) -> Scenario:
    """Poisson arrivals that offer ``rho`` of what the engines can do at a full cache.

    ``full_step_s``: time of an engine's step with a full cache. Prefill, blocks that are not full
    and preemption take some of the rest, so that the real load is above ``rho``.

    Raises:
        InvalidValueError: ``rho`` or ``full_step_s`` is not a finite number above 0.
    """
    for name, value in (("rho", rho), ("full_step_s", full_step_s)):
        if not 0 < value < float("inf"):
            raise InvalidValueError(name, f"must be a finite number > 0, got {value!r}")
    drawn = generate(mix, seed=seed, num_runs=num_runs, window_s=1.0, engines=engines)
    kvtt_per_s = sum(engine.kv_capacity_tokens for engine in engines) / full_step_s
    window_s = total_cost_kvtt(drawn) / kvtt_per_s / rho
    about = f"{num_runs} runs at a load of {rho:g}, Poisson, seed {seed}"
    return stretched(drawn, window_s, about=about)


def weighted(
    weights: Mapping[str, float] = MappingProxyType({"bronze": 1.0, "silver": 2.0, "gold": 4.0}),
    *,
    seed: int,
    num_runs: int = 300,
    window_s: float = 360.0,
    mix: Mapping[str, float] = MIXES["paper"],
) -> Scenario:
    """Tenants with weights 1, 2 and 4 that send alike."""
    return generate(mix, seed=seed, num_runs=num_runs, window_s=window_s, tenants=weights)


def skewed_ingress(
    *,
    seed: int,
    skew: float = 0.8,
    num_engines: int = 2,
    num_runs: int = 400,
    window_s: float = 120.0,
    weights: Mapping[str, float] = _CLASSES,
    mix: Mapping[str, float] = MIXES["paper"],
) -> Scenario:
    """Tenants who reach the same engines unevenly; each run is pinned to one.

    ``skew``: share of a tenant's runs that come in at its own engine (the first tenant's is the
    first); the others come in anywhere else, evenly. Without the pins (``unpinned``) the router
    sends them.

    Raises:
        InvalidValueError: ``skew`` is not from 0 to 1, or there are less than 2 engines.
    """
    if not 0 <= skew <= 1 or num_engines < 2:  # noqa: PLR2004 - skew needs another one
        raise InvalidValueError(
            "skew and num_engines", f"must be from 0 to 1 and >= 2, got {skew} and {num_engines}"
        )
    scenario = generate(
        mix,
        seed=seed,
        num_runs=num_runs,
        window_s=window_s,
        engines=(PAPER_ENGINE,) * num_engines,
        tenants=weights,
        about=f"{num_runs} runs within {window_s:g} s, {skew:.0%} of a tenant's at its own engine",
    )
    own_engine = {name: place % num_engines for place, name in enumerate(weights)}
    rng = _rng(seed, "ingress")
    pins = {}
    for run in scenario.runs:
        own = own_engine[run.application.partition("/")[0]]
        elsewhere = (own + rng.randrange(1, num_engines)) % num_engines
        pins[run.id] = own if rng.random() < skew else elsewhere
    return replace(scenario, engine_of_run=pins)


def proportionate(
    weights: Mapping[str, int],
    *,
    seed: int,
    num_runs: int,
    window_s: float,
    engines: Sequence[EnginePlan] = (PAPER_ENGINE,),
    ingress: Mapping[str, Sequence[int]] = MappingProxyType({}),
    mix: Mapping[str, float] = MIXES["paper"],
) -> Scenario:
    """Tenants who ask in proportion to their weights: a run of weight 4 is four of weight 1.

    ``num_runs`` runs are drawn, and each tenant has one like it at the same time, in which
    everything is there as often as its weight. All of one draw have one cost / weight, so ideal
    weighted sharing has as many runs of each tenant at any time, ends them together, and serves the
    tenants in the ratio of the weights from the first moment to the last.

    ``ingress``: places of the engines at which a tenant's runs come in, in turn; the router sends
    the runs of the others.

    Raises:
        InvalidValueError: a weight is not a whole number >= 1, or as for ``generate``.
    """
    if any(weight < 1 or weight != int(weight) for weight in weights.values()):
        raise InvalidValueError("weights", f"must be whole numbers >= 1, got {dict(weights)}")
    drawn = generate(mix, seed=seed, num_runs=num_runs, window_s=window_s, engines=engines)
    tenants = list(weights)
    runs, pins = [], {}
    for number, run in enumerate(drawn.runs):
        # In turn: of runs that tie the one that comes first is served first.
        first = number % len(tenants)
        for tenant in (*tenants[first:], *tenants[:first]):
            copy = _times(run, weights[tenant], tenant)
            runs.append(copy)
            places = ingress.get(tenant, ())
            if places:
                pins[copy.id] = places[number % len(places)]
    return replace(
        drawn,
        runs=tuple(runs),
        applications=tuple(ApplicationPlan(name=name, weight=w) for name, w in weights.items()),
        engine_of_run=pins,
        about=f"{num_runs} runs of each of {len(weights)} tenants within {window_s:g} s, as large "
        f"as their weights, seed {seed}",
    )


def _times(run: RunPlan, number: int, tenant: str) -> RunPlan:
    """Return a tenant's run that does a number of times side by side what this one does."""
    size = len(run.inferences)
    copies = (
        replace(
            inference,
            prompt=tuple(
                Segment(f"{tenant}/{copy}/{part.stream}", part.tokens) for part in inference.prompt
            ),
            after=tuple(place + copy * size for place in inference.after),
        )
        for copy in range(number)
        for inference in run.inferences
    )
    return replace(run, id=f"{tenant}/{run.id}", application=tenant, inferences=tuple(copies))


def unpinned(scenario: Scenario) -> Scenario:
    """Return the scenario with every run left to the router."""
    return replace(scenario, engine_of_run={})


def crowd(
    *, seed: int, num_runs: int = 100_000, num_engines: int = 1000, load: float = 1.5
) -> Scenario:
    """Many runs on many engines, to measure the simulator: the Hermes mix, somewhat overloaded.

    The window is what makes the load the same at every size.
    """
    engines = (PAPER_ENGINE,) * num_engines
    return steady(load, seed=seed, num_runs=num_runs, engines=engines)


def on_and_off(*, seed: int, num_runs: int = 300, window_s: float = 1080.0) -> Scenario:
    """The paper's mix in three waves with silence between them."""
    third_s = window_s / 3
    arrivals = OnOff(on_s=third_s / 3, off_s=2 * third_s / 3)
    return generate(seed=seed, num_runs=num_runs, window_s=window_s, arrivals=arrivals)


def stretched(scenario: Scenario, factor: float, *, about: str = "") -> Scenario:
    """Return the scenario with all arrivals that many times later; pauses stay."""
    runs = in_order(replace(run, arrival_s=run.arrival_s * factor) for run in scenario.runs)
    return replace(scenario, runs=runs, about=about or scenario.about)


def _rng(seed: int, purpose: str) -> random.Random:
    return random.Random(f"{seed}/{purpose}")  # noqa: S311 - repeatable, not secret
