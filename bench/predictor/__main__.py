"""What predictors make of the recorded runs: error against samples, calibration, time and size.

    make bench NAME=predictor
    python bench/predictor [--recordings FILE] [--only NAME ...] [--sizes 10 30 100] [--rounds 20]
                           [--long-recordings FILE] [--long-sizes 10 30 100 300 500]

Each application of the recordings has a predictor of its own. One shelf (a fifth of the documents)
at a time judges what was learnt from a draw of the other four's runs, so that no text is on both
sides; every run is judged once. Errors are means over the applications. A size that four shelves do
not hold for every application is left out; ``all`` takes what they hold.

What the figures mean: ``error_at_N`` is the mean of |predicted - true| / true with N samples, as
the paper seems to define it (0.53 at 100 on its own data); ``pooled_at_N`` is the sum of the errors
over the sum of the true costs; the rank correlation is Spearman's within a shelf; ``p50_ms`` and
``p99_ms`` are the served prediction within the scheduler service, with the way to its thread and
back under a deadline; ``X_mean_jct_over_exact`` and ``X_worst_rho_ps`` are what candidate X, with
all that four shelves hold, does to the judged shelf's runs in the simulator (as in
``bench/predictor_regret``; one seed), with F as estimated and (``_k2``) with rule K2 from nothing;
``process_p90`` and its like take that percentile of the default's distribution for the cost.

Recording many runs of every agent takes days. Of four whose runs are short more are recorded, and
learning curves go on with these alone: ``long_error_at_500`` is to be compared with
``long_error_at_100``, not with ``error_at_100``.
"""

import argparse
import asyncio
import json
import os
import platform
import time
from pathlib import Path

import numpy as np
import torch
from candidates import CANDIDATES
from judging import errors_of, judge
from latency import figures_of, measure
from playing import play_figures

from justitia.local.engine_kind import STEP_BUDGET_TOKENS
from justitia.local.predictors import read_runs
from justitia.predictor import artefact
from justitia.predictor.recordings import NUM_SHELVES
from justitia.predictor.settings import TrainingSettings
from justitia.predictor.training import train_all

RECORDINGS = Path("examples/recordings/runs.jsonl.gz")
LONG_RECORDINGS = Path("examples/recordings/long/runs.jsonl.gz")
LONG_CURVES = ("process", "hashed", "network", "paper", "mean", "neighbours", "ridge", "boosting")
DEFAULT = "process"
ALL = "all"


def arguments():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--recordings", type=Path, default=RECORDINGS)
    parser.add_argument("--only", nargs="*", choices=CANDIDATES, default=list(CANDIDATES))
    parser.add_argument("--sizes", nargs="*", type=int, default=[10, 30, 100])
    parser.add_argument("--long-recordings", type=Path, default=LONG_RECORDINGS)
    parser.add_argument("--long-sizes", nargs="*", type=int, default=[10, 30, 100, 300, 500])
    parser.add_argument("--rounds", type=int, default=20, help="predictions of each prompt")
    return parser.parse_args()


def rows_of(runs):
    groups = {}
    for run in runs:
        log_cost = float(np.log(run.cost_kvtt(step_budget_tokens=STEP_BUDGET_TOKENS)))
        groups.setdefault(run.application, []).append((run.prompt, log_cost, run.shelf))
    return groups


def fewest_known(groups):
    """How many samples four shelves hold, of the application and shelf where they are fewest."""
    return min(
        sum(row[2] != shelf for row in rows)
        for rows in groups.values()
        for shelf in range(NUM_SHELVES)
    )


def learning_curves(groups, names, sizes):
    """Errors by candidate and size, printed as a table on the way; and what was judged at which.

    Of what was judged the largest number of samples is kept, by candidate.
    """
    print(
        "| predictor | samples | error, mean | median | pooled | log error | rank correlation "
        "| within P10–P90 | below P90 | slowest training, s |"
    )
    print("|---|--:|--:|--:|--:|--:|--:|--:|--:|--:|")
    curves, judged = {}, {}
    for name in names:
        for size in CANDIDATES[name].sizes or sizes:
            judged[name] = judge(groups, CANDIDATES[name].make, None if size == ALL else size)
            errors = curves[name, size] = errors_of(judged[name])
            print(
                f"| {name} | {size} | {errors.mean:.3f} | {errors.median:.3f} "
                f"| {errors.pooled:.3f} | {errors.log:.3f} | {errors.rank:.2f} "
                f"| {shown(errors.within_80)} | {shown(errors.below_90)} | {errors.train_s:.2f} |",
                flush=True,
            )
    return curves, judged


