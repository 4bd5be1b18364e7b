"""The store in one SQLite file (WAL), or in memory where no file is named.

What can be wrong with the file has one outcome each (FS6): torn tail: SQLite's WAL drops it;
damaged: moved aside, what is readable is kept; written by a newer version: moved aside untouched;
used by another process: refused; not writable: read, then every commit fails until it is writable
again.
"""

import contextlib
import fcntl
import json
import os
import sqlite3
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import IO, Any, Final

from justitia_scheduler.store import (
    Key,
    Loaded,
    ModelRow,
    SampleRow,
    StoreError,
    Transaction,
    WriteError,
)

SCHEMA_VERSION: Final = 1
#: Newest samples that stay, over all pools; the file stays bounded whatever comes.
MAX_SAMPLES: Final = 200_000
_PRUNE_EVERY_SAMPLES: Final = 1000

_SCHEMA: Final = """
CREATE TABLE IF NOT EXISTS records (key TEXT PRIMARY KEY, body TEXT NOT NULL) WITHOUT ROWID;
CREATE TABLE IF NOT EXISTS samples (
    id INTEGER PRIMARY KEY AUTOINCREMENT, pool TEXT NOT NULL, application TEXT NOT NULL,
    run_id TEXT NOT NULL, prompt_text TEXT NOT NULL, cost_kvtt TEXT NOT NULL,
    num_inferences INTEGER NOT NULL, finished_at_s REAL NOT NULL);
CREATE INDEX IF NOT EXISTS samples_by_application ON samples (pool, application, id);
CREATE TABLE IF NOT EXISTS models (
    pool TEXT NOT NULL, application TEXT NOT NULL, version TEXT NOT NULL,
    published_at_s REAL NOT NULL, samples INTEGER NOT NULL, relative_error REAL NOT NULL,
    is_active INTEGER NOT NULL, artefact BLOB NOT NULL, PRIMARY KEY (pool, application, version));
"""
_SAMPLE_COLUMNS: Final = (
    "pool, application, run_id, prompt_text, cost_kvtt, num_inferences, finished_at_s"
)
_MODEL_COLUMNS: Final = (
    "pool, application, version, published_at_s, samples, relative_error, is_active, artefact"
)


