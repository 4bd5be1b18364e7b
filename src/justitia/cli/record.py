"""``justitia record``: real runs of the agents on the real model, for predictors to learn from."""

from pathlib import Path
from typing import Annotated

import typer

from justitia.cli.options import DEFAULT_CACHE_DIR, CacheDir


def record(
    *,
    runs_per_application: Annotated[int, typer.Option("--runs", min=1)] = 40,
    output: Annotated[Path, typer.Option("--output", "-o")] = Path(
        "examples/recordings/runs.jsonl.gz"
    ),
    cache_dir: CacheDir = DEFAULT_CACHE_DIR,
) -> None:
    """Record runs on an unloaded engine; what is there already is kept and not played again."""
    raise NotImplementedError
