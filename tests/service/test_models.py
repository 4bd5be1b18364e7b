"""The life of models in the service: judged, activated, taken back, watched, kept."""

import asyncio
import contextlib
import sqlite3
from dataclasses import replace

import grpc
import pytest
from structlog.testing import capture_logs

from justitia.api.v1 import admin_pb2, common_pb2, training_pb2
from justitia.core.estimates import Estimate, Source
from justitia.predictor import artefact
from justitia.testing.models import two_level_model
from justitia_scheduler.model_evidence import HeldOut
from justitia_scheduler.model_keeper import Publication
from justitia_scheduler.store import SampleRow

EARLY_S, LATE_S = 1_700_000_000.0, 1_900_000_000.0

GOOD = two_level_model("chat", plain_kvtt=100, word_kvtt=1000)
ROUGH = two_level_model("chat", plain_kvtt=150, word_kvtt=1500)
BAD = two_level_model("chat", plain_kvtt=1000, word_kvtt=100)


def record(bench, count=40, *, finished_at_s=LATE_S, first=0):
    """Runs whose cost follows from one word of their prompt."""
    rows = [
        SampleRow(
            pool="default",
            application="chat",
            run_id=f"s{number}",
            prompt_text=f"word {number}" if number % 2 else f"other {number}",
            cost_kvtt=1000 if number % 2 else 100,
            num_inferences=1,
            finished_at_s=finished_at_s,
        )
        for number in range(first, first + count)
    ]
    bench.pool.changes.samples.extend(rows)
    return rows


def held_out_of(model, rows):
    return [
        training_pb2.HeldOutRun(
            run_id=row.run_id,
            cost_kvtt=row.cost_kvtt,
            predicted_kvtt=model.predict(row.prompt_text).cost_kvtt,
        )
        for row in rows
    ]


async def activate(bench, version):
    request = training_pb2.ActivateModelRequest(application="chat", version=version)
    return await bench.training.ActivateModel(request)


async def deactivate(bench):
    return await bench.training.DeactivateModel(
        training_pb2.DeactivateModelRequest(application="chat")
    )


async def listed(bench):
    return (await bench.training.ListModels(training_pb2.ListModelsRequest())).models


async def status(bench):
    answer = await bench.admin.ListApplications(admin_pb2.ListApplicationsRequest())
    return answer.applications[0].status


def predicting(bench):
    model = bench.service.parts("default").predictor.models.get("chat")
    return None if model is None else model.version


# -- the gate --------------------------------------------------------------------------------------


async def test_a_worse_model_is_stored_and_not_activated(bench):
    await bench.declare("chat")
    await bench.publish(GOOD)
    rows = record(bench)
    answer = await bench.publish(ROUGH, held_out=held_out_of(ROUGH, rows))
    assert (answer.version, answer.is_active) == (ROUGH.version, False)
    assert "the active model is better: mean log error 0.41 against 0.00" in answer.reason
    assert "on 40 runs that neither has learnt from" in answer.reason
    assert not answer.HasField("activated_at")
    assert predicting(bench) == GOOD.version
    assert [(model.version, model.is_active) for model in await listed(bench)] == [
        (GOOD.version, True),
        (ROUGH.version, False),
    ]
    count = bench.metric(
        "justitia_models_published_total", pool="default", application="chat", verdict="stored"
    )
    assert count == 1


async def test_a_better_model_replaces_the_active_one(bench):
    await bench.declare("chat")
    await bench.publish(ROUGH)
    rows = record(bench)
    answer = await bench.publish(GOOD, held_out=held_out_of(GOOD, rows))
    assert answer.is_active
    assert "not worse than the active model" in answer.reason
    assert predicting(bench) == GOOD.version


async def test_runs_that_the_active_model_may_have_learnt_from_do_not_speak_for_it(bench):
    await bench.declare("chat")
    rows = record(bench, finished_at_s=EARLY_S)
    await bench.publish(GOOD)
    answer = await bench.publish(ROUGH, held_out=held_out_of(ROUGH, rows))
    assert answer.is_active
    assert "the mean of finished runs" in answer.reason


