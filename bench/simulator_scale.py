"""Time and memory of a play as runs and engines grow together.

    make bench NAME=simulator_scale
    python bench/simulator_scale.py [--sizes 1000/10 10000/100 100000/1000] [--seed 1]

The Hermes mix, overloaded by half at every size (``crowd``), under ``justitia``: runs and engines
grow, the load of an engine does not. Each size is played in a process of its own.

* ``minutes``: of the largest size, all that its process does: drawing the scenario, the play and
  the summary. ``cpu_minutes`` is the same in CPU time.
* ``growth_exponent``: slope of log(CPU time of the play) over log(runs), by least squares;
  n log n over these sizes would be about 1.1. Engines report once a second at every size (as the
  largest does by itself), since small pools are else reported on more often, which would flatter.
  Smaller sizes are played before the largest and twice after it, and count with their median:
  what a neighbour takes of the caches is no slope.
* ``peak_memory_mib``: largest resident set of the largest size's process.
"""

import argparse
import json
import platform
import resource
import subprocess
import sys
import time

from justitia.growth import growth_exponent
from justitia.sim.loop import PlaySettings, play
from justitia.sim.workloads.cases import crowd

SIZES = ("1000/10", "10000/100", "100000/1000")
REPORT_PERIOD_S = 1.0
PLAYS_AFTER = 2
SETTINGS = PlaySettings(report_period_s=REPORT_PERIOD_S)


def parse_size(text):
    """Read RUNS/ENGINES."""
    runs, _, engines = text.partition("/")
    return int(runs), int(engines)


def measure(size, seed):
    """Draw and play one size here; returns what it took and what came out."""
    num_runs, num_engines = parse_size(size)
    began_s, began_cpu_s = time.perf_counter(), time.process_time()
    scenario = crowd(seed=seed, num_runs=num_runs, num_engines=num_engines)
    drawn_cpu_s = time.process_time()
    played = play(scenario, "justitia", SETTINGS)
    played_cpu_s = time.process_time()
    summary = played.summarize()
    return {
        "size": size,
        "wall_s": time.perf_counter() - began_s,
        "cpu_s": time.process_time() - began_cpu_s,
        "play_cpu_s": played_cpu_s - drawn_cpu_s,
        "peak_memory_mib": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024,
        "inferences": sum(len(run.inferences) for run in scenario.runs),
        "steps": sum(engine.steps for engine in played.engines),
        "plans": sum(engine.plans for engine in played.engines),
        "mean_jct_s": summary.mean_jct_s,
        "preemptions": summary.num_preemptions,
    }


def measure_apart(size, seed):
    """Measure one size in a process of its own."""
    command = [sys.executable, __file__, "--one", size, "--seed", str(seed)]
    done = subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True)
    found = json.loads(done.stdout.splitlines()[-1])
    print(
        f"{size:>12} runs/engines: {found['inferences']} inferences, {found['steps']} steps; "
        f"{found['wall_s']:.1f} s, play {found['play_cpu_s']:.1f} s of CPU, "
        f"{found['peak_memory_mib']:.0f} MiB; mean JCT {found['mean_jct_s']:.2f} s",
        flush=True,
    )
    return found


def measure_all(sizes, seed):
    """Measure all sizes, each but the largest several times; of those the median play is kept."""
    smaller = sizes[:-1]
    order = [*sizes, *(list(smaller) * PLAYS_AFTER)]
    plays = [measure_apart(size, seed) for size in order]
    return [median_of([found for found in plays if found["size"] == size]) for size in sizes]


def median_of(plays):
    """The play that took the median of CPU time."""
    return sorted(plays, key=lambda found: found["play_cpu_s"])[len(plays) // 2]


def figures_of(measured):
    """Make the figures of what each size took, the smallest first."""
    last = measured[-1]
    points = [(parse_size(found["size"])[0], found["play_cpu_s"]) for found in measured]
    figures = {
        "minutes": round(last["wall_s"] / 60, 3),
        "cpu_minutes": round(last["cpu_s"] / 60, 3),
        "growth_exponent": round(growth_exponent(points), 4),
        "peak_memory_mib": round(last["peak_memory_mib"], 1),
    }
    for found in measured:
        num_runs = parse_size(found["size"])[0]
        figures |= {
            f"play_cpu_s_at_{num_runs}": round(found["play_cpu_s"], 2),
            f"cpu_us_per_inference_at_{num_runs}": round(
                found["play_cpu_s"] / found["inferences"] * 1e6, 1
            ),
            f"plans_per_inference_at_{num_runs}": round(found["plans"] / found["inferences"], 3),
            f"peak_memory_mib_at_{num_runs}": round(found["peak_memory_mib"], 1),
        }
    return figures


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--sizes", nargs="+", default=SIZES, help="RUNS/ENGINES, growing")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--one", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.one:
        print(json.dumps(measure(options.one, options.seed)))
        return
    measured = measure_all(options.sizes, options.seed)
    largest = measured[-1]
    print(
        json.dumps(
            {
                "name": "simulator_scale",
                "figures": figures_of(measured),
                "reference": "n log n: 1.1 over these sizes; no other simulator is compared",
                "seeds": [options.seed],
                "conditions": f"runs/engines {', '.join(options.sizes)}, {largest['inferences']} "
                f"inferences and {largest['steps']} steps at the largest; Hermes mix at a load of "
                f"1.5, policy justitia, reports once in {REPORT_PERIOD_S:g} s; one process each, "
                f"smaller sizes {1 + PLAYS_AFTER} times; one core; "
                f"Python {platform.python_version()}",
            }
        )
    )


if __name__ == "__main__":
    main()
