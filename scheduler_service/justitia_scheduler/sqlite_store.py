"""The store in one SQLite file (WAL), or in memory where no file is named.

What can be wrong with the file: ``sqlite_file``; what is in it: ``sqlite_tables``.
"""

import contextlib
import sqlite3
from collections.abc import Iterator
from pathlib import Path
from typing import IO, Final

from justitia_scheduler.sqlite_file import lock_file, open_database, open_file
from justitia_scheduler.sqlite_tables import (
    MODEL_COLUMNS,
    MODELS,
    SAMPLE_COLUMNS,
    dump,
    model_row,
    sample_row,
    sample_values,
)
from justitia_scheduler.store import (
    Loaded,
    ModelRow,
    SampleCounts,
    SampleRow,
    StoreError,
    Transaction,
    WriteError,
)

#: Newest samples that stay, over all pools and of one application (more no training takes), and
#: bytes that they may take: prompts are of any size.
MAX_SAMPLES: Final = 200_000
MAX_SAMPLES_PER_APPLICATION: Final = 20_000
MAX_SAMPLE_BYTES: Final = 1 << 30
_PRUNE_EVERY_SAMPLES: Final = 1000
_PRUNE_EVERY_CHARS: Final = 64 << 20
_BLANK: Final = "UPDATE samples SET prompt_text = '' WHERE pool = ? AND application = ?"