async def test_what_a_training_claims_does_not_hide_a_model_that_is_worse(bench):
    """The trial was good, the model that is served is not: its own predictions tell."""
    await bench.declare("chat")
    await bench.publish(ROUGH)
    rows = record(bench)
    answer = await bench.publish(BAD, held_out=held_out_of(GOOD, rows))
    assert not answer.is_active
    assert "that the service recorded" in answer.reason


async def test_the_first_model_must_not_be_worse_than_the_mean(bench):
    await bench.declare("chat")
    answer = await bench.publish(BAD, held_out=held_out_of(BAD, record(bench)))
    assert not answer.is_active
    assert "the mean of finished runs is better" in answer.reason
    assert predicting(bench) is None


async def test_without_recorded_text_what_training_reports_decides(bench):
    await bench.declare("chat")
    answer = await bench.publish(BAD, held_out=held_out_of(BAD, record(bench)[:0] or ROWS))
    assert not answer.is_active
    assert "that training held out" in answer.reason


async def test_held_out_runs_of_another_origin_with_a_known_id_are_no_evidence(bench):
    """Ids come from clients and from recordings: an equal one with another cost is another run."""
    await bench.declare("chat")
    await bench.publish(ROUGH)
    rows = record(bench)
    foreign = [replace(row, cost_kvtt=row.cost_kvtt + 1) for row in rows]
    answer = await bench.publish(GOOD, held_out=held_out_of(GOOD, foreign))
    assert answer.is_active
    assert "not worse than the mean of finished runs" in answer.reason


ROWS = [
    SampleRow(
        pool="default",
        application="chat",
        run_id="",
        prompt_text="word" if number % 2 else "other",
        cost_kvtt=1000 if number % 2 else 100,
        num_inferences=1,
        finished_at_s=LATE_S,
    )
    for number in range(20)
]


async def test_a_publisher_may_insist(bench):
    await bench.declare("chat")
    await bench.publish(GOOD)
    held_out = held_out_of(BAD, record(bench))
    answer = await bench.publish(BAD, held_out=held_out, activation=training_pb2.ACTIVATION_ALWAYS)
    assert answer.is_active
    assert predicting(bench) == BAD.version
    stored = await bench.publish(GOOD, activation=training_pb2.ACTIVATION_NEVER)
    assert not stored.is_active
    assert predicting(bench) == BAD.version


@pytest.mark.parametrize(
    ("fields", "named"),
    [
        ({"activation": 9}, "activation: is unknown"),
        ({"held_out": [{"cost_kvtt": 1}]}, "held_out[0].predicted_kvtt"),
        ({"held_out": [{"cost_kvtt": float("nan"), "predicted_kvtt": 1}]}, "held_out[0].cost"),
        ({"held_out": [{"cost_kvtt": 1, "predicted_kvtt": float("inf")}]}, "held_out[0].pred"),
        ({"held_out": [{"cost_kvtt": 1e300, "predicted_kvtt": 5e-324}]}, "held_out[0].cost"),
        ({"held_out": [{"cost_kvtt": 9e-4, "predicted_kvtt": 1}]}, "held_out[0].cost"),
        ({"held_out": [{"cost_kvtt": 1, "predicted_kvtt": 5e-324}]}, "held_out[0].predicted"),
        ({"held_out": [{"cost_kvtt": 1, "predicted_kvtt": 1e300}]}, "held_out[0].predicted"),
        ({"held_out": [{}] * 20_001}, "held_out: must have at most 20000"),
    ],
)
async def test_evidence_that_is_none_is_refused_by_name(bench, fields, named):
    await bench.declare("chat")
    with pytest.raises(grpc.aio.AioRpcError) as error:
        await bench.publish(GOOD, **fields)
    assert error.value.code() is grpc.StatusCode.INVALID_ARGUMENT
    assert named in error.value.details()
    assert predicting(bench) is None


