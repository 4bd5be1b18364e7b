"""Time's work: one fault costs only its own pool and run, and nothing piles up (FS4, FS5)."""

import grpc
import pytest

from justitia_scheduler.run_facts import EndReason, RunOrder


def finish(pool, run_id):
    pool.endings._finish(run_id, EndReason.END_RUN, pool.clocks.monotonic_s())


async def test_a_fault_in_one_pool_leaves_time_to_the_others(bench, monkeypatch):
    await bench.declare("chat", pool="second", idle_timeout_s=10)
    second = bench.service.parts("second").pool

    def fail():
        raise KeyError("a fault")

    monkeypatch.setattr(bench.pool.endings, "tick", fail)
    second.start_run(RunOrder(run_id="r1", application="chat"))
    for _ in range(4):
        last_s = second.endings._last_tick_s
        bench.clock.advance(4)
        await bench.until(lambda last_s=last_s: second.endings._last_tick_s > last_s)
    assert "r1" not in second.core


async def test_a_run_that_cannot_be_ended_costs_its_caller_only(bench, monkeypatch):
    await bench.start("bad")
    await bench.start("good")
    real = bench.pool.core.end_run

    def end_run(run_id, **fields):
        if run_id == "bad":
            raise KeyError("a fault")
        return real(run_id, **fields)

    monkeypatch.setattr(bench.pool.core, "end_run", end_run)
    with pytest.raises(grpc.aio.AioRpcError) as error:
        await bench.end("bad")
    assert error.value.code() is grpc.StatusCode.INTERNAL
    assert (await bench.end("good")).run_id == "good"
    bench.pool.endings.tick()
    assert (await bench.get("bad")).run_id == "bad"


async def test_runs_that_are_over_leave_no_checks_behind(bench):
    await bench.declare("chat", idle_timeout_s=86400)
    for number in range(1000):
        bench.pool.start_run(RunOrder(run_id=f"r{number}", application="chat"))
        if number >= 10:
            finish(bench.pool, f"r{number}")
    assert len(bench.pool.endings._checks) < 100
    bench.clock.advance(4)
    bench.pool.endings.tick()
    for _ in range(86400 // 4):
        bench.clock.advance(4)
        bench.pool.endings.tick()
    assert len(bench.pool.core) == 0
