"""Recorded runs: how many and how long they are kept, and what of prompts is in them."""

import asyncio
import re
import sqlite3
from contextlib import AsyncExitStack
from dataclasses import replace

import grpc
import pytest

from justitia.api.v1 import admin_pb2, common_pb2, training_pb2
from justitia.client import AsyncClient, PromptPolicy
from justitia.core.privacy import Privacy
from justitia.testing.models import handmade_model
from justitia_scheduler import sample_retention, sqlite_store
from justitia_scheduler.limits import require_hashed
from justitia_scheduler.sample_retention import SampleRetention
from justitia_scheduler.sqlite_store import SqliteStore
from justitia_scheduler.store import SampleCounts, SampleRow, Transaction

SECRET = "xylophonist"
PROMPT = f"Call the {SECRET} about invoice 4711.\nIs it paid?"
KEY = b"sixteen bytes or more"
PRIVACY_CODES = {
    Privacy.TEXT: admin_pb2.PRIVACY_TEXT,
    Privacy.HASHED: admin_pb2.PRIVACY_HASHED,
    Privacy.NONE: admin_pb2.PRIVACY_NONE,
}


def sample(application="chat", **fields):
    row = SampleRow(
        pool="default",
        application=application,
        run_id="r",
        prompt_text="text",
        cost_kvtt=1,
        num_inferences=1,
        finished_at_s=0.0,
    )
    return replace(row, **fields)


# -- number and age --------------------------------------------------------------------------------


def test_one_busy_application_does_not_push_out_the_samples_of_others(tmp_path, monkeypatch):
    monkeypatch.setattr(sqlite_store, "MAX_SAMPLES_PER_APPLICATION", 5)
    monkeypatch.setattr(sqlite_store, "_PRUNE_EVERY_SAMPLES", 1)
    store = SqliteStore(tmp_path / "journal.db")
    store.load()
    store.commit(Transaction(samples=[sample("rare", run_id=f"s{n}") for n in range(3)]))
    store.commit(Transaction(samples=[sample("busy", run_id=f"b{n}") for n in range(20)]))
    counts = {name: count.total for name, count in store.sample_counts("default").items()}
    assert counts == {"rare": 3, "busy": 5}
    newest = store.newest_samples("default", "busy", before=2**62, limit=2)
    assert [row.run_id for _, row in newest] == ["b19", "b18"]
    store.close()


def read_and_trim(store):
    """Do all that is done with samples again and again; they are too many by number alone."""
    store.commit(
        Transaction(
            samples=[sample(run_id=f"r{n}", finished_at_s=float(n)) for n in range(9)],
            forgotten=[("default", "gone")],
            blanked=[("default", "chat")],
        )
    )
    for application in ("", "chat"):
        store.samples("default", application, after=1, limit=5)
        store.sample_counts("default", application)
    store.newest_samples("default", "chat", before=99, limit=4)
    store.forget_prompts("default", "chat")
    store.drop_samples(before_s=3.0)


@pytest.mark.parametrize("release", ["before some indices", "now"])
def test_samples_are_found_by_indices_and_never_by_reading_them_all(tmp_path, monkeypatch, release):
    """They lie among prompts of up to a GiB."""
    monkeypatch.setattr(sqlite_store, "_PRUNE_EVERY_SAMPLES", 1)
    monkeypatch.setattr(sqlite_store, "MAX_SAMPLES_PER_APPLICATION", 8)
    store = SqliteStore(tmp_path / "journal.db")
    if release != "now":
        store.load()
        for index in ("samples_by_time", "samples_with_prompt"):
            store._connection.execute(f"DROP INDEX {index}")
        store.close()
    store.load()
    statements = []
    store._connection.set_trace_callback(statements.append)
    read_and_trim(store)
    store._connection.set_trace_callback(None)
    asked = [each for each in statements if "samples" in each and not each.startswith("INSERT")]
    assert len(asked) >= 8
    reads_all = re.compile(
        r"SCAN (samples|s)\b(?! USING COVERING INDEX)|USE TEMP B-TREE FOR ORDER BY"
        r"|SEARCH samples USING INTEGER PRIMARY KEY \(rowid>"
    )
    for statement in asked:
        plan = store._connection.execute(f"EXPLAIN QUERY PLAN {statement}").fetchall()
        assert [step for *_, step in plan if reads_all.match(step)] == [], statement
    assert [row.run_id for _, row in store.samples("default", "", after=0, limit=99)] == [
        f"r{n}" for n in range(3, 9)
    ]
    store.close()