async def test_trainings_that_end_together_are_judged_one_after_the_other(bench):
    """Neither is lost: both are stored, and the one with more samples stays active."""
    await bench.declare("chat")
    large = two_level_model("chat", plain_kvtt=100, word_kvtt=1000, samples=100)
    small = two_level_model("chat", plain_kvtt=100, word_kvtt=1000, samples=60)
    for pair in ((large, small), (small, large)):
        await asyncio.gather(*(bench.publish(model) for model in pair))
        assert predicting(bench) == large.version
        assert {model.version for model in await listed(bench)} == {large.version, small.version}
        assert [m.version for m in await listed(bench) if m.is_active] == [large.version]


async def test_an_application_deleted_while_its_model_is_judged_gets_none(bench, monkeypatch):
    await bench.declare("chat")
    keeper = bench.service.models

    async def delete(*_):
        await bench.admin.DeleteApplication(admin_pb2.DeleteApplicationRequest(name="chat"))

    monkeypatch.setattr(keeper, "_collect", delete)
    with pytest.raises(grpc.aio.AioRpcError) as error:
        await bench.publish(GOOD)
    assert error.value.code() is grpc.StatusCode.NOT_FOUND
    assert (predicting(bench), list(await listed(bench))) == (None, [])


async def test_numbers_that_the_api_cannot_say_are_refused_with_the_model(bench):
    """A model that is stored and cannot be listed would hide all the others."""
    await bench.declare("chat")
    await bench.publish(GOOD)
    boasting = replace(ROUGH, metrics=replace(ROUGH.metrics, num_samples=2**31))
    with pytest.raises(grpc.aio.AioRpcError) as error:
        await bench.publish(boasting)
    assert error.value.code() is grpc.StatusCode.INVALID_ARGUMENT
    assert "num_samples" in error.value.details()
    assert [model.version for model in await listed(bench)] == [GOOD.version]


async def test_publishing_the_active_model_again_changes_nothing(bench, finished):
    bench.service.options = type(bench.service.options)(prediction_deadline_s=5)
    await bench.declare("chat")
    first = await bench.publish(GOOD)
    engine = bench.engine()
    await engine.join()
    await run_to_end(bench, engine, finished, "wrong", 2000, prompt_text="word")
    before = await status(bench)
    assert before.model_judged_runs == 1
    bench.clock.advance(60)
    for activation in (training_pb2.ACTIVATION_UNLESS_WORSE, training_pb2.ACTIVATION_ALWAYS):
        assert await bench.publish(GOOD, activation=activation) == first
    assert list(await listed(bench)) == [first]
    assert await status(bench) == before
    assert predicting(bench) == GOOD.version


async def test_a_model_that_is_published_again_and_only_stored_keeps_when_it_was_active(bench):
    await bench.declare("chat")
    first = await bench.publish(GOOD)
    await bench.publish(BAD)
    bench.clock.advance(60)
    again = await bench.publish(GOOD, activation=training_pb2.ACTIVATION_NEVER)
    assert (again.is_active, again.activated_at) == (False, first.activated_at)
    stored = {model.version: model for model in await listed(bench)}
    assert stored[GOOD.version].activated_at == first.activated_at


# -- going back ------------------------------------------------------------------------------------


