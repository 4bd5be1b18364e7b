"""Files of recorded runs: one JSON object a line, gzipped or plain. The one reader and writer.

Token counts are kept, not costs: costs follow from them by rules C1 and C2 for any engine. Files
may come from anybody's volume, so reading one is bounded and a bad line costs no more than itself.
What is wrong with a line goes to logs and statuses, so it is said without a word of the line.
"""

import gzip
import json
from collections import deque
from collections.abc import Iterable
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import IO, cast

from justitia.core.cost import inference_cost_kvtt, run_cost_kvtt
from justitia.numbered_lines import numbered_lines
from justitia.predictor.samples import Sample, require_application

MAX_LINE_BYTES = 64 * 2**20
"""Longest line; a longer one is skipped without being held in memory."""

MAX_RUNS = 200_000
"""Runs that are kept of a file, the last ones: as many as the service keeps samples."""

MAX_KEPT_BYTES = 2**30
"""Bytes of all lines that are kept of a file; beyond them the first runs are left out."""

MAX_NAMED_BAD_LINES = 100
"""Bad lines that are named one by one; the rest are only counted."""

NUM_SHELVES = 5
"""Parts of a recording that share no text: the agents of ``examples/agents`` see to it."""

_GZIP_MAGIC = b"\x1f\x8b"
_REQUIRED_FIELDS = ("application", "prompt", "inferences")


@dataclass(frozen=True, kw_only=True, slots=True)
class RecordedInference:
    """Token counts of one inference, as the server reported them."""

    stage: str = ""
    prompt_tokens: int
    cached_tokens: int
    output_tokens: int


@dataclass(frozen=True, kw_only=True, slots=True)
class RecordedRun:
    """One run: the user's request and what serving it took.

    ``task_seed`` and ``model`` say where it comes from; files of other people need not.
    """

    application: str
    task_seed: int = 0
    model: str = ""
    prompt: str
    inferences: tuple[RecordedInference, ...]

    @property
    def shelf(self) -> int:
        """Where the text of the prompt comes from; runs of different shelves share none.

        It follows from ``task_seed``: in files of other people all runs may be of shelf 0.
        """
        return shelf_of(self.task_seed)

    @property
    def output_tokens(self) -> int:
        """Output tokens of all inferences."""
        return sum(inference.output_tokens for inference in self.inferences)

    def cost_kvtt(self, *, step_budget_tokens: int) -> int:
        """Cost of the run by rules C1 and C2, in kvtt.

        ``step_budget_tokens`` is the prefill budget of the engine whose costs are wanted.
        """
        return run_cost_kvtt(
            inference_cost_kvtt(
                inference.prompt_tokens,
                inference.cached_tokens,
                inference.output_tokens,
                step_budget_tokens=step_budget_tokens,
            )
            for inference in self.inferences
        )

    def sample(self, *, step_budget_tokens: int) -> Sample:
        """Return what a predictor learns from the run."""
        return Sample(
            application=self.application,
            prompt=self.prompt,
            cost_kvtt=self.cost_kvtt(step_budget_tokens=step_budget_tokens),
        )

    def to_json(self) -> str:
        """Return the run as one line of JSON."""
        return json.dumps(asdict(self), ensure_ascii=False)


@dataclass(frozen=True, kw_only=True, slots=True)
class BadLine:
    """A line that held no usable run; ``number`` counts from 1."""

    number: int
    reason: str


@dataclass(frozen=True, kw_only=True, slots=True)
class Recordings:
    """What a file held; of ``num_bad_lines`` the first ones are named.

    ``num_left_out``: runs at the beginning of a file that holds more than is kept.
    """

    runs: tuple[RecordedRun, ...]
    num_bad_lines: int
    bad_lines: tuple[BadLine, ...]
    num_left_out: int = 0

    def samples(self, *, step_budget_tokens: int) -> dict[str, list[Sample]]:
        """Return samples of each application, in the order of the file."""
        groups: dict[str, list[Sample]] = {}
        for run in self.runs:
            sample = run.sample(step_budget_tokens=step_budget_tokens)
            groups.setdefault(run.application, []).append(sample)
        return groups


def shelf_of(task_seed: int) -> int:
    """Return the number of the shelf, below `NUM_SHELVES`, that a task's text is taken from."""
    return task_seed % NUM_SHELVES


