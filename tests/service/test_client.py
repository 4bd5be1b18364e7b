"""The client that users and the command line have."""

import asyncio
import sys

import pytest

from justitia import client as clients
from justitia.api.v1 import admin_pb2, run_pb2


async def test_a_run_is_open_inside_the_block_and_ended_after_it(bench):
    await bench.declare("chat")
    async with clients.connect_async(f"127.0.0.1:{bench.server.port}") as client:
        async with client.run(application="chat", prompt="hi", cost_kvtt=10) as run:
            assert run.headers == {
                "x-justitia-run-id": run.run_id,
                "x-justitia-application": "chat",
            }
            assert run.run_id in bench.pool.core
        assert run.facts.state == run_pb2.RUN_STATE_ENDED
        with pytest.raises(ZeroDivisionError):
            async with client.run() as run:
                1 / 0  # noqa: B018
        assert run.run_id not in bench.pool.core


async def test_without_a_service_the_block_still_runs_undeclared():
    async with clients.connect_async("127.0.0.1:1") as client:
        async with client.run(application="chat") as run:
            assert not run.is_declared
            assert run.headers["x-justitia-run-id"]
        with pytest.raises(clients.UnreachableError, match=r"127\.0\.0\.1:1.*justitia up"):
            async with client.run(is_required=True):
                pass


async def test_a_refusal_has_a_code_and_a_sentence(bench):
    async with clients.connect_async(f"127.0.0.1:{bench.server.port}") as client:
        with pytest.raises(clients.SchedulerError, match="justitia apply") as error:
            await client.start_run(application="nope")
        assert error.value.code == "NOT_FOUND"


async def test_the_blocking_client_makes_every_call(bench):
    def work():
        with clients.connect(f"127.0.0.1:{bench.server.port}") as client:
            client.apply_application(admin_pb2.Application(name="chat", weight=2))
            assert [found.name for found in client.list_applications()] == ["chat"]
            run = client.start_run(application="chat", cost_kvtt=5)
            assert [found.run_id for found in client.list_runs()] == [run.run_id]
            assert next(client.watch_runs()).run.run_id == run.run_id
            assert client.explain_run(run.run_id).reason == "no engine of this pool is connected"
            assert client.get_run(run.run_id) == run
            assert client.describe_pool().open_runs == 1
            assert client.set_pool_mode(is_shadow=True).mode == 2
            assert client.end_run(run.run_id).state == run_pb2.RUN_STATE_ENDED
            assert list(client.export_samples()) == []
            assert client.list_models() == []
            client.delete_application("chat")
            assert client.list_applications() == []

    await asyncio.to_thread(work)


def test_without_grpc_the_error_says_what_to_install(monkeypatch):
    monkeypatch.setitem(sys.modules, "grpc", None)
    with pytest.raises(clients.SchedulerError, match=r"justitia\[api\]"):
        clients.connect()
