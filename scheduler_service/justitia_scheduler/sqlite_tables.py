"""The store's tables: their schema, and rows as the store's own values."""

import contextlib
import json
import sqlite3
from collections.abc import Iterator, Mapping
from typing import Any, Final

from justitia_scheduler.store import Key, Loaded, ModelRow, SampleRow

SCHEMA_VERSION: Final = 1
SCHEMA: Final = """
CREATE TABLE IF NOT EXISTS records (key TEXT PRIMARY KEY, body TEXT NOT NULL) WITHOUT ROWID;
CREATE TABLE IF NOT EXISTS samples (
    id INTEGER PRIMARY KEY AUTOINCREMENT, pool TEXT NOT NULL, application TEXT NOT NULL,
    run_id TEXT NOT NULL, prompt_text TEXT NOT NULL, cost_kvtt TEXT NOT NULL,
    num_inferences INTEGER NOT NULL, finished_at_s REAL NOT NULL);
CREATE INDEX IF NOT EXISTS samples_by_pool ON samples (pool);
CREATE INDEX IF NOT EXISTS samples_by_application ON samples (pool, application, id);
CREATE INDEX IF NOT EXISTS samples_by_time ON samples (pool, application, finished_at_s);
CREATE INDEX IF NOT EXISTS samples_with_prompt ON samples (pool, application, finished_at_s)
    WHERE prompt_text <> '';
CREATE TABLE IF NOT EXISTS models (
    pool TEXT NOT NULL, application TEXT NOT NULL, version TEXT NOT NULL,
    published_at_s REAL NOT NULL, samples INTEGER NOT NULL, relative_error REAL NOT NULL,
    is_active INTEGER NOT NULL, artefact BLOB NOT NULL, PRIMARY KEY (pool, application, version));
CREATE TABLE IF NOT EXISTS verdicts (
    pool TEXT NOT NULL, application TEXT NOT NULL, version TEXT NOT NULL, reason TEXT NOT NULL,
    activated_at_s REAL, PRIMARY KEY (pool, application, version)) WITHOUT ROWID;
"""
SAMPLE_COLUMNS: Final = (
    "pool, application, run_id, prompt_text, cost_kvtt, num_inferences, finished_at_s"
)
MODEL_COLUMNS: Final = (
    "pool, application, version, published_at_s, samples, relative_error, is_active, artefact,"
    " coalesce(reason, ''), activated_at_s"
)
#: A table of its own: what releases without it wrote, and write, stays readable to both.
MODELS: Final = "models LEFT JOIN verdicts USING (pool, application, version)"


def dump(value: object) -> str:
    """Write a key or a body as it stands in a table."""
    return json.dumps(value, ensure_ascii=True, separators=(",", ":"))


def sample_row(row: tuple[Any, ...]) -> SampleRow:
    """Read ``SAMPLE_COLUMNS``."""
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


def sample_values(sample: SampleRow) -> tuple[Any, ...]:
    """Write ``SAMPLE_COLUMNS``; a cost may be larger than SQLite's integers."""
    return (
        sample.pool,
        sample.application,
        sample.run_id,
        sample.prompt_text,
        str(sample.cost_kvtt),
        sample.num_inferences,
        sample.finished_at_s,
    )


def model_row(row: tuple[Any, ...]) -> ModelRow:
    """Read ``MODEL_COLUMNS``."""
    pool, application, version, published_at_s, samples, relative_error, *rest = row
    is_active, artefact, reason, activated_at_s = rest
    return ModelRow(
        pool=pool,
        application=application,
        version=version,
        published_at_s=published_at_s,
        samples=samples,
        relative_error=relative_error,
        is_active=bool(is_active),
        artefact=bytes(artefact),
        reason=reason,
        activated_at_s=activated_at_s,
    )


def read_all(connection: sqlite3.Connection) -> Loaded:
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
        f"SELECT {MODEL_COLUMNS} FROM {_models(connection)} WHERE is_active",  # noqa: S608
    ):
        with contextlib.suppress(ValueError, TypeError):
            models.append(model_row(row))
    return Loaded(records=records, models=models)


def _models(connection: sqlite3.Connection) -> str:
    """Name the tables of models in a file that an older release may have written."""
    known = connection.execute("SELECT 1 FROM sqlite_master WHERE name = 'verdicts'").fetchone()
    no_verdicts = "(SELECT *, NULL AS reason, NULL AS activated_at_s FROM models)"
    return MODELS if known else no_verdicts


def _rows(connection: sqlite3.Connection, query: str) -> Iterator[tuple[Any, ...]]:
    with contextlib.suppress(sqlite3.DatabaseError):
        yield from connection.execute(query)
