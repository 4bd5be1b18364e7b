"""Recorded runs: what predictors learn from, one JSON object a line, compressed.

Token counts are kept, not costs: costs follow from them by rule C1 for any engine.
"""

import gzip
import json
from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from justitia.core.cost import inference_cost_kvtt, run_cost_kvtt
from justitia.local.errors import LocalModeError

# The prefill budget of the engines that local mode starts (vLLM --max-num-batched-tokens).
STEP_BUDGET_TOKENS = 2048


@dataclass(frozen=True, slots=True)
class RecordedInference:
    """Token counts of one inference, as the server reported them."""

    stage: str
    prompt_tokens: int
    cached_tokens: int
    output_tokens: int


@dataclass(frozen=True, slots=True)
class RecordedRun:
    """One run: the user's request and what serving it took."""

    application: str
    task_seed: int
    model: str
    prompt: str
    inferences: tuple[RecordedInference, ...]

    @property
    def output_tokens(self) -> int:
        """Output tokens of all inferences."""
        return sum(inference.output_tokens for inference in self.inferences)

    def cost_kvtt(self, *, step_budget_tokens: int = STEP_BUDGET_TOKENS) -> int:
        """Cost of the run by rules C1 and C2, in kvtt."""
        return run_cost_kvtt(
            inference_cost_kvtt(
                inference.prompt_tokens,
                inference.cached_tokens,
                inference.output_tokens,
                step_budget_tokens=step_budget_tokens,
            )
            for inference in self.inferences
        )

    def to_json(self) -> str:
        """Return the run as one line of JSON."""
        return json.dumps(asdict(self), ensure_ascii=False)


def read_recordings(path: Path) -> list[RecordedRun]:
    """Read a file of recorded runs, compressed if its name ends in ``.gz``.

    Raises:
        LocalModeError: the file is missing, or a line of it is no recorded run.
    """
    try:
        text = gzip.decompress(path.read_bytes()) if path.suffix == ".gz" else path.read_bytes()
        return [_from_json(line) for line in text.decode().splitlines()]
    except (OSError, EOFError) as problem:
        raise LocalModeError(
            f"The recorded runs in {path} cannot be read: {problem}. Record them with "
            "make recordings."
        ) from problem
    except (ValueError, KeyError, TypeError) as problem:
        raise LocalModeError(
            f"{path} holds a line that is no recorded run: {problem!r}. Restore the file or record "
            "it again with make recordings."
        ) from problem


def write_recordings(path: Path, runs: Iterable[RecordedRun]) -> None:
    """Write ``runs`` sorted and compressed, in one rename; equal runs give equal bytes."""
    ordered = sorted(runs, key=lambda run: (run.application, run.task_seed))
    text = "".join(f"{run.to_json()}\n" for run in ordered)
    path.parent.mkdir(parents=True, exist_ok=True)
    partial = path.with_name(f".{path.name}.partial")
    partial.write_bytes(gzip.compress(text.encode(), mtime=0))
    partial.rename(path)


def _from_json(line: str) -> RecordedRun:
    fields: dict[str, Any] = json.loads(line)
    inferences: Sequence[dict[str, Any]] = fields.pop("inferences")
    return RecordedRun(
        inferences=tuple(RecordedInference(**inference) for inference in inferences), **fields
    )
