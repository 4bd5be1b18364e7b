"""Learning inside a run (rule K2) on a real engine: what it makes of wrong estimates.

    make bench NAME=learning
    python bench/learning [--quick] [--history] [--pace 1] [--seeds 11 12 13] [--logs DIR]

Recorded runs of the nine example agents are replayed in real time on the real scheduler service, a
process of its own, and a real vLLM server with Justitia's plugin over the GPU timing emulator: one
A100 with the paper's 459 blocks. The small model's runs are small for it, so prompts and outputs
are four times as long as recorded (costs some sixteen times); nothing is cached. They arrive three
times as fast as a simulated engine serves them. A seed's runs, seven of each application, are of
one shelf of the recordings; twelve of each, of the other shelves, are played before, so that the
service has lessons where it may learn. Each seed's arrivals and errors are the same in all plays:

* ``exact``: clients declare what rules C1 and C2 say of the true lengths; ``again``: once more,
  which shows what chance does.
* ``fixed``: they declare it with a lognormal error of median 1, --error in the mean; learning off.
* no suffix: the same, learning on, after a play of the other runs.
* ``history_fixed``, ``history`` (with --history): they declare nothing; off and on, both after a
  play of the other runs.

With --pace 2 the emulated GPU is half as fast and runs come half as fast, so that the server's own
CPU takes half as large a part of a step; all times are then told in the A100's.

A JCT is what the client saw, from before StartRun to the last answer. What the figures mean, each
a median over the seeds:

* ``mean_jct_over_exact``: mean JCT by that of ``exact``. ``*_simulated``: as the simulator has it.
* ``worst_rho_ps``, ``p90_rho_ps``: JCT by that under ideal fair sharing of the work that ``exact``
  did (rule R1's reference there, as the service tells it). ``share_harmed``: runs above 1.3.
* ``share_later``: runs whose JCT is more than 1.1 times that in ``exact``.
* ``moves``: how often an F moved. ``seen_error``: mean relative error of the estimates that the
  service had, against what the engine says that runs took.
* ``step_over_simulated``: time from the first arrival to the last end by the number of steps, and
  that by the simulator's, in which nothing but the emulated GPU takes time: the largest of all
  plays. Near 1: steps were not late. ``time_over_simulated``: the same of the whole time, also
  where there are more steps. ``latest_arrival_ms``: how late the client was with a run, at most.
* ``failed_runs``, ``unsettled_runs``: runs that ended with an error in any play, and those of
  ``exact`` of which the service told no rho; added up over the seeds.

About 9 minutes a seed on two cores, 17 with --history; three with --quick, whose runs are too few
and too short to say much. Ctrl-C ends all processes.
"""

import argparse
import asyncio
import json
import os
import platform
import tempfile
import time
from dataclasses import asdict, replace
from functools import partial
from pathlib import Path

from comparing import (
    EXACT,
    Times,
    figures_of,
    figures_of_seed,
    plans_of,
    seen_error,
    simulated,
    simulated_step_s,
)
from replay import running_stack
from workload import ENGINE, FULL, LOAD, QUICK, costs_of, scenarios_of

from justitia.cli.progress import TerminalProgress
from justitia.local.engine_kind import EngineKind
from justitia.local.errors import LocalModeError
from justitia.local.models import ensure_model
from justitia.predictor.recordings import read_recordings

ROOT = Path(__file__).resolve().parents[2]
RECORDINGS = ROOT / "examples" / "recordings" / "runs.jsonl.gz"
SEEDS = (11, 12, 13)
#: The paper's predictor's.
ERROR = 0.53


def arguments():
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--recordings", type=Path, default=RECORDINGS)
    parser.add_argument("--seeds", type=int, nargs="+", default=list(SEEDS))
    parser.add_argument("--error", type=float, default=ERROR, help="mean relative error")
    parser.add_argument("--pace", type=float, default=1.0, help="emulated GPU so much slower")
    parser.add_argument("--history", action="store_true", help="also without declared costs")
    parser.add_argument("--quick", action="store_true", help="one seed, few and short runs")
    parser.add_argument("--logs", type=Path, help="keep logs, and what became of runs, here")
    parser.add_argument("--cache-dir", type=Path, default=ROOT / ".cache")
    options = parser.parse_args()
    if not options.pace > 0:
        parser.error(f"--pace: must be above 0, got {options.pace:g}")
    return options


