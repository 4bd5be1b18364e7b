"""What a predictor learns from: the text of a run and what the run cost.

Samples come from the scheduler service (finished runs) or from a file of recorded runs, which is
read here. Neighbours: `training` turns samples into models; `justitia.core.cost` prices a run.
"""

import gzip
import json
import zlib
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import IO, cast

from justitia.core.cost import inference_cost_kvtt, run_cost_kvtt

MAX_APPLICATION_CHARS = 512
"""Longest application name: `namespace/name` in Kubernetes has at most 317 characters."""

MAX_LINE_BYTES = 64 * 2**20
"""Longest line of a runs file; a longer one is skipped without being held in memory."""

MAX_NAMED_BAD_LINES = 100
"""Bad lines that are named one by one; the rest are only counted."""

_CHUNK_BYTES = 2**20
_GZIP_MAGIC = b"\x1f\x8b"
_READ_ERRORS = (EOFError, OSError, zlib.error)


def require_application(application: object) -> str:
    """Return the name of an application, or raise ValueError that says what is wrong with it."""
    if not isinstance(application, str):
        raise ValueError(f"application must be a string, got {type(application).__name__}")  # noqa: TRY004
    if not 1 <= len(application) <= MAX_APPLICATION_CHARS:
        raise ValueError(
            f"application must have 1 to {MAX_APPLICATION_CHARS} characters, got {len(application)}"
        )
    return application


@dataclass(frozen=True, kw_only=True, slots=True)
class Sample:
    """One finished run.

    ``cost_kvtt`` may be any number: measured costs can be zero or broken, and training drops and
    counts such samples instead of failing on them.

    Raises:
        ValueError: the application's name, the prompt or the cost is not of its type.
    """

    application: str
    prompt: str
    cost_kvtt: float

    def __post_init__(self) -> None:
        require_application(self.application)
        prompt: object = self.prompt
        if not isinstance(prompt, str):
            raise ValueError(f"prompt must be a string, got {type(prompt).__name__}")  # noqa: TRY004
        cost: object = self.cost_kvtt
        if isinstance(cost, bool) or not isinstance(cost, int | float):
            raise ValueError(f"cost_kvtt must be a number, got {type(cost).__name__}")  # noqa: TRY004


@dataclass(frozen=True, kw_only=True, slots=True)
class BadLine:
    """A line that held no usable run; ``number`` counts from 1."""

    number: int
    reason: str


@dataclass(frozen=True, kw_only=True, slots=True)
class RecordedRuns:
    """What a runs file held; of ``num_bad_lines`` the first ones are named."""

    samples: tuple[Sample, ...]
    num_bad_lines: int
    bad_lines: tuple[BadLine, ...]

    def by_application(self) -> dict[str, list[Sample]]:
        """Return the samples of each application, in the order of the file."""
        groups: dict[str, list[Sample]] = {}
        for sample in self.samples:
            groups.setdefault(sample.application, []).append(sample)
        return groups


def read_recorded_runs(path: Path, *, step_budget_tokens: int) -> RecordedRuns:
    """Read a file of recorded runs: one JSON object a line, gzipped or plain.

    ``step_budget_tokens`` is the prefill budget of the engine whose costs are predicted (rule C1).
    A line that is no run, and the end of a torn file, are counted and named, never raised.

    Raises:
        OSError: the file cannot be opened.
    """
    samples: list[Sample] = []
    bad_lines: list[BadLine] = []
    num_bad_lines = 0
    with _open(path) as stream:
        for number, line in _lines(stream):
            if isinstance(line, bytes) and not line.strip():
                continue
            try:
                samples.append(_parse_run(line, step_budget_tokens))
            except (ValueError, RecursionError) as error:
                num_bad_lines += 1
                if num_bad_lines <= MAX_NAMED_BAD_LINES:
                    bad_lines.append(BadLine(number=number, reason=str(error)))
    return RecordedRuns(
        samples=tuple(samples), num_bad_lines=num_bad_lines, bad_lines=tuple(bad_lines)
    )


def _open(path: Path) -> IO[bytes]:
    with path.open("rb") as probe:
        is_gzip = probe.read(2) == _GZIP_MAGIC
    return cast("IO[bytes]", gzip.open(path, "rb")) if is_gzip else path.open("rb")


def _lines(stream: IO[bytes]) -> Iterator[tuple[int, bytes | ValueError]]:
    """Yield numbered lines; one that is too long or unreadable comes as the error saying so."""
    number = 0
    while True:
        number += 1
        try:
            line = stream.readline(MAX_LINE_BYTES + 1)
            is_too_long = len(line) > MAX_LINE_BYTES
            if is_too_long:
                _skip_rest_of_line(stream)
        except _READ_ERRORS as error:
            yield number, ValueError(f"the file cannot be read any further: {error}")
            return
        if not line:
            return
        yield number, ValueError(f"longer than {MAX_LINE_BYTES} bytes") if is_too_long else line


def _skip_rest_of_line(stream: IO[bytes]) -> None:
    chunk = stream.readline(_CHUNK_BYTES)
    while chunk and not chunk.endswith(b"\n"):
        chunk = stream.readline(_CHUNK_BYTES)


def _parse_run(line: bytes | ValueError, step_budget_tokens: int) -> Sample:
    if isinstance(line, ValueError):
        raise line
    run = json.loads(line)
    if not isinstance(run, dict):
        raise ValueError(f"a run must be a JSON object, got {type(run).__name__}")  # noqa: TRY004
    missing = [field for field in ("application", "prompt", "inferences") if field not in run]
    if missing:
        raise ValueError(f"no field {', '.join(missing)}")
    return Sample(
        application=run["application"],
        prompt=run["prompt"],
        cost_kvtt=_recorded_cost_kvtt(run["inferences"], step_budget_tokens),
    )


def _recorded_cost_kvtt(inferences: object, step_budget_tokens: int) -> int:
    if not isinstance(inferences, list) or not inferences:
        raise ValueError("inferences must be a list with at least one inference")
    return run_cost_kvtt(
        inference_cost_kvtt(
            *(_count(inference, field, index) for field in _COUNT_FIELDS),
            step_budget_tokens=step_budget_tokens,
        )
        for index, inference in enumerate(inferences)
    )


_COUNT_FIELDS = ("prompt_tokens", "cached_tokens", "output_tokens")


def _count(inference: object, field: str, index: int) -> int:
    if not isinstance(inference, dict):
        raise ValueError(f"inferences[{index}] must be a JSON object")  # noqa: TRY004
    value = inference.get(field)
    if not isinstance(value, int) or isinstance(value, bool):
        raise ValueError(f"inferences[{index}].{field} must be a whole number, got {value!r:.50}")  # noqa: TRY004
    return value