class SqliteStore:
    """See ``store.Store``. Not thread-safe: one thread at a time uses it."""

    def __init__(self, path: Path | None) -> None:
        self._path = path
        self._lock: IO[str] | None = None
        self._connection: sqlite3.Connection | None = None
        # The first commit prunes: nobody counted what the processes before left.
        self._num_unpruned, self._num_unpruned_chars = _PRUNE_EVERY_SAMPLES, 0
        #: One that is under way, or was rolled back with its commit.
        self._is_prune_open = False

    def load(self) -> Loaded:
        """Open, check and read everything.

        Raises:
            StoreError: another process uses the file, or its folder does not exist.
        """
        if self._path is None:
            self._connection = open_database(":memory:")
            return Loaded(records={}, models=())
        self._lock = lock_file(self._path)
        try:
            self._connection, loaded = open_file(self._path)
        except BaseException:
            self.close()
            raise
        if loaded.troubles:  # the file is another one; records are written by whoever restores them
            for model in loaded.models:
                with contextlib.suppress(WriteError):
                    self.put_model(model, keep=len(loaded.models))
        return loaded

    def commit(self, transaction: Transaction) -> None:
        """Write a transaction, or raise ``WriteError`` and change nothing."""
        with self._writing() as connection:
            if transaction.replaces_all:
                connection.execute("DELETE FROM records")
            connection.executemany(
                "DELETE FROM records WHERE key = ?", [(dump(k),) for k in transaction.deletes]
            )
            connection.executemany(
                "INSERT OR REPLACE INTO records VALUES (?, ?)",
                [(dump(key), dump(body)) for key, body in transaction.puts.items()],
            )
            for table in ("samples", "models", "verdicts"):
                connection.executemany(
                    f"DELETE FROM {table} WHERE pool = ? AND application = ?",  # noqa: S608
                    transaction.forgotten,
                )
            connection.executemany(_BLANK, transaction.blanked)
            num_pruned = self._add_samples(connection, transaction.samples)
        self._is_prune_open = False
        if transaction.forgotten or transaction.blanked or num_pruned:
            self._scrub()

    def samples(
        self, pool: str, application: str, *, after: int, limit: int
    ) -> list[tuple[int, SampleRow]]:
        """Read a page of samples, oldest first; an empty ``application`` means all."""
        ours, names = _of(pool, application)
        # Its entries lie in order of their ids: nothing is sorted, and no other pool's row is read.
        index = "samples_by_application" if application else "samples_by_pool"
        rows = self._connected().execute(
            f"SELECT id, {SAMPLE_COLUMNS} FROM samples INDEXED BY {index} WHERE {ours}"  # noqa: S608
            " AND id > ? ORDER BY id LIMIT ?",
            (*names, after, limit),
        )
        return [(row[0], sample_row(row[1:])) for row in rows]

    def newest_samples(
        self, pool: str, application: str, *, before: int, limit: int
    ) -> list[tuple[int, SampleRow]]:
        """Read a page of an application's samples that have a prompt, newest first."""
        rows = self._connected().execute(
            f"SELECT id, {SAMPLE_COLUMNS} FROM samples INDEXED BY samples_by_application"  # noqa: S608
            " WHERE pool = ? AND application = ? AND id < ? AND prompt_text <> ''"
            " ORDER BY id DESC LIMIT ?",
            (pool, application, before, limit),
        )
        return [(row[0], sample_row(row[1:])) for row in rows]

    def sample_counts(self, pool: str, application: str = "") -> dict[str, SampleCounts]:
        """Count samples that have a prompt, by application.

        Reads indices alone, tens of ms with ``MAX_SAMPLES``.
        """
        ours, names = _of(pool, application, "s.")
        rows = self._connected().execute(
            "SELECT s.application, count(*), max(s.finished_at_s),"  # noqa: S608
            " coalesce(sum(s.finished_at_s > coalesce(v.activated_at_s, m.published_at_s, 0)), 0)"
            " FROM samples s INDEXED BY samples_with_prompt LEFT JOIN models m"
            " ON m.pool = s.pool AND m.application = s.application AND m.is_active"
            " LEFT JOIN verdicts v ON v.pool = m.pool AND v.application = m.application"
            f" AND v.version = m.version WHERE {ours} AND s.prompt_text <> ''"
            " GROUP BY s.application",
            names,
        )
        return {
            name: SampleCounts(
                total=total,
                since_model=new,
                newest_s=newest_s,
                third_from_s=self._third_from_s(pool, name, new),
            )
            for name, total, newest_s, new in rows.fetchall()
        }

    def _third_from_s(self, pool: str, application: str, num_samples: int) -> float | None:
        """When the first of the newest third of so many newest samples finished."""
        if not num_samples:
            return None
        row = self._connected().execute(
            "SELECT finished_at_s FROM samples INDEXED BY samples_with_prompt"
            " WHERE pool = ? AND application = ? AND prompt_text <> ''"
            " ORDER BY finished_at_s DESC LIMIT 1 OFFSET ?",
            (pool, application, (num_samples - 1) // 3),
        )
        return float(row.fetchone()[0])

    def drop_samples(self, *, before_s: float) -> int:
        """Delete samples by age, or raise ``WriteError``.

        Looks through an index, some 15 ms with ``MAX_SAMPLES``, and not through their prompts.
        """
        with self._writing() as connection:
            dropped = connection.execute(
                "DELETE FROM samples WHERE id IN (SELECT id FROM samples INDEXED BY samples_by_time"
                " WHERE finished_at_s < ?)",
                (before_s,),
            ).rowcount
        self._scrub()
        return dropped

    def forget_prompts(self, pool: str, application: str) -> None:
        """Delete prompts and models of an application, or raise ``WriteError``."""
        ours = "pool = ? AND application = ?"
        with self._writing() as connection:
            connection.execute(_BLANK, (pool, application))
            for table in ("models", "verdicts"):
                connection.execute(
                    f"DELETE FROM {table} WHERE {ours}",  # noqa: S608
                    (pool, application),
                )
        self._scrub()

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
            verdict = (*name, model.version, model.reason, model.activated_at_s)
            connection.execute("INSERT OR REPLACE INTO verdicts VALUES (?,?,?,?,?)", verdict)
            _prune_models(connection, name, keep)

    def models(
        self, pool: str, application: str = "", *, has_artefacts: bool = False
    ) -> list[ModelRow]:
        """Read models, oldest first; without their artefacts, which are large, unless asked for."""
        columns = MODEL_COLUMNS if has_artefacts else MODEL_COLUMNS.replace("artefact", "x''")
        ours, names = _of(pool, application)
        rows = self._connected().execute(
            f"SELECT {columns} FROM {MODELS} WHERE {ours} ORDER BY published_at_s",  # noqa: S608
            names,
        )
        return [model_row(row) for row in rows]

    def _scrub(self) -> None:
        """Leave nothing of what was deleted in the log of writes beside the file either."""
        with contextlib.suppress(sqlite3.Error):
            self._connected().execute("PRAGMA wal_checkpoint(TRUNCATE)")

    def close(self) -> None:
        """Release the file and its lock; closing twice is no error."""
        if self._connection is not None:
            with contextlib.suppress(sqlite3.Error):
                self._connection.close()
            self._connection = None
        if self._lock is not None:
            self._lock.close()
            self._lock = None

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
        except BaseException as error:
            with contextlib.suppress(sqlite3.Error):
                connection.execute("ROLLBACK")
            if not isinstance(error, sqlite3.Error):
                raise
            raise WriteError(f"journal {self._path or 'in memory'}: {error}") from error

    def _add_samples(self, connection: sqlite3.Connection, samples: list[SampleRow]) -> int:
        """Add samples and keep them within their limits; returns how many went for that."""
        connection.executemany(
            f"INSERT INTO samples ({SAMPLE_COLUMNS}) VALUES (?,?,?,?,?,?,?)",  # noqa: S608
            [sample_values(sample) for sample in samples],
        )
        self._num_unpruned += len(samples)
        self._num_unpruned_chars += sum(len(sample.prompt_text) for sample in samples)
        if not self._is_prune_due:
            return 0
        if self._is_prune_open:  # on a full disk this commit may work without
            self._is_prune_open = False
            return 0
        self._is_prune_open = True
        num_pruned = _prune(connection)
        self._num_unpruned = self._num_unpruned_chars = 0
        return num_pruned

    @property
    def _is_prune_due(self) -> bool:
        has_many = self._num_unpruned >= _PRUNE_EVERY_SAMPLES
        return has_many or self._num_unpruned_chars >= _PRUNE_EVERY_CHARS


def _of(pool: str, application: str, table: str = "") -> tuple[str, tuple[str, ...]]:
    """Say whose rows are meant, so that an index finds them; an empty ``application``: all."""
    if not application:
        return f"{table}pool = ?", (pool,)
    return f"{table}pool = ? AND {table}application = ?", (pool, application)


def _prune_models(connection: sqlite3.Connection, name: tuple[str, str], keep: int) -> None:
    """Drop old models; never the active one, nor the one before it: the way back."""
    ours = "pool = ? AND application = ?"
    connection.execute(
        f"DELETE FROM models WHERE {ours} AND NOT is_active"  # noqa: S608
        f" AND version NOT IN (SELECT version FROM models WHERE {ours}"
        "  ORDER BY published_at_s DESC LIMIT ?)"
        f" AND version NOT IN (SELECT version FROM verdicts WHERE {ours}"
        "  AND activated_at_s IS NOT NULL ORDER BY activated_at_s DESC LIMIT 2)",
        (*name, *name, keep, *name),
    )
    connection.execute(
        f"DELETE FROM verdicts WHERE {ours}"  # noqa: S608
        f" AND version NOT IN (SELECT version FROM models WHERE {ours})",
        (*name, *name),
    )


def _prune(connection: sqlite3.Connection) -> int:
    """Drop the oldest samples until number and bytes are within their limits; returns how many."""
    before = connection.total_changes
    connection.execute(
        "DELETE FROM samples WHERE id IN (SELECT id FROM (SELECT id, row_number() OVER"
        " (PARTITION BY pool, application ORDER BY id DESC) AS place FROM samples)"
        " WHERE place > ?)",
        (MAX_SAMPLES_PER_APPLICATION,),
    )
    # Rows are counted, not ids: those of the samples that went above are missing between them.
    _drop_oldest(connection, _num_samples(connection) - MAX_SAMPLES)
    while _sample_bytes(connection) > MAX_SAMPLE_BYTES:
        if not _drop_oldest(connection, _num_samples(connection) // 8):
            break
    return connection.total_changes - before


def _num_samples(connection: sqlite3.Connection) -> int:
    return int(connection.execute("SELECT count(*) FROM samples").fetchone()[0])


def _drop_oldest(connection: sqlite3.Connection, number: int) -> int:
    """Drop so many samples, none if ``number`` is below 1; returns how many."""
    if number < 1:  # to SQLite a negative limit is none
        return 0
    oldest = "SELECT id FROM samples ORDER BY id LIMIT ?"
    dropped = connection.execute(
        f"DELETE FROM samples WHERE id IN ({oldest})",  # noqa: S608
        (number,),
    )
    return dropped.rowcount


def _sample_bytes(connection: sqlite3.Connection) -> int:
    """What of the file is neither free nor a model: samples, and a little of state."""
    page, pages, free = (
        connection.execute(f"PRAGMA {what}").fetchone()[0]
        for what in ("page_size", "page_count", "freelist_count")
    )
    (models,) = connection.execute("SELECT coalesce(sum(length(artefact)), 0) FROM models")
    return int(page * (pages - free) - models[0])
