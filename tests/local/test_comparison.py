"""What a comparison keeps when a part of it fails, without a model."""

import asyncio

import grpc
import pytest

from justitia.api.v1 import run_pb2, run_pb2_grpc
from justitia.client import connect_async
from justitia.local import comparison
from justitia.local.comparison import ComparisonSettings, _RunCalls, compare, fair_ratios
from justitia.local.errors import LocalModeError
from justitia.local.records import RunRecord


def settings(tmp_path):
    return ComparisonSettings(
        policies=("fcfs", "vtc", "justitia"),
        workload=None,
        agents={},
        manifests=(),
        models={},
        engine=None,
        conditions="",
        log_dir=tmp_path,
    )


@pytest.mark.parametrize("problem", [LocalModeError("no engine"), asyncio.CancelledError()])
async def test_finished_policies_are_handed_over_before_a_later_one_fails(
    monkeypatch, tmp_path, problem
):
    async def play_under(policy, *_):
        if policy == "justitia":
            raise problem
        return policy

    monkeypatch.setattr(comparison, "_play_under", play_under)
    kept = []
    with pytest.raises(type(problem)):
        await compare(settings(tmp_path), None, kept.append)
    assert kept == ["fcfs", "vtc"]


class Service(run_pb2_grpc.RunServiceServicer):
    """Knows the ratio of ``a``, has forgotten ``b``, never settles ``c``; ``d`` hangs."""

    def __init__(self):
        self.pools = []

    async def StartRun(self, request, context):  # noqa: N802 - gRPC names it
        del context
        return run_pb2.Run(run_id=request.run_id, pool="far")

    async def EndRun(self, request, context):  # noqa: N802 - gRPC names it
        del context
        self.pools.append(request.pool)
        return run_pb2.Run(run_id=request.run_id)

    async def GetRun(self, request, context):  # noqa: N802 - gRPC names it
        self.pools.append(request.pool)
        match request.run_id:
            case "a":
                return run_pb2.Run(run_id="a", fairness_ratio=1.5)
            case "b":
                await context.abort(grpc.StatusCode.NOT_FOUND, "run_id: no open run 'b'")
            case "d":
                await asyncio.Event().wait()
        return run_pb2.Run(run_id=request.run_id)


@pytest.fixture
async def service():
    servicer, server = Service(), grpc.aio.server()
    run_pb2_grpc.add_RunServiceServicer_to_server(servicer, server)
    port = server.add_insecure_port("127.0.0.1:0")
    await server.start()
    async with connect_async(f"127.0.0.1:{port}") as client:
        yield servicer, client
    await server.stop(None)


def record(run_id, *, error=None):
    return RunRecord(
        run_id=run_id,
        application=run_id,
        task_seed=1,
        arrived_at_s=0.0,
        finished_at_s=1.0,
        inferences=(),
        error=error,
    )


async def test_a_run_whose_ratio_cannot_be_had_costs_the_others_nothing(monkeypatch, service):
    servicer, client = service
    monkeypatch.setattr(comparison, "_SETTLE_S", 0.3)
    monkeypatch.setattr(comparison, "_POLL_S", 0.01)
    records = [record(name) for name in "abcd"] + [record("e", error="timeout")]
    assert await fair_ratios(records, {"a": "far"}, client) == {("a", 1): 1.5}
    assert servicer.pools[0] == "far"


async def test_runs_are_ended_in_the_pool_that_they_were_put_in(service):
    servicer, client = service
    calls = _RunCalls(client)
    await calls.on_start("a", "chat", "hi")
    await calls.on_end("a")
    assert servicer.pools == ["far"]
