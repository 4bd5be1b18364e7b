"""The simulator's two engines on the same work: how long each takes, and how far they are apart.

    make bench NAME=simulator
    python bench/simulator.py [--quick]

``exact`` is vLLM's real scheduler and KV-cache manager with the real plugin, ``fast`` our model of
them. What the figures mean:

* ``exact_s``, ``fast_s``: wall time of a play of 300 runs of 20 inferences each, on one core, under
  ``justitia``: once, and the median of five. ``speedup`` is their quotient. ``*_cpu_s`` is the same
  in CPU time of this process: a difference tells of a busy machine.
* ``parity_mean_jct``, ``parity_rank``: over all pairs of plays, the largest difference of mean JCT
  as a share of the exact one's, and the smallest rank correlation of the orders of completion. The
  pairs: that large play; the paper's mix under each of the plugin's policies; and engines with a
  prefix cache, two engines, few places and tokens a step with a watermark.
  ``parity_pairs_alike`` counts those in which no run differs but for rounding.
* ``async_*``: the same where vLLM keeps two steps in flight, which the fast engines do not.
"""

import argparse
import gc
import json
import os
import platform
import random
import statistics
import sys
import time
from dataclasses import replace

from justitia.core.errors import InvalidValueError
from justitia.core.policies import POLICIES
from justitia.sim.exact.make import exact_engines
from justitia.sim.exact.parity import Parity, compare
from justitia.sim.loop import play
from justitia.sim.scenario import Scenario
from justitia.sim.workloads.draw import draw_run
from justitia.sim.workloads.generate import LOADS_S, PAPER_RUNS, generate
from justitia.sim.workloads.tables import KINDS, PAPER_ENGINE

CANNOT_RUN_HERE = 77
SEEDS = (11, 12, 13)
TIMED_SEED = 11
NUM_INFERENCES = 20
FAST_PLAYS = 5
PARITY_RUNS = 30
#: Sums of step times in closed form and step by step differ in their last digits.
ROUNDING = 1e-9
#: Inferences of the stage that is widened. The paper's other two types have an odd number always.
WIDENED = {
    "map-reduce-summarization": {"map": 19},
    "plan-and-execute": {"execute": 18},
    "code-checking": {"check": 19},
    "kbqa-verification": {"verify": 19},
    "equation-verification": {"verify": 19},
    "alfworld-interaction": {"act": 20},
    "self-consistency": {"sample": 20},
}
#: What an engine of the parity scenarios has that the paper's has not, and how many there are.
ENGINES = {
    "prefix cache": (replace(PAPER_ENGINE, has_prefix_cache=True), 1),
    "two engines": (PAPER_ENGINE, 2),
    "short of everything": (
        replace(PAPER_ENGINE, max_num_seqs=8, max_num_batched_tokens=256, watermark=0.05),
        1,
    ),
}
ENGINE_POLICIES = ("fcfs", "justitia")


def twenty(seed: int, num_runs: int = PAPER_RUNS) -> Scenario:
    """Runs of 20 inferences each at the paper's 3x rate: seven of its types in equal shares."""
    window_s = LOADS_S["3x"] * num_runs / PAPER_RUNS
    drawn = generate(dict.fromkeys(WIDENED, 1.0), seed=seed, num_runs=num_runs, window_s=window_s)
    runs = tuple(
        draw_run(
            KINDS[run.application],
            random.Random(f"{seed}/twenty/{run.id}"),
            run_id=run.id,
            arrival_s=run.arrival_s,
            counts=WIDENED[run.application],
        )
        for run in drawn.runs
    )
    return replace(drawn, runs=runs, about=f"{drawn.about}, {NUM_INFERENCES} inferences each")


def parity_cases(seeds, num_runs):
    """Yield (name, scenario, policy) of the pairs that are compared."""
    for seed in seeds:
        window_s = LOADS_S["3x"] * num_runs / PAPER_RUNS
        mix = generate(seed=seed, num_runs=num_runs, window_s=window_s)
        for policy in POLICIES:
            yield f"paper's mix, seed {seed}", mix, policy
        for name, (engine, num) in ENGINES.items():
            other = replace(mix, engines=(engine,) * num)
            for policy in ENGINE_POLICIES:
                yield f"{name}, seed {seed}", other, policy


def worst_of(pairs) -> tuple[float, float]:
    """Return the largest difference of mean JCT and the smallest rank correlation."""
    listed = list(pairs)
    return max(abs(p.jct_difference) for p in listed), min(p.order_correlation for p in listed)


def timed(work):
    """Return what ``work`` returns, its wall time and its CPU time."""
    wall_s, cpu_s = time.perf_counter(), time.process_time()
    result = work()
    return result, time.perf_counter() - wall_s, time.process_time() - cpu_s


