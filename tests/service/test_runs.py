"""The life of a run through the API: opening, repeats, endings, timeouts (FS2, FS8, FS9)."""

import asyncio

import grpc
import pytest

from justitia.api.v1 import common_pb2, engine_pb2, run_pb2


async def refused(call, code):
    with pytest.raises(grpc.aio.AioRpcError) as error:
        await call
    assert error.value.code() is code, error.value.details()
    return error.value.details()


async def test_a_started_run_has_its_start_at_v_and_its_finish_by_its_weight(bench):
    await bench.declare("chat", weight=2)
    run = await bench.start("r1", "chat", cost_kvtt=1000)
    assert int(run.virtual_start.ticks) == 0
    assert int(run.virtual_finish.ticks) == 500 << 64
    assert run.estimate.source == common_pb2.ESTIMATE_SOURCE_CLIENT
    assert run.state == run_pb2.RUN_STATE_IDLE


async def test_repeating_a_start_with_the_same_facts_returns_the_same_run(bench):
    await bench.declare("chat")
    first = await bench.start("r1", "chat", cost_kvtt=1000)
    again = await bench.start("r1", "chat", cost_kvtt=1000)
    assert again == first


@pytest.mark.parametrize(
    ("application", "cost_kvtt", "field"),
    [
        pytest.param("other", 1000, "application", id="another application"),
        pytest.param("chat", 2000, "cost_kvtt", id="another cost"),
    ],
)
async def test_a_conflicting_repeat_is_refused_by_name(bench, application, cost_kvtt, field):
    await bench.declare("chat")
    await bench.declare("other")
    await bench.start("r1", "chat", cost_kvtt=1000)
    call = bench.start("r1", application, cost_kvtt=cost_kvtt)
    assert field in await refused(call, grpc.StatusCode.ALREADY_EXISTS)


async def test_an_undeclared_application_is_refused_with_the_next_step(bench):
    details = await refused(bench.start("r1", "nope"), grpc.StatusCode.NOT_FOUND)
    assert "'nope'" in details
    assert "justitia apply" in details


async def test_without_an_id_the_service_makes_one(bench):
    first, second = await bench.start(), await bench.start()
    assert first.run_id != second.run_id
    assert first.application == "default"


async def test_the_run_of_a_header_comes_first_and_start_run_betters_its_estimate(bench):
    await bench.declare("chat")
    engine = bench.engine()
    await engine.join()
    await engine.report(
        {"run_id": "r1", "num_running": 1}, new=[engine_pb2.NewRun(run_id="r1", application="chat")]
    )
    tag = await engine.hear_tag("r1")
    assert tag.estimate.source == common_pb2.ESTIMATE_SOURCE_DEFAULT
    engine.tags.clear()
    run = await bench.start("r1", "chat", cost_kvtt=500)
    assert run.estimate.cost_kvtt == 500
    assert run.state == run_pb2.RUN_STATE_RUNNING
    assert (await engine.hear_tag("r1")).virtual_finish == run.virtual_finish


async def test_a_header_after_start_run_is_the_same_run_and_the_engine_gets_its_tag(bench):
    engine = bench.engine()
    run = await bench.start("r1", cost_kvtt=500)
    await engine.join()
    assert "r1" not in engine.tags
    await engine.report({"run_id": "r1"}, new=[engine_pb2.NewRun(run_id="r1")])
    assert (await engine.hear_tag("r1")).virtual_finish == run.virtual_finish


async def test_an_engines_run_of_an_undeclared_application_is_served_in_the_default_one(bench):
    engine = bench.engine()
    await engine.join()
    await engine.report(new=[engine_pb2.NewRun(run_id="r1", application="typo")])
    await engine.hear_tag("r1")
    assert (await bench.get("r1")).application == "default"
    assert bench.metric("justitia_unknown_application_runs_total", pool="default") == 1


async def test_a_run_is_found_in_whatever_pool_its_application_lives(bench):
    await bench.declare("chat", pool="other")
    assert (await bench.start("r1", "chat")).pool == "other"
    assert (await bench.get("r1")).pool == "other"
    explain = bench.runs.ExplainRun(run_pb2.ExplainRunRequest(run_id="r1"))
    assert (await explain).run.run_id == "r1"
    assert (await bench.end("r1")).state == run_pb2.RUN_STATE_ENDED
    assert (await bench.end("r1")).pool == "other"
    assert not bench.service.parts("other").pool.facts