def shown(share):
    return "–" if share is None else f"{share:.2f}"


def by_application(curves, sizes, names):
    """The default's errors by application, beside the other candidates' at the largest size."""
    size = sizes[-1]
    names = [name for name in names if (name, size) in curves]
    applications = sorted(curves[names[0], size].by_application)
    print(f"\nMean relative error by application, {size} samples\n")
    print(f"| application | {' | '.join(names)} |")
    print(f"|---|{'--:|' * len(names)}")
    for application in applications:
        cells = (f"{curves[name, size].by_application[application]:.2f}" for name in names)
        print(f"| {application} | {' | '.join(cells)} |")


def product_figures(found, rounds):
    """Train the default as the product does; time it, then its predictions."""
    samples = {
        name: rows[:100]
        for name, rows in found.samples(step_budget_tokens=STEP_BUDGET_TOKENS).items()
    }
    started_s = time.perf_counter()
    report = train_all(samples, settings=TrainingSettings())
    assert not report.declined, report.declined
    elapsed_s = time.perf_counter() - started_s
    prompts = {name: [sample.prompt for sample in rows] for name, rows in samples.items()}
    times_s = asyncio.run(measure(report.models, prompts, rounds))
    sizes = [len(artefact.to_bytes(model)) / 1024 for model in report.models.values()]
    return {
        "train_s": round(max(model.train_s for model in report.models.values()), 2),
        "train_all_s": round(elapsed_s, 2),
        "train_samples": min(map(len, samples.values())),
        **figures_of(times_s),
        "artefact_kib": round(max(sizes), 1),
    }


def long_curves(path, names, sizes):
    """Learning curves of the applications of which many runs are recorded, and their fewest."""
    groups = rows_of(read_runs(path).runs)
    most = fewest_known(groups)
    print(f"\nOnly {', '.join(sorted(groups))}; at least {most} samples in four shelves\n")
    names = [name for name in LONG_CURVES if name in names]
    curves, _judged = learning_curves(groups, names, [size for size in sizes if size <= most])
    return curves, most


def curve_figures(curves, kind=""):
    figures = {}
    for (name, size), errors in curves.items():
        prefix = kind if name == DEFAULT else f"{kind}{name}_"
        figures[f"{prefix}error_at_{size}"] = round(errors.mean, 3)
        if name == DEFAULT:
            for what in ("pooled", "median", "rank", "within_80"):
                figures[f"{kind}{what}_at_{size}"] = round(getattr(errors, what), 3)
    return figures


def main():
    options = arguments()
    torch.set_num_threads(1)
    found = read_runs(options.recordings)
    groups = rows_of(found.runs)
    most = fewest_known(groups)
    sizes = [*(size for size in options.sizes if size <= most), ALL]
    names = [name for name in CANDIDATES if name in options.only]
    for name in names:
        print(f"- `{name}`: {CANDIDATES[name].what}")
    print()
    curves, judged = learning_curves(groups, names, sizes)
    by_application(curves, sizes, names)
    long, long_most = long_curves(options.long_recordings, names, options.long_sizes)
    figures = curve_figures(curves) | curve_figures(long, "long_")
    figures |= play_figures(found.runs, judged, DEFAULT)
    if DEFAULT in names:
        figures |= product_figures(found, options.rounds)
    left_out = [size for size in options.sizes if size > most]
    left_out += [size for size in options.long_sizes if size > long_most]
    print(
        json.dumps(
            {
                "name": "predictor",
                "figures": figures,
                "reference": "the rivals of bench/predictor/candidates.py by name; for times "
                "scikit-learn's TfidfVectorizer.transform and the same layers in torch, one row, "
                "one thread, in the same process and in turn",
                "seeds": list(range(NUM_SHELVES)),
                "conditions": f"{len(found.runs)} recorded runs of {len(groups)} applications, "
                f"at least {most} in four shelves, of some at least {long_most} "
                f"(sizes left out: {left_out or 'none'}); each "
                "shelf judged once by what was learnt from the other four; times in wall seconds "
                f"on {os.cpu_count()} cores; Python {platform.python_version()}",
            }
        )
    )


if __name__ == "__main__":
    main()
