"""What the service derives from what it has seen: delay bound, cost limit, windows (D1, K3)."""

import pytest

from justitia.api.v1 import admin_pb2, engine_pb2
from justitia.core.units import MAX_COST_KVTT
from justitia_scheduler.bounds import DelayBound
from justitia_scheduler.pool_estimates import largest_run_kvtt
from justitia_scheduler.windows import Window


def test_one_slow_inference_hides_violations_for_an_hour_at_most():
    now_s = [0.0]
    bound = DelayBound(lambda: now_s[0])
    assert bound.allowance_s is None
    bound.note_inference(500.0)
    bound.note_run(10**9)
    for _ in range(4000):
        now_s[0] += 1
        bound.note_inference(2.0)
        bound.note_run(300)
        bound.note_delivery(100, now_s[0])
        if now_s[0] == 1700:
            assert bound.allowance_s == pytest.approx(2 * 500 + 10**9 / 100)
    assert bound.allowance_s == pytest.approx(2 * 2 + 3)


def test_a_pause_longer_than_the_window_forgets_everything():
    now_s = [0.0]
    bound = DelayBound(lambda: now_s[0])
    bound.note_delivery(100, 0.0)
    now_s[0] = 1.0
    bound.note_delivery(100, 1.0)
    assert bound.allowance_s is not None
    now_s[0] = 7200.0
    assert bound.allowance_s is None


def test_a_window_is_always_in_order_and_keeps_the_latest():
    window = Window(3)
    assert window.mean == 0.0
    for value in (5.0, 1.0, 9.0, 4.0, 4.0):
        window.append(value)
    assert list(window) == [4.0, 4.0, 9.0]
    assert window.mean == pytest.approx(17 / 3)
    window.clear()
    assert not list(window)


async def test_no_estimate_is_larger_than_the_longest_context_allows(bench):
    engine = bench.engine()
    hello = engine.hello()
    hello.hello.max_model_len_tokens = 1000
    engine.call = engine.stub.Session()
    await engine.call.write(hello)
    await engine.hear()
    run = await bench.start("r1", cost_kvtt=1e18)
    assert run.estimate.cost_kvtt == largest_run_kvtt(1000) == 10**10
    assert largest_run_kvtt(10**8) == MAX_COST_KVTT


async def test_a_run_far_beyond_its_estimate_is_counted_once(bench):
    engine = bench.engine()
    await engine.join()
    await bench.start("r1", cost_kvtt=1)
    await bench.start("r2", cost_kvtt=1000)
    name = "justitia_underestimated_runs_total"
    labels = {"pool": "default", "application": "default"}
    for useful in (10, 11, 500):
        await engine.report(
            {"run_id": "r1", "useful_kvtt": useful, "num_running": 1},
            {"run_id": "r2", "useful_kvtt": useful, "num_running": 1},
        )
        await bench.until(lambda useful=useful: bench.pool.core.run("r2").useful_kvtt == useful)
        assert bench.metric(name, **labels) == (None if useful == 10 else 1)


async def test_what_an_engine_takes_with_it_is_noted_in_slices(bench):
    """Order and accounts change at once; counting states may take a moment, and expires nobody."""
    await bench.declare("chat", idle_timeout_s=10)
    engine = bench.engine()
    known = [
        engine_pb2.KnownRun(run_id=f"r{n}", application="chat", num_waiting=1, useful_kvtt=n)
        for n in range(1, 1001)
    ]
    await engine.join(known=known)
    await bench.until(lambda: not bench.pool.backlog)
    assert bench.pool.num_waiting_runs == 1000
    for _ in range(5):  # they have waited for longer than they may be idle
        bench.clock.advance(4)
        bench.pool.endings.tick()
    bench.clock.advance(4)  # the time to look at them again has come
    bench.service.parts("default").engines.leave("engine-0")
    assert not bench.pool.core.engines()
    assert all(view.num_waiting == 0 for view in bench.pool.core.runs())
    assert 0 < bench.pool.num_waiting_runs < 1000
    bench.pool.endings.tick()
    assert len(bench.pool.core) == 1000
    await bench.until(lambda: not bench.pool.backlog)
    assert bench.pool.num_waiting_runs == 0
    bench.pool.endings.tick()
    assert len(bench.pool.core) == 1000
    for _ in range(3):
        bench.clock.advance(4)
        bench.pool.endings.tick()
    assert len(bench.pool.core) == 0


async def test_a_weight_reaches_many_runs_in_slices_and_all_in_the_order_at_once(bench):
    await bench.declare("chat")
    engine = bench.engine()
    await engine.join()
    for number in range(500):
        await bench.start(f"r{number}", "chat", cost_kvtt=1000)
    while len(engine.tags) < 500:
        await engine.hear()
    engine.tags.clear()
    application = bench.pool.applications["chat"]
    bench.pool.apply_application(type(application)(name="chat", weight=2 * application.weight))
    assert {view.finish for view in bench.pool.core.runs()} == {500 << 64}
    assert bench.pool.backlog
    while len(engine.tags) < 500:
        await engine.hear()


async def test_counters_of_engines_that_left_are_in_the_journal(
    tmp_path, open_service, close_service
):
    """What engines did while the service was away is delivered once, however many came and went."""
    path = tmp_path / "journal.db"
    bench = await open_service(path)
    await bench.declare("chat")
    await bench.start("r1", "chat", cost_kvtt=10_000)
    engines = [bench.engine(engine_id=f"engine-{n}") for n in range(5)]
    for engine in engines:
        await engine.join()
        await engine.report({"run_id": "r1", "useful_kvtt": 100, "num_running": 1})
    await bench.until(lambda: bench.pool.core.useful_kvtt == 500)
    await close_service(bench)
    bench = await open_service(path, clock=bench.clock)
    for engine in engines:
        again = bench.engine(engine_id=engine.engine_id, steps=engine.steps)
        known = engine_pb2.KnownRun(run_id="r1", application="chat", useful_kvtt=103)
        await again.join(known=[known])
    assert bench.pool.core.useful_kvtt == 15
    assert (await bench.get("r1")).useful_kvtt == 515
    await close_service(bench)


async def test_privacy_that_is_declared_while_a_run_is_open_counts(bench, finished):
    await bench.declare("chat")
    engine = bench.engine()
    await engine.join()
    await bench.start("r1", "chat", prompt_text="secret")
    await bench.declare("chat", privacy=admin_pb2.PRIVACY_NONE)
    await engine.report({"run_id": "r1", "useful_kvtt": 300}, finished=[finished("r1")])
    await bench.until(lambda: bench.pool.core.run("r1").num_finished)
    await bench.end_after_grace("r1")
    await bench.service.journal.committed()
    store = bench.service._store
    rows = await bench.service.journal.call(store.samples, "default", "", after=0, limit=10)
    assert [row.prompt_text for _, row in rows] == [""]
