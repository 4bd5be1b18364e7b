"""What may happen while an engine's Hello is read and adopted (FS2, FS4, FS5)."""

import asyncio

import grpc
import pytest

from justitia.api.v1 import engine_pb2
from justitia_scheduler.limits import MAX_ENGINES, MAX_KNOWN_RUNS
from justitia_scheduler.outcomes import CallError, Outcome

PAGES, PAGE = 2, 2000


def page(number):
    return [engine_pb2.KnownRun(run_id=f"r{number}-{i}", num_waiting=1) for i in range(PAGE)]


async def say_hello(engine, pages):
    """Begin a session whose adoption takes a while; nothing is read yet."""
    engine.call = engine.stub.Session()
    for number, known in enumerate(pages, start=1):
        await engine.call.write(engine.hello(known=known, more_follows=number < len(pages)))


async def test_a_session_that_was_replaced_while_it_joined_touches_nothing_more(bench):
    old = bench.engine(incarnation="old")
    await say_hello(old, [page(number) for number in range(PAGES)])
    await bench.until(lambda: len(bench.pool.core) > 300)
    assert len(bench.pool.core) < PAGES * PAGE  # it is still at it
    new = bench.engine(incarnation="new")
    await new.join()
    await new.report({"run_id": "n1", "useful_kvtt": 5}, new=[engine_pb2.NewRun(run_id="n1")])
    assert await old.status() is grpc.StatusCode.ABORTED
    await bench.until(lambda: len(bench.service.sessions) == 1)
    assert [account.incarnation for account in bench.pool.core.engines()] == ["new"]
    await new.report({"run_id": "n1", "useful_kvtt": 50})
    await bench.until(lambda: bench.pool.core.run("n1").useful_kvtt == 50)
    assert bench.pool.core.num_late_reports == 0


async def test_a_run_that_ends_while_its_engine_joins_is_told_to_it(bench):
    await bench.start("mine")
    pages = [page(number) for number in range(PAGES)]
    pages[0].append(engine_pb2.KnownRun(run_id="mine"))
    engine = bench.engine()
    await say_hello(engine, pages)
    await bench.until(lambda: len(bench.pool.core) > 300)
    assert not bench.pool.core.engines()
    await bench.end("mine")
    async with asyncio.timeout(5):
        while "mine" not in engine.ended:
            await engine.hear()


class Pages:
    """A Hello of very many pages, made as they are read."""

    def __init__(self, number):
        self.left = number

    def __aiter__(self):
        return self

    async def __anext__(self):
        self.left -= 1
        if self.left < 0:
            raise StopAsyncIteration
        return engine_pb2.EngineMessage(
            hello=engine_pb2.Hello(
                engine_id="e",
                incarnation="1",
                kv_blocks=1,
                block_size_tokens=1,
                known_runs=page(0),
                more_follows=self.left > 0,
            )
        )


async def test_a_hello_of_too_many_runs_is_cut_and_counted(bench, monkeypatch):
    monkeypatch.setattr("justitia_scheduler.hellos.MAX_KNOWN_RUNS", 3 * PAGE - 500)
    hello = await bench.service.sessions._read_hello(Pages(7))
    assert MAX_KNOWN_RUNS == 100_000
    assert len(hello.known) == 3 * PAGE - 500
    assert hello.num_dropped == {"known_run": 4 * PAGE + 500}


async def test_streams_that_do_not_say_who_they_are_count_too(bench):
    class Silent(Pages):
        async def __anext__(self):
            await asyncio.Event().wait()

    sessions = bench.service.sessions
    silent = [
        asyncio.ensure_future(sessions._read_hello(Silent(1))) for _ in range(2 * MAX_ENGINES)
    ]
    await asyncio.sleep(0)
    with pytest.raises(CallError) as error:
        await sessions._read_hello(Pages(1))
    assert error.value.outcome is Outcome.EXHAUSTED
    for task in silent:
        task.cancel()
    await asyncio.gather(*silent, return_exceptions=True)
    assert len((await sessions._read_hello(Pages(1))).known) == PAGE
