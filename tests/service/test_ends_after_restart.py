"""What a run counts for that was open when the service restarted (rule K1)."""

import asyncio

import pytest

from justitia.api.v1 import engine_pb2, training_pb2

CHAT = {"pool": "default", "application": "chat"}


@pytest.fixture
def restart(tmp_path, open_service, close_service, finished):
    """Serve the only inference of a run, and restart the service seven seconds after it."""

    async def build():
        bench = await open_service(tmp_path / "journal.db")
        await bench.declare("chat", idle_timeout_s=60)
        engine = bench.engine()
        await engine.join()
        await bench.start("done", "chat", cost_kvtt=1000)
        await bench.start("unserved", "chat", cost_kvtt=1000)
        await engine.report({"run_id": "done", "useful_kvtt": 300}, finished=[finished("done")])
        await bench.until(lambda: bench.pool.core.run("done").num_finished)
        await close_service(bench)
        bench.clock.advance(7)
        return await open_service(tmp_path / "journal.db", clock=bench.clock)

    return build


async def known_from(bench, run_id, useful_kvtt, num_running=0):
    """The run as an engine that has served it tells of it."""
    tag = await bench.get(run_id)
    return engine_pb2.KnownRun(
        run_id=run_id,
        virtual_finish=tag.virtual_finish,
        virtual_start=tag.virtual_start,
        estimate=tag.estimate,
        weight=tag.weight,
        useful_kvtt=useful_kvtt,
        num_running=num_running,
    )


async def end(bench, run_id):
    """End a run, whether engines are there to be waited for or not."""
    ending = asyncio.ensure_future(bench.end(run_id))
    facts = bench.pool.facts
    await bench.until(lambda: run_id not in facts or facts[run_id].ending is not None)
    bench.clock.advance(0.1)
    await ending


async def expire(bench):
    """Let the idle timeout pass, in steps: a long one would be a stall, which expires nobody."""
    for _ in range(20):
        bench.clock.advance(4)
        bench.pool.endings.tick()


async def exported(bench):
    call = bench.training.ExportSamples(training_pb2.ExportSamplesRequest(application="chat"))
    return [(sample.run_id, sample.cost_kvtt) async for sample in call]


@pytest.mark.parametrize("is_asked", [True, False], ids=["EndRun", "idle"])
@pytest.mark.parametrize("is_listed", [True, False], ids=["listed", "closed by the engine"])
async def test_a_run_that_had_done_its_work_counts_like_any_other(
    restart, close_service, is_asked, is_listed
):
    bench = await restart()
    engine = bench.engine(sequence=1, steps=1)
    await engine.join(known=[await known_from(bench, "done", 300)] if is_listed else [])
    if is_asked:
        await end(bench, "done")
        await end(bench, "unserved")
    else:
        await expire(bench)
    assert len(bench.pool.core) == 0
    assert bench.metric("justitia_run_jct_seconds_count", **CHAT) == 1
    assert bench.metric("justitia_run_jct_seconds_sum", **CHAT) == 7  # up to the restart
    assert bench.pool.ladder.history()[0] == {"chat": (1, 300)}
    assert await exported(bench) == [("done", 300)]
    await close_service(bench)


@pytest.mark.parametrize("incarnation", ["", "start-2"], ids=["is away", "has begun anew"])
async def test_what_an_engine_may_have_lost_of_a_run_keeps_it_from_teaching(
    restart, close_service, incarnation
):
    bench = await restart()
    if incarnation:
        await bench.engine(incarnation=incarnation).join()
    await end(bench, "done")
    assert bench.metric("justitia_run_jct_seconds_count", **CHAT) == 1
    assert bench.pool.ladder.history()[0] == {}
    assert await exported(bench) == []
    await close_service(bench)


@pytest.mark.parametrize("incarnation", ["start-1", "start-2"], ids=["goes", "has begun anew"])
@pytest.mark.parametrize("is_reported", [False, True])
async def test_what_an_engine_loses_after_it_has_come_back_keeps_a_run_from_teaching(
    tmp_path, open_service, close_service, incarnation, is_reported
):
    bench = await open_service(tmp_path / "journal.db")
    await bench.declare("chat")
    engine = bench.engine()
    await engine.join()
    await bench.start("cut", "chat", cost_kvtt=1000)
    await engine.report({"run_id": "cut", "useful_kvtt": 300, "num_running": 1})
    await bench.until(lambda: bench.pool.core.run("cut").useful_kvtt)
    await close_service(bench)
    bench = await open_service(tmp_path / "journal.db", clock=bench.clock)
    before_kvtt = 300 if incarnation == engine.incarnation else 0
    engine = bench.engine(sequence=1, steps=1, incarnation=incarnation)
    await engine.join(known=[await known_from(bench, "cut", before_kvtt + 10, num_running=1)])
    await bench.until(lambda: not bench.pool.facts["cut"].counters)
    if is_reported:
        await engine.report({"run_id": "cut", "useful_kvtt": before_kvtt + 20, "num_running": 1})
        await bench.until(lambda: bench.pool.core.run("cut").useful_kvtt > 300)
    engine.call.cancel()
    await bench.until(lambda: not bench.pool.core.engines())
    await end(bench, "cut")
    assert bench.pool.ladder.history()[0] == {}
    assert await exported(bench) == []
    await close_service(bench)


async def test_without_a_restart_what_an_engine_took_with_it_counts_for_nothing(bench):
    """What the run got is only the beginning of what it costs."""
    await bench.declare("chat")
    engine = bench.engine()
    await engine.join()
    await bench.start("cut", "chat")
    await engine.report({"run_id": "cut", "useful_kvtt": 300, "num_running": 1})
    await bench.until(lambda: bench.pool.core.run("cut").useful_kvtt)
    engine.call.cancel()
    await bench.until(lambda: not bench.pool.core.engines())
    await end(bench, "cut")
    assert bench.pool.ladder.history()[0] == {}
    assert not bench.metric("justitia_run_jct_seconds_count", **CHAT)