def test_counting_samples_reads_no_row_of_them(tmp_path):
    """Each has its prompt before all that is counted."""
    store = SqliteStore(tmp_path / "journal.db")
    store.load()
    store.commit(Transaction(samples=[sample(finished_at_s=float(n)) for n in range(5)]))
    statements = []
    store._connection.set_trace_callback(statements.append)
    assert store.sample_counts("default")["chat"].third_from_s == 3.0
    store._connection.set_trace_callback(None)
    (root,) = store._connection.execute(
        "SELECT rootpage FROM sqlite_master WHERE name = 'samples'"
    ).fetchone()
    assert len(statements) == 2
    for statement in statements:
        steps = store._connection.execute(f"EXPLAIN {statement}").fetchall()
        rows = {step[2] for step in steps if step[1] == "OpenRead" and step[3] == root}
        assert not [step for step in steps if step[1] == "Column" and step[2] in rows]
    store.close()


def test_a_page_of_samples_holds_one_applications_or_all_in_the_order_they_came(tmp_path):
    store = SqliteStore(tmp_path / "journal.db")
    store.load()
    rows = [sample(("chat", "other")[n % 2], run_id=f"r{n}") for n in range(6)]
    store.commit(Transaction(samples=[*rows, sample(pool="elsewhere", run_id="far")]))

    def page(application, *, after):
        found = store.samples("default", application, after=after, limit=2)
        return [row.run_id for _, row in found]

    assert page("", after=2) == ["r2", "r3"]
    assert page("chat", after=2) == ["r2", "r4"]
    assert page("", after=6) == []
    store.close()


def test_samples_without_a_prompt_are_not_counted_and_judge_no_model(tmp_path):
    store = SqliteStore(tmp_path / "journal.db")
    store.load()
    told = [sample(run_id=f"r{n}", finished_at_s=float(n)) for n in range(1, 4)]
    untold = [sample(run_id=f"u{n}", prompt_text="", finished_at_s=float(n)) for n in range(2, 30)]
    store.commit(Transaction(samples=[*told, *untold, sample("other", prompt_text="")]))
    assert store.sample_counts("default") == {
        "chat": SampleCounts(total=3, since_model=3, newest_s=3.0, third_from_s=3.0)
    }
    assert store.sample_counts("default", "other") == {}
    newest = store.newest_samples("default", "chat", before=2**62, limit=2)
    assert [row.run_id for _, row in newest] == ["r3", "r2"]
    assert len(store.samples("default", "", after=0, limit=99)) == 32
    store.commit(Transaction(blanked=[("default", "chat")]))
    assert store.sample_counts("default") == {}
    store.close()


@pytest.mark.parametrize(
    ("limit", "value", "most"),
    [
        ("MAX_SAMPLES", 2, 2),
        ("MAX_SAMPLES_PER_APPLICATION", 2, 2),
        ("MAX_SAMPLE_BYTES", 200_000, 19),
    ],
)
def test_limits_hold_also_where_each_process_ends_after_few_samples(
    tmp_path, monkeypatch, limit, value, most
):
    path = tmp_path / "journal.db"
    for day in range(4):
        store = SqliteStore(path)
        store.load()
        texts = [PROMPT if day == number == 0 else "x" * 10_000 for number in range(5)]
        store.commit(Transaction(samples=[sample(run_id=f"{day}", prompt_text=t) for t in texts]))
        store.close()
    assert has_left_a_trace(tmp_path)
    monkeypatch.setattr(sqlite_store, limit, value)
    store = SqliteStore(path)
    store.load()
    store.commit(Transaction(puts={("pool", "default"): {}}))
    kept = [row.run_id for _, row in store.samples("default", "", after=0, limit=99)]
    assert 1 <= len(kept) <= most
    assert kept[-1] == "3"
    assert not has_left_a_trace(tmp_path)
    store.close()


