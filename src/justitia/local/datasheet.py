"""Say beside a recording what it is: where it comes from, how large its runs are."""

import statistics
from collections import defaultdict
from collections.abc import Sequence
from pathlib import Path

from justitia.local.recordings import STEP_BUDGET_TOKENS, RecordedRun

_HEAD = """# Recorded runs

What runs of the agents in `examples/agents/` took on a real vLLM with a real small model
({models}). Predictors learn from them. Written by `make recordings`; do not edit.

`runs.jsonl.gz` holds one JSON object a line: `application`, `task_seed`, `model`, `prompt` (the
user's whole request) and `inferences` (`stage`, `prompt_tokens`, `cached_tokens`,
`output_tokens`, as the server reported them). Costs are not stored; rule C1 gives them.

The text in the prompts is Python's own documentation and sources (PSF License) and generated
questions; no person's data is in it. Task seeds are below 10000, those of the benchmarks above:
no task is in both, though passages of the same documents are. `cached_tokens` depends on what ran
just before, on the block size and on the cache's size.

Costs in kvtt at a step budget of {budget} tokens:

| application | runs | inferences | output tokens, mean (range) | cost, median (P10 to P90) |
|---|--:|--:|--:|--:|
"""


def write_datasheet(path: Path, runs: Sequence[RecordedRun]) -> None:
    """Write the page for ``runs``, which are at least one."""
    by_application = defaultdict(list)
    for run in runs:
        by_application[run.application].append(run)
    models = ", ".join(sorted({run.model for run in runs}))
    rows = [_row(name, by_application[name]) for name in sorted(by_application)]
    text = _HEAD.format(models=models, budget=STEP_BUDGET_TOKENS) + "".join(rows)
    path.write_text(text, encoding="utf-8")


def _row(application: str, runs: Sequence[RecordedRun]) -> str:
    inferences = statistics.mean(len(run.inferences) for run in runs)
    outputs = [run.output_tokens for run in runs]
    costs = sorted(run.cost_kvtt() for run in runs)
    low, high = (costs[round(share * (len(costs) - 1))] for share in (0.1, 0.9))
    return (
        f"| {application} | {len(runs)} | {inferences:.1f} "
        f"| {statistics.mean(outputs):.0f} ({min(outputs)} to {max(outputs)}) "
        f"| {statistics.median(costs):,.0f} ({low:,} to {high:,}) |\n"
    )
