"""Samples and models through the API, and predictions under their deadline (E1, E2, FS3, FP2)."""

import asyncio
import threading

import grpc
import pytest

from justitia.api.v1 import admin_pb2, common_pb2, engine_pb2, training_pb2
from justitia.predictor import artefact
from justitia.testing.models import handmade_model

PROMPT = "summarise word word word"


@pytest.fixture(scope="module")
def small_model():
    return handmade_model("chat")


async def publish(bench, content):
    request = training_pb2.PublishModelRequest(application="chat", artefact=content)
    return await bench.training.PublishModel(request)


async def finish(bench, engine, finished, run_id, **fields):
    await bench.start(run_id, "chat", **fields)
    await engine.report({"run_id": run_id, "useful_kvtt": 300}, finished=[finished(run_id)])
    await bench.until(lambda: bench.pool.core.run(run_id).num_finished)
    await bench.end_after_grace(run_id)


async def test_finished_runs_are_exported_as_samples_oldest_first(bench, finished):
    await bench.declare("chat")
    engine = bench.engine()
    await engine.join()
    for number in range(3):
        await finish(bench, engine, finished, f"r{number}", prompt_text=f"text {number}")
    call = bench.training.ExportSamples(training_pb2.ExportSamplesRequest(application="chat"))
    samples = [sample async for sample in call]
    assert [sample.prompt_text for sample in samples] == ["text 0", "text 1", "text 2"]
    assert samples[0].cost_kvtt == 300
    assert samples[0].num_inferences == 1
    call = bench.training.ExportSamples(training_pb2.ExportSamplesRequest(max_samples=2))
    assert len([sample async for sample in call]) == 2


@pytest.mark.parametrize("privacy", [admin_pb2.PRIVACY_HASHED, admin_pb2.PRIVACY_NONE])
async def test_prompts_are_not_kept_where_privacy_forbids_it(bench, finished, privacy):
    await bench.declare("chat", privacy=privacy)
    engine = bench.engine()
    await engine.join()
    await finish(bench, engine, finished, "r1", prompt_text="secret")
    call = bench.training.ExportSamples(training_pb2.ExportSamplesRequest())
    samples = [sample async for sample in call]
    assert [sample.prompt_text for sample in samples] == [""]


async def test_the_model_of_the_default_application_predicts_for_who_names_none(bench):
    bench.service.options = type(bench.service.options)(prediction_deadline_s=5)
    await bench.declare("default")
    model = handmade_model("default")
    await bench.publish(model)
    run = await bench.start("r1", prompt_text=PROMPT)
    assert run.application == "default"
    assert run.estimate.source == common_pb2.ESTIMATE_SOURCE_MODEL
    assert run.estimate.model_version == model.version


async def test_a_prompt_of_a_run_that_an_engine_has_named_is_predicted_by_its_model(
    bench, small_model
):
    """The engine meets the run's header first; the client tells the prompt and no more."""
    bench.service.options = type(bench.service.options)(prediction_deadline_s=5)
    await bench.declare("chat")
    await bench.publish(small_model)
    engine = bench.engine()
    await engine.join()
    await engine.report(new=[engine_pb2.NewRun(run_id="r1", application="chat")])
    await bench.until(lambda: "r1" in bench.pool.core)
    run = await bench.start("r1", prompt_text=PROMPT)
    assert run.application == "chat"
    assert run.estimate.source == common_pb2.ESTIMATE_SOURCE_MODEL
    assert run.estimate.model_version == small_model.version


async def test_who_names_no_application_is_predicted_from_what_the_default_one_lets_out(bench):
    bench.service.options = type(bench.service.options)(prediction_deadline_s=5)
    await bench.declare("default", privacy=admin_pb2.PRIVACY_NONE)
    bench.service.parts("default").predictor.activate(handmade_model("default"))
    run = await bench.start("r1", prompt_text=PROMPT)
    assert run.estimate.source != common_pb2.ESTIMATE_SOURCE_MODEL


async def test_a_published_model_predicts_and_survives_a_restart(
    tmp_path, open_service, close_service, small_model
):
    path = tmp_path / "journal.db"
    bench = await open_service(path)
    await bench.declare("chat")
    content = artefact.to_bytes(small_model)
    model = await publish(bench, content)
    assert (model.version, model.is_active) == (small_model.version, True)
    assert (model.samples, model.relative_error) == (50, 0.25)
    await close_service(bench)

    bench = await open_service(path)
    got = await bench.training.GetModel(training_pb2.GetModelRequest(application="chat"))
    assert got.artefact == content
    bench.service.options = type(bench.service.options)(prediction_deadline_s=5)
    run = await bench.start("r1", "chat", prompt_text="summarise word word word")
    assert run.estimate.source == common_pb2.ESTIMATE_SOURCE_MODEL
    assert run.estimate.model_version == small_model.version
    status = (await bench.admin.ListApplications(admin_pb2.ListApplicationsRequest())).applications
    assert status[0].status.model_version == small_model.version
    await close_service(bench)


async def test_a_damaged_model_is_refused_and_the_one_before_stays(bench, small_model):
    await bench.declare("chat")
    content = artefact.to_bytes(small_model)
    await publish(bench, content)
    for bad in (b"", content[:-50], b"\x00" * 100, content[:400] + b"\xff" + content[401:]):
        with pytest.raises(grpc.aio.AioRpcError) as error:
            await publish(bench, bad)
        assert error.value.code() is grpc.StatusCode.INVALID_ARGUMENT, error.value.details()
    models = await bench.training.ListModels(training_pb2.ListModelsRequest())
    assert [model.version for model in models.models] == [small_model.version]
    assert "chat" in bench.service.parts("default").predictor.models


async def test_a_model_needs_a_declared_application_of_its_own(bench, small_model):
    content = artefact.to_bytes(small_model)
    with pytest.raises(grpc.aio.AioRpcError) as error:
        await publish(bench, content)
    assert error.value.code() is grpc.StatusCode.NOT_FOUND


async def test_a_slow_model_delays_no_start_beyond_the_deadline(bench, small_model):
    await bench.declare("chat")
    has_started = threading.Event()

    class Slow:
        application = "chat"
        probe_prompt = "probe"
        version = "slow"

        def predict(self, prompt):
            if prompt != "probe":  # until the run has its answer
                has_started.wait(30)
            return small_model.predict(prompt)

    bench.service.parts("default").predictor.activate(Slow())
    async with asyncio.timeout(20):
        run = await bench.start("r1", "chat", prompt_text="anything")
    has_started.set()
    assert run.estimate.source == common_pb2.ESTIMATE_SOURCE_DEFAULT
    assert bench.metric("justitia_missed_predictions_total") == 1