def test_a_busy_application_leaves_a_rare_one_its_samples(tmp_path, monkeypatch):
    monkeypatch.setattr(sqlite_store, "MAX_SAMPLES", 100)
    monkeypatch.setattr(sqlite_store, "MAX_SAMPLES_PER_APPLICATION", 10)
    path = tmp_path / "journal.db"
    for application, number in (("rare", 9), ("busy", 200), ("busy", 1)):
        store = SqliteStore(path)  # looks at the limits with its first write
        store.load()
        store.commit(Transaction(samples=[sample(application) for _ in range(number)]))
        store.close()
    store = SqliteStore(path)
    store.load()
    kept = [row.application for _, row in store.samples("default", "", after=0, limit=999)]
    assert (kept.count("rare"), kept.count("busy")) == (9, 10)
    store.close()


@pytest.fixture
def retention(bench):
    store, journal = bench.service.store(), bench.service.journal
    return SampleRetention(store, journal, bench.clock.clocks(), retention_s=1000.0)


async def exported(bench):
    call = bench.training.ExportSamples(training_pb2.ExportSamplesRequest())
    return [sample async for sample in call]


async def test_samples_older_than_their_time_go_although_nothing_new_comes(bench, retention):
    now_s = bench.clock.clocks().wall_s()
    old, new = now_s - 900, now_s
    bench.pool.changes.samples.extend([sample(finished_at_s=at_s) for at_s in (old, old, new)])
    await bench.service.journal.committed()
    assert await retention.look() == 0
    bench.clock.advance(101)
    assert await retention.look() == 2
    assert len(await exported(bench)) == 1


async def test_age_is_looked_at_soon_after_the_start(bench, retention, monkeypatch):
    assert sample_retention._FIRST_S < sample_retention._PERIOD_S
    bench.pool.changes.samples.append(sample(finished_at_s=bench.clock.clocks().wall_s()))
    await bench.service.journal.committed()
    bench.clock.advance(1001)
    monkeypatch.setattr(sample_retention, "_FIRST_S", 0.0)
    looking = asyncio.create_task(retention.run())
    async with asyncio.timeout(5):
        while await exported(bench):  # noqa: ASYNC110  the store has no event for this
            await asyncio.sleep(0)
    looking.cancel()


async def test_fs7_a_wall_clock_that_was_set_expires_nothing_at_once(bench, retention):
    bench.pool.changes.samples.append(sample(finished_at_s=bench.clock.clocks().wall_s()))
    await bench.service.journal.committed()
    bench.clock.wall_offset_s += 1e6
    assert await retention.look() == 0
    bench.clock.wall_offset_s -= 1e6
    assert await retention.look() == 0
    assert len(await exported(bench)) == 1


# -- privacy ---------------------------------------------------------------------------------------


@pytest.fixture
async def on_disk(tmp_path, open_service, close_service):
    """A service with a journal, the journal's folder, and what closes the service."""
    folder = tmp_path / "journal"
    folder.mkdir()
    bench = await open_service(folder / "journal.db")
    async with AsyncExitStack() as stack:
        stack.push_async_callback(close_service, bench)
        yield bench, folder, stack.aclose


async def run_with(bench, prompts, run_id, finished, engine, *, application="chat"):
    """One whole run of a client that lets out of prompts what ``prompts`` says."""
    client = AsyncClient("", bench.channel, 5.0, prompts)
    await client.start_run(application=application, run_id=run_id, prompt=PROMPT)
    await engine.report({"run_id": run_id, "useful_kvtt": 300}, finished=[finished(run_id)])
    await bench.until(lambda: bench.pool.core.run(run_id).num_finished)
    await bench.end_after_grace(run_id)


