"""What is kept of a played run: plain values that travel as one line of JSON."""

import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any, Self


@dataclass(frozen=True, slots=True, kw_only=True)
class InferenceRecord:
    """One finished inference; token counts as the server reported them."""

    stage: str
    prompt_tokens: int
    cached_tokens: int
    output_tokens: int
    # Seconds since the workload began.
    started_at_s: float
    finished_at_s: float


@dataclass(frozen=True, slots=True, kw_only=True)
class RunRecord:
    """One run as its user saw it; times are seconds since the workload began.

    A run that failed has ``error`` set, and the inferences that it finished before.
    """

    run_id: str
    application: str
    task_seed: int
    arrived_at_s: float
    finished_at_s: float
    inferences: tuple[InferenceRecord, ...]
    error: str | None = None

    @property
    def jct_s(self) -> float:
        """Completion time that the user waited, in seconds."""
        return self.finished_at_s - self.arrived_at_s

    @property
    def output_tokens(self) -> int:
        """Output tokens of all its finished inferences."""
        return sum(inference.output_tokens for inference in self.inferences)

    def to_json(self) -> str:
        """Return the record as one line of JSON, the completion time included for readers."""
        return json.dumps({**asdict(self), "jct_s": self.jct_s}, ensure_ascii=False)

    @classmethod
    def from_json(cls, line: str) -> Self:
        """Read what ``to_json`` wrote.

        Raises:
            ValueError: the line is not JSON, or a field is missing or of the wrong kind.
        """
        try:
            fields: Mapping[str, Any] = json.loads(line)
            return cls(
                run_id=str(fields["run_id"]),
                application=str(fields["application"]),
                task_seed=int(fields["task_seed"]),
                arrived_at_s=float(fields["arrived_at_s"]),
                finished_at_s=float(fields["finished_at_s"]),
                inferences=_read_inferences(fields["inferences"]),
                error=None if fields["error"] is None else str(fields["error"]),
            )
        except (KeyError, TypeError) as problem:
            raise ValueError(f"not a run record: {problem!r} in {line[:200]!r}") from problem


def _read_inferences(rows: Sequence[Mapping[str, Any]]) -> tuple[InferenceRecord, ...]:
    return tuple(
        InferenceRecord(
            stage=str(row["stage"]),
            prompt_tokens=int(row["prompt_tokens"]),
            cached_tokens=int(row["cached_tokens"]),
            output_tokens=int(row["output_tokens"]),
            started_at_s=float(row["started_at_s"]),
            finished_at_s=float(row["finished_at_s"]),
        )
        for row in rows
    )