def read_recordings(path: Path) -> Recordings:
    """Read a file of recorded runs, of a very large one its end.

    A line that is no run, and the end of a torn file, are counted and named, never raised.

    Raises:
        OSError: the file cannot be opened.
    """
    runs = _LastRuns()
    bad_lines: list[BadLine] = []
    num_bad_lines = 0
    with _open(path) as stream:
        for number, line in numbered_lines(stream, max_line_bytes=MAX_LINE_BYTES):
            if isinstance(line, bytes) and not line.strip():
                continue
            try:
                whole = _require_whole(line)
                runs.add(_parse_run(whole), num_bytes=len(whole))
            except (ValueError, RecursionError) as error:
                num_bad_lines += 1
                if num_bad_lines <= MAX_NAMED_BAD_LINES:
                    bad_lines.append(BadLine(number=number, reason=str(error)))
    return Recordings(
        runs=runs.kept,
        num_bad_lines=num_bad_lines,
        bad_lines=tuple(bad_lines),
        num_left_out=runs.num_left_out,
    )


def write_recordings(path: Path, runs: Iterable[RecordedRun]) -> None:
    """Write ``runs`` sorted and compressed, in one rename; equal runs give equal bytes.

    Raises:
        OSError: the file cannot be written.
    """
    ordered = sorted(runs, key=lambda run: (run.application, run.task_seed))
    text = "".join(f"{run.to_json()}\n" for run in ordered)
    path.parent.mkdir(parents=True, exist_ok=True)
    partial = path.with_name(f".{path.name}.partial")
    partial.write_bytes(gzip.compress(text.encode(), mtime=0))
    partial.rename(path)


class _LastRuns:
    """The last runs of a file, bounded by their number and by the length of their lines."""

    def __init__(self) -> None:
        self.num_left_out = 0
        self._kept: deque[tuple[RecordedRun, int]] = deque()
        self._num_bytes = 0

    @property
    def kept(self) -> tuple[RecordedRun, ...]:
        return tuple(run for run, _ in self._kept)

    def add(self, run: RecordedRun, *, num_bytes: int) -> None:
        self._kept.append((run, num_bytes))
        self._num_bytes += num_bytes
        while len(self._kept) > MAX_RUNS or self._num_bytes > MAX_KEPT_BYTES:
            self._num_bytes -= self._kept.popleft()[1]
            self.num_left_out += 1


def _open(path: Path) -> IO[bytes]:
    with path.open("rb") as probe:
        is_gzip = probe.read(2) == _GZIP_MAGIC
    return cast("IO[bytes]", gzip.open(path, "rb")) if is_gzip else path.open("rb")


def _require_whole(line: bytes | ValueError) -> bytes:
    if isinstance(line, ValueError):
        raise line
    return line


def _parse_run(line: bytes) -> RecordedRun:
    fields = _parse_json(line)
    if not isinstance(fields, dict):
        raise ValueError(f"a run must be a JSON object, got {type(fields).__name__}")  # noqa: TRY004
    missing = [name for name in _REQUIRED_FIELDS if name not in fields]
    if missing:
        raise ValueError(f"no field {', '.join(missing)}")
    run = RecordedRun(
        application=require_application(_text(fields["application"], "application")),
        task_seed=_number(fields.get("task_seed", 0), "task_seed"),
        model=_text(fields.get("model", ""), "model"),
        prompt=_text(fields["prompt"], "prompt"),
        inferences=_parse_inferences(fields["inferences"]),
    )
    run.cost_kvtt(step_budget_tokens=1)  # a count out of range makes the line a bad one, here
    return run


def _parse_json(line: bytes) -> object:
    try:
        return json.loads(line)
    except UnicodeDecodeError as error:  # quotes the byte
        raise ValueError(
            f"no text in {error.encoding}: {error.reason} at byte {error.start}"
        ) from None


def _parse_inferences(rows: object) -> tuple[RecordedInference, ...]:
    if not isinstance(rows, list) or not rows:
        raise ValueError("inferences must be a list with at least one inference")
    return tuple(_parse_inference(row, f"inferences[{index}]") for index, row in enumerate(rows))


def _parse_inference(row: object, where: str) -> RecordedInference:
    if not isinstance(row, dict):
        raise ValueError(f"{where} must be a JSON object")  # noqa: TRY004
    return RecordedInference(
        stage=_text(row.get("stage", ""), f"{where}.stage"),
        prompt_tokens=_number(row.get("prompt_tokens"), f"{where}.prompt_tokens"),
        cached_tokens=_number(row.get("cached_tokens"), f"{where}.cached_tokens"),
        output_tokens=_number(row.get("output_tokens"), f"{where}.output_tokens"),
    )


def _text(value: object, where: str) -> str:
    if not isinstance(value, str):
        raise ValueError(f"{where} must be a string, got {type(value).__name__}")  # noqa: TRY004
    try:
        value.encode()
    except UnicodeEncodeError:  # JSON may name half of a surrogate pair; nothing writes it again
        raise ValueError(f"{where} holds half of a surrogate pair") from None
    return value


def _number(value: object, where: str) -> int:
    if not isinstance(value, int) or isinstance(value, bool):
        raise ValueError(f"{where} must be a whole number, got {type(value).__name__}")  # noqa: TRY004
    return value