async def test_an_id_that_is_open_in_several_pools_is_refused_until_a_pool_is_named(bench):
    for pool in ("a", "b"):
        await bench.declare(f"chat-{pool}", pool=pool)
        await bench.start("r1", f"chat-{pool}")
    assert "a, b" in await refused(bench.end("r1"), grpc.StatusCode.INVALID_ARGUMENT)
    await bench.start("r1")
    assert (await bench.end("r1")).pool == "default"
    named = run_pb2.EndRunRequest(run_id="r1", pool="b")
    assert (await bench.runs.EndRun(named)).pool == "b"


async def test_end_run_before_anything_else_is_not_found(bench):
    await refused(bench.end("r1"), grpc.StatusCode.NOT_FOUND)


async def test_end_run_is_answered_at_once_without_engines_and_again_with_the_same_facts(bench):
    await bench.start("r1")
    bench.clock.advance(2)
    ended = await bench.end("r1")
    assert ended.state == run_pb2.RUN_STATE_ENDED
    assert ended.jct_s == 2
    bench.clock.advance(2)
    again = await bench.end("r1")
    again.ClearField("fairness_ratio")
    ended.ClearField("fairness_ratio")
    assert again == ended


async def test_end_run_waits_for_the_last_report(bench, finished):
    engine = bench.engine()
    await engine.join()
    await engine.report({"run_id": "r1", "num_running": 1}, new=[engine_pb2.NewRun(run_id="r1")])
    await engine.hear_tag("r1")
    ending = asyncio.ensure_future(bench.end("r1"))
    await bench.until(lambda: bench.pool.facts["r1"].ending is not None)
    bench.clock.advance(1.5)
    bench.pool.endings.tick()
    assert not ending.done()
    await engine.report({"run_id": "r1", "useful_kvtt": 700}, finished=[finished("r1", age_s=0.5)])
    ended = await ending
    assert ended.useful_kvtt == 700
    assert ended.num_finished == 1
    assert ended.jct_s == 1.0


async def test_end_run_waits_no_longer_than_two_seconds(bench):
    engine = bench.engine()
    await engine.join()
    await engine.report({"run_id": "r1", "num_running": 1}, new=[engine_pb2.NewRun(run_id="r1")])
    await engine.hear_tag("r1")
    ending = asyncio.ensure_future(bench.end("r1"))
    await bench.until(lambda: bench.pool.facts["r1"].ending is not None)
    bench.clock.advance(1.99)
    bench.pool.endings.tick()
    assert "r1" in bench.pool.core
    bench.clock.advance(0.02)
    assert (await ending).state == run_pb2.RUN_STATE_ENDED


async def test_an_ended_id_that_comes_back_is_a_new_run(bench):
    first = await bench.start("r1")
    await bench.end("r1")
    again = await bench.start("r1")
    assert again.arrival_sequence == first.arrival_sequence + 1
    assert (await bench.get("r1")).state == run_pb2.RUN_STATE_IDLE


async def test_an_idle_run_ends_and_one_that_waits_never_does(bench):
    await bench.declare("chat", idle_timeout_s=10)
    engine = bench.engine()
    await engine.join()
    await bench.start("idle", "chat")
    await engine.report(
        {"run_id": "waits", "num_waiting": 1},
        new=[engine_pb2.NewRun(run_id="waits", application="chat")],
    )
    await engine.hear_tag("waits")
    for _ in range(4):
        bench.clock.advance(4)
        bench.pool.endings.tick()
    assert "idle" not in bench.pool.core
    assert "waits" in bench.pool.core
    ended = bench.metric(
        "justitia_runs_ended_total", pool="default", application="chat", reason="idle"
    )
    assert ended == 1


async def test_idle_time_counts_from_the_moment_that_the_engine_is_gone(bench):
    await bench.declare("chat", idle_timeout_s=10)
    engine = bench.engine()
    await engine.join()
    await engine.report(
        {"run_id": "r1", "num_waiting": 1}, new=[engine_pb2.NewRun(run_id="r1", application="chat")]
    )
    await engine.hear_tag("r1")
    for _ in range(10):
        bench.clock.advance(4)
        bench.pool.endings.tick()
    engine.call.cancel()
    await bench.until(lambda: not bench.pool.core.engines())
    for still_open in (True, True, False):
        bench.clock.advance(4)
        bench.pool.endings.tick()
        assert ("r1" in bench.pool.core) is still_open


