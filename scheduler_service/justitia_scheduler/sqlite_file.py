"""A store's file: opening it, locking it, and one outcome for each thing that can be wrong with it.

Torn tail: SQLite's WAL drops it; damaged: moved aside, what is readable is kept; written by a newer
version: moved aside untouched; used by another process: refused; not writable: read, then memory
serves alone (FS6).
"""

import contextlib
import fcntl
import os
import sqlite3
from dataclasses import replace
from pathlib import Path
from typing import IO, Final

from justitia_scheduler.sqlite_tables import SCHEMA, SCHEMA_VERSION, read_all
from justitia_scheduler.store import Loaded, StoreError

_PROMPTS_IN_IT: Final = "the samples in that file, with their prompts, are yours to delete"


def open_file(path: Path) -> tuple[sqlite3.Connection, Loaded]:
    """Open a store's file and read it; what was wrong with it is among the troubles.

    Raises:
        StoreError: it is no file.
    """
    troubles: list[str] = []
    loaded: Loaded | None = None
    if path.exists() and not path.is_file():
        raise StoreError(f"journal {path} is not a file; name another one with --journal-path")
    if path.exists() and path.stat().st_size > 0:
        loaded = _read_old(path, troubles)
    connection = _open_or_memory(path, troubles)
    if loaded is None:
        loaded = Loaded(records={}, models=())
    return connection, replace(loaded, troubles=tuple(troubles))


def lock_file(path: Path) -> IO[str]:
    """Take the file for this process alone.

    Raises:
        StoreError: another process has it, or its folder cannot be written.
    """
    try:
        lock = path.with_name(path.name + ".lock").open("a+")
    except OSError as error:
        raise StoreError(
            f"journal {path}: its folder cannot be written ({error.strerror}); name another"
            " one with --journal-path, or none to keep everything in memory"
        ) from error
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError as error:
        lock.close()
        raise StoreError(
            f"journal {path} is used by another process; stop it or name another file with"
            " --journal-path"
        ) from error
    return lock


def open_database(database: str | Path) -> sqlite3.Connection:
    """Open a database and make its tables."""
    connection = sqlite3.connect(
        database, isolation_level=None, check_same_thread=False, timeout=1.0
    )
    try:
        connection.execute("PRAGMA journal_mode=WAL")
        # With WAL, NORMAL would lose the last commits in a power cut; StartRun promises more.
        connection.execute("PRAGMA synchronous=FULL")
        # What is deleted may be somebody's prompt: it is overwritten, not only unlinked.
        connection.execute("PRAGMA secure_delete=ON")
        connection.executescript(SCHEMA)
        connection.execute(f"PRAGMA user_version={SCHEMA_VERSION}")
    except BaseException:
        connection.close()
        raise
    return connection


def _open_or_memory(path: Path, troubles: list[str]) -> sqlite3.Connection:
    try:
        return open_database(path)
    except sqlite3.Error as error:
        troubles.append(
            f"journal {path} cannot be written ({error}): everything is kept in memory alone until"
            " the service is started again"
        )
        return open_database(":memory:")


def _read_old(path: Path, troubles: list[str]) -> Loaded | None:
    try:
        with contextlib.closing(sqlite3.connect(path)) as connection:
            version = connection.execute("PRAGMA user_version").fetchone()[0]
            is_sound = version > SCHEMA_VERSION or _is_sound(connection)
            loaded = None if version > SCHEMA_VERSION else read_all(connection)
    except sqlite3.OperationalError as error:  # the disk or the permissions, not the content
        troubles.append(
            f"journal {path} cannot be read ({error}): open runs come back from the engines alone"
        )
        return None
    except sqlite3.DatabaseError:
        version, is_sound, loaded = 0, False, None
    if version > SCHEMA_VERSION:
        aside = _move_aside(path, f"schema-{version}")
        troubles.append(
            f"journal {path} has schema {version}, this version reads {SCHEMA_VERSION}:"
            f" it was moved to {aside} and open runs come back from the engines alone;"
            f" {_PROMPTS_IN_IT}"
        )
    elif not is_sound:
        aside = _move_aside(path, "damaged")
        count = 0 if loaded is None else len(loaded.records)
        troubles.append(
            f"journal {path} is damaged: it was moved to {aside}, {count} records could be read"
            f" and the rest comes back from the engines; {_PROMPTS_IN_IT}"
        )
    return loaded


def _is_sound(connection: sqlite3.Connection) -> bool:
    return bool(connection.execute("PRAGMA quick_check(1)").fetchone()[0] == "ok")


def _move_aside(path: Path, why: str) -> Path:
    """Rename the file and its WAL to the first free name; nothing is ever deleted."""
    number = 1
    while (aside := path.with_name(f"{path.name}.{why}-{number}")).exists():
        number += 1
    for suffix in ("", "-wal", "-shm"):
        with contextlib.suppress(FileNotFoundError):
            os.replace(f"{path}{suffix}", f"{aside}{suffix}")  # noqa: PTH105
    return aside
