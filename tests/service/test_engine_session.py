"""The engines' stream: joining, tags, reports, leaving, replacement, bad items (FS2, FS4, FS5)."""

import asyncio

import grpc
import pytest

from justitia.api.v1 import admin_pb2, common_pb2, engine_pb2


def known(run_id, *, finish_kvtt, useful=0, **fields):
    return engine_pb2.KnownRun(
        run_id=run_id,
        application="default",
        virtual_finish={"ticks": str(finish_kvtt << 64)},
        virtual_start={"ticks": "0"},
        useful_kvtt=useful,
        estimate={"cost_kvtt": finish_kvtt},
        weight=1,
        **fields,
    )


async def test_the_first_directive_has_mode_weights_and_virtual_time(bench):
    await bench.declare("chat", weight=3)
    engine = bench.engine()
    await engine.join()
    first = engine.directives[0]
    assert engine.weights == {"default": 1, "chat": 3}
    assert first.mode == common_pb2.POOL_MODE_ENFORCE
    assert first.default_cost_kvtt == 1_000_000


async def test_a_started_run_reaches_every_engine_at_once(bench):
    engines = [bench.engine(engine_id=f"engine-{n}") for n in range(3)]
    for engine in engines:
        await engine.join()
    run = await bench.start("r1", cost_kvtt=10)
    for engine in engines:
        assert (await engine.hear_tag("r1")).virtual_finish == run.virtual_finish


async def test_delivered_service_moves_v_and_the_runs_account(bench):
    engine = bench.engine()
    await engine.join()
    await bench.start("r1", cost_kvtt=1000)
    await engine.report({"run_id": "r1", "useful_kvtt": 600, "wasted_kvtt": 40, "num_running": 1})
    await bench.until(lambda: bench.pool.core.useful_kvtt == 600)
    pool = await bench.describe()
    assert int(pool.virtual_time.ticks) == 600 << 64
    assert (await bench.get("r1")).wasted_kvtt == 40
    delivered = {
        kind: bench.metric(
            "justitia_delivered_kvtt_total", pool="default", application="default", kind=kind
        )
        for kind in ("useful", "wasted")
    }
    assert delivered == {"useful": 600, "wasted": 40}


async def test_repeated_and_reordered_reports_change_nothing(bench):
    engine = bench.engine()
    await engine.join()
    await bench.start("r1", cost_kvtt=1000)
    await engine.report({"run_id": "r1", "useful_kvtt": 600, "num_running": 1})
    engine.sequence = 0
    await engine.report({"run_id": "r1", "useful_kvtt": 900})
    engine.sequence = 1
    await engine.report({"run_id": "r1", "useful_kvtt": 700})
    await bench.until(lambda: bench.pool.core.useful_kvtt == 700)
    assert bench.pool.core.num_late_reports == 1


async def test_a_run_that_an_engine_met_earlier_is_dated_back(bench):
    engine = bench.engine()
    await engine.join(known=[engine_pb2.KnownRun(run_id="r1", age_s=40)])
    await engine.report(new=[engine_pb2.NewRun(run_id="r2", age_s=7.5)])
    await bench.until(lambda: "r2" in bench.pool.core)
    now_s = bench.pool.clocks.monotonic_s()
    ages_s = [now_s - bench.pool.core.run(run_id).arrived_at_s for run_id in ("r1", "r2")]
    assert ages_s == pytest.approx([40, 7.5])
    assert (await bench.end_after_grace("r2")).jct_s == pytest.approx(7.5, abs=0.2)


async def test_a_session_that_comes_back_delivers_what_was_done_meanwhile_once(bench):
    engine = bench.engine()
    await engine.join()
    await bench.start("r1", cost_kvtt=1000)
    await engine.report({"run_id": "r1", "useful_kvtt": 100, "num_running": 1})
    await bench.until(lambda: bench.pool.core.useful_kvtt == 100)
    engine.call.cancel()
    await bench.until(lambda: not bench.pool.core.engines())
    assert (await bench.get("r1")).num_running == 0
    engine.sequence = 0
    await engine.join(known=[known("r1", finish_kvtt=1000, useful=250, num_running=1)])
    assert bench.pool.core.useful_kvtt == 250
    assert (await bench.get("r1")).num_running == 1
    assert (await bench.describe()).virtual_time.kvtt == 250