async def test_a_long_stall_of_the_process_expires_nobody_before_engines_have_spoken(bench):
    await bench.declare("chat", idle_timeout_s=10)
    await bench.start("r1", "chat")
    bench.pool.endings.tick()
    bench.clock.advance(600)
    bench.pool.endings.tick()
    assert "r1" in bench.pool.core
    for _ in range(2):
        bench.clock.advance(4)
        bench.pool.endings.tick()
    assert "r1" not in bench.pool.core


async def test_a_run_ends_after_its_longest_duration_whatever_it_does(bench):
    await bench.declare("chat", max_duration_s=30)
    engine = bench.engine()
    await engine.join()
    await engine.report(
        {"run_id": "r1", "num_running": 1}, new=[engine_pb2.NewRun(run_id="r1", application="chat")]
    )
    await engine.hear_tag("r1")
    for _ in range(8):
        bench.clock.advance(4)
        bench.pool.endings.tick()
    assert "r1" not in bench.pool.core


async def test_runs_beyond_the_applications_limit_are_served_in_the_default_one(bench):
    await bench.declare("chat", max_concurrent_runs=1, weight=5)
    assert (await bench.start("r1", "chat")).application == "chat"
    assert (await bench.start("r2", "chat")).application == "default"
    assert (await bench.start("r2", "chat")).application == "default"
    await bench.end("r1")
    assert (await bench.start("r3", "chat")).application == "chat"


async def test_a_pool_holds_a_bounded_number_of_runs(open_service, close_service):
    bench = await open_service(max_open_runs=2)
    await bench.start("r1")
    await bench.start("r2")
    await refused(bench.start("r3"), grpc.StatusCode.RESOURCE_EXHAUSTED)
    await bench.start("r2")
    await bench.end("r1")
    await bench.start("r3")
    await close_service(bench)


async def test_open_runs_are_listed_in_the_order_of_service_page_by_page(bench):
    costs = {"r1": 500, "r2": 300, "r3": 900, "r4": 300, "r5": 100}
    for run_id, cost_kvtt in costs.items():
        await bench.start(run_id, cost_kvtt=cost_kvtt)
    seen, token = [], ""
    for _ in range(3):
        request = run_pb2.ListRunsRequest(page_size=2, page_token=token)
        page = await bench.runs.ListRuns(request)
        seen += [run.run_id for run in page.runs]
        token = page.next_page_token
    assert seen == ["r5", "r2", "r4", "r1", "r3"]
    assert token == ""


async def test_explain_says_who_is_ahead(bench):
    engine = bench.engine()
    await engine.join()
    await bench.start("small", cost_kvtt=10)
    await bench.start("large", cost_kvtt=1000)
    await engine.report(
        {"run_id": "small", "num_running": 1}, {"run_id": "large", "num_waiting": 1}
    )
    await bench.until(lambda: bench.pool.num_waiting_runs == 1)
    answer = await bench.runs.ExplainRun(run_pb2.ExplainRunRequest(run_id="large"))
    assert [run.run_id for run in answer.ahead] == ["small"]
    assert "smaller virtual finish" in answer.reason
    assert answer.rest_in_fluid_kvtt == 1000


async def test_watch_sends_what_is_open_then_every_change(bench):
    kinds = run_pb2.RunEvent
    await bench.start("r1")
    call = bench.runs.WatchRuns(run_pb2.WatchRunsRequest())
    opened, synced = await call.read(), await call.read()
    assert (opened.type, opened.run.run_id) == (kinds.TYPE_OPEN, "r1")
    assert synced.type == kinds.TYPE_SYNCED
    await bench.start("r2")
    event = await call.read()
    assert (event.type, event.run.run_id) == (kinds.TYPE_OPEN, "r2")
    await bench.end("r1")
    event = await call.read()
    assert (event.type, event.run.run_id) == (kinds.TYPE_ENDED, "r1")
    call.cancel()
    await bench.until(lambda: not bench.pool.listeners)