class SqliteStore:
    """See ``store.Store``. Not thread-safe: one thread at a time uses it."""

    def __init__(self, path: Path | None) -> None:
        self._path = path
        self._lock: IO[str] | None = None
        self._connection: sqlite3.Connection | None = None
        self._num_samples_since_prune = 0

    def load(self) -> Loaded:
        """Open, check and read everything.

        Raises:
            StoreError: another process uses the file, or its folder does not exist.
        """
        if self._path is None:
            self._connection = _open(":memory:")
            return Loaded(records={}, models=())
        self._lock = _lock(self._path)
        try:
            return self._load_file(self._path)
        except BaseException:
            self.close()
            raise

    def commit(self, transaction: Transaction) -> None:
        """Write a transaction, or raise ``WriteError`` and change nothing."""
        with self._writing() as connection:
            if transaction.replaces_all:
                connection.execute("DELETE FROM records")
            connection.executemany(
                "DELETE FROM records WHERE key = ?", [(_dump(k),) for k in transaction.deletes]
            )
            connection.executemany(
                "INSERT OR REPLACE INTO records VALUES (?, ?)",
                [(_dump(key), _dump(body)) for key, body in transaction.puts.items()],
            )
            for table in ("samples", "models"):
                connection.executemany(
                    f"DELETE FROM {table} WHERE pool = ? AND application = ?",  # noqa: S608
                    transaction.forgotten,
                )
            self._add_samples(connection, transaction.samples)

    def samples(
        self, pool: str, application: str, *, after: int, limit: int
    ) -> list[tuple[int, SampleRow]]:
        """Read a page of samples, oldest first; an empty ``application`` means all."""
        rows = self._connected().execute(
            f"SELECT id, {_SAMPLE_COLUMNS} FROM samples WHERE pool = ? AND id > ?"  # noqa: S608
            " AND (? = '' OR application = ?) ORDER BY id LIMIT ?",
            (pool, after, application, application, limit),
        )
        return [(row[0], _sample(row[1:])) for row in rows]

    def put_model(self, model: ModelRow, *, keep: int) -> None:
        """Store a model, or raise ``WriteError``."""
        name = (model.pool, model.application)
        row = (
            *name,
            model.version,
            model.published_at_s,
            model.samples,
            model.relative_error,
            int(model.is_active),
            model.artefact,
        )
        with self._writing() as connection:
            if model.is_active:
                connection.execute(
                    "UPDATE models SET is_active = 0 WHERE pool = ? AND application = ?", name
                )
            connection.execute("INSERT OR REPLACE INTO models VALUES (?,?,?,?,?,?,?,?)", row)
            connection.execute(
                "DELETE FROM models WHERE pool = ? AND application = ? AND version NOT IN"
                " (SELECT version FROM models WHERE pool = ? AND application = ?"
                "  ORDER BY is_active DESC, published_at_s DESC LIMIT ?)",
                (*name, *name, keep),
            )

    def models(self, pool: str) -> list[ModelRow]:
        """Read all models of a pool, oldest first."""
        rows = self._connected().execute(
            f"SELECT {_MODEL_COLUMNS} FROM models WHERE pool = ? ORDER BY published_at_s",  # noqa: S608
            (pool,),
        )
        return [_model(row) for row in rows]

    def close(self) -> None:
        """Release the file and its lock; closing twice is no error."""
        if self._connection is not None:
            with contextlib.suppress(sqlite3.Error):
                self._connection.close()
            self._connection = None
        if self._lock is not None:
            self._lock.close()
            self._lock = None

    def _load_file(self, path: Path) -> Loaded:
        troubles: list[str] = []
        loaded: Loaded | None = None
        if path.exists() and not path.is_file():
            raise StoreError(f"journal {path} is not a file; name another one with --journal-path")
        if path.exists() and path.stat().st_size > 0:
            loaded = self._read_old(path, troubles)
        self._connection = _open_or_memory(path, troubles)
        if loaded is None:
            return Loaded(records={}, models=(), troubles=troubles)
        return Loaded(records=loaded.records, models=loaded.models, troubles=troubles)

    def _read_old(self, path: Path, troubles: list[str]) -> Loaded | None:
        try:
            with contextlib.closing(sqlite3.connect(path)) as connection:
                version = connection.execute("PRAGMA user_version").fetchone()[0]
                is_sound = version > SCHEMA_VERSION or _is_sound(connection)
                loaded = None if version > SCHEMA_VERSION else _read_all(connection)
        except sqlite3.OperationalError as error:  # the disk or the permissions, not the content
            troubles.append(
                f"journal {path} cannot be read ({error}): open runs come back from the"
                " engines alone"
            )
            return None
        except sqlite3.DatabaseError:
            version, is_sound, loaded = 0, False, None
        if version > SCHEMA_VERSION:
            aside = _move_aside(path, f"schema-{version}")
            troubles.append(
                f"journal {path} has schema {version}, this version reads {SCHEMA_VERSION}:"
                f" it was moved to {aside} and open runs come back from the engines alone"
            )
        elif not is_sound:
            aside = _move_aside(path, "damaged")
            count = 0 if loaded is None else len(loaded.records)
            troubles.append(
                f"journal {path} is damaged: it was moved to {aside}, {count} records could be read"
                " and the rest comes back from the engines"
            )
        return loaded

    def _connected(self) -> sqlite3.Connection:
        if self._connection is None:
            raise StoreError("the journal is closed")
        return self._connection

    @contextlib.contextmanager
    def _writing(self) -> Iterator[sqlite3.Connection]:
        connection = self._connected()
        try:
            connection.execute("BEGIN IMMEDIATE")
            yield connection
            connection.execute("COMMIT")
        except sqlite3.Error as error:
            with contextlib.suppress(sqlite3.Error):
                connection.execute("ROLLBACK")
            raise WriteError(f"journal {self._path or 'in memory'}: {error}") from error

    def _add_samples(self, connection: sqlite3.Connection, samples: list[SampleRow]) -> None:
        connection.executemany(
            f"INSERT INTO samples ({_SAMPLE_COLUMNS}) VALUES (?,?,?,?,?,?,?)",  # noqa: S608
            [
                (
                    sample.pool,
                    sample.application,
                    sample.run_id,
                    sample.prompt_text,
                    str(sample.cost_kvtt),
                    sample.num_inferences,
                    sample.finished_at_s,
                )
                for sample in samples
            ],
        )
        self._num_samples_since_prune += len(samples)
        if self._num_samples_since_prune >= _PRUNE_EVERY_SAMPLES:
            self._num_samples_since_prune = 0
            connection.execute(
                "DELETE FROM samples WHERE id <= (SELECT max(id) FROM samples) - ?", (MAX_SAMPLES,)
            )


