"""Outcomes on disk, one compressed file for each job, so that nothing is computed twice.

An entry's name says the job and the code (``source_digest``) that it came from. Several programs
may use a store at once: an entry appears as a whole or not at all.
"""

import contextlib
import gzip
import hashlib
import json
import os
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from justitia.sim.reproduce.experiment import Job
from justitia.sim.reproduce.outcome_codec import decode, encode
from justitia.sim.reproduce.source_digest import source_digest

_SUFFIX: Final = ".json.gz"
_LENGTH: Final = 24
#: zlib is several times as fast on this level as on its highest, and as good within a tenth.
_LEVEL: Final = 5
_MAX_IDLE_S: Final = 30 * 86400.0


@dataclass(frozen=True, slots=True)
class OutcomeStore:
    """A folder; it is made when the first outcome is kept."""

    folder: Path

    def has(self, job: Job) -> bool:
        """Whether the job's outcome, by today's code, can be read."""
        return self._document(job) is not None

    def get(self, job: Job) -> Any:
        """Return a job's outcome.

        Raises:
            LookupError: there is none, or it is damaged.
        """
        document = self._document(job)
        try:
            if document is not None:
                return decode(document)
        except (TypeError, ValueError, KeyError):
            pass
        raise LookupError(f"no outcome is kept of {job.name}")

    def put(self, job: Job, outcome: object) -> None:
        """Keep a job's outcome; those that older code had for it go.

        Raises:
            OSError: it cannot be written.
            TypeError, ValueError: JSON cannot hold it.
        """
        text = json.dumps({"job": job.name, **encode(outcome)}, separators=(",", ":"))
        path = self._path(job)
        self.folder.mkdir(parents=True, exist_ok=True)
        _write_whole(path, gzip.compress(text.encode(), _LEVEL, mtime=0))
        for other in self.folder.glob(f"{_job_digest(job)}-*{_SUFFIX}"):
            if other != path:
                other.unlink(missing_ok=True)

    def forget(self, job: Job) -> None:
        """Drop a job's outcomes, whatever code they came from."""
        for path in self.folder.glob(f"{_job_digest(job)}-*{_SUFFIX}"):
            path.unlink(missing_ok=True)

    def tidy(self) -> None:
        """Drop what nobody has read or written for 30 days."""
        oldest_s = time.time() - _MAX_IDLE_S
        for path in self.folder.glob("*"):
            with contextlib.suppress(FileNotFoundError):
                if path.stat().st_mtime < oldest_s:
                    path.unlink()

    def _path(self, job: Job) -> Path:
        return self.folder / entry_name(job)

    def _document(self, job: Job) -> dict[str, Any] | None:
        path = self._path(job)
        try:
            document = json.loads(gzip.decompress(path.read_bytes()))
            path.touch()
        except (OSError, EOFError, ValueError):
            return None
        if isinstance(document, dict) and document.get("job") == job.name:
            return document
        return None


def entry_name(job: Job) -> str:
    """Name the file of a job's outcome by the code as it is when this process asks first."""
    return f"{_job_digest(job)}-{source_digest(job)[:_LENGTH]}{_SUFFIX}"


def _job_digest(job: Job) -> str:
    return hashlib.sha256(job.name.encode()).hexdigest()[:_LENGTH]


def _write_whole(path: Path, content: bytes) -> None:
    with tempfile.NamedTemporaryFile(dir=path.parent, suffix=".part", delete=False) as part:
        part.write(content)
    os.replace(part.name, path)  # noqa: PTH105 - the name is a string