async def test_another_incarnation_starts_from_its_own_counters(bench):
    engine = bench.engine()
    await engine.join()
    await bench.start("r1", cost_kvtt=1000)
    await engine.report({"run_id": "r1", "useful_kvtt": 100, "num_running": 1})
    await bench.until(lambda: bench.pool.core.useful_kvtt == 100)
    engine.call.cancel()
    reborn = bench.engine(incarnation="start-2")
    await reborn.join()
    await reborn.report({"run_id": "r1", "useful_kvtt": 30, "num_running": 1})
    await bench.until(lambda: bench.pool.core.useful_kvtt == 130)


@pytest.mark.parametrize("incarnation", ["start-1", "start-2"])
async def test_a_second_session_of_an_engine_replaces_the_first(bench, incarnation):
    first, second = bench.engine(), bench.engine(incarnation=incarnation)
    await first.join()
    await bench.start("r1", cost_kvtt=1000)
    await second.join()
    assert await first.status() is grpc.StatusCode.ABORTED
    assert [account.incarnation for account in bench.pool.core.engines()] == [incarnation]
    await second.report({"run_id": "r1", "useful_kvtt": 30})
    await bench.until(lambda: bench.pool.core.useful_kvtt == 30)


async def test_runs_that_only_the_engine_knows_are_adopted_with_their_finish(bench):
    engine = bench.engine()
    runs = [known(f"r{n}", finish_kvtt=n, num_waiting=1, useful=5) for n in range(1, 1500)]
    engine.call = engine.stub.Session()
    await engine.call.write(engine.hello(known=runs[:1000], more_follows=True))
    await engine.call.write(engine.hello(known=runs[1000:]))
    await engine.hear_tag("r1")
    await engine.hear_tag("r1499")
    assert len(bench.pool.core) == 1499
    run = await bench.get("r77")
    assert int(run.virtual_finish.ticks) == 77 << 64
    assert (run.useful_kvtt, run.num_waiting) == (5, 1)


async def test_v_is_at_least_what_an_engine_has_heard_of(bench):
    engine = bench.engine(last_ticks=12345 << 64)
    await engine.join()
    assert int((await bench.describe()).virtual_time.ticks) == 12345 << 64


async def test_a_run_that_is_over_is_told_to_the_engine_that_still_knows_it(bench):
    await bench.start("r1")
    await bench.end("r1")
    engine = bench.engine()
    await engine.join(known=[known("r1", finish_kvtt=1)])
    assert engine.ended == ["r1"]
    assert "r1" not in bench.pool.core


async def test_engines_hear_of_ended_runs_and_of_edited_weights(bench):
    await bench.declare("chat", weight=1)
    engine = bench.engine()
    await engine.join()
    await bench.start("r1", "chat", cost_kvtt=1000)
    before = await engine.hear_tag("r1")
    engine.tags.clear()
    await bench.declare("chat", weight=4)
    after = await engine.hear_tag("r1")
    assert int(after.virtual_finish.ticks) * 4 == int(before.virtual_finish.ticks)
    assert engine.weights["chat"] == 4
    await bench.end_after_grace("r1")
    while not engine.ended:
        await engine.hear()
    assert engine.ended == ["r1"]


async def test_the_mode_reaches_the_engines(bench):
    engine = bench.engine()
    await engine.join()
    request = admin_pb2.SetPoolModeRequest(mode=common_pb2.POOL_MODE_SHADOW)
    assert (await bench.admin.SetPoolMode(request)).mode == common_pb2.POOL_MODE_SHADOW
    while engine.mode != common_pb2.POOL_MODE_SHADOW:
        await engine.hear()


async def test_bursts_of_changes_reach_an_engine_in_few_messages(bench):
    engine = bench.engine()
    await engine.join()
    await asyncio.gather(*(bench.start(f"r{n}") for n in range(300)))
    while len(engine.tags) < 300:
        await engine.hear()
    assert len(engine.directives) < 60


