"""What survives a restart, a kill and a bad file (FS2, FS6)."""

import asyncio
import contextlib
import json
import os
import signal
import sqlite3
import subprocess
import sys
from pathlib import Path

import grpc
import pytest

from justitia.api.v1 import engine_pb2, engine_pb2_grpc, run_pb2, run_pb2_grpc, training_pb2
from justitia.testing.models import two_level_model
from justitia_scheduler.sqlite_store import SqliteStore
from justitia_scheduler.store import StoreError, Transaction, WriteError


def known_from(tag, *, useful=0, **fields):
    return engine_pb2.KnownRun(
        run_id=tag.run_id,
        virtual_finish=tag.virtual_finish,
        virtual_start=tag.virtual_start,
        estimate=tag.estimate,
        weight=tag.weight,
        useful_kvtt=useful,
        **fields,
    )


async def test_a_crash_loses_no_open_run_and_no_virtual_time(
    tmp_path, open_service, crash_service, close_service
):
    path = tmp_path / "journal.db"
    bench = await open_service(path)
    await bench.declare("chat", weight=2.5, idle_timeout_s=7)
    engine = bench.engine()
    await engine.join()
    before = [await bench.start(f"r{n}", "chat", cost_kvtt=1000 * n) for n in range(1, 20)]
    await engine.report({"run_id": "r7", "useful_kvtt": 400, "num_running": 1})
    await bench.until(lambda: bench.pool.core.useful_kvtt == 400)
    await bench.service.journal.committed()
    value = bench.pool.core.value
    await crash_service(bench)

    bench = await open_service(path, clock=bench.clock)
    assert bench.pool.core.value == value
    assert bench.pool.applications["chat"].idle_timeout_s == 7
    for run in before:
        again = await bench.get(run.run_id)
        assert again.virtual_finish == run.virtual_finish
        assert again.arrived_at == run.arrived_at
    assert (await bench.get("r7")).useful_kvtt == 400
    # The engine went on meanwhile: 100 more are delivered by its Hello, 50 by its next report.
    engine = bench.engine(sequence=9, steps=50)
    run = known_from(before[6], useful=500, num_running=1)
    await engine.join(known=[run])
    assert bench.pool.core.useful_kvtt == 100
    await engine.report({"run_id": "r7", "useful_kvtt": 550, "num_running": 1})
    await bench.until(lambda: bench.pool.core.useful_kvtt == 150)
    assert (await bench.get("r7")).useful_kvtt == 550
    assert bench.pool.core.value > value
    await close_service(bench)


async def test_ended_runs_and_their_fluid_flows_survive(
    tmp_path, open_service, crash_service, close_service
):
    path = tmp_path / "journal.db"
    bench = await open_service(path)
    engine = bench.engine()
    await engine.join()
    await bench.start("r1", cost_kvtt=1000)
    await bench.start("r2", cost_kvtt=1000)
    await engine.report({"run_id": "r1", "useful_kvtt": 1000})
    await bench.until(lambda: bench.pool.core.useful_kvtt == 1000)
    ended = await bench.end_after_grace("r1")
    fluid = bench.pool.core.snapshot().fluid
    await crash_service(bench)
    bench = await open_service(path, clock=bench.clock)
    assert await bench.end("r1") == ended
    assert bench.pool.core.snapshot().fluid == fluid
    assert len(fluid.flows) == 2
    await close_service(bench)


async def test_a_run_that_has_left_the_fluid_system_does_not_come_back_to_it(
    tmp_path, open_service, crash_service, close_service, finished
):
    path = tmp_path / "journal.db"
    bench = await open_service(path)
    engine = bench.engine()
    await engine.join()
    await bench.start("small", cost_kvtt=10)
    await bench.start("other", cost_kvtt=100_000)
    await engine.report({"run_id": "small", "useful_kvtt": 300, "num_running": 1})
    await engine.report({"run_id": "small", "useful_kvtt": 400}, finished=[finished("small")])
    await bench.until(lambda: bench.pool.core.run("small").useful_kvtt == 400)
    await bench.end_after_grace("small")
    fluid = bench.pool.core.snapshot().fluid
    assert len(fluid.flows) == 1
    await crash_service(bench)
    bench = await open_service(path, clock=bench.clock)
    assert bench.pool.core.snapshot().fluid.flows == fluid.flows
    await close_service(bench)


