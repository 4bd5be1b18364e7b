"""What no schedule of a scenario can beat: fluid systems of one resource, with exact costs.

They are references and bounds, not policies. A *fluid system* is one resource that does ``rate``
kvtt a second and can be divided at will among the runs that are there; it knows no inferences,
blocks or steps. What a run cannot do faster, however much of the resource it has, is its *floor*:
its longest chain of inferences (with its pauses), each alone in an engine.

* *Ideal GPS*: everybody there is served at once, in proportion to weight. At the work that a real
  play delivered over time that is the reference of rule R1, which every play has computed
  (``played_gps_jcts_s``); at a constant rate it is ``gps_jcts_s``.
* *Clairvoyant SRPT*: all of the resource to the run with least left. On one resource no schedule
  has a smaller mean JCT (Schrage 1968). With floors on top (``srpt_jcts_s``) it is a yardstick;
  what no schedule can go below is ``least_mean_jct_s``.

The rate decides. ``peak_rate_kvtt_s`` is that of engines that are full at every step and compute
nothing but decode steps of the fewest sequences: nobody can do more, but prompts take time too.
``reached_rate_kvtt_s`` is the mean rate at which a real play worked while it was busy: what comes
of it holds for whatever works no faster than that at any time. ``justitia.sim.engine_time`` counts
in seconds of an engine instead, prompts included; that bound is proven, and close.

Costs are those of rules C1 and C2 with nothing cached, which a prefix cache lowers. So a scenario
whose engines have one is refused. A prompt beyond the budget of a step that is cut into unequal
parts, because others compute too, may cost a little less or more than that.
"""

import heapq
import math
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise

from justitia.core.cost import inference_cost_kvtt, run_cost_kvtt
from justitia.core.errors import InvalidValueError
from justitia.sim.results import PlayResult
from justitia.sim.scenario import EnginePlan, InferencePlan, RunPlan, Scenario
from justitia.sim.service_curve import Curve
from justitia.sim.step_models import step_time_of
from justitia.step_time import Chunk


@dataclass(frozen=True, slots=True, kw_only=True)
class FluidRun:
    """A run in a fluid system. ``floor_s``: its JCT is at least this, whatever it gets.

    ``cost`` is in the unit of which the rate has so many in a second, kvtt or another.
    """

    arrival_s: float
    cost: float
    weight: float = 1.0
    floor_s: float = 0.0


def fluid_runs(scenario: Scenario) -> tuple[FluidRun, ...]:
    """Turn a scenario's runs into those of a fluid system, with costs in kvtt.

    Raises:
        InvalidValueError: an engine has a prefix cache.
    """
    if any(engine.has_prefix_cache for engine in scenario.engines):
        raise InvalidValueError("engines", "must have no prefix cache: costs are not known without")
    weights = {each.name: each.weight for each in scenario.applications}
    budget = max(engine.max_num_batched_tokens for engine in scenario.engines)
    return tuple(
        FluidRun(
            arrival_s=run.arrival_s,
            cost=run_cost_kvtt(
                inference_cost_kvtt(
                    each.prompt_tokens, 0, each.output_tokens, step_budget_tokens=budget
                )
                for each in run.inferences
            ),
            weight=weights.get(run.application, 1.0),
            floor_s=min(floor_s(run, engine) for engine in set(scenario.engines)),
        )
        for run in scenario.runs
    )


def floor_s(run: RunPlan, engine: EnginePlan) -> float:
    """Length of a run's longest chain, each inference alone in an engine with nothing cached."""
    ends: list[float] = []
    for inference in run.inferences:
        begins_s = max((ends[place] for place in inference.after), default=0.0) + inference.pause_s
        ends.append(begins_s + _alone_s(inference, engine))
    return max(ends)


def _alone_s(inference: InferencePlan, engine: EnginePlan) -> float:
    step_time = step_time_of(engine.step_time)
    prompt, budget = inference.prompt_tokens, engine.max_num_batched_tokens
    marks = (*range(0, prompt, budget), prompt)
    prefill_s = math.fsum(
        step_time.of([Chunk(after - before, after)]) for before, after in pairwise(marks)
    )
    return prefill_s + step_time.decoding(1, prompt).of(max(0, inference.output_tokens - 1))