def has_left_a_trace(folder):
    content = b"".join(path.read_bytes() for path in folder.iterdir())
    return any(word.encode() in content for word in (SECRET, "invoice", "4711"))


@pytest.mark.parametrize("privacy", list(Privacy))
async def test_no_prompt_text_is_kept_told_or_logged_unless_it_is_allowed(
    on_disk, finished, capfd, privacy
):
    bench, folder, close = on_disk
    await bench.declare("chat", privacy=PRIVACY_CODES[privacy])
    engine = bench.engine()
    await engine.join()
    # Clients of every kind, also those that send more than they should.
    for number, sent in enumerate(Privacy):
        prompts = PromptPolicy(privacy=sent, key=KEY)
        await run_with(bench, prompts, f"r{number}", finished, engine)
    if privacy is Privacy.TEXT:
        await bench.publish(handmade_model("chat"))
    await bench.service.journal.committed()
    samples = await exported(bench)
    told = b"".join(m.SerializeToString() for m in [*engine.directives, *samples])
    is_allowed = privacy is Privacy.TEXT
    assert has_left_a_trace(folder) == is_allowed
    assert (SECRET.encode() in told) == is_allowed
    assert [bool(s.prompt_text) for s in samples] == [
        privacy is sent and sent is not Privacy.NONE for sent in Privacy
    ]
    await close()
    assert has_left_a_trace(folder) == is_allowed
    printed = capfd.readouterr()
    assert SECRET not in printed.out + printed.err


@pytest.mark.parametrize(
    "text",
    [
        PROMPT,
        f"the {SECRET} has a rare disease please help him",
        f"abcde {SECRET} abcde",
        "abcde 4711 abcde",
        "abcde john abcde",
    ],
)
async def test_text_in_place_of_hashed_words_is_refused_and_not_repeated(bench, text):
    await bench.declare("chat", privacy=admin_pb2.PRIVACY_HASHED)
    with pytest.raises(grpc.aio.AioRpcError) as error:
        await bench.start("r1", "chat", hashed_prompt=text)
    assert error.value.code() is grpc.StatusCode.INVALID_ARGUMENT
    assert "hashed_prompt" in error.value.details()
    assert SECRET not in error.value.details()


@pytest.mark.parametrize("prompt", ["", "a?\n\nb", "one two? " * 3000, "\u4e00" * 3000])
def test_what_a_client_hashes_is_taken_for_hashed_words(prompt):
    hashed = PromptPolicy(privacy=Privacy.HASHED, key=KEY).fields(prompt)["hashed_prompt"]
    assert require_hashed("hashed_prompt", hashed) == hashed


