"""Time of one scheduling decision, and how it grows with the number of open runs.

    python bench/core.py [--arrivals-per-s 1000] [--seconds 4] [--seeds 1 2 3]

What one arrival needs of the core, and is timed as one decision: the report that moves V (with the
departures it brings), ``start_run`` (S and F), the policy's tag, the inference into the queue, and
the next inference out of it. Afterwards, so that the number of open runs stays what it is, the run
whose inference came out is ended; ``growth_exponent`` counts that too.

Decisions are timed by the wall clock, with whatever else the machine does in between; growth is
timed in CPU time of this process, so that a neighbour cannot pass for a slope.
"""

import argparse
import gc
import json
import platform
import statistics
import time

from justitia.growth import growth_exponent
from justitia.sim.reproduce.decision_load import DecisionLoad
from justitia_scheduler.garbage import GarbageCare

NUM_OPEN = 100_000
SIZES = (1_000, 10_000, 100_000, 1_000_000)
WARM_UP_EVENTS = 2_000


def paced_latencies_s(load, *, arrivals_per_s, seconds):
    """Wall time of each decision, arrivals spread evenly; what a late one takes is not forgiven."""
    latencies = []
    begin = time.perf_counter()
    care = GarbageCare(begin)
    for number in range(int(arrivals_per_s * seconds)):
        due = begin + number / arrivals_per_s
        while time.perf_counter() < due:
            pass
        before = time.perf_counter()
        if number % arrivals_per_s == 0:  # once a second, as in the service; its time counts
            care.tick(len(load), now_s=begin)
        run_id = load.decide(number / arrivals_per_s)
        latencies.append(time.perf_counter() - before)
        load.settle(run_id)
    return latencies


def time_per_event_s(load, num_events):
    """CPU time of an event, back to back."""
    before = time.process_time()
    for _ in range(num_events):
        load.settle(load.decide(0.0))
    return (time.process_time() - before) / num_events


def warm(load):
    for _ in range(WARM_UP_EVENTS):
        load.settle(load.decide(0.0))
    return load


def percentile(values, share):
    return sorted(values)[min(len(values) - 1, int(share * len(values)))]


def measure_decisions(options):
    latencies = []
    for seed in options.seeds:
        load = warm(DecisionLoad(NUM_OPEN, seed))
        latencies += paced_latencies_s(
            load, arrivals_per_s=options.arrivals_per_s, seconds=options.seconds
        )
        assert len(load) in (NUM_OPEN, NUM_OPEN + 1)
    return latencies


def measure_growth(options):
    points = []
    for size in SIZES:
        load = warm(DecisionLoad(size, options.seeds[0]))
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
        "growth_exponent": round(growth_exponent(points), 4),
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