async def test_one_bad_item_is_dropped_and_counted_and_the_session_goes_on(bench, finished):
    engine = bench.engine()
    await engine.join()
    await bench.start("r1", cost_kvtt=1000)
    backwards = engine_pb2.FinishedInference(run_id="r1", arrived_age_s=1, started_age_s=2)
    nan = engine_pb2.FinishedInference(run_id="r1", arrived_age_s=float("nan"))
    await engine.report(
        {"run_id": "r1", "useful_kvtt": -5},
        {"run_id": "r1", "useful_kvtt": 2**62},
        {"run_id": "", "useful_kvtt": 5},
        {"run_id": "r1", "num_waiting": -1},
        {"run_id": "r1", "useful_kvtt": 77},
        finished=[backwards, nan, finished("r1")],
        new=[engine_pb2.NewRun(run_id="\x00"), engine_pb2.NewRun(run_id="r2", age_s=-1)],
    )
    await bench.until(lambda: bench.pool.core.useful_kvtt == 77)
    dropped = {
        kind: bench.metric("justitia_dropped_items_total", pool="default", kind=kind)
        for kind in ("run", "finished", "new_run")
    }
    assert dropped == {"run": 4, "finished": 2, "new_run": 2}
    assert (await bench.get("r1")).num_finished == 1


async def test_a_run_of_which_the_engine_lost_finished_inferences_teaches_nothing(bench, finished):
    engine = bench.engine()
    await engine.join()
    for run_id in ("whole", "partly"):
        await bench.start(run_id, cost_kvtt=1000)
    done = [finished(run_id) for run_id in ("whole", "partly", "new")]
    for inference in done:
        inference.useful_kvtt = 5
    await engine.report(
        {"run_id": "whole", "useful_kvtt": 5},
        {"run_id": "partly", "useful_kvtt": 5, "num_lost_finished": 2},
        {"run_id": "new", "useful_kvtt": 5, "num_lost_finished": 1},
        finished=done,
        new=[engine_pb2.NewRun(run_id="new")],
    )
    await bench.until(lambda: bench.pool.core.useful_kvtt == 15)
    trails = [bench.pool.core._runs[run_id].trail for run_id in ("whole", "partly", "new")]
    assert [trail.num_finished for trail in trails] == [1, 1, 1]
    assert [trail.is_whole for trail in trails] == [True, False, False]


async def test_a_finished_inference_may_come_a_report_before_its_runs_progress(bench, finished):
    engine = bench.engine()
    await engine.join()
    await bench.start("r1", cost_kvtt=1000)
    await engine.report(finished=[finished("r1")])
    await engine.report({"run_id": "r1", "useful_kvtt": 8})
    await bench.until(lambda: bench.pool.core.useful_kvtt == 8)
    assert (await bench.get("r1")).num_finished == 1


@pytest.mark.parametrize(
    "message",
    [
        pytest.param(engine_pb2.EngineMessage(report={"sequence": 1}), id="report first"),
        pytest.param(engine_pb2.EngineMessage(), id="nothing"),
        pytest.param(engine_pb2.EngineMessage(hello={"engine_id": "e"}), id="no incarnation"),
        pytest.param(
            engine_pb2.EngineMessage(hello={"engine_id": "e", "incarnation": "1"}), id="no blocks"
        ),
        pytest.param(
            engine_pb2.EngineMessage(
                hello={
                    "engine_id": "e\n",
                    "incarnation": "1",
                    "kv_blocks": 1,
                    "block_size_tokens": 1,
                }
            ),
            id="bad id",
        ),
    ],
)
async def test_a_session_without_a_sound_hello_is_refused(bench, message):
    engine = bench.engine()
    engine.call = engine.stub.Session()
    await engine.call.write(message)
    assert await engine.status() is grpc.StatusCode.INVALID_ARGUMENT
    assert not bench.pool.core.engines()


async def test_leaving_takes_the_capacity_out_at_once(bench):
    engine = bench.engine()
    await engine.join()
    labels = {"pool": "default", "engine": "engine-0"}
    assert bench.metric("justitia_engine_up", **labels) == 1
    await engine.call.done_writing()
    await bench.until(lambda: not bench.pool.core.engines())
    assert bench.metric("justitia_engine_up", **labels) == 0
    assert not (await bench.describe()).engines


async def test_counters_do_not_count_twice_when_a_session_comes_back(bench):
    engine = bench.engine()
    await engine.join()
    await engine.report(preemptions=5, unidentified_inferences=3)
    name = "justitia_unidentified_inferences_total"
    await bench.until(lambda: bench.metric(name, pool="default") == 3)
    engine.call.cancel()
    await bench.until(lambda: not bench.pool.core.engines())
    await engine.join()
    await engine.report(preemptions=6, unidentified_inferences=4)
    await bench.until(lambda: bench.metric(name, pool="default") == 4)