async def test_an_earlier_model_comes_back_and_survives_a_restart(
    tmp_path, open_service, close_service
):
    path = tmp_path / "journal.db"
    bench = await open_service(path)
    await bench.declare("chat")
    await bench.publish(GOOD)
    await bench.publish(BAD)
    assert predicting(bench) == BAD.version
    bench.clock.advance(60)
    answer = await activate(bench, GOOD.version[:8])
    assert (answer.version, answer.is_active) == (GOOD.version, True)
    assert answer.activated_at.seconds - answer.published_at.seconds == 60
    assert predicting(bench) == GOOD.version
    await close_service(bench)

    bench = await open_service(path, clock=bench.clock)
    assert predicting(bench) == GOOD.version
    models = {model.version: model for model in await listed(bench)}
    assert models[GOOD.version].reason == "activated by a call"
    assert not models[BAD.version].is_active
    labels = {"pool": "default", "application": "chat", "version": GOOD.version}
    assert bench.metric("justitia_model_info", **labels) == 1
    await close_service(bench)


async def test_without_a_model_estimates_come_from_runs_until_one_is_activated(
    tmp_path, open_service, close_service
):
    path = tmp_path / "journal.db"
    bench = await open_service(path)
    await bench.declare("chat")
    await bench.publish(GOOD)
    assert (await deactivate(bench)).version == GOOD.version
    assert (await deactivate(bench)).version == ""
    await close_service(bench)
    bench = await open_service(path)
    run = await bench.start("r1", "chat", prompt_text="word")
    assert run.estimate.source == common_pb2.ESTIMATE_SOURCE_DEFAULT
    assert (await status(bench)).model_version == ""
    assert (await activate(bench, GOOD.version)).is_active
    assert predicting(bench) == GOOD.version
    await close_service(bench)


async def test_an_application_deleted_while_its_model_is_activated_gets_none(bench, monkeypatch):
    await bench.declare("chat")
    await bench.publish(GOOD)
    keeper = bench.service.models

    async def delete(*_):
        await bench.admin.DeleteApplication(admin_pb2.DeleteApplicationRequest(name="chat"))

    monkeypatch.setattr(keeper, "_active", delete)
    with pytest.raises(grpc.aio.AioRpcError) as error:
        await activate(bench, GOOD.version)
    assert error.value.code() is grpc.StatusCode.NOT_FOUND
    assert (predicting(bench), list(await listed(bench))) == (None, [])


@pytest.mark.parametrize("moment", ["before its models are read", "after"])
async def test_an_application_deleted_while_its_model_is_taken_back_is_not_found(
    bench, monkeypatch, moment
):
    await bench.declare("chat")
    await bench.publish(GOOD)
    keeper = bench.service.models
    read, has_deleted = keeper._rows, False

    async def delete_once(*names, **wanted):
        nonlocal has_deleted
        found = await read(*names, **wanted) if moment == "after" else None
        if not has_deleted:
            has_deleted = True
            await bench.admin.DeleteApplication(admin_pb2.DeleteApplicationRequest(name="chat"))
        return await read(*names, **wanted) if found is None else found

    monkeypatch.setattr(keeper, "_rows", delete_once)
    with pytest.raises(grpc.aio.AioRpcError) as error:
        await deactivate(bench)
    assert error.value.code() is grpc.StatusCode.NOT_FOUND
    assert "was deleted meanwhile" in error.value.details()
    await bench.declare("chat")
    assert (predicting(bench), list(await listed(bench))) == (None, [])


async def test_a_stored_model_made_of_text_is_not_activated_where_there_is_none(bench):
    await bench.declare("chat")
    await bench.publish(GOOD, activation=training_pb2.ACTIVATION_NEVER)
    (row,) = await bench.service.models.stored("default", "chat", has_artefacts=True)
    await bench.declare("chat", privacy=admin_pb2.PRIVACY_HASHED)
    assert not list(await listed(bench))
    store = bench.service.store()
    await bench.service.journal.call(store.put_model, row, keep=5)
    with pytest.raises(grpc.aio.AioRpcError) as error:
        await activate(bench, GOOD.version)
    assert error.value.code() is grpc.StatusCode.FAILED_PRECONDITION
    assert predicting(bench) is None