def peak_rate_kvtt_s(engines: Iterable[EnginePlan]) -> float:
    """Rate that engines together cannot exceed: full caches, the fewest sequences, no prefill.

    Infinite where steps take no time.
    """
    total = 0.0
    for engine in engines:
        capacity = engine.kv_capacity_tokens
        fewest = -(-capacity // min(capacity, engine.max_model_len_tokens))
        step_s = step_time_of(engine.step_time).decoding(fewest, capacity - fewest).first_s
        total += capacity / step_s if step_s > 0 else math.inf
    return total


def reached_rate_kvtt_s(played: PlayResult) -> float:
    """Rate at which a play did useful work, all engines together, while they were busy."""
    busy_s = math.fsum(engine.busy_s for engine in played.engines)
    return played.useful_kvtt * len(played.engines) / busy_s if busy_s > 0 else math.inf


def played_gps_jcts_s(played: PlayResult) -> list[float]:
    """JCTs under ideal GPS doing at every moment the work that a play did; floors are the play's.

    That is the reference of rule R1, whose floor is the run's critical path at the step rate that
    it met. Ideal only where the play's estimates were exact: V is theirs.
    """
    return [run.reference_jct_s for run in played.runs]


def gps_jcts_s(runs: Sequence[FluidRun], rate: float) -> list[float]:
    """JCTs under ideal GPS at a constant rate, in the order of ``runs``. O(n log n).

    Virtual time V grows by rate / (weights there) a second; a run that finds V leaves at V + cost /
    weight.

    Raises:
        InvalidValueError: the rate is not above 0.
    """
    _check_rate(rate)
    ends = [0.0] * len(runs)
    active: list[tuple[float, int]] = []
    now_s = value = weight = 0.0
    for arrival_s, number in [*_arrivals(runs), (math.inf, -1)]:
        while active:
            leaves_s = now_s + max(0.0, active[0][0] - value) * weight / rate
            if leaves_s > arrival_s:
                break
            value, gone = heapq.heappop(active)
            now_s = ends[gone] = leaves_s
            weight = weight - runs[gone].weight if active else 0.0
        if number < 0:
            break
        if active:
            value += (arrival_s - now_s) * rate / weight
        now_s = arrival_s
        run = runs[number]
        heapq.heappush(active, (value + run.cost / run.weight, number))
        weight += run.weight
    return _with_floors(runs, ends)


def srpt_jcts_s(runs: Sequence[FluidRun], rate: float) -> list[float]:
    """JCTs under clairvoyant SRPT, each at least its floor, in the order of ``runs``. O(n log n).

    Raises:
        InvalidValueError: the rate is not above 0.
    """
    return _with_floors(runs, _srpt_ends_s(runs, rate))


def least_mean_jct_s(runs: Sequence[FluidRun], rate: float) -> float:
    """Mean JCT that no schedule at this rate can go below; NaN of no runs.

    SRPT with floors on top is no bound: to serve first who is held back by its floor anyway may
    cost others. But any runs may be taken out and counted with their floors alone, and the others
    take at least as long as under SRPT without them. Those are taken out whose floor is above what
    they get, again and again, and the largest of all these bounds is returned.

    Raises:
        InvalidValueError: the rate is not above 0.
    """
    if not runs:
        return math.nan
    floors_s = math.fsum(run.floor_s for run in runs)
    best_s, rest, out_s = floors_s, list(runs), 0.0
    while rest:
        ends = _srpt_ends_s(rest, rate)
        jcts_s = [end - run.arrival_s for run, end in zip(rest, ends, strict=True)]
        best_s = max(best_s, out_s + math.fsum(jcts_s))
        kept = [run for run, jct_s in zip(rest, jcts_s, strict=True) if run.floor_s <= jct_s]
        if len(kept) == len(rest):
            break
        rest = kept
        out_s = floors_s - math.fsum(run.floor_s for run in rest)
    return best_s / len(runs)


def on_curve(
    limit: Callable[[Sequence[FluidRun], float], list[float]],
    runs: Sequence[FluidRun],
    curve: Curve,
) -> list[float]:
    """JCTs under ``gps_jcts_s`` or ``srpt_jcts_s`` where the rate is that of a real play over time.

    The fluid system then does by any moment what the play had done by it, in another order.
    """
    in_work = [replace(run, arrival_s=curve.work_at(run.arrival_s), floor_s=0.0) for run in runs]
    waits = limit(in_work, 1.0)
    ends_s = [
        curve.time_of(each.arrival_s + wait) for each, wait in zip(in_work, waits, strict=True)
    ]
    return _with_floors(runs, ends_s)


def _srpt_ends_s(runs: Sequence[FluidRun], rate: float) -> list[float]:
    _check_rate(rate)
    ends = [0.0] * len(runs)
    waiting: list[tuple[float, int]] = []
    now_s = 0.0
    for arrival_s, number in [*_arrivals(runs), (math.inf, -1)]:
        while waiting:
            left, first = waiting[0]
            ends_s = now_s + left / rate
            if ends_s > arrival_s:
                # Only the first one has been served; it stays the first of these.
                waiting[0] = (left - (arrival_s - now_s) * rate, first)
                break
            heapq.heappop(waiting)
            now_s = ends[first] = ends_s
        if number < 0:
            break
        now_s = arrival_s
        heapq.heappush(waiting, (runs[number].cost, number))
    return ends


def _arrivals(runs: Sequence[FluidRun]) -> list[tuple[float, int]]:
    return sorted((run.arrival_s, number) for number, run in enumerate(runs))


def _with_floors(runs: Sequence[FluidRun], ends_s: Iterable[float]) -> list[float]:
    return [
        max(end_s - run.arrival_s, run.floor_s) for run, end_s in zip(runs, ends_s, strict=True)
    ]


def _check_rate(rate: float) -> None:
    if not rate > 0:
        raise InvalidValueError("rate", f"must be above 0, got {rate!r}")
