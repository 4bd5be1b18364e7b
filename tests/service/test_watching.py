"""WatchRuns: bounded whatever its readers do, and cheap for the pool (FS4)."""

import asyncio

import grpc
import pytest

from justitia.api.v1 import run_pb2
from justitia_scheduler.limits import MAX_PENDING_IDS, MAX_WATCHERS
from justitia_scheduler.outcomes import CallError, Outcome
from justitia_scheduler.run_facts import RunOrder
from justitia_scheduler.watching import RunWatchers

KINDS = run_pb2.RunEvent


async def never(_):
    await asyncio.Event().wait()


async def test_a_reader_that_hangs_is_ended_once_too_much_waits_for_it(bench):
    bench.pool.start_run(RunOrder(run_id="r1"))
    watching = asyncio.ensure_future(bench.service.watchers.serve(bench.pool, "", never))
    await bench.until(lambda: bench.pool.listeners)
    (feed,) = bench.pool.listeners
    for number in range(MAX_PENDING_IDS + 5000):
        feed.run_ended(f"gone{number}")
    with pytest.raises(CallError) as error:
        await asyncio.wait_for(watching, 5)
    assert error.value.outcome is Outcome.EXHAUSTED
    assert not bench.pool.listeners
    assert len(bench.service.watchers) == 0


async def test_there_are_only_so_many_watchers(bench):
    calls = [bench.runs.WatchRuns(run_pb2.WatchRunsRequest()) for _ in range(MAX_WATCHERS)]
    for call in calls:
        await call.read()
    with pytest.raises(grpc.aio.AioRpcError) as error:
        await bench.runs.WatchRuns(run_pb2.WatchRunsRequest()).read()
    assert error.value.code() is grpc.StatusCode.RESOURCE_EXHAUSTED
    assert len(bench.pool.listeners) == 1
    for call in calls:
        call.cancel()
    await bench.until(lambda: not bench.pool.listeners)
    again = bench.runs.WatchRuns(run_pb2.WatchRunsRequest())
    assert (await again.read()).type == KINDS.TYPE_SYNCED
    again.cancel()


async def test_each_of_many_watchers_hears_of_every_change(bench):
    heard = [[] for _ in range(3)]
    watchers = RunWatchers()

    def note(events):
        async def send(event):
            events.append((event.type, event.run.run_id))

        return send

    tasks = [
        asyncio.ensure_future(watchers.serve(bench.pool, application, note(events)))
        for events, application in zip(heard, ("", "", "chat"), strict=True)
    ]
    await bench.until(lambda: all(heard))
    await bench.declare("chat")
    await bench.start("r1", "chat")
    await bench.start("r2")
    await bench.until(lambda: [len(events) for events in heard] == [3, 3, 2])
    await bench.start("r1", "chat", cost_kvtt=7)
    await bench.end("r2")
    await bench.until(lambda: [len(events) for events in heard] == [5, 5, 3])
    opened = [(KINDS.TYPE_SYNCED, ""), (KINDS.TYPE_OPEN, "r1"), (KINDS.TYPE_OPEN, "r2")]
    changed = [(KINDS.TYPE_CHANGED, "r1"), (KINDS.TYPE_ENDED, "r2")]
    assert heard[0] == heard[1] == opened + changed
    assert heard[2] == [opened[0], opened[1], changed[0]]
    watchers.close_all()
    await asyncio.gather(*tasks)


async def test_a_stop_ends_the_streams_in_good_order(bench):
    call = bench.runs.WatchRuns(run_pb2.WatchRunsRequest())
    await call.read()
    bench.service.begin_stop()
    assert await asyncio.wait_for(call.read(), 5) is grpc.aio.EOF
    assert await call.code() is grpc.StatusCode.OK
