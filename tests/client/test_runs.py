"""A run's life at the client, against real services that hang, are full, are broken or refuse."""

import asyncio

import grpc
import pytest

from justitia import client as clients
from justitia.api.v1 import run_pb2, run_pb2_grpc

ENOUGH_S = 5.0


class Service(run_pb2_grpc.RunServiceServicer):
    """Answers as a healthy service with one application in pool ``far``, until told otherwise."""

    def __init__(self):
        self.starts = []
        self.ends = []
        self.status = None
        self.is_hanging = False
        self.address = ""

    async def StartRun(self, request, context):  # noqa: N802 - gRPC names it
        self.starts.append(request)
        await self._misbehave(context)
        return run_pb2.Run(run_id=request.run_id, pool="far")

    async def EndRun(self, request, context):  # noqa: N802 - gRPC names it
        self.ends.append(request)
        await self._misbehave(context)
        return run_pb2.Run(run_id=request.run_id, pool=request.pool, state=run_pb2.RUN_STATE_ENDED)

    async def _misbehave(self, context):
        if self.is_hanging:
            await asyncio.Event().wait()
        if self.status is not None:
            await context.abort(self.status, "as the test wants it")


@pytest.fixture
async def service():
    servicer, server = Service(), grpc.aio.server()
    run_pb2_grpc.add_RunServiceServicer_to_server(servicer, server)
    servicer.address = f"127.0.0.1:{server.add_insecure_port('127.0.0.1:0')}"
    await server.start()
    yield servicer
    await server.stop(None)


@pytest.fixture
async def client(service):
    async with clients.connect_async(service.address) as connected:
        yield connected


@pytest.mark.parametrize(
    "status",
    [
        grpc.StatusCode.RESOURCE_EXHAUSTED,
        grpc.StatusCode.INTERNAL,
        grpc.StatusCode.UNKNOWN,
        grpc.StatusCode.UNIMPLEMENTED,
        grpc.StatusCode.PERMISSION_DENIED,
        grpc.StatusCode.UNAVAILABLE,
    ],
)
async def test_a_service_that_cannot_take_a_run_does_not_fail_the_agent(service, client, status):
    service.status = status
    async with client.run(application="chat") as run:
        assert not run.is_declared
        assert run.headers["x-justitia-run-id"] == run.run_id
        assert run.problem.code == status.name
    assert service.ends == []


async def test_a_service_that_hangs_holds_the_agent_up_for_half_a_second(service, client):
    service.is_hanging = True
    async with asyncio.timeout(ENOUGH_S):
        async with client.run(application="chat") as run:
            assert not run.is_declared
    assert run.problem.code == "DEADLINE_EXCEEDED"


async def test_a_service_that_hangs_at_the_end_does_not_fail_the_agent(service, client):
    async with asyncio.timeout(ENOUGH_S):
        async with client.run(application="chat") as run:
            assert run.is_declared
            service.is_hanging = True
    assert run.problem.code == "DEADLINE_EXCEEDED"


@pytest.mark.parametrize(
    "status",
    [
        grpc.StatusCode.INVALID_ARGUMENT,
        grpc.StatusCode.ALREADY_EXISTS,
        grpc.StatusCode.NOT_FOUND,
    ],
)
async def test_the_callers_own_mistake_is_raised(service, client, status):
    service.status = status
    with pytest.raises(clients.SchedulerError, match="as the test wants it") as error:
        async with client.run(application="chat"):
            pass
    assert error.value.code == status.name


async def test_a_required_run_fails_with_the_service(service, client):
    service.status = grpc.StatusCode.INTERNAL
    with pytest.raises(clients.SchedulerError) as error:
        async with client.run(application="chat", is_required=True):
            pass
    assert error.value.code == "INTERNAL"


async def test_a_run_ends_in_the_pool_that_it_was_put_in(service, client):
    async with client.run(application="chat") as run:
        pass
    assert [(end.run_id, end.pool) for end in service.ends] == [(run.run_id, "far")]
    assert run.facts.state == run_pb2.RUN_STATE_ENDED


async def test_a_body_that_fails_ends_its_run_and_keeps_its_error(service, client):
    async def fail():
        async with client.run(application="chat"):
            service.status = grpc.StatusCode.INTERNAL
            raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        await fail()
    assert len(service.ends) == 1


async def test_a_cancelled_body_ends_its_run(service, client):
    entered = asyncio.Event()

    async def work():
        async with client.run(application="chat"):
            entered.set()
            await asyncio.Event().wait()

    task = asyncio.create_task(work())
    await entered.wait()
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert len(service.ends) == 1


async def test_a_prompt_that_is_no_utf8_does_not_fail_the_agent(service, client):
    async with client.run(application="chat", prompt="caf\u00e9 \ud800!") as run:
        assert run.is_declared
    assert service.starts[0].prompt_text == "caf\u00e9 ?!"


async def test_a_proxy_for_the_internet_is_not_asked_for_the_service(service, monkeypatch):
    for name in ("no_grpc_proxy", "no_proxy", "NO_PROXY"):
        monkeypatch.delenv(name, raising=False)
    for name in ("grpc_proxy", "http_proxy", "https_proxy"):
        monkeypatch.setenv(name, "http://127.0.0.1:1")
    async with (
        clients.connect_async(service.address) as client,
        client.run(application="chat") as run,
    ):
        assert run.is_declared