async def test_extreme_numbers_come_back_identical(
    tmp_path, open_service, crash_service, close_service
):
    path = tmp_path / "journal.db"
    bench = await open_service(path)
    await bench.declare("heavy", weight=1e9)
    await bench.declare("light", weight=1e-9)
    runs = [
        await bench.start("a", "heavy", cost_kvtt=1e18),
        await bench.start("b", "light", cost_kvtt=1e18),
        await bench.start("c", "light", cost_kvtt=1e-5),
    ]
    await crash_service(bench)
    bench = await open_service(path, clock=bench.clock)
    for run in runs:
        assert await bench.get(run.run_id) == run
    await close_service(bench)


async def test_an_edited_weight_survives_in_the_runs_too(
    tmp_path, open_service, crash_service, close_service
):
    path = tmp_path / "journal.db"
    bench = await open_service(path)
    await bench.declare("chat", weight=1)
    await bench.start("r1", "chat", cost_kvtt=1000)
    await bench.declare("chat", weight=3)
    run = await bench.get("r1")
    await crash_service(bench)
    bench = await open_service(path, clock=bench.clock)
    assert await bench.get("r1") == run
    await close_service(bench)


# -- the file --------------------------------------------------------------------------------------


def filled(path: Path, number: int = 200) -> None:
    store = SqliteStore(path)
    store.load()
    puts = {("run", "default", f"r{n}"): {"number": n, "pad": "x" * 200} for n in range(number)}
    store.commit(Transaction(puts=puts))
    store.close()


def damage_middle(path):
    content = bytearray(path.read_bytes())
    middle = len(content) // 2
    content[middle : middle + 5000] = os.urandom(5000)
    path.write_bytes(content)


