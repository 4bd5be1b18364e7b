"""Time of one scheduling decision, and how it grows with the number of open runs.

    python bench/core.py [--arrivals-per-s 1000] [--seconds 4] [--seeds 1 2 3]

What one arrival needs of the core, and is timed as one decision: the report that moves V (with the
departures it brings), ``start_run`` (S and F), the policy's tag, the inference into the queue, and
the next inference out of it. Afterwards, so that the number of open runs stays what it is, the run
whose inference came out is ended; ``growth_exponent`` counts that too.

Decisions are timed by the wall clock, with whatever else the machine does in between; growth is
timed in CPU time of this process, so that a neighbour cannot pass for a slope.

Every open run has one inference that waits. Costs are lognormal (sigma 1), estimates exact.
"""

import argparse
import gc
import json
import math
import platform
import random
import statistics
import time

from justitia.core.engines import EngineReport, RunReport
from justitia.core.estimates import Estimate, Source
from justitia.core.policies import Inference, make_policy
from justitia.core.pool import Pool
from justitia.core.queue import InferenceQueue
from justitia.core.units import UNIT_WEIGHT
from justitia_scheduler.garbage import GarbageCare

NUM_OPEN = 100_000
SIZES = (1_000, 10_000, 100_000, 1_000_000)
WARM_UP_EVENTS = 2_000


class Load:
    """A pool and one engine's queue, with a fixed number of open runs."""

    def __init__(self, num_open, seed):
        self.random = random.Random(seed)
        self.pool = Pool()
        self.pool.join_engine("engine", "first", kv_capacity_tokens=10**6)
        self.policy = make_policy("justitia")
        self.queue = InferenceQueue(self.policy)
        self.cost = {}
        self.number = 0
        self.now_s = 0.0
        self.done = ("none", 0)
        while self.number < num_open:
            self.arrive()

    def arrive(self):
        run_id = f"run-{self.number}"
        cost = self.cost[run_id] = max(1, round(self.random.lognormvariate(11.5, 1.0)))
        view = self.pool.start_run(
            run_id,
            "application",
            weight=UNIT_WEIGHT,
            estimate=Estimate(cost, Source.CLIENT),
            now_s=self.now_s,
        )
        self.policy.start_run(run_id, view.sequence)
        self.policy.set_finish(run_id, view.finish, view.sequence)
        self.queue.add(Inference(f"{run_id}/0", run_id, self.number, cost))
        self.number += 1

    def decide(self):
        """One arrival: report, start, tag, queue, next. Returns the run that is served."""
        run_id, cost = self.done
        closed = () if run_id in self.pool else (run_id,)
        report = EngineReport(
            "engine", "first", self.number, self.number, (RunReport(run_id, cost),), closed
        )
        self.pool.report(report, now_s=self.now_s)
        self.arrive()
        return self.queue.pop().run_id

    def settle(self, run_id):
        """The run that was served last ends; the one that came out now is reported next time."""
        ended, _ = self.done
        if ended in self.pool:
            self.pool.end_run(ended, now_s=self.now_s)
            self.policy.end_run(ended)
        self.done = (run_id, self.cost.pop(run_id))

    def event(self):
        self.now_s += 0.001
        self.settle(self.decide())


def paced_latencies_s(load, *, arrivals_per_s, seconds):
    """Wall time of each decision, arrivals spread evenly; what a late one takes is not forgiven."""
    latencies = []
    begin = time.perf_counter()
    care = GarbageCare(begin)
    for number in range(int(arrivals_per_s * seconds)):
        due = begin + number / arrivals_per_s
        while time.perf_counter() < due:
            pass
        load.now_s += 1 / arrivals_per_s
        before = time.perf_counter()
        if number % arrivals_per_s == 0:  # once a second, as in the service; its time counts
            care.tick(len(load.pool), now_s=begin)
        run_id = load.decide()
        latencies.append(time.perf_counter() - before)
        load.settle(run_id)
    return latencies


def time_per_event_s(load, num_events):
    """CPU time of an event, back to back."""
    before = time.process_time()
    for _ in range(num_events):
        load.event()
    return (time.process_time() - before) / num_events


def warm(load):
    for _ in range(WARM_UP_EVENTS):
        load.event()
    return load


def slope(points):
    """Least squares of log(y) on log(x)."""
    logs = [(math.log(x), math.log(y)) for x, y in points]
    mean_x = statistics.fmean(x for x, _ in logs)
    mean_y = statistics.fmean(y for _, y in logs)
    over = sum((x - mean_x) * (y - mean_y) for x, y in logs)
    return over / sum((x - mean_x) ** 2 for x, _ in logs)


def percentile(values, share):
    return sorted(values)[min(len(values) - 1, int(share * len(values)))]


def measure_decisions(options):
    latencies = []
    for seed in options.seeds:
        load = warm(Load(NUM_OPEN, seed))
        latencies += paced_latencies_s(
            load, arrivals_per_s=options.arrivals_per_s, seconds=options.seconds
        )
        assert len(load.pool) in (NUM_OPEN, NUM_OPEN + 1)
    return latencies


def measure_growth(options):
    points = []
    for size in SIZES:
        load = warm(Load(size, options.seeds[0]))
        times = [time_per_event_s(load, 2_000) for _ in range(9)]
        points.append((size, statistics.median(times)))
        print(f"{size:>9} open runs: {points[-1][1] * 1e6:7.1f} us of CPU per event", flush=True)
        del load
        gc.collect()
    return points


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--arrivals-per-s", type=float, default=1000.0)
    parser.add_argument("--seconds", type=float, default=4.0, help="for each seed")
    parser.add_argument("--seeds", type=int, nargs="+", default=[1, 2, 3])
    options = parser.parse_args()
    latencies = measure_decisions(options)
    p50, p99 = percentile(latencies, 0.5) * 1e3, percentile(latencies, 0.99) * 1e3
    print(f"{NUM_OPEN} open runs, {len(latencies)} decisions: p50 {p50:.3f} ms, p99 {p99:.3f} ms")
    points = measure_growth(options)
    figures = {
        "decision_p99_ms": round(p99, 4),
        "decision_p50_ms": round(p50, 4),
        "decision_p999_ms": round(percentile(latencies, 0.999) * 1e3, 4),
        "decision_max_ms": round(max(latencies) * 1e3, 3),
        "growth_exponent": round(slope(points), 4),
        **{f"event_cpu_us_at_{size}": round(seconds * 1e6, 1) for size, seconds in points},
    }
    conditions = (
        f"{NUM_OPEN} open runs, {options.arrivals_per_s:g} arrivals/s evenly paced, "
        f"{options.seconds:g} s per seed; wall time of report + start_run + tag + queue add + pop; "
        f"growth from {SIZES[0]} to {SIZES[-1]} open runs, back to back, CPU time, median of 9; "
        f"garbage collector as in the service; one core; Python {platform.python_version()}"
    )
    result = {
        "name": "core",
        "figures": figures,
        "reference": "paper: 8.09 ms a decision at 100 arrivals a minute",
        "seeds": options.seeds,
        "conditions": conditions,
    }
    print(json.dumps(result))


if __name__ == "__main__":
    main()
