"""What an inference costs, in one unit or another, from its true lengths.

Virtual time counts kvtt, so every unit is scaled: all runs of a scenario together cost what they
cost by rule C1. Only how that is shared out among them differs, which is what a unit of cost says.
Unscaled, a unit that is a thousand times as large gives every run an F close to its S, and the
order that of arrival; one that is as much smaller makes everybody's F far away, and the order that
of cost: the comparison would be one of scales.
"""

import math
from collections.abc import Callable, Mapping
from typing import Final

from justitia.core.cost import (
    dominant_cost_kvtt,
    inference_cost_kvtt,
    paper_cost_kvtt,
    vtc_cost_tokens,
)
from justitia.sim.known_prefixes import KnownPrefixes
from justitia.sim.scenario import EnginePlan, InferencePlan, Scenario
from justitia.sim.step_models import step_time_of
from justitia.step_time import Work

#: Cost of an inference of which so many prompt tokens are cached.
InferenceCost = Callable[[InferencePlan, int], float]


def cost_of(
    unit: str, scenario: Scenario, *, is_scaled: bool = True, is_cached: bool = False
) -> InferenceCost:
    """Make the cost of a unit, one of ``UNITS``, on the scenario's first engine.

    ``is_cached``: it will be asked with cached tokens, so totals are equal with those.
    """
    cost = UNITS[unit](scenario)
    if unit == EXACT or not is_scaled:
        return cost
    total_kvtt = _total(scenario, UNITS[EXACT](scenario), is_cached=is_cached)
    factor = total_kvtt / max(1.0, _total(scenario, cost, is_cached=is_cached))
    return lambda plan, cached: factor * cost(plan, cached)


def _total(scenario: Scenario, cost: InferenceCost, *, is_cached: bool) -> float:
    known, size = KnownPrefixes(), scenario.engines[0].block_size_tokens
    costs = []
    for plan in (plan for run in scenario.runs for plan in run.inferences):
        costs.append(cost(plan, known.cached(plan, size) if is_cached else 0))
        if is_cached:
            known.add(plan)
    return math.fsum(costs)


def _exact(scenario: Scenario) -> InferenceCost:
    budget = scenario.engines[0].max_num_batched_tokens
    return lambda plan, cached: inference_cost_kvtt(
        plan.prompt_tokens, cached, plan.output_tokens, step_budget_tokens=budget
    )


def _paper(_: Scenario) -> InferenceCost:
    return lambda plan, _: paper_cost_kvtt(plan.prompt_tokens, plan.output_tokens)


def _tokens(_: Scenario) -> InferenceCost:
    return lambda plan, cached: max(
        1, vtc_cost_tokens(plan.prompt_tokens - cached, plan.output_tokens)
    )


def _dominant(scenario: Scenario) -> InferenceCost:
    engine = scenario.engines[0]
    return lambda plan, cached: dominant_cost_kvtt(
        plan.prompt_tokens,
        cached,
        plan.output_tokens,
        step_budget_tokens=engine.max_num_batched_tokens,
        kv_capacity_tokens=engine.kv_capacity_tokens,
    )


def _seconds(scenario: Scenario) -> InferenceCost:
    """KV tokens held x seconds of each step, in decode steps of a full cache."""
    engine = scenario.engines[0]
    step = _FullStep(engine, _typical_sequences(scenario, engine))

    def cost(plan: InferencePlan, cached: int) -> float:
        prompt, held, total = plan.prompt_tokens, min(cached, plan.prompt_tokens), 0.0
        while prompt - held > engine.max_num_batched_tokens:
            held += engine.max_num_batched_tokens
            total += held * step.with_prefill(engine.max_num_batched_tokens, held)
        total += prompt * step.with_prefill(max(1, prompt - held), prompt)
        steps = max(0, plan.output_tokens - 1)
        return total + steps * prompt + steps * (steps + 1) / 2

    return cost


class _FullStep:
    """Steps of an engine whose cache is full of so many decoding sequences."""

    def __init__(self, engine: EnginePlan, sequences: int) -> None:
        self._time = step_time_of(engine.step_time)
        self._sequences = sequences
        self._held = engine.kv_capacity_tokens
        self._decoding_s = self._time.of_work(Work(sequences, sequences, self._held))

    def with_prefill(self, tokens: int, held: int) -> float:
        """Time of a step that also computes a prompt's tokens, in steps without."""
        if self._decoding_s <= 0:  # steps take no time
            return 1.0
        work = Work(
            self._sequences + tokens,
            self._sequences + 1,
            self._held,
            tokens * (held - tokens // 2),
        )
        return self._time.of_work(work) / self._decoding_s


def _typical_sequences(scenario: Scenario, engine: EnginePlan) -> int:
    """How many of the scenario's sequences fill the cache, by what they hold in a mean step."""
    plans = [plan for run in scenario.runs for plan in run.inferences]
    steps = sum(max(1, plan.output_tokens) for plan in plans)
    held = _total(scenario, UNITS[EXACT](scenario), is_cached=False) / max(1, steps)
    return max(1, min(engine.max_num_seqs, round(engine.kv_capacity_tokens / max(1.0, held))))


EXACT: Final = "exact"
UNITS: Final[Mapping[str, Callable[[Scenario], InferenceCost]]] = {
    EXACT: _exact,
    "paper": _paper,
    "tokens": _tokens,
    "seconds": _seconds,
    "dominant": _dominant,
}
