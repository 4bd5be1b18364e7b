"""Lets an interrupted ``justitia train`` go on: which models of its folder have the same inputs.

A note of each model that is ready lies beside the models until the command has ended well; then
there is nothing to go on with. Notes name no prompt. They are as untrusted as models: one that
cannot be used costs a training, nothing else.
"""

import contextlib
import json
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from hashlib import sha256
from pathlib import Path
from typing import Any, Final

from justitia import __version__
from justitia.predictor import artefact
from justitia.predictor.artefact_checks import COST_RANGE_KVTT, PREDICTED_RANGE_KVTT
from justitia.predictor.samples import Sample
from justitia.predictor.settings import TrainingSettings
from justitia.predictor.training import Judged, Trained

FILE_NAME: Final = ".unfinished.jsonl"
#: More than the notes of all that a pool can hold; a longer file is none of ours.
_MAX_BYTES: Final = 256 * 2**20


class Unfinished:
    """The notes in a folder of models, for the samples and settings of one command."""

    def __init__(
        self,
        folder: Path,
        samples: Mapping[str, Sequence[Sample]],
        settings: TrainingSettings,
    ) -> None:
        self.path = folder
        self._samples = samples
        self._inputs = {name: _digest(given, settings) for name, given in samples.items()}
        self._notes = _read_notes(folder / FILE_NAME)

    def recall(self, application: str) -> Trained | None:
        """Return the model that a command before made from equal inputs, if it is still there."""
        found = self._recall(application)
        if found is None:
            self._notes.pop(application, None)
        return found

    def _recall(self, application: str) -> Trained | None:
        note = self._notes.get(application, {})
        if note.get("inputs") != self._inputs[application]:
            return None
        path = self.path / artefact.file_name(application)
        try:
            model = artefact.load(path, application=application)
            held_out = tuple(_read_judged(run) for run in note["held_out"])
            _require_runs_of(self._samples[application], held_out)
        except (OSError, artefact.ArtefactError, ArithmeticError, KeyError, TypeError, ValueError):
            return None
        is_same = model.version == note.get("version")
        return Trained(model=model, held_out=held_out) if is_same else None

    def has(self, trained: Trained) -> bool:
        """Whether a model was recalled: it is in the folder already."""
        note = self._notes.get(trained.model.application, {})
        return note.get("version") == trained.model.version

    def save(self, trained: Trained) -> Path:
        """Write a model, and note it; returns its path.

        Raises:
            OSError: the folder cannot be made or written to.
        """
        self.path.mkdir(parents=True, exist_ok=True)
        path = artefact.save(trained.model, self.path)
        self._note(trained)
        return path

    def _note(self, trained: Trained) -> None:
        line = {
            "application": trained.model.application,
            "inputs": self._inputs[trained.model.application],
            "version": trained.model.version,
            "held_out": [asdict(run) for run in trained.held_out],
        }
        with (self.path / FILE_NAME).open("a", encoding="utf-8") as stream:
            stream.write(json.dumps(line) + "\n")

    def end(self) -> None:
        """Forget the notes: the command has ended well."""
        with contextlib.suppress(OSError):
            (self.path / FILE_NAME).unlink(missing_ok=True)


def _digest(samples: Sequence[Sample], settings: TrainingSettings) -> str:
    """Digest all that decides how a model comes out."""
    digest = sha256(json.dumps([__version__, asdict(settings)]).encode())
    for sample in samples:
        row = json.dumps([sample.prompt, sample.cost_kvtt, sample.run_id])
        digest.update(f"{row}\n".encode())
    return digest.hexdigest()


def _read_judged(run: Mapping[str, Any]) -> Judged:
    """Read a run that the service would take: what it refuses would be recalled for ever."""
    return Judged(
        run_id=str(run["run_id"]),
        cost_kvtt=_number(run["cost_kvtt"], *COST_RANGE_KVTT),
        predicted_kvtt=_number(run["predicted_kvtt"], *PREDICTED_RANGE_KVTT),
    )


def _number(value: Any, low: float, high: float) -> float:
    number = float(value)
    if not low <= number <= high:  # also for NaN
        raise ValueError(f"must be from {low:g} to {high:g}, got {number:g}")
    return number


def _require_runs_of(samples: Sequence[Sample], held_out: Sequence[Judged]) -> None:
    judged = Counter(run.run_id for run in held_out)
    if not judged <= Counter(sample.run_id for sample in samples):
        raise ValueError("the note judges other runs than those that were given")


def _read_notes(path: Path) -> dict[str, dict[str, Any]]:
    try:
        if path.stat().st_size > _MAX_BYTES:
            return {}
        lines = path.read_bytes().splitlines()
    except OSError:
        return {}
    notes = [note for line in lines if (note := _read_note(line)) is not None]
    return {note["application"]: note for note in notes}


def _read_note(line: bytes) -> dict[str, Any] | None:
    """Read a note; None for the torn end of an interrupted write, or anything else."""
    try:
        note = json.loads(line)
    except (ValueError, RecursionError):
        return None
    is_note = isinstance(note, dict) and isinstance(note.get("application"), str)
    return note if is_note else None
