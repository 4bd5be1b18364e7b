"""A digest of the code that a job's outcome comes from: its module and all that it imports.

So an outcome is never used after that code has changed, and is not lost when other code has. Code
outside this package does not count: Python's and other libraries'.
"""

import ast
import hashlib
from collections.abc import Iterator, Mapping
from dataclasses import fields, is_dataclass
from functools import cache
from pathlib import Path
from typing import Any, Final

import justitia
from justitia.sim.reproduce.experiment import Job, Play

_ROOT: Final = Path(justitia.__file__).parent
_PLAYER: Final = "justitia.sim.loop"
#: What plays, cases and measurements are only says what is to be done, not how.
_NAMES: Final = Play.__module__


def source_digest(job: Job) -> str:
    """Digest the sources that a job's outcome depends on, and the files among its arguments."""
    digest = hashlib.sha256()
    for name in _all_modules(_modules_of(job)):
        digest.update(name.encode() + _digest(_file_of(name)))
    for path in _files_of(job):
        digest.update(_digest(path))
    return digest.hexdigest()


def _modules_of(job: Job) -> tuple[str, ...]:
    """Name the modules of all that a job holds: functions, classes, and those of its values."""
    modules = {getattr(part, "__module__", None) for part in _parts(job)}
    if isinstance(job, Play):
        modules.add(_PLAYER)
    return tuple(sorted(name for name in modules if isinstance(name, str) and name != _NAMES))


def _files_of(job: Job) -> list[Path]:
    return [part for part in _parts(job) if isinstance(part, Path) and part.is_file()]


def _parts(value: Any) -> Iterator[Any]:
    """Walk through a value and all that it holds: fields of dataclasses, items, keys."""
    yield value
    held: tuple[Any, ...] = ()
    if is_dataclass(value) and not isinstance(value, type):
        held = tuple(getattr(value, each.name) for each in fields(value))
    elif isinstance(value, Mapping):
        held = (*value.keys(), *value.values())
    elif isinstance(value, tuple | list):
        held = tuple(value)
    for each in held:
        yield from _parts(each)


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