@pytest.mark.parametrize(
    ("version", "code", "named"),
    [
        ("", grpc.StatusCode.INVALID_ARGUMENT, "version: must have at least 8"),
        ("0123456789", grpc.StatusCode.NOT_FOUND, GOOD.version),
    ],
)
async def test_only_a_stored_model_can_be_activated(bench, version, code, named):
    await bench.declare("chat")
    await bench.publish(GOOD)
    with pytest.raises(grpc.aio.AioRpcError) as error:
        await activate(bench, version)
    assert error.value.code() is code
    assert named in error.value.details()
    assert predicting(bench) == GOOD.version


async def test_every_change_of_what_is_active_is_in_the_log(bench):
    await bench.declare("chat")
    with capture_logs() as logs:
        await bench.publish(GOOD)
        await bench.publish(BAD)
        await activate(bench, GOOD.version)
        await deactivate(bench)
    lines = [(line["event"], line["version"], line["version_before"]) for line in logs]
    assert lines == [
        ("model published", GOOD.version, ""),
        ("model published", BAD.version, GOOD.version),
        ("model activated", GOOD.version, BAD.version),
        ("model deactivated", GOOD.version, GOOD.version),
    ]
    assert all(line["caller"].startswith("ipv4:127.0.0.1:") for line in logs)


async def test_the_way_back_is_kept_whatever_is_published(bench):
    await bench.declare("chat")
    await bench.publish(GOOD)
    await bench.publish(ROUGH)
    for number in range(8):
        bench.clock.advance(1)
        other = two_level_model("chat", plain_kvtt=200 + number)
        await bench.publish(other, activation=training_pb2.ACTIVATION_NEVER)
    versions = [model.version for model in await listed(bench)]
    assert versions[:2] == [GOOD.version, ROUGH.version]
    assert len(versions) == 7  # the newest five, the active one and the one before it


async def test_samples_count_anew_from_the_moment_a_model_is_activated(bench):
    await bench.declare("chat")
    await bench.publish(GOOD)
    await bench.publish(ROUGH)
    bench.clock.advance(60)
    record(bench, 3, finished_at_s=bench.clock.clocks().wall_s())
    await bench.service.journal.committed()
    assert (await status(bench)).samples_since_model == 3
    bench.clock.advance(60)
    await activate(bench, GOOD.version)
    assert (await status(bench)).samples_since_model == 0


@pytest.fixture
def reopened_after(tmp_path, open_service, close_service):
    """Start a service with an active model again, after a statement has changed its file."""

    async def reopen(statement, *values):
        path = tmp_path / "journal.db"
        bench = await open_service(path)
        await bench.declare("chat")
        await bench.publish(GOOD)
        await close_service(bench)
        with contextlib.closing(sqlite3.connect(path)) as connection, connection:
            connection.execute(statement, values)
        return await open_service(path)

    return reopen


async def test_a_journal_of_a_release_without_verdicts_keeps_its_model(
    reopened_after, close_service
):
    bench = await reopened_after("DROP TABLE verdicts")
    assert predicting(bench) == GOOD.version
    (model,) = await listed(bench)
    assert (model.is_active, model.reason) == (True, "")
    await close_service(bench)


async def test_an_active_model_that_is_damaged_at_the_start_can_be_taken_back(
    reopened_after, close_service
):
    bench = await reopened_after("UPDATE models SET artefact = ?", b"damaged")
    assert predicting(bench) is None
    assert (await deactivate(bench)).version == GOOD.version
    (model,) = await listed(bench)
    assert (model.is_active, model.reason) == (False, "deactivated by a call")
    await close_service(bench)


# -- drift -----------------------------------------------------------------------------------------


async def run_to_end(bench, engine, finished, run_id, useful_kvtt, **fields):
    await bench.start(run_id, "chat", **fields)
    await engine.report({"run_id": run_id, "useful_kvtt": useful_kvtt}, finished=[finished(run_id)])
    await bench.until(lambda: bench.pool.core.run(run_id).num_finished)
    await bench.end_after_grace(run_id)


