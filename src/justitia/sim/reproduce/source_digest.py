"""A digest of the code that a job's outcome comes from: its module and all that it imports.

So an outcome is never used after that code has changed, and is not lost when other code has. Code
outside this package does not count: Python's and other libraries'.
"""

import ast
import hashlib
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Final

import justitia
from justitia.sim.reproduce.experiment import Job, Measurement, Play

_ROOT: Final = Path(justitia.__file__).parent
_PLAYER: Final = "justitia.sim.loop"


def source_digest(job: Job) -> str:
    """Digest the sources that a job's outcome depends on, and the files among its arguments."""
    digest = hashlib.sha256()
    for name in _all_modules(_modules_of(job)):
        digest.update(name.encode() + _digest(_file_of(name)))
    for path in _files_of(job):
        digest.update(_digest(path))
    return digest.hexdigest()


def _modules_of(job: Job) -> tuple[str, ...]:
    if isinstance(job, Play):
        return _PLAYER, job.case.make.__module__
    if isinstance(job, Measurement):
        return (job.function.__module__,)
    return (type(job).__module__,)


def _files_of(job: Job) -> list[Path]:
    arguments: tuple[tuple[str, object], ...] = ()
    if isinstance(job, Play):
        arguments = job.case.arguments
    elif isinstance(job, Measurement):
        arguments = job.arguments
    return [value for _, value in arguments if isinstance(value, Path) and value.is_file()]


@cache
def _all_modules(first: tuple[str, ...]) -> tuple[str, ...]:
    """Follow imports, those inside functions too, as far as they are of this package.

    What the packages around a module import is not followed: it is theirs, as a list of all
    experiments is.
    """
    found: set[str] = set()
    waiting = list(first)
    while waiting:
        name = waiting.pop()
        if name not in found and _file_of(name) is not None:
            found.add(name)
            waiting += _imports_of(name)
    return tuple(sorted(found))


@cache
def _imports_of(name: str) -> tuple[str, ...]:
    path = _file_of(name)
    return () if path is None else tuple(_imported(path))


def _imported(path: Path) -> Iterator[str]:
    for node in ast.walk(ast.parse(path.read_bytes())):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and node.module is not None:
            yield node.module
            # What is imported may be a module itself.
            yield from (f"{node.module}.{alias.name}" for alias in node.names)


@cache
def _file_of(name: str) -> Path | None:
    first, *rest = name.split(".")
    if first != _ROOT.name:
        return None
    plain = _ROOT.joinpath(*rest)
    files = (plain.with_suffix(".py"), plain / "__init__.py")
    return next((path for path in files if path.is_file()), None)


@cache
def _digest(path: Path | None) -> bytes:
    return b"" if path is None else hashlib.sha256(path.read_bytes()).digest()
