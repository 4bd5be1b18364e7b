"""What a scenario holds, for people: span, rate, counts, tokens, and what looks wrong."""

import statistics
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Final

from justitia.core.cost import inference_cost_kvtt, run_cost_kvtt
from justitia.sim.scenario import InferencePlan, RunPlan, Scenario

MAX_PLAUSIBLE_RUNS_PER_S: Final = 200.0
MIN_PLAUSIBLE_RUNS_PER_S: Final = 0.02
"""For an engine; beyond these, a unit of time was probably taken for another."""

_ENOUGH_RUNS_FOR_A_RATE: Final = 100
_BUCKETED_SHARE: Final = 0.5


@dataclass(frozen=True, slots=True, kw_only=True)
class Distribution:
    """Of some numbers; all 0 where there are none."""

    mean: float
    p50: float
    p99: float
    largest: float

    @classmethod
    def of(cls, numbers: Iterable[float]) -> "Distribution":
        """Sum up numbers."""
        ordered = sorted(numbers)
        if not ordered:
            return cls(mean=0, p50=0, p99=0, largest=0)
        last = len(ordered) - 1
        return cls(
            mean=statistics.fmean(ordered),
            p50=ordered[round(0.5 * last)],
            p99=ordered[round(0.99 * last)],
            largest=ordered[-1],
        )

    def __str__(self) -> str:
        return (
            f"mean {self.mean:,.0f}, p50 {self.p50:,.0f}, p99 {self.p99:,.0f}, "
            f"largest {self.largest:,.0f}"
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class Description:
    """A scenario in numbers; ``lines`` writes it out.

    ``runs_per_s`` is 0 where all arrive at once. ``shared_share``: share of the prompt tokens that
    an earlier prompt of the scenario holds too. ``cost_kvtt``: of everything, without any sharing
    (rules C1 and C2). ``full_cache_steps``: steps that the engines take for it with full caches.
    """

    about: str
    seed: int
    num_engines: int
    num_runs: int
    num_inferences: int
    span_s: float
    runs_per_s: float
    prompt_tokens: Distribution
    output_tokens: Distribution
    inferences_per_run: Distribution
    shared_share: float
    cost_kvtt: int
    full_cache_steps: float
    num_runs_by_application: dict[str, int]
    num_runs_by_size: dict[str, int]
    warnings: tuple[str, ...]

    def lines(self) -> list[str]:
        """Write it out, a fact a line; warnings last."""
        rate = f"{self.runs_per_s:,.3g} runs/s" if self.runs_per_s else "all at once"
        names = ", ".join(f"{name} {num:,}" for name, num in self.num_runs_by_application.items())
        sizes = ", ".join(f"{name} {num:,}" for name, num in self.num_runs_by_size.items() if name)
        facts = [
            f"scenario       {self.about or 'not described'}",
            f"seed           {self.seed}",
            f"engines        {self.num_engines:,}",
            f"runs           {self.num_runs:,} within {self.span_s:,.1f} s, {rate}",
            f"inferences     {self.num_inferences:,}; a run: {self.inferences_per_run}",
            f"prompt tokens  {self.prompt_tokens}",
            f"shared         {self.shared_share:.1%} of the prompt tokens",
            f"output tokens  {self.output_tokens}",
            f"cost           {self.cost_kvtt:,} kvtt, or {self.full_cache_steps:,.0f} full steps",
            f"applications   {names}",
            *([f"sizes          {sizes}"] if sizes else []),
        ]
        return [*facts, *(f"warning: {warning}" for warning in self.warnings)]


def describe(scenario: Scenario) -> Description:
    """Count what a scenario holds and say what looks wrong with it."""
    runs = scenario.runs
    inferences = [inference for run in runs for inference in run.inferences]
    span_s = runs[-1].arrival_s - runs[0].arrival_s if runs else 0.0
    rate = (len(runs) - 1) / span_s if span_s > 0 else 0.0
    capacity = sum(engine.kv_capacity_tokens for engine in scenario.engines)
    cost_kvtt = total_cost_kvtt(scenario)
    return Description(
        about=scenario.about,
        seed=scenario.seed,
        num_engines=len(scenario.engines),
        num_runs=len(runs),
        num_inferences=len(inferences),
        span_s=span_s,
        runs_per_s=rate,
        prompt_tokens=Distribution.of(each.prompt_tokens for each in inferences),
        output_tokens=Distribution.of(each.output_tokens for each in inferences),
        inferences_per_run=Distribution.of(len(run.inferences) for run in runs),
        shared_share=_shared_share(inferences),
        cost_kvtt=cost_kvtt,
        full_cache_steps=cost_kvtt / capacity if capacity else 0.0,
        num_runs_by_application=dict(sorted(Counter(run.application for run in runs).items())),
        num_runs_by_size=dict(sorted(Counter(run.size_class for run in runs).items())),
        warnings=tuple(_warnings(scenario, inferences, rate)),
    )


def total_cost_kvtt(scenario: Scenario) -> int:
    """Cost of all runs by rules C1 and C2, nothing shared, at the first engine's step budget."""
    budget = min((engine.max_num_batched_tokens for engine in scenario.engines), default=2048)
    return sum(
        run_cost_kvtt(
            inference_cost_kvtt(
                each.prompt_tokens, 0, each.output_tokens, step_budget_tokens=budget
            )
            for each in run.inferences
        )
        for run in scenario.runs
    )


def _shared_share(inferences: Sequence[InferencePlan]) -> float:
    """Share of prompt tokens that some earlier prompt has as well, as a prefix cache sees it."""
    longest: dict[tuple[object, ...], int] = {}
    shared = total = 0
    for inference in inferences:
        path: tuple[object, ...] = ()
        for segment in inference.prompt:
            total += segment.tokens
            key = (path, segment.stream)
            known = longest.get(key, 0)
            shared += min(known, segment.tokens)
            longest[key] = max(known, segment.tokens)
            path = (hash((path, segment)),)
    return shared / total if total else 0.0


def _warnings(
    scenario: Scenario, inferences: Sequence[InferencePlan], rate: float
) -> Iterable[str]:
    runs = scenario.runs
    if not runs:
        yield "there are no runs"
        return
    yield from _rate_warnings(runs, rate, num_engines=len(scenario.engines))
    room = max(
        (
            min(engine.kv_capacity_tokens, engine.max_model_len_tokens)
            for engine in scenario.engines
        ),
        default=0,
    )
    unfit = sum(each.prompt_tokens + each.output_tokens > room for each in inferences)
    if unfit:
        yield f"{unfit:,} inferences fit no engine's KV cache or context"
    silent = sum(each.output_tokens == 0 for each in inferences)
    if silent:
        yield f"{silent:,} inferences have no output: embedding or scoring, or failures?"
    unknown = {run.application for run in runs} - {each.name for each in scenario.applications}
    if scenario.applications and unknown:
        yield f"{len(unknown)} applications are not listed and have weight 1: {min(unknown)}, ..."


def _rate_warnings(runs: Sequence[RunPlan], rate: float, *, num_engines: int) -> Iterable[str]:
    if len(runs) < _ENOUGH_RUNS_FOR_A_RATE:
        return
    most = MAX_PLAUSIBLE_RUNS_PER_S * max(1, num_engines)
    if not MIN_PLAUSIBLE_RUNS_PER_S <= rate <= most:
        what = f"{rate:,.3g} runs a second are" if rate else "all runs at one moment is"
        yield f"{what} implausible: is the unit of time right?"
    same = sum(a.arrival_s == b.arrival_s for a, b in pairwise(runs))
    if rate and same >= _BUCKETED_SHARE * len(runs):
        yield f"{same:,} runs arrive at the same time as the one before: give the bucket's width"
