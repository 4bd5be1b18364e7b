"""What the journal promises while it is busy, refused or stopped (FS2, FS6)."""

import asyncio
import contextlib
import json
import sqlite3
import threading

import pytest

from justitia_scheduler.run_facts import RunOrder
from justitia_scheduler.sqlite_store import SqliteStore
from justitia_scheduler.store import SampleRow, Transaction, WriteError


def keys(path, kind):
    """Ids of the records of a kind, as another process sees them."""
    with contextlib.closing(sqlite3.connect(path)) as connection:
        found = [json.loads(key) for (key,) in connection.execute("SELECT key FROM records")]
    return {key[-1] for key in found if key[0] == kind}


async def samples(bench):
    store = bench.service._store
    rows = await bench.service.journal.call(store.samples, "default", "", after=0, limit=10)
    return [(row.run_id, row.prompt_text) for _, row in rows]


async def finish(bench, engine, finished, run_id):
    await bench.start(run_id, "chat", prompt_text=f"prompt of {run_id}")
    await engine.report({"run_id": run_id, "useful_kvtt": 300}, finished=[finished(run_id)])
    await bench.until(lambda: bench.pool.core.run(run_id).num_finished)
    await bench.end_after_grace(run_id)


def refuse(_):
    raise WriteError("journal: database or disk is full")


async def test_what_callers_were_told_is_durable_however_many_runs_progress(
    tmp_path, open_service, close_service
):
    path = tmp_path / "journal.db"
    bench = await open_service(path)
    for number in range(1000):
        bench.pool.start_run(RunOrder(run_id=f"busy{number}"))
    await bench.service.journal.committed()
    for number in range(5):
        for busy in range(1000):
            bench.pool.changes.progress(f"busy{busy}")
        await bench.start(f"new{number}")
        assert f"new{number}" in keys(path, "run")
        for busy in range(1000):
            bench.pool.changes.progress(f"busy{busy}")
        await bench.end(f"new{number}")
        assert f"new{number}" not in keys(path, "run")
        assert f"new{number}" in keys(path, "ended")
    await close_service(bench)


async def test_a_weight_that_reached_only_some_runs_reaches_all_after_a_crash(
    tmp_path, open_service, crash_service, close_service
):
    path = tmp_path / "journal.db"
    bench = await open_service(path)
    await bench.declare("chat", weight=1)
    for number in range(700):
        bench.pool.start_run(RunOrder(run_id=f"r{number}", application="chat"))
    await bench.service.journal.committed()
    await bench.declare("chat", weight=4)
    await crash_service(bench)
    bench = await open_service(path, clock=bench.clock)
    assert {view.weight for view in bench.pool.core.runs()} == {4 * 10**9}
    await close_service(bench)


async def test_samples_and_deletions_outlast_a_refused_commit(
    tmp_path, open_service, close_service, finished, monkeypatch
):
    monkeypatch.setattr("justitia_scheduler.journal.RETRY_S", 0.01)
    bench = await open_service(tmp_path / "journal.db")
    for name in ("chat", "gone"):
        await bench.declare(name)
    engine = bench.engine()
    await engine.join()
    await finish(bench, engine, finished, "before")
    store, journal = bench.service._store, bench.service.journal
    forgotten = []
    real = store.commit

    def commit(transaction):
        real(transaction)
        forgotten.extend(transaction.forgotten)

    monkeypatch.setattr(store, "commit", refuse)
    await finish(bench, engine, finished, "r1")
    await bench.until(lambda: not journal.is_healthy)
    bench.pool.delete_application("gone")
    before = bench.metric("justitia_journal_errors_total")
    await bench.until(lambda: bench.metric("justitia_journal_errors_total") > before + 1)
    monkeypatch.setattr(store, "commit", commit)
    await bench.until(lambda: journal.is_healthy)
    await finish(bench, engine, finished, "r2")
    await journal.committed()
    assert [run_id for run_id, _ in await samples(bench)] == ["before", "r1", "r2"]
    assert forgotten == [("default", "gone")]
    await close_service(bench)


async def test_a_deleted_application_leaves_no_prompt_that_was_still_to_be_written(
    bench, finished, monkeypatch
):
    monkeypatch.setattr("justitia_scheduler.journal.RETRY_S", 0.01)
    await bench.declare("chat")
    engine = bench.engine()
    await engine.join()
    store, journal = bench.service._store, bench.service.journal
    real = store.commit
    monkeypatch.setattr(store, "commit", refuse)
    await finish(bench, engine, finished, "r1")
    await bench.until(lambda: not journal.is_healthy)
    bench.pool.delete_application("chat")
    monkeypatch.setattr(store, "commit", real)
    await bench.until(lambda: journal.is_healthy)
    assert await samples(bench) == []