async def test_a_withheld_prompt_is_still_estimated_by_its_length(bench):
    await bench.declare("chat", privacy=admin_pb2.PRIVACY_NONE)
    for _ in range(5):
        bench.pool.ladder.learn("other", prompt_length=len(PROMPT) // 4, cost_kvtt=777)
    client = AsyncClient("", bench.channel, 5.0, PromptPolicy(privacy=Privacy.NONE))
    run = await client.start_run(application="chat", prompt=PROMPT)
    assert run.estimate.source == common_pb2.ESTIMATE_SOURCE_POOL
    assert run.estimate.cost_kvtt == 777


@pytest.mark.parametrize("privacy", [Privacy.HASHED, Privacy.NONE])
async def test_prompts_of_the_default_application_go_when_it_is_declared_without(
    on_disk, finished, privacy
):
    bench, folder, close = on_disk
    engine = bench.engine()
    await engine.join()
    await run_with(bench, PromptPolicy(), "r1", finished, engine, application="")
    await bench.service.journal.committed()
    assert has_left_a_trace(folder)
    await bench.declare("default", privacy=PRIVACY_CODES[privacy])
    assert [row.prompt_text for row in await exported(bench)] == [""]
    await close()
    assert not has_left_a_trace(folder)


@pytest.mark.parametrize("privacy", [Privacy.HASHED, Privacy.NONE])
def test_no_word_of_a_prompt_leaves_a_client_that_may_not_send_it(privacy):
    fields = PromptPolicy(privacy=privacy, key=KEY).fields(PROMPT)
    sent = repr(fields).lower()
    assert not any(word in sent for word in ("xylo", "call", "the ", "invoice", "4711", "paid"))
    assert SECRET in repr(PromptPolicy().fields(PROMPT))


async def test_a_stricter_setting_deletes_what_was_kept_before(on_disk, finished):
    bench, folder, close = on_disk
    await bench.declare("chat")
    engine = bench.engine()
    await engine.join()
    await run_with(bench, PromptPolicy(), "ended", finished, engine)
    await bench.publish(handmade_model("chat"))
    assert has_left_a_trace(folder)
    await bench.start("open", "chat", prompt_text=PROMPT)
    await bench.declare("chat", privacy=admin_pb2.PRIVACY_HASHED)
    assert not has_left_a_trace(folder)
    assert not list((await bench.training.ListModels(training_pb2.ListModelsRequest())).models)
    assert "chat" not in bench.service.parts("default").predictor.models
    await engine.report({"run_id": "open", "useful_kvtt": 1}, finished=[finished("open")])
    await bench.until(lambda: bench.pool.core.run("open").num_finished)
    await bench.end_after_grace("open")
    assert [s.prompt_text for s in await exported(bench)] == ["", ""]
    # Costs stay: they teach the mean.
    assert [s.cost_kvtt for s in await exported(bench)] == [300, 1]
    await close()
    assert not has_left_a_trace(folder)


async def finish(bench, engine, finished, run_id):
    await engine.report({"run_id": run_id, "useful_kvtt": 1}, finished=[finished(run_id)])
    await bench.until(lambda: bench.pool.core.run(run_id).num_finished)
    await bench.end_after_grace(run_id)


STRICT = [(Privacy.TEXT, Privacy.NONE), (Privacy.NONE, Privacy.TEXT)]


@pytest.mark.parametrize(("requested", "served"), [*STRICT, (Privacy.HASHED, Privacy.TEXT)])
async def test_over_the_limit_the_stricter_of_both_applications_counts(
    bench, finished, requested, served
):
    await bench.declare("chat", privacy=PRIVACY_CODES[requested], max_concurrent_runs=1)
    await bench.declare("default", privacy=PRIVACY_CODES[served])
    engine = bench.engine()
    await engine.join()
    await bench.start("first", "chat")
    await bench.start("over", "chat", prompt_text=PROMPT)
    await bench.start("over", "chat", prompt_text=PROMPT)
    assert bench.pool.core.run("over").application == "default"
    assert not bench.pool.facts["over"].prompt_text
    await finish(bench, engine, finished, "over")
    assert [s.prompt_text for s in await exported(bench)] == [""]


async def test_over_the_limit_a_later_stricter_setting_still_counts(bench, finished):
    await bench.declare("chat", max_concurrent_runs=1)
    engine = bench.engine()
    await engine.join()
    await bench.declare("default")
    await bench.start("first", "chat")
    await bench.start("over", "chat", prompt_text=PROMPT)
    await bench.declare("chat", privacy=admin_pb2.PRIVACY_NONE)
    await finish(bench, engine, finished, "over")
    assert [s.prompt_text for s in await exported(bench)] == [""]


async def test_a_repeat_keeps_no_prompt_of_an_application_that_is_gone(bench):
    await bench.declare("chat", privacy=admin_pb2.PRIVACY_NONE)
    await bench.start("r1", "chat")
    await bench.admin.DeleteApplication(admin_pb2.DeleteApplicationRequest(name="chat"))
    await bench.start("r1", "chat", prompt_text=PROMPT)
    assert not bench.pool.facts["r1"].prompt_text


async def test_after_a_restart_a_repeat_keeps_no_prompt_of_an_application_that_is_gone(
    tmp_path, open_service, close_service
):
    bench = await open_service(tmp_path / "journal.db")
    await bench.declare("chat", privacy=admin_pb2.PRIVACY_NONE)
    await bench.start("r1", "chat")
    await bench.admin.DeleteApplication(admin_pb2.DeleteApplicationRequest(name="chat"))
    await close_service(bench)
    bench = await open_service(tmp_path / "journal.db", clock=bench.clock)
    await bench.start("r1", "chat", prompt_text=PROMPT)
    assert not bench.pool.facts["r1"].prompt_text
    await close_service(bench)


async def test_a_run_that_gets_its_name_later_keeps_no_more_than_that_name_allows(bench):
    await bench.declare("chat", privacy=admin_pb2.PRIVACY_NONE)
    await bench.start("r1")
    await bench.start("r1", "chat", prompt_text=PROMPT)
    assert not bench.pool.facts["r1"].prompt_text


@pytest.fixture
async def sick(bench, monkeypatch):
    """The bench's store refuses to commit; returns the method that would do it."""
    store = bench.service.store()
    commit = store.commit

    def refuse(_):
        raise sqlite_store.WriteError("disk full")

    await bench.declare("chat")
    monkeypatch.setattr(store, "commit", refuse)
    row = sample(prompt_text=PROMPT)
    bench.pool.changes.samples.extend([row, sample("other", prompt_text="kept")])
    await bench.until(lambda: not bench.service.journal.is_healthy)
    yield commit
    assert row.prompt_text == PROMPT


async def test_samples_that_wait_for_a_sick_disk_lose_their_prompts_too(bench, sick, monkeypatch):
    await bench.declare("chat", privacy=admin_pb2.PRIVACY_NONE)
    assert [row.prompt_text for row in bench.pool.changes.samples] == ["", "kept"]
    monkeypatch.setattr(bench.service.store(), "commit", sick)
    await bench.service.journal.flush()
    assert [s.prompt_text for s in await exported(bench)] == ["", "kept"]


async def test_samples_of_a_commit_under_way_lose_their_prompts_and_come_once(
    bench, sick, monkeypatch
):
    under_way = await bench.service.everything()
    await bench.declare("chat", privacy=admin_pb2.PRIVACY_NONE)
    await bench.service.journal.call(sick, under_way)
    bench.service.written(under_way)
    monkeypatch.setattr(bench.service.store(), "commit", sick)
    await bench.service.journal.flush()
    assert [s.prompt_text for s in await exported(bench)] == ["", "kept"]


@pytest.mark.parametrize("privacy", [Privacy.NONE, Privacy.HASHED])
async def test_a_model_made_of_words_is_refused_where_there_is_no_text(bench, privacy):
    await bench.declare("chat", privacy=PRIVACY_CODES[privacy])
    with pytest.raises(grpc.aio.AioRpcError) as error:
        await bench.publish(handmade_model("chat"))
    assert error.value.code() is grpc.StatusCode.FAILED_PRECONDITION
    assert "privacy" in error.value.details()
    assert not list((await bench.training.ListModels(training_pb2.ListModelsRequest())).models)


async def test_a_switch_while_a_model_is_judged_refuses_it(bench, monkeypatch):
    await bench.declare("chat")
    keeper, judge = bench.service.models, bench.service.models._judge

    async def switch_and_judge(parts, *args):
        chat = parts.pool.applications["chat"]
        parts.pool.apply_application(replace(chat, privacy=Privacy.NONE))
        return await judge(parts, *args)

    monkeypatch.setattr(keeper, "_judge", switch_and_judge)
    with pytest.raises(grpc.aio.AioRpcError) as error:
        await bench.publish(handmade_model("chat"))
    assert error.value.code() is grpc.StatusCode.FAILED_PRECONDITION
    assert "chat" not in bench.service.parts("default").predictor.models


async def test_what_cannot_be_deleted_refuses_the_stricter_setting(bench, monkeypatch):
    await bench.declare("chat")

    def refuse(*_):
        raise sqlite_store.WriteError("disk full")

    monkeypatch.setattr(bench.service.store(), "forget_prompts", refuse)
    with pytest.raises(grpc.aio.AioRpcError) as error:
        await bench.declare("chat", privacy=admin_pb2.PRIVACY_NONE)
    assert error.value.code() is grpc.StatusCode.UNAVAILABLE
    assert "application.privacy" in error.value.details()
    assert bench.pool.applications["chat"].privacy is Privacy.TEXT


def test_deleted_prompts_are_overwritten_in_the_file(tmp_path):
    store = SqliteStore(tmp_path / "journal.db")
    store.load()
    store.commit(Transaction(samples=[sample(prompt_text=PROMPT, finished_at_s=n) for n in (1, 9)]))
    assert store.drop_samples(before_s=10) == 2
    assert not has_left_a_trace(tmp_path)
    assert (tmp_path / "journal.db-wal").stat().st_size == 0
    store.close()
    with sqlite3.connect(tmp_path / "journal.db") as connection:
        assert connection.execute("SELECT count(*) FROM samples").fetchone() == (0,)
    connection.close()


def test_prompts_of_a_deleted_application_are_overwritten_in_the_file(tmp_path):
    store = SqliteStore(tmp_path / "journal.db")
    store.load()
    store.commit(Transaction(samples=[sample(prompt_text=PROMPT)]))
    assert has_left_a_trace(tmp_path)
    store.commit(Transaction(forgotten=[("default", "chat")]))
    assert not has_left_a_trace(tmp_path)
    store.close()


def test_prompts_beyond_the_limits_are_overwritten_in_the_file(tmp_path, monkeypatch):
    monkeypatch.setattr(sqlite_store, "MAX_SAMPLES_PER_APPLICATION", 1)
    monkeypatch.setattr(sqlite_store, "_PRUNE_EVERY_SAMPLES", 1)
    store = SqliteStore(tmp_path / "journal.db")
    store.load()
    store.commit(Transaction(samples=[sample(prompt_text=PROMPT)]))
    assert has_left_a_trace(tmp_path)
    store.commit(Transaction(samples=[sample(prompt_text="new")]))
    assert not has_left_a_trace(tmp_path)
    store.close()


# -- hashed prompts --------------------------------------------------------------------------------


async def test_hashed_prompts_train_a_model_that_predicts_hashed_prompts(bench):
    """The whole way: hashed by clients, recorded, exported, trained, published, predicted."""
    from justitia.predictor.samples import Sample
    from justitia.predictor.settings import TrainingSettings
    from justitia.predictor.training import train_and_judge

    bench.service.options = replace(bench.service.options, prediction_deadline_s=5)
    await bench.declare("chat", privacy=admin_pb2.PRIVACY_HASHED)
    prompts = PromptPolicy(privacy=Privacy.HASHED, key=KEY)
    for number in range(60):
        style, cost = ("thoroughly", 40_000) if number % 2 else ("briefly", 2_000)
        text = f"Summarise {style} the report of day {number} for the board"
        row = sample(
            run_id=f"s{number}",
            prompt_text=prompts.fields(text)["hashed_prompt"],
            cost_kvtt=cost + number,
        )
        bench.pool.changes.samples.append(row)
    await bench.service.journal.committed()
    samples = [
        Sample(application="chat", prompt=s.prompt_text, cost_kvtt=s.cost_kvtt, run_id=s.run_id)
        for s in await exported(bench)
    ]
    trained = await asyncio.to_thread(
        train_and_judge, samples, settings=TrainingSettings(max_steps=150)
    )
    held_out = [
        training_pb2.HeldOutRun(
            run_id=run.run_id, cost_kvtt=run.cost_kvtt, predicted_kvtt=run.predicted_kvtt
        )
        for run in trained.held_out
    ]
    answer = await bench.publish(trained.model, held_out=held_out)
    assert answer.is_active, answer.reason
    client = AsyncClient("", bench.channel, 5.0, prompts)
    costs = {}
    for style in ("thoroughly", "briefly"):
        run = await client.start_run(
            application="chat", prompt=f"Summarise {style} the report of day 99 for the board"
        )
        assert run.estimate.source == common_pb2.ESTIMATE_SOURCE_MODEL
        costs[style] = run.estimate.cost_kvtt
    assert costs["thoroughly"] > 5 * costs["briefly"]