def measure_times(scenario):
    """Play it on both kinds of engines; returns the pair and the figures."""
    fast_plays = [timed(lambda: play(scenario, "justitia")) for _ in range(FAST_PLAYS)]
    make_engine = exact_engines()
    exact, exact_s, exact_cpu_s = timed(lambda: play(scenario, "justitia", make_engine=make_engine))
    fast_s, fast_cpu_s = (statistics.median(p[place] for p in fast_plays) for place in (1, 2))
    pair = Parity(fast=fast_plays[0][0], exact=exact, fast_s=fast_s, exact_s=exact_s)
    return pair, {
        "exact_s": round(exact_s, 2),
        "fast_s": round(fast_s, 3),
        "speedup": round(pair.speed_quotient, 1),
        "exact_cpu_s": round(exact_cpu_s, 2),
        "fast_cpu_s": round(fast_cpu_s, 3),
        "exact_steps": sum(engine.steps for engine in exact.engines),
    }


def measure_parity(cases):
    """Compare pair by pair, telling of each."""
    pairs = []
    for name, scenario, policy in cases:
        pair = compare(scenario, policy)
        pairs.append(pair)
        tell(f"{name}, {policy}", pair)
    return pairs


def tell(name, pair):
    print(
        f"{name}: mean JCT {pair.jct_difference:+.4%}, one run {pair.largest_difference:.2%}, "
        f"order {pair.order_correlation:.4f}, {pair.speed_quotient:.0f}x",
        flush=True,
    )


def measure_async(seeds, num_runs):
    window_s = LOADS_S["3x"] * num_runs / PAPER_RUNS
    pairs = []
    for seed in seeds:
        scenario = generate(seed=seed, num_runs=num_runs, window_s=window_s)
        pairs.append(compare(scenario, "justitia", is_async=True))
        tell(f"two steps in flight, seed {seed}, justitia", pairs[-1])
    return pairs


def warm_up():
    """vLLM's imports and first configuration are no part of a play."""
    compare(generate(seed=TIMED_SEED, num_runs=1, window_s=0.0), "justitia")
    gc.collect()
    gc.freeze()  # as vLLM's engine core does when it has started
    import torch

    torch.set_num_threads(1)


def on_one_core():
    """Stay on one core where the system lets us."""
    if hasattr(os, "sched_setaffinity"):
        os.sched_setaffinity(0, {min(os.sched_getaffinity(0))})


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--quick", action="store_true", help="a tenth of the runs, one seed")
    options = parser.parse_args()
    num_runs = PAPER_RUNS // 10 if options.quick else PAPER_RUNS
    seeds = SEEDS[:1] if options.quick else SEEDS
    parity_runs = PARITY_RUNS // 3 if options.quick else PARITY_RUNS
    on_one_core()
    try:
        warm_up()
    except InvalidValueError as error:
        print(f"simulator: {error}", flush=True)
        sys.exit(CANNOT_RUN_HERE)
    large, figures = measure_times(twenty(TIMED_SEED, num_runs))
    tell(f"{num_runs} runs x {NUM_INFERENCES}, seed {TIMED_SEED}, justitia", large)
    pairs = [large, *measure_parity(parity_cases(seeds, parity_runs))]
    two_steps = measure_async(seeds, parity_runs)
    mean_jct, rank = worst_of(pairs)
    async_mean_jct, async_rank = worst_of(two_steps)
    figures |= {
        "parity_mean_jct": round(mean_jct, 6),
        "parity_rank": round(rank, 6),
        "parity_pairs": len(pairs),
        "parity_pairs_alike": sum(p.largest_difference < ROUNDING for p in pairs),
        "parity_one_run": round(max(p.largest_difference for p in pairs), 6),
        "async_mean_jct": round(async_mean_jct, 6),
        "async_rank": round(async_rank, 6),
    }
    print(json.dumps(result_of(figures, num_runs, parity_runs, seeds)))


def result_of(figures, num_runs, parity_runs, seeds):
    import vllm

    return {
        "name": "simulator",
        "figures": figures,
        "reference": f"scheduler and KV-cache manager of vLLM {vllm.__version__} with the plugin",
        "seeds": list(seeds),
        "conditions": f"{num_runs} runs x {NUM_INFERENCES} inferences (seven of the paper's types "
        f"in equal shares, one stage of each widened) at the paper's 3x rate on one A100 with "
        f"{PAPER_ENGINE.blocks} blocks, seed {TIMED_SEED}; wall time, imports not counted, fast: "
        f"median of {FAST_PLAYS}; parity: that and {parity_runs} runs of the paper's mix under "
        f"{len(POLICIES)} policies, and with other engines, one step in flight; one core; "
        f"Python {platform.python_version()}",
    }


if __name__ == "__main__":
    main()