async def test_a_fault_of_ours_is_told_and_does_not_end_the_journal(
    tmp_path, open_service, close_service, monkeypatch
):
    monkeypatch.setattr("justitia_scheduler.journal.RETRY_S", 0.01)
    path = tmp_path / "journal.db"
    bench = await open_service(path)
    store = bench.service._store
    real = store.commit

    def break_down(_):
        raise TypeError("not serialisable")

    monkeypatch.setattr(store, "commit", break_down)
    await bench.start("r1")
    assert bench.metric("justitia_journal_healthy") == 0
    monkeypatch.setattr(store, "commit", real)
    await bench.until(lambda: bench.metric("justitia_journal_healthy") == 1)
    assert keys(path, "run") == {"r1"}
    await close_service(bench)


async def test_while_the_disk_refuses_no_call_waits_for_it(bench, monkeypatch):
    monkeypatch.setattr(bench.service._store, "commit", refuse)
    await bench.start("first")
    assert not bench.service.journal.is_healthy
    async with asyncio.timeout(0.5):
        for number in range(5):
            await bench.start(f"r{number}")


async def test_the_whole_state_is_taken_without_holding_up_others(bench):
    for number in range(1000):
        bench.pool.start_run(RunOrder(run_id=f"r{number}"))
    bench.service.journal.begin_close()
    await bench.service._tasks[0]
    taking = asyncio.ensure_future(bench.service.everything())
    turns = 0
    while not taking.done():
        await asyncio.sleep(0)
        turns += 1
        if turns == 3:  # what comes in between is for the next transaction
            bench.pool.start_run(RunOrder(run_id="late"))
            bench.pool.endings._finish("r999", "end_run", bench.clock.now_s)
    assert turns >= 10
    taken = taking.result().puts
    assert ("run", "default", "r0") in taken
    assert ("run", "default", "late") not in taken
    following = await bench.service.changes()
    assert ("run", "default", "late") in following.puts
    assert ("run", "default", "r999") in following.deletes
    assert ("ended", "default", "r999") in following.puts


async def test_a_stop_in_the_middle_of_a_commit_writes_nothing_twice(
    tmp_path, open_service, finished, monkeypatch
):
    path = tmp_path / "journal.db"
    bench = await open_service(path)
    await bench.declare("chat")
    engine = bench.engine()
    await engine.join()
    store = bench.service._store
    real = store.commit
    begun, go_on = threading.Event(), threading.Event()

    def commit(transaction):
        if transaction.samples:
            begun.set()
            go_on.wait(5)
        real(transaction)

    monkeypatch.setattr(store, "commit", commit)
    finishing = asyncio.ensure_future(finish(bench, engine, finished, "r1"))
    await bench.until(begun.is_set)
    stopping = asyncio.ensure_future(bench.service.stop())
    for _ in range(5):
        await asyncio.sleep(0)
    go_on.set()
    await finishing
    await bench.channel.close()
    await bench.server.drain(0)
    await stopping
    with contextlib.closing(sqlite3.connect(path)) as connection:
        assert connection.execute("SELECT count(*) FROM samples").fetchone() == (1,)


def test_samples_are_bounded_in_bytes_and_the_oldest_go(tmp_path, monkeypatch):
    monkeypatch.setattr("justitia_scheduler.sqlite_store.MAX_SAMPLE_BYTES", 1 << 20)
    monkeypatch.setattr("justitia_scheduler.sqlite_store._PRUNE_EVERY_CHARS", 1 << 18)
    store = SqliteStore(tmp_path / "journal.db")
    store.load()
    for number in range(40):
        rows = [sample(f"r{number}-{i}", "x" * 10_000) for i in range(10)]
        store.commit(Transaction(samples=rows))
    kept = [row.run_id for _, row in store.samples("default", "", after=0, limit=1000)]
    assert 50 <= len(kept) <= 131
    assert kept[-1] == "r39-9"
    assert (tmp_path / "journal.db").stat().st_size < 2 << 20
    store.close()


def test_where_pruning_fails_every_other_commit_goes_without(tmp_path, monkeypatch):
    def fail(_):
        raise sqlite3.OperationalError("database or disk is full")

    monkeypatch.setattr("justitia_scheduler.sqlite_store._prune", fail)
    store = SqliteStore(tmp_path / "journal.db")
    store.load()
    many = Transaction(samples=[sample(f"r{number}", "") for number in range(1000)])
    for _ in range(2):
        with pytest.raises(WriteError, match="full"):
            store.commit(many)
        store.commit(many)
    assert len(store.samples("default", "", after=0, limit=5000)) == 2000
    monkeypatch.undo()
    store.commit(many)
    assert not store._is_prune_due
    store.close()


def test_a_body_that_cannot_be_written_leaves_the_store_usable(tmp_path):
    store = SqliteStore(tmp_path / "journal.db")
    store.load()
    with pytest.raises(TypeError):
        store.commit(Transaction(puts={("pool", "p"): {"odd": object()}}))
    store.commit(Transaction(puts={("pool", "p"): {"fine": 1}}))
    store.close()


def sample(run_id, prompt_text):
    return SampleRow(
        pool="default",
        application="chat",
        run_id=run_id,
        prompt_text=prompt_text,
        cost_kvtt=1,
        num_inferences=1,
        finished_at_s=1.0,
    )