def cut(path):
    path.write_bytes(path.read_bytes()[: path.stat().st_size // 2])


def overwrite(path):
    path.write_bytes(b"not a database at all" * 100)


def make_newer(path):
    with sqlite3.connect(path) as connection:
        connection.execute("PRAGMA user_version=99")


@pytest.mark.parametrize(
    ("harm", "word"),
    [
        pytest.param(damage_middle, "damaged", id="damaged"),
        pytest.param(cut, "damaged", id="cut"),
        pytest.param(overwrite, "damaged", id="no database"),
        pytest.param(make_newer, "schema 99", id="newer schema"),
    ],
)
def test_a_bad_file_is_moved_aside_loudly_and_a_new_one_begins(tmp_path, harm, word):
    path = tmp_path / "journal.db"
    filled(path)
    harm(path)
    kept = path.read_bytes()
    store = SqliteStore(path)
    loaded = store.load()
    assert word in loaded.troubles[0]
    aside = [file for file in tmp_path.iterdir() if file.name.endswith("-1")]
    assert [file.read_bytes() for file in aside] == [kept]
    assert len(loaded.records) < 200
    assert all(body["number"] == int(key[2][1:]) for key, body in loaded.records.items())
    store.commit(Transaction(puts={("pool", "p"): {"value": 10**60}}))
    store.close()
    again = SqliteStore(path)
    assert again.load().records == {("pool", "p"): {"value": 10**60}}
    again.close()


def test_what_is_readable_in_a_damaged_file_is_kept(tmp_path):
    path = tmp_path / "journal.db"
    filled(path, number=2000)
    content = bytearray(path.read_bytes())
    content[-6000:] = os.urandom(6000)
    path.write_bytes(content)
    store = SqliteStore(path)
    assert len(store.load().records) > 100
    store.close()


async def test_an_active_model_of_a_damaged_file_is_stored_again(
    tmp_path, open_service, close_service
):
    path = tmp_path / "journal.db"
    bench = await open_service(path)
    await bench.declare("chat")
    model = two_level_model("chat", plain_kvtt=100, word_kvtt=1000)
    await bench.publish(model)
    await close_service(bench)
    with contextlib.closing(sqlite3.connect(path)) as connection:
        page_size = connection.execute("PRAGMA page_size").fetchone()[0]
        page = connection.execute(
            "SELECT rootpage FROM sqlite_schema WHERE name = 'samples_by_time'"
        ).fetchone()[0]
    content = bytearray(path.read_bytes())
    content[(page - 1) * page_size : page * page_size] = os.urandom(page_size)
    path.write_bytes(content)
    for _ in range(2):  # the second time from the new file
        bench = await open_service(path)
        (stored,) = (await bench.training.ListModels(training_pb2.ListModelsRequest())).models
        assert (stored.version, stored.is_active) == (model.version, True)
        assert bench.service.parts("default").predictor.models["chat"].version == model.version
        await close_service(bench)
    assert path.with_name("journal.db.damaged-1").exists()


def test_an_empty_file_and_a_torn_wal_are_no_trouble(tmp_path):
    path = tmp_path / "journal.db"
    path.touch()
    filled(path)
    (tmp_path / "journal.db-wal").write_bytes(b"torn")
    store = SqliteStore(path)
    loaded = store.load()
    assert not loaded.troubles
    assert len(loaded.records) == 200
    store.close()


def test_a_second_process_on_the_same_file_is_refused(tmp_path):
    first, second = SqliteStore(tmp_path / "journal.db"), SqliteStore(tmp_path / "journal.db")
    first.load()
    with pytest.raises(StoreError, match="used by another process"):
        second.load()
    first.close()
    second.load()
    second.close()


def test_a_missing_folder_is_refused_with_the_next_step(tmp_path):
    with pytest.raises(StoreError, match="--journal-path"):
        SqliteStore(tmp_path / "missing" / "journal.db").load()


def test_a_path_that_is_a_folder_is_refused_and_stays(tmp_path):
    path = tmp_path / "folder"
    path.mkdir()
    with pytest.raises(StoreError, match="not a file"):
        SqliteStore(path).load()
    assert path.is_dir()


def test_a_file_that_cannot_be_opened_is_left_alone_and_memory_serves(tmp_path, monkeypatch):
    path = tmp_path / "journal.db"
    filled(path)
    real = sqlite3.connect

    def refuse(database, **options):
        if database == ":memory:":
            return real(database, **options)
        raise sqlite3.OperationalError("unable to open database file")

    monkeypatch.setattr(sqlite3, "connect", refuse)
    store = SqliteStore(path)
    troubles = store.load().troubles
    assert "cannot be read" in troubles[0]
    assert "in memory alone" in troubles[1]
    store.commit(Transaction(puts={("pool", "p"): {}}))
    store.close()
    assert [file.name for file in tmp_path.iterdir() if "-1" in file.name] == []


def test_a_file_that_is_read_only_is_read_and_then_memory_serves(tmp_path, monkeypatch):
    path = tmp_path / "journal.db"
    filled(path)
    real = sqlite3.connect

    def open_read_only(database, **options):
        if database == ":memory:":
            return real(database, **options)
        return real(f"file:{database}?mode=ro", uri=True, **options)

    monkeypatch.setattr(sqlite3, "connect", open_read_only)
    store = SqliteStore(path)
    loaded = store.load()
    assert len(loaded.records) == 200
    assert "in memory alone" in loaded.troubles[0]
    store.commit(Transaction(puts={("pool", "p"): {}}))
    store.close()


async def test_a_disk_that_refuses_stops_nobody_and_is_made_up_for(
    tmp_path, open_service, crash_service, close_service, monkeypatch
):
    path = tmp_path / "journal.db"
    bench = await open_service(path)
    monkeypatch.setattr("justitia_scheduler.journal.RETRY_S", 0.01)
    store = bench.service._store
    real = store.commit

    def full(_):
        raise WriteError("journal: database or disk is full")

    monkeypatch.setattr(store, "commit", full)
    await bench.start("r1", cost_kvtt=5)
    await bench.start("r2", cost_kvtt=5)
    await bench.end("r2")
    assert bench.metric("justitia_journal_healthy") == 0
    assert bench.metric("justitia_journal_errors_total") >= 1
    monkeypatch.setattr(store, "commit", real)
    await bench.until(lambda: bench.metric("justitia_journal_healthy") == 1)
    await crash_service(bench)
    bench = await open_service(path, clock=bench.clock)
    assert list(bench.pool.facts) == ["r1"]
    await close_service(bench)


async def test_a_record_that_makes_no_sense_costs_only_itself(
    tmp_path, open_service, close_service
):
    path = tmp_path / "journal.db"
    bench = await open_service(path)
    await bench.start("good")
    await close_service(bench)
    with sqlite3.connect(path) as connection:
        for key, body in (
            (["run", "default", "bad"], {"application": 5}),
            (["app", "default", "bad"], {"weight": "x"}),
            (["ladder", "default"], {}),
            (["odd"], {}),
        ):
            row = (json.dumps(key, separators=(",", ":")), json.dumps(body))
            connection.execute("INSERT OR REPLACE INTO records VALUES (?, ?)", row)
    connection.close()
    bench = await open_service(path)
    assert list(bench.pool.facts) == ["good"]
    await close_service(bench)


# -- a real process --------------------------------------------------------------------------------


def spawn(path: Path) -> tuple[subprocess.Popen, int]:
    """Start the real service on a free port; returns the process and the port."""
    process = subprocess.Popen(
        [
            sys.executable,
            *("-m", "justitia_scheduler", "--listen-address", "127.0.0.1:0"),
            *("--metrics-address", "off", "--journal-path", str(path), "--log-format", "json"),
        ],
        stderr=subprocess.PIPE,
        text=True,
    )
    for line in process.stderr:
        entry = json.loads(line)
        if entry["event"] == "serving":
            return process, entry["port"]
    raise AssertionError(process.wait())


def end(process, number):
    process.send_signal(number)
    code = process.wait(10)
    process.stderr.close()
    return code


class Load:
    """A fake engine under load, which remembers what the service told it."""

    def __init__(self):
        self.tags, self.value, self.useful, self.steps = {}, 0, {}, 0

    async def work(self, port, number):
        """Open ``number`` runs by headers and StartRun, and serve a little of each."""
        async with grpc.aio.insecure_channel(f"127.0.0.1:{port}") as channel:
            call = engine_pb2_grpc.EngineServiceStub(channel).Session()
            await call.write(self.hello())
            await self.hear(call, await call.read())
            first = len(self.useful)
            runs = run_pb2_grpc.RunServiceStub(channel)
            await asyncio.gather(
                *(
                    runs.StartRun(run_pb2.StartRunRequest(run_id=f"r{n}", cost_kvtt=1000 + n))
                    for n in range(first, first + number)
                )
            )
            ids = [f"r{n}" for n in range(first, first + number)]
            for round_number in range(1, 4):
                self.steps += 1
                for run_id in (*ids, f"h{first}"):
                    self.useful[run_id] = self.useful.get(run_id, 0) + 10
                await call.write(self.report(round_number))
            while not {*ids, f"h{first}"} <= self.tags.keys():
                await self.hear(call, await asyncio.wait_for(call.read(), 5))
            request = run_pb2.GetRunRequest(run_id=f"h{first}")
            async with asyncio.timeout(5):
                while (await runs.GetRun(request)).useful_kvtt < self.useful[f"h{first}"]:  # noqa: ASYNC110
                    await asyncio.sleep(0.01)

    def hello(self):
        hello = engine_pb2.Hello(
            pool="default",
            engine_id="e",
            incarnation="1",
            kv_blocks=100,
            block_size_tokens=16,
            steps=self.steps,
            known_runs=[
                known_from(tag, useful=self.useful.get(run_id, 0), num_running=1)
                for run_id, tag in self.tags.items()
            ],
        )
        hello.last_virtual_time.ticks = str(self.value)
        return engine_pb2.EngineMessage(hello=hello)

    def report(self, sequence):
        report = engine_pb2.Report(sequence=sequence, steps=self.steps)
        for run_id, useful in self.useful.items():
            report.runs.append(
                engine_pb2.RunProgress(run_id=run_id, useful_kvtt=useful, num_running=1)
            )
            if run_id not in self.tags:
                report.new_runs.append(engine_pb2.NewRun(run_id=run_id))
        return engine_pb2.EngineMessage(report=report)

    async def hear(self, _call, directive):
        assert int(directive.virtual_time.ticks) >= self.value, "V went back"
        self.value = int(directive.virtual_time.ticks)
        for tag in directive.tags:
            old = self.tags.setdefault(tag.run_id, tag)
            assert old.virtual_finish == tag.virtual_finish, "a run lost its F"


async def open_beside_engines(port, number):
    """Open runs that no engine has met, so that only the journal can bring them back."""
    async with grpc.aio.insecure_channel(f"127.0.0.1:{port}") as channel:
        runs = run_pb2_grpc.RunServiceStub(channel)
        return await asyncio.gather(
            *(
                runs.StartRun(run_pb2.StartRunRequest(run_id=f"beside{n}", cost_kvtt=500 + n))
                for n in range(number)
            )
        )


async def test_kill_under_load_and_restart_keeps_every_tag_and_v(tmp_path):
    path, load = tmp_path / "journal.db", Load()
    process, port = await asyncio.to_thread(spawn, path)
    try:
        await load.work(port, 100)
        beside = await open_beside_engines(port, 400)
        assert end(process, signal.SIGKILL) == -signal.SIGKILL
        process, port = await asyncio.to_thread(spawn, path)
        await load.work(port, 50)
        assert len(load.tags) == 152
        async with grpc.aio.insecure_channel(f"127.0.0.1:{port}") as channel:
            runs = run_pb2_grpc.RunServiceStub(channel)
            for run_id, tag in load.tags.items():
                run = await runs.GetRun(run_pb2.GetRunRequest(run_id=run_id))
                assert run.virtual_finish == tag.virtual_finish
                assert run.useful_kvtt == load.useful[run_id]
            for run in beside:
                assert await runs.GetRun(run_pb2.GetRunRequest(run_id=run.run_id)) == run
        assert await asyncio.to_thread(end, process, signal.SIGTERM) == 0
    finally:
        if process.poll() is None:
            end(process, signal.SIGKILL)