async def play_stack(plan, scenarios, start, progress):
    """Start a service and an engine, play what is planned on them, and end them."""
    for name in plan.plays:
        progress.phase(name, "starting")
    plays = {}
    async with start(scenarios.applications, is_learning=plan.is_learning) as stack:
        await stack.play(scenarios.first, costs_of(scenarios.first, EXACT))
        for name, estimator in plan.plays.items():
            scenario = scenarios.of(name)
            plays[name] = await stack.play(
                scenario,
                costs_of(scenario, estimator),
                lambda done, total, name=name: progress.done(name, done, total),
            )
    return plays


def play_seed(seed, runs, options, size, model_dir):
    """Play all of a seed's stacks; returns its figures."""
    scenarios = scenarios_of(runs, seed, size)
    plans = plans_of(options.error, has_history=options.history)
    by_simulator = simulated(plans, scenarios)
    plays = {}
    for number, plan in enumerate(plans):
        with tempfile.TemporaryDirectory() as temporary:
            log_dir = options.logs / f"{seed}-{number}" if options.logs else Path(temporary)
            with TerminalProgress() as progress:
                start = partial(running_stack, model_dir, log_dir, pace=size.pace)
                played = asyncio.run(play_stack(plan, scenarios, start, progress))
            if options.logs:
                keep(played, log_dir)
        for name, each in played.items():
            tell(seed, name, each, by_simulator.get(name))
            if not each.jct_s:
                raise SystemExit(f"error: {name}: no run ended well: {each.errors[0]}")
        plays |= played
    return figures_of_seed(plays, by_simulator)


def keep(plays, folder):
    """Write what came of plays beside the logs of the processes."""
    for name, played in plays.items():
        (folder / f"{name}.json").write_text(json.dumps(asdict(played)) + "\n", encoding="utf-8")


def tell(seed, name, played, simulated_play):
    """One line on a play, as it comes."""
    words = [
        f"seed {seed}, {name}: {len(played.jct_s)} runs in {played.duration_s:.1f} s",
        f"{played.steps} steps of {1e3 * played.step_s:.2f} ms",
    ]
    if simulated_play is not None:
        words.append(
            f"simulated {simulated_play.duration_s:.1f} s, "
            f"{1e3 * simulated_step_s(simulated_play):.2f} ms"
        )
    if played.jct_s:
        words.append(f"mean JCT {Times.of(played).mean_jct_s:.2f} s")
        words.append(f"estimates off by {seen_error(played):.1%}")
    words += [
        f"{played.moves} moves of F, {played.preemptions} preemptions",
        f"latest arrival {1e3 * played.late_s:.0f} ms late",
    ]
    print(", ".join(words), flush=True)
    for error in played.errors[:3]:
        print(f"  failed: {error}", flush=True)


def main():
    options = arguments()
    size = replace(QUICK if options.quick else FULL, pace=options.pace)
    seeds = options.seeds[:1] if options.quick else options.seeds
    runs = read_recordings(options.recordings).runs
    began_s, by_seed = time.monotonic(), []
    try:
        model_dir = ensure_model(EngineKind.EMULATED, options.cache_dir, TerminalProgress().console)
        for seed in seeds:
            by_seed.append(play_seed(seed, runs, options, size, model_dir))
            shown = {name: round(value, 4) for name, value in by_seed[-1].items()}
            print(f"seed {seed}: {json.dumps(shown)}", flush=True)
    except LocalModeError as error:
        raise SystemExit(f"error: {error}") from None
    except KeyboardInterrupt:
        raise SystemExit("stopped") from None
    print(f"{time.monotonic() - began_s:.0f} s in all", flush=True)
    print(json.dumps(result_of(figures_of(by_seed), seeds, size, options.error)))


def result_of(figures, seeds, size, error):
    return {
        "name": "learning",
        "figures": figures,
        "reference": "the same runs with exact costs declared, on an engine of the same kind (mean "
        "JCT), and ideal fair sharing of the work done there (rho)",
        "seeds": list(seeds),
        "conditions": f"{9 * size.judged} recorded runs of nine applications, prompts and outputs "
        f"{size.lengths} times as long, arriving {LOAD:g} times as fast as served, mean relative "
        f"error {error:.0%}, after {9 * size.before} other runs where it learns; real service and "
        f"vLLM server, emulated A100 with {ENGINE.blocks} blocks at a pace of {size.pace:g}; "
        f"medians over seeds; {os.cpu_count()} cores, Python {platform.python_version()}",
    }


if __name__ == "__main__":
    main()
