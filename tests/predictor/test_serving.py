import asyncio
import math
import threading
from dataclasses import dataclass, field, replace

import pytest

from justitia.predictor.artefact import ArtefactError
from justitia.predictor.model import Prediction
from justitia.predictor.serving import Outcome, PredictorService

PATIENT_S = 30.0


@dataclass
class FakeModel:
    """Answers a fixed cost, to anything but its test prompt only once ``gate`` is open."""

    application: str = "a"
    cost_kvtt: float = 7.0
    is_unknown: bool = False
    gate: threading.Event | None = None
    error: Exception | None = None
    probe_prompt: str = "probe"
    prompts: list[str] = field(default_factory=list)
    entered: threading.Event = field(default_factory=threading.Event)

    def predict(self, prompt):
        self.prompts.append(prompt)
        if prompt != self.probe_prompt:
            self.entered.set()
            if self.gate is not None:
                assert self.gate.wait(PATIENT_S)
            if self.error is not None:
                raise self.error
        return Prediction(cost_kvtt=self.cost_kvtt, model_version="v", is_unknown=self.is_unknown)


@pytest.fixture
def gate():
    event = threading.Event()
    yield event
    event.set()


@pytest.fixture
def make_service():
    services = []

    def make(*models, **options):
        service = PredictorService(**options)
        for model in models:
            service.activate(model)
        services.append(service)
        return service

    yield make
    for service in services:
        service.close(timeout_s=PATIENT_S)


async def get_stuck(service, model, *, deadline_s):
    """Let the worker enter the model, whose gate is closed, and let the call run out of time."""
    task = asyncio.create_task(service.predict_within("a", "stuck", deadline_s=deadline_s))
    await asyncio.sleep(0)
    assert model.entered.wait(PATIENT_S)
    assert await task is None


def counted(service):
    return {outcome: number for outcome, number in service.outcomes().items() if number}


async def test_both_ways_give_the_prediction_of_the_active_model(make_service, small_model):
    service = make_service(small_model)
    prompt = "Summarise briefly document 1: scheduler memory token"
    expected = small_model.predict(prompt)
    assert service.predict("summarise", prompt) == expected
    assert await service.predict_within("summarise", prompt, deadline_s=PATIENT_S) == expected
    assert expected.model_version == small_model.version
    assert not expected.is_unknown
    assert counted(service) == {Outcome.PREDICTED: 2}


async def test_without_a_model_there_is_no_prediction(make_service):
    service = make_service()
    assert service.predict("a", "p") is None
    assert await service.predict_within("a", "p") is None
    assert counted(service) == {Outcome.NO_MODEL: 2}


async def test_an_unknown_text_is_predicted_and_marked(make_service, small_model):
    service = make_service(small_model)
    prediction = await service.predict_within("summarise", "zzz", deadline_s=PATIENT_S)
    assert prediction.is_unknown
    assert counted(service) == {Outcome.UNKNOWN_TEXT: 1}


@pytest.mark.parametrize(
    "model",
    [
        pytest.param({"error": MemoryError("full")}, id="raises"),
        pytest.param({"error": RecursionError()}, id="recursion"),
    ],
)
async def test_a_model_that_fails_costs_no_caller_an_exception(make_service, model):
    service = make_service(FakeModel(**model))
    assert service.predict("a", "p") is None
    assert await service.predict_within("a", "p", deadline_s=PATIENT_S) is None
    assert counted(service) == {Outcome.FAILED: 2}


@pytest.mark.parametrize("cost_kvtt", [math.nan, math.inf, 0.0, -1.0])
async def test_a_prediction_that_is_no_cost_is_a_failure(make_service, cost_kvtt):
    model = FakeModel()
    service = make_service(model)
    model.cost_kvtt = cost_kvtt
    assert service.predict("a", "p") is None
    assert await service.predict_within("a", "p", deadline_s=PATIENT_S) is None
    assert counted(service) == {Outcome.FAILED: 2}


@pytest.mark.parametrize("prompt", [None, b"bytes", 7])
def test_a_prompt_of_another_type_is_a_failure(make_service, small_model, prompt):
    service = make_service(small_model)
    assert service.predict("summarise", prompt) is None
    assert counted(service) == {Outcome.FAILED: 1}


@pytest.mark.asyncio
@pytest.mark.looptime
async def test_the_deadline_fires_in_time_although_the_worker_is_stuck(
    make_service, gate, looptime
):
    service = make_service(FakeModel(gate=gate))
    assert await service.predict_within("a", "p", deadline_s=0.005) is None
    assert looptime == pytest.approx(0.005, abs=1e-6)
    assert await service.predict_within("a", "q") is None
    assert looptime == pytest.approx(0.010, abs=1e-6)
    assert counted(service) == {Outcome.DEADLINE: 2}


