"""Say beside a recording what it is: where it comes from, how large its runs are, how predictable.

Neighbours: `justitia.predictor.recordings` reads and writes the runs themselves.
"""

import statistics
from collections import defaultdict
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Final

from justitia.local.engine_kind import STEP_BUDGET_TOKENS
from justitia.predictor.model import TrainingMetrics
from justitia.predictor.recordings import NUM_SHELVES, RecordedRun

_TITLE: Final = "# Recorded runs\n"
_HEAD: Final = """
What runs of the agents in `examples/agents/` took on a real vLLM with a real small model
({models}). Predictors learn from them. Written by `make recordings`; do not edit.

`runs.jsonl.gz` holds one JSON object a line: `application`, `task_seed`, `model`, `prompt` (the
user's whole request) and `inferences` (`stage`, `prompt_tokens`, `cached_tokens`,
`output_tokens`, as the server reported them). Costs are not stored; rule C1 gives them.

The text in the prompts is Python's own documentation and sources (PSF License) and generated
questions; no person's data is in it. It comes from five shelves that share no sentence, function or
docstring, and a run takes all of its text from the shelf `task_seed % {shelves}`: learn from some
shelves, judge on another. Generated tasks have no equal prompt on two shelves. Task seeds are below
10000, those of the benchmarks above: no task is in both, though texts of the same shelves are.
`cached_tokens` depends on what ran just before, on the block size and on the cache's size.

Costs in kvtt at a step budget of {budget} tokens. The error is that of the predictor which
`justitia train` makes of these runs, |predicted - true| / true over the fifth of an application's
prompts that it has not seen, whatever their shelf (`make bench NAME=predictor` splits by shelf);
the rank correlation (Spearman's) says whether it orders them rightly.
`justitia train --recordings runs.jsonl.gz --datasheet README.md` computes both again; other
machines give other last digits.

| application | runs | inferences | output tokens, mean (range) | cost, median (P10 to P90) \
| judged on | error, median (mean) | rank correlation |
|---|--:|--:|--:|--:|--:|--:|--:|
"""
_UNKNOWN: Final = "–"


def datasheet_path(recordings: Path) -> Path:
    """Return where the page about a recording stands."""
    return recordings.with_name("README.md")


def is_foreign(page: Path) -> bool:
    """Whether something else stands where a datasheet would, which would replace it."""
    try:
        with page.open("rb") as file:
            return file.read(len(_TITLE)) != _TITLE.encode()
    except (FileNotFoundError, NotADirectoryError):
        return False
    except OSError:
        return True  # a folder, or not ours to read


def write_datasheet(
    path: Path,
    runs: Sequence[RecordedRun],
    metrics_by_application: Mapping[str, TrainingMetrics] | None = None,
) -> None:
    """Write the page for ``runs``, which are at least one.

    ``metrics_by_application`` are those of the predictors that were trained on these runs; what is
    missing there is shown as unknown.
    """
    by_application = defaultdict(list)
    for run in runs:
        by_application[run.application].append(run)
    models = ", ".join(sorted({run.model for run in runs}))
    known = metrics_by_application or {}
    rows = [
        _row(name, by_application[name], known.get(name, TrainingMetrics()))
        for name in sorted(by_application)
    ]
    head = _HEAD.format(models=models, budget=STEP_BUDGET_TOKENS, shelves=NUM_SHELVES)
    path.write_text("".join((_TITLE, head, *rows)), encoding="utf-8")


def _row(application: str, runs: Sequence[RecordedRun], metrics: TrainingMetrics) -> str:
    inferences = statistics.mean(len(run.inferences) for run in runs)
    outputs = [run.output_tokens for run in runs]
    costs = sorted(run.cost_kvtt(step_budget_tokens=STEP_BUDGET_TOKENS) for run in runs)
    low, high = (costs[round(share * (len(costs) - 1))] for share in (0.1, 0.9))
    return (
        f"| {application} | {len(runs)} | {inferences:.1f} "
        f"| {statistics.mean(outputs):.0f} ({min(outputs)} to {max(outputs)}) "
        f"| {statistics.median(costs):,.0f} ({low:,} to {high:,}) "
        f"| {metrics.num_held_out or _UNKNOWN} | {_error(metrics)} "
        f"| {_shown(metrics.rank_correlation, '.2f')} |\n"
    )


def _error(metrics: TrainingMetrics) -> str:
    median, mean = metrics.median_relative_error, metrics.mean_relative_error
    return _UNKNOWN if median is None else f"{median:.0%} ({_shown(mean, '.0%')})"


def _shown(value: float | None, form: str) -> str:
    return _UNKNOWN if value is None else format(value, form)