async def test_the_fair_ratio_is_told_once_the_fluid_system_is_there(bench, finished):
    engine = bench.engine()
    await engine.join()
    await bench.start("r1", cost_kvtt=1000)
    await bench.start("r2", cost_kvtt=1000)
    bench.clock.advance(1)
    # r1 is served alone: really done after 1 s, in the fluid system only when both have got 1000.
    await engine.report({"run_id": "r1", "useful_kvtt": 1000}, finished=[finished("r1")])
    ended = await bench.end_after_grace("r1")
    assert not ended.HasField("fairness_ratio")
    bench.clock.advance(0.9)
    await engine.report({"run_id": "r2", "useful_kvtt": 1000})
    await bench.until(lambda: bench.pool.ended.get("r1").fairness_ratio is not None)
    assert (await bench.end("r1")).fairness_ratio == pytest.approx(0.5)
    ratio = bench.metric("justitia_fairness_ratio_sum", pool="default", application="default")
    assert ratio == pytest.approx(0.5)


async def test_a_run_that_is_new_and_over_in_one_report_counts_and_is_not_opened(bench, finished):
    engine = bench.engine()
    await engine.join()
    await bench.start("r1", cost_kvtt=1000)
    await engine.report(
        {"run_id": "short", "useful_kvtt": 40},
        {"run_id": "r1", "useful_kvtt": 5, "num_running": 1},
        finished=[finished("short")],
        new=[engine_pb2.NewRun(run_id="short")],
        closed=["short"],
    )
    await bench.until(lambda: bench.pool.core.useful_kvtt == 45)
    assert int((await bench.describe()).virtual_time.ticks) == 45 << 64
    assert list(bench.pool.facts) == ["r1"]
    assert bench.pool.core.total_weight == 10**9
    delivered = bench.metric(
        "justitia_delivered_kvtt_total", pool="default", application="default", kind="useful"
    )
    assert delivered == 45


async def test_a_run_made_for_one_inference_ends_with_it(bench, finished):
    engine = bench.engine()
    await engine.join()
    new = engine_pb2.NewRun(run_id="anonymous", ends_when_idle=True)
    await engine.report({"run_id": "anonymous", "num_running": 1}, new=[new])
    await engine.hear_tag("anonymous")
    await engine.report({"run_id": "anonymous", "useful_kvtt": 9}, finished=[finished("anonymous")])
    await bench.until(lambda: "anonymous" in bench.pool.ended)
    assert "anonymous" not in bench.pool.core


@pytest.mark.parametrize(
    ("fields", "named"),
    [
        pytest.param({"cost_kvtt": float("nan")}, "cost_kvtt", id="NaN cost"),
        pytest.param({"cost_kvtt": float("inf")}, "cost_kvtt", id="infinite cost"),
        pytest.param({"cost_kvtt": -1.0}, "cost_kvtt", id="negative cost"),
        pytest.param({"cost_kvtt": 0.0}, "cost_kvtt", id="zero cost"),
        pytest.param({"cost_kvtt": 1e300}, "cost_kvtt", id="absurd cost"),
        pytest.param({"run_id": "a\nb"}, "run_id", id="control character in id"),
        pytest.param({"run_id": "x" * 257}, "run_id", id="long id"),
        pytest.param({"application": "x" * 257}, "application", id="long application"),
        pytest.param({"application": "a\x00"}, "application", id="zero byte"),
        pytest.param({"prompt_text": "é" * 600_000}, "prompt_text", id="large prompt"),
    ],
)
async def test_bad_input_is_refused_by_field_and_changes_nothing(bench, fields, named):
    details = await refused(bench.start(**fields), grpc.StatusCode.INVALID_ARGUMENT)
    assert named in details
    assert len(details) < 300
    assert len(bench.pool.core) == 0


@pytest.mark.parametrize("run_id", ["é" * 256, "a b", "'; DROP TABLE records; --", "../../x", "%s"])
async def test_odd_but_printable_ids_are_ids(bench, run_id):
    await bench.start(run_id)
    assert (await bench.end(run_id)).run_id == run_id


@pytest.mark.parametrize(
    "fields",
    [
        {"page_size": -1},
        {"page_size": 1001},
        {"page_token": "zzz"},
        {"page_token": "1.2.3"},
        {"page_token": "1.²"},
        {"page_token": "9" * 500 + ".1"},
    ],
)
async def test_bad_pages_are_refused(bench, fields):
    call = bench.runs.ListRuns(run_pb2.ListRunsRequest(**fields))
    await refused(call, grpc.StatusCode.INVALID_ARGUMENT)