def _dump(value: object) -> str:
    return json.dumps(value, ensure_ascii=True, separators=(",", ":"))


def _lock(path: Path) -> IO[str]:
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


def _open(database: str | Path) -> sqlite3.Connection:
    connection = sqlite3.connect(
        database, isolation_level=None, check_same_thread=False, timeout=1.0
    )
    try:
        connection.execute("PRAGMA journal_mode=WAL")
        # With WAL, NORMAL would lose the last commits in a power cut; StartRun promises more.
        connection.execute("PRAGMA synchronous=FULL")
        connection.executescript(_SCHEMA)
        connection.execute(f"PRAGMA user_version={SCHEMA_VERSION}")
    except BaseException:
        connection.close()
        raise
    return connection


def _open_or_memory(path: Path, troubles: list[str]) -> sqlite3.Connection:
    try:
        return _open(path)
    except sqlite3.Error as error:
        troubles.append(
            f"journal {path} cannot be written ({error}): everything is kept in memory alone until"
            " the service is started again"
        )
        return _open(":memory:")


def _is_sound(connection: sqlite3.Connection) -> bool:
    return bool(connection.execute("PRAGMA quick_check(1)").fetchone()[0] == "ok")


def _read_all(connection: sqlite3.Connection) -> Loaded:
    """Read as far as the file can be read; a damaged row or table costs only what is behind it."""
    records: dict[Key, Mapping[str, Any]] = {}
    for key, body in _rows(connection, "SELECT key, body FROM records"):
        with contextlib.suppress(ValueError, TypeError):
            parsed = json.loads(body)
            if isinstance(parsed, dict):
                records[tuple(json.loads(key))] = parsed
    models: list[ModelRow] = []
    for row in _rows(
        connection,
        f"SELECT {_MODEL_COLUMNS} FROM models WHERE is_active",  # noqa: S608
    ):
        with contextlib.suppress(ValueError, TypeError):
            models.append(_model(row))
    return Loaded(records=records, models=models)


def _rows(connection: sqlite3.Connection, query: str) -> Iterator[tuple[Any, ...]]:
    with contextlib.suppress(sqlite3.DatabaseError):
        yield from connection.execute(query)


def _move_aside(path: Path, why: str) -> Path:
    """Rename the file and its WAL to the first free name; nothing is ever deleted."""
    number = 1
    while (aside := path.with_name(f"{path.name}.{why}-{number}")).exists():
        number += 1
    for suffix in ("", "-wal", "-shm"):
        with contextlib.suppress(FileNotFoundError):
            os.replace(f"{path}{suffix}", f"{aside}{suffix}")  # noqa: PTH105
    return aside


def _sample(row: tuple[Any, ...]) -> SampleRow:
    pool, application, run_id, prompt_text, cost, num_inferences, finished_at_s = row
    return SampleRow(
        pool=pool,
        application=application,
        run_id=run_id,
        prompt_text=prompt_text,
        cost_kvtt=int(cost),
        num_inferences=num_inferences,
        finished_at_s=finished_at_s,
    )


def _model(row: tuple[Any, ...]) -> ModelRow:
    pool, application, version, published_at_s, samples, relative_error, is_active, artefact = row
    return ModelRow(
        pool=pool,
        application=application,
        version=version,
        published_at_s=published_at_s,
        samples=samples,
        relative_error=relative_error,
        is_active=bool(is_active),
        artefact=bytes(artefact),
    )