@pytest.mark.asyncio
@pytest.mark.looptime
async def test_beyond_the_bound_a_call_is_declined_at_once(make_service, gate, looptime):
    model = FakeModel(gate=gate)
    service = make_service(model, max_pending=3)
    await get_stuck(service, model, deadline_s=1)
    for _ in range(2):
        await service.predict_within("a", "p", deadline_s=1)
    assert looptime == pytest.approx(3)
    for _ in range(100):
        assert await service.predict_within("a", "p", deadline_s=1) is None
    assert looptime == pytest.approx(3)
    assert counted(service) == {Outcome.DEADLINE: 3, Outcome.BUSY: 100}


async def test_abandoned_work_is_skipped_and_the_service_recovers(make_service, gate):
    model = FakeModel(gate=gate)
    service = make_service(model, max_pending=3)
    await get_stuck(service, model, deadline_s=0.001)
    for prompt in ("abandoned", "abandoned too"):
        assert await service.predict_within("a", prompt, deadline_s=0.001) is None
    gate.set()
    while (found := await service.predict_within("a", "next", deadline_s=PATIENT_S)) is None:
        assert counted(service)[Outcome.BUSY] < 10**6  # the worker is still counting down
    assert found.cost_kvtt == 7.0
    assert model.prompts == ["probe", "stuck", "next"]


async def test_many_calls_at_once_share_one_thread(make_service):
    threads = set()

    class Recording(FakeModel):
        def predict(self, prompt):
            threads.add(threading.current_thread().name)
            return super().predict(prompt)

    service = make_service(Recording(), max_pending=50)
    threads.clear()
    calls = [service.predict_within("a", str(i), deadline_s=PATIENT_S) for i in range(50)]
    assert all(await asyncio.gather(*calls))
    assert threads == {"predictor"}


@pytest.mark.parametrize("deadline_s", [0, -1, math.nan])
async def test_a_deadline_that_has_passed_gives_nothing(make_service, deadline_s):
    service = make_service(FakeModel())
    assert await service.predict_within("a", "p", deadline_s=deadline_s) is None
    assert counted(service) == {Outcome.DEADLINE: 1}


async def test_an_endless_deadline_is_bounded_but_accepted(make_service):
    service = make_service(FakeModel())
    assert await service.predict_within("a", "p", deadline_s=math.inf) is not None


async def test_a_cancelled_caller_is_cancelled_and_harms_no_other(make_service, gate):
    model = FakeModel(gate=gate)
    service = make_service(model)
    task = asyncio.create_task(service.predict_within("a", "p", deadline_s=PATIENT_S))
    assert await asyncio.to_thread(model.entered.wait, PATIENT_S)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    gate.set()
    assert await service.predict_within("a", "q", deadline_s=PATIENT_S) is not None


async def test_a_loop_that_is_gone_does_not_end_the_worker(make_service, gate):
    model = FakeModel(gate=gate)
    service = make_service(model)
    short = service.predict_within("a", "p", deadline_s=0.001)
    assert await asyncio.to_thread(asyncio.run, short) is None
    gate.set()
    assert await service.predict_within("a", "q", deadline_s=PATIENT_S) is not None


def test_models_are_swapped_in_one_step(make_service):
    old, new = FakeModel(cost_kvtt=1.0), FakeModel(cost_kvtt=2.0)
    service = make_service(old, FakeModel(application="b"))
    before = service.models
    service.activate(new)
    assert before["a"] is old
    assert service.models["a"] is new
    assert service.predict("a", "p").cost_kvtt == 2.0
    service.deactivate("a")
    assert list(service.models) == ["b"]
    assert service.predict("a", "p") is None


@pytest.mark.parametrize("cost_kvtt", [math.nan, 0.0, -3.0, math.inf])
def test_a_model_that_fails_its_test_prompt_does_not_become_active(make_service, cost_kvtt):
    old = FakeModel()
    service = make_service(old)
    with pytest.raises(ArtefactError, match="test prompt"):
        service.activate(FakeModel(cost_kvtt=cost_kvtt))
    assert service.models["a"] is old


def test_a_model_that_raises_on_its_test_prompt_does_not_become_active(make_service, small_model):
    service = make_service()
    broken = replace(small_model, regressor=None)
    with pytest.raises(ArtefactError, match="test prompt"):
        service.activate(broken)
    assert not service.models


async def test_a_closed_service_declines(make_service):
    service = make_service(FakeModel())
    assert await service.predict_within("a", "p", deadline_s=PATIENT_S) is not None
    service.close()
    assert await service.predict_within("a", "p", deadline_s=PATIENT_S) is None
    assert counted(service) == {Outcome.PREDICTED: 1, Outcome.CLOSED: 1}