async def test_only_the_active_models_own_predictions_count_as_its_error(bench, finished):
    bench.service.options = type(bench.service.options)(prediction_deadline_s=5)
    await bench.declare("chat")
    engine = bench.engine()
    await engine.join()
    await run_to_end(bench, engine, finished, "before", 100, prompt_text="word")
    await bench.publish(GOOD)
    await run_to_end(bench, engine, finished, "wrong", 2000, prompt_text="word")
    await run_to_end(bench, engine, finished, "right", 100, prompt_text="word and", cost_kvtt=9e5)
    await run_to_end(bench, engine, finished, "unasked", 100)
    shown = await status(bench)
    assert (shown.model_judged_runs, shown.model_relative_error) == (1, 0.5)
    assert shown.model_expected_relative_error == 0.25
    await bench.publish(ROUGH)
    shown = await status(bench)
    assert (shown.model_judged_runs, shown.model_relative_error) == (0, 0)


async def test_a_run_that_began_under_another_model_is_no_mark_of_this_one(bench, finished):
    bench.service.options = type(bench.service.options)(prediction_deadline_s=5)
    await bench.declare("chat")
    engine = bench.engine()
    await engine.join()
    await bench.publish(GOOD)
    await bench.start("r1", "chat", prompt_text="word")
    await bench.publish(ROUGH)
    await run_to_end(bench, engine, finished, "r1", 100, prompt_text="word")
    assert (await status(bench)).model_judged_runs == 0


async def test_what_is_learnt_inside_a_run_does_not_whitewash_its_model(bench, finished):
    bench.service.options = type(bench.service.options)(prediction_deadline_s=5)
    await bench.declare("chat")
    engine = bench.engine()
    await engine.join()
    await bench.publish(GOOD)
    await bench.start("r1", "chat", prompt_text="word")
    bench.pool.core.re_estimate("r1", Estimate(2000, Source.MODEL, GOOD.version))
    await run_to_end(bench, engine, finished, "r1", 2000, prompt_text="word")
    assert (await status(bench)).model_relative_error == 0.5


async def test_promised_and_recent_error_are_metrics_and_go_with_the_model(bench):
    await bench.declare("chat")
    await bench.publish(GOOD)
    labels = {"pool": "default", "application": "chat"}

    def error(kind):
        return bench.metric("justitia_model_relative_error_ratio", kind=kind, **labels)

    assert (error("expected"), error("recent")) == (0.25, None)
    facts = type("Facts", (), {"model_version": GOOD.version, "model_kvtt": 300})
    for number in range(20):
        assert (error("recent") is None) == (number < 20)
        bench.pool.models.note_end("chat", facts, 100)
    assert error("recent") == 2
    await deactivate(bench)
    assert (error("expected"), error("recent")) == (None, None)
    assert bench.metric("justitia_model_info", version=GOOD.version, **labels) is None
    await bench.publish(GOOD)
    await bench.admin.DeleteApplication(admin_pb2.DeleteApplicationRequest(name="chat"))
    assert error("expected") is None


async def test_judging_a_model_leaves_the_loop_to_others(bench):
    """Many samples are looked at off the loop; the newest ones, and a bounded number of them."""
    await bench.declare("chat")
    await bench.publish(GOOD)
    rows = record(bench, 1000)
    held_out = [HeldOut(run_id=r.run_id, cost_kvtt=1, predicted_kvtt=1) for r in rows]
    publication = Publication(
        application="chat", artefact=artefact.to_bytes(ROUGH), held_out=held_out
    )
    longest_s, last_s = 0.0, asyncio.get_running_loop().time()
    judging = asyncio.ensure_future(
        bench.service.models.publish(bench.service.parts("default"), publication)
    )
    while not judging.done():
        await asyncio.sleep(0.001)
        now_s = asyncio.get_running_loop().time()
        longest_s, last_s = max(longest_s, now_s - last_s), now_s
    assert not (await judging).is_active
    assert longest_s < 0.5
