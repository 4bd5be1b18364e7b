"""Real agents on the real small model under FCFS, VTC and Justitia: who is sooner, who harmed.

    make bench NAME=agents

Three seeds; for each the same workload of nine applications on the same engine with the same
limits. On a quiet machine the engine works about four times as long as the arrivals take. Half an
hour, or longer beside other work.
"""

import asyncio
import json
import statistics
import sys
import tempfile
from dataclasses import asdict
from pathlib import Path

from justitia.cli.progress import TerminalProgress
from justitia.local.comparison import compare
from justitia.local.preparation import ComparisonSize, prepare
from justitia.local.results import ratios_over, summarize_all

SEEDS = (11, 12, 13)
SIZE = ComparisonSize(54, 30.0)


def play(seed, log_dir):
    settings = prepare(seed=seed, size=SIZE, log_dir=Path(log_dir))
    with TerminalProgress() as progress:
        return settings, asyncio.run(compare(settings, progress))


def figures_of(outcomes):
    by_policy = {outcome.policy: outcome for outcome in outcomes}
    summary = {s.policy: s for s in summarize_all(outcomes)}
    ours = summary["justitia"]
    over_vtc = list(ratios_over(by_policy["justitia"], by_policy["vtc"]).values())
    return {
        "mean_jct_over_fcfs": ours.jct_mean_s / summary["fcfs"].jct_mean_s,
        "mean_jct_over_vtc": ours.jct_mean_s / summary["vtc"].jct_mean_s,
        "p90_jct_over_vtc": ours.jct_p90_s / summary["vtc"].jct_p90_s,
        "share_not_later_than_vtc": ours.share_not_later_than_vtc,
        "worst_over_vtc": max(over_vtc),
        "worst_rho": ours.ratio_worst,
        "worst_rho_vtc": summary["vtc"].ratio_worst,
        "worst_rho_fcfs": summary["fcfs"].ratio_worst,
        "wasted_share": ours.wasted_share,
        "wasted_share_vtc": summary["vtc"].wasted_share,
        "failed_runs": sum(s.num_failed for s in summary.values()),
    }


def main():
    by_seed = []
    settings = None
    for seed in SEEDS:
        with tempfile.TemporaryDirectory() as log_dir:
            settings, outcomes = play(seed, log_dir)
        by_seed.append(figures_of(outcomes))
        for summary in summarize_all(outcomes):
            print(f"seed {seed}: {json.dumps(asdict(summary))}", file=sys.stderr)
    figures = {name: statistics.median(f[name] for f in by_seed) for name in by_seed[0]}
    figures |= {f"{name}_by_seed": [round(f[name], 3) for f in by_seed] for name in by_seed[0]}
    workload = settings.workload
    print(
        json.dumps(
            {
                "name": "agents",
                "figures": figures,
                "reference": "the same runs under vLLM FCFS and VTC on the same engine; rho against"
                " ideal weighted fair sharing (rule R1)",
                "seeds": list(SEEDS),
                "conditions": f"{len(workload.arrivals)} runs of nine applications within "
                f"{workload.window_s:.0f} s; medians over seeds; SmolLM2-135M on 2 CPU cores",
            }
        )
    )


if __name__ == "__main__":
    main()
