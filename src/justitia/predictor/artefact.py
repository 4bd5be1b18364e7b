"""Models as bytes and files: safetensors with one JSON document in its metadata, never pickle.

Artefacts are untrusted: they come over the network and from volumes. Reading one allocates no more
than a small multiple of its bounded size, runs nothing from it, and accepts the model only if every
number is in range, its version is the digest of what it holds, and it answers a stored test prompt
as it did when it was written. Anything else is one `ArtefactError` that names what is wrong.
"""

import json
import os
import stat
import tempfile
from dataclasses import asdict
from hashlib import sha256
from pathlib import Path
from urllib.parse import quote

import safetensors
import safetensors.numpy

from justitia.core.limits import MAX_ARTEFACT_BYTES
from justitia.predictor import artefact_checks as checks
from justitia.predictor.artefact_checks import ArtefactError
from justitia.predictor.model import TrainedModel

__all__ = [
    "MAX_ARTEFACT_BYTES",
    "ArtefactError",
    "file_name",
    "from_bytes",
    "load",
    "save",
    "to_bytes",
]

_MAX_NAME_CHARS = 180  # file systems allow 255 bytes


def to_bytes(model: TrainedModel) -> bytes:
    """Return the artefact of a model. Equal models that took equally long give equal bytes."""
    probe_prompt = model.probe_prompt
    document = {
        "format_version": checks.FORMAT_VERSION,
        "version": model.version,
        "application": model.application,
        "kind": model.regressor.kind,
        "vocabulary": model.featuriser.vocabulary,
        "log_mean": model.log_mean,
        "log_std": model.log_std,
        "min_cost_kvtt": model.min_cost_kvtt,
        "max_cost_kvtt": model.max_cost_kvtt,
        "left_out_log_sigma": model.left_out_log_sigma,
        "metrics": asdict(model.metrics),
        "train_s": model.train_s,
        "probe_prompt": probe_prompt,
        "probe_cost_kvtt": model.predict(probe_prompt).cost_kvtt,
    }
    metadata = {checks.DOCUMENT_KEY: json.dumps(document, allow_nan=False)}
    artefact: bytes = safetensors.numpy.save(model.arrays(), metadata=metadata)
    return artefact


def from_bytes(artefact: bytes, *, application: str | None = None) -> TrainedModel:
    """Return the model of an artefact, checked and tested.

    If ``application`` is given, the model must be for it. Takes some ten milliseconds for a model
    of the default size: keep it off the event loop.

    Raises:
        ArtefactError: see the module.
    """
    try:
        model = _parse(artefact)
    except ArtefactError:
        raise
    except (ValueError, TypeError, RecursionError, safetensors.SafetensorError) as error:
        raise ArtefactError(f"the artefact is damaged: {error}") from error
    if application is not None and model.application != application:
        raise ArtefactError(
            f"application: the model is for {model.application!r}, not for {application!r}"
        )
    return model


def file_name(application: str) -> str:
    """Return the name of an application's file: one path component, whatever the name holds."""
    name = quote(application, safe="", errors="surrogatepass")
    if len(name) > _MAX_NAME_CHARS:
        name = f"{name[:100]}~{sha256(name.encode('ascii')).hexdigest()[:32]}"
    return f"{name}.safetensors"


def save(model: TrainedModel, directory: Path) -> Path:
    """Write a model into an existing directory and return its path.

    A reader sees the old file or the new one, never a part.

    Raises:
        OSError: the file cannot be written.
    """
    path = directory / file_name(model.application)
    descriptor, temporary = tempfile.mkstemp(prefix=".model-", dir=directory)
    try:
        with os.fdopen(descriptor, "wb") as stream:
            stream.write(to_bytes(model))
            stream.flush()
            os.fsync(stream.fileno())
        Path(temporary).chmod(0o644)
        Path(temporary).replace(path)
    except BaseException:
        Path(temporary).unlink(missing_ok=True)
        raise
    return path


def load(path: Path, *, application: str | None = None) -> TrainedModel:
    """Read a model from a file, as `from_bytes` does.

    Links are followed: mounted volumes are made of them.

    Raises:
        ArtefactError: the file is no regular file, too large, or no acceptable model.
        OSError: the file cannot be read.
    """
    # Without O_NONBLOCK, opening a named pipe would wait for a writer.
    descriptor = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
    try:
        if not stat.S_ISREG(os.fstat(descriptor).st_mode):
            raise ArtefactError(f"{path} is not a regular file")
        with os.fdopen(descriptor, "rb", closefd=False) as stream:
            return from_bytes(stream.read(MAX_ARTEFACT_BYTES + 1), application=application)
    finally:
        os.close(descriptor)


def _parse(artefact: bytes) -> TrainedModel:
    if len(artefact) > MAX_ARTEFACT_BYTES:
        raise ArtefactError(f"the artefact is larger than {MAX_ARTEFACT_BYTES} bytes")
    header = checks.header(artefact)
    document = checks.document(header)
    vocabulary = checks.vocabulary(document)
    shapes = checks.expected_shapes(header, checks.kind(document), len(vocabulary))
    arrays = checks.arrays(artefact, header, shapes)
    model = checks.model(document, vocabulary, arrays)
    if document.get("version") != model.version:
        raise ArtefactError("version: is not the digest of the model")
    checks.check_probe(document, model)
    return model
