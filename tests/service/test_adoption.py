"""What an engine brings along in its Hello: runs, their accounts, their order (K1, O1)."""

import asyncio

import pytest

from justitia.api.v1 import engine_pb2
from justitia.core.units import MAX_COST_KVTT


def untagged(run_id, useful=0, **fields):
    return engine_pb2.KnownRun(run_id=run_id, useful_kvtt=useful, **fields)


def tagged(run_id, *, finish_kvtt=1000, useful=0, **fields):
    return untagged(
        run_id,
        useful,
        virtual_finish={"ticks": str(finish_kvtt << 64)},
        virtual_start={"ticks": "0"},
        estimate={"cost_kvtt": finish_kvtt},
        weight=1,
        **fields,
    )


async def join(engine, *known, unowned_kvtt=0):
    engine.call = engine.stub.Session()
    message = engine.hello(known=known)
    message.hello.unowned_useful_kvtt = unowned_kvtt
    await engine.call.write(message)
    await engine.hear()


async def test_a_run_that_began_while_the_service_was_away_has_its_whole_cost(bench):
    engine = bench.engine()
    await join(engine, untagged("r1", 5000, wasted_kvtt=40, prompt_tokens=77, num_running=1))
    run = bench.pool.core.run("r1")
    assert (run.useful_kvtt, run.wasted_kvtt, run.prompt_length) == (5000, 40, 77)
    assert run.finish - run.start >= 5000 << 64
    assert bench.pool.core.value == 0
    await engine.report({"run_id": "r1", "useful_kvtt": 5100})
    await bench.until(lambda: bench.pool.core.run("r1").useful_kvtt == 5100)
    assert bench.pool.core.value == 100 << 64


async def test_an_engine_that_was_out_of_touch_delivers_a_new_runs_service_once(bench):
    engine = bench.engine()
    await join(engine)
    engine.call.cancel()
    await bench.until(lambda: not bench.pool.core.engines())
    engine.sequence = 0
    await join(engine, untagged("r1", 5000, num_running=1))
    assert bench.pool.core.run("r1").useful_kvtt == 5000
    assert bench.pool.core.value == 5000 << 64


async def test_a_run_that_is_over_here_and_goes_on_there_does_not_pay_twice(bench):
    engine = bench.engine()
    await join(engine)
    await bench.start("r1")
    await engine.report({"run_id": "r1", "useful_kvtt": 600})
    await bench.until(lambda: bench.pool.core.useful_kvtt == 600)
    await bench.end_after_grace("r1")
    engine.call.cancel()
    await bench.until(lambda: not bench.pool.core.engines())
    reborn = bench.engine(engine_id="another")
    await join(reborn, untagged("r1", 600, num_running=1))
    assert bench.pool.core.run("r1").useful_kvtt == 0


@pytest.mark.parametrize("make", [tagged, untagged])
async def test_a_run_of_one_inference_still_ends_with_it(bench, finished, make):
    engine = bench.engine()
    await join(engine, make("single", ends_when_idle=True, num_running=1))
    assert "single" in bench.pool.core
    await engine.report({"run_id": "single"}, finished=[finished("single")])
    await bench.until(lambda: "single" in bench.pool.ended)


def as_known(tag, **fields):
    """What an engine says of a run that it has this tag of."""
    return engine_pb2.KnownRun(
        run_id=tag.run_id,
        application="chat",
        virtual_finish=tag.virtual_finish,
        virtual_start=tag.virtual_start,
        arrival_sequence=tag.arrival_sequence,
        estimate=tag.estimate,
        weight=tag.weight,
        learned_kvtt=tag.learned_kvtt,
        **fields,
    )


async def test_an_adopted_run_keeps_its_estimate_beside_what_was_learned_of_it(
    open_service, close_service, finished
):
    """Else what it has shown would count as what was estimated, and its error as nearly none."""
    bench = await open_service(is_learning=True)
    engine = bench.engine()
    await join(engine)
    await bench.start("r1", cost_kvtt=100)
    await engine.report({"run_id": "r1", "useful_kvtt": 900, "num_running": 1})
    tag = await engine.hear_tag("r1")
    while tag.learned_kvtt < 900:
        await engine.hear()
        tag = engine.tags["r1"]
    before = bench.pool.core.run("r1")
    assert (before.estimate.cost_kvtt, before.cost_kvtt) == (100, tag.learned_kvtt)
    await close_service(bench)

    bench = await open_service(is_learning=True)  # nothing is left of the journal
    await bench.declare("chat")
    engine = bench.engine()
    await join(engine, as_known(tag, useful_kvtt=900, num_running=1))
    after = bench.pool.core.run("r1")
    assert (after.estimate, after.learned_kvtt) == (before.estimate, before.learned_kvtt)
    assert (after.start, after.finish) == (before.start, before.finish)
    assert await engine.hear_tag("r1") == tag
    await engine.report({"run_id": "r1", "useful_kvtt": 1000}, finished=[finished("r1")])
    await bench.until(lambda: bench.pool.core.run("r1").num_finished == 1)
    await bench.end_after_grace("r1")
    labels = {"pool": "default", "application": "chat"}
    errors = bench.metric("justitia_prediction_relative_error_ratio_sum", **labels)
    assert errors == pytest.approx(0.9)
    assert bench.pool.track("chat").relative_error == pytest.approx(0.9)
    await close_service(bench)


@pytest.mark.parametrize(("learned", "kept"), [(0, 0), (-5, 0), (2**62, MAX_COST_KVTT)])
async def test_an_absurd_learned_cost_is_brought_into_its_range(bench, learned, kept):
    engine = bench.engine()
    await join(engine, tagged("r1", learned_kvtt=learned, num_running=1))
    assert bench.pool.core.run("r1").learned_kvtt == kept


async def test_adopted_runs_of_equal_finish_keep_their_order_of_arrival(bench):
    engine = bench.engine()
    places = {"late": 30, "early": 10, "middle": 20}
    await join(engine, *(tagged(name, arrival_sequence=n) for name, n in places.items()))
    await bench.start("new")
    found = {run.run_id: run.sequence for run in bench.pool.core.runs()}
    assert found == {**places, "new": 31}


async def test_an_adopted_run_does_not_take_the_place_of_one_that_is_open(bench):
    await bench.start("first")
    engine = bench.engine()
    await join(engine, tagged("lost", arrival_sequence=0))
    assert bench.pool.core.run("first").sequence == 0
    assert bench.pool.core.run("lost").sequence == 1


async def test_an_absurd_place_is_refused_with_its_run_alone(bench):
    engine = bench.engine()
    await join(engine, tagged("bad", arrival_sequence=2**60), tagged("good"))
    assert [run.run_id for run in bench.pool.core.runs()] == ["good"]
    labels = {"pool": "default", "kind": "known_run"}
    assert bench.metric("justitia_dropped_items_total", **labels) == 1


async def test_service_of_runs_that_came_and_went_unheard_moves_v_once(bench):
    engine = bench.engine()
    await join(engine, unowned_kvtt=700)  # before we were there: known, not delivered
    await bench.start("r1")
    assert bench.pool.core.value == 0
    for _ in range(2):
        await engine.report(unowned_useful_kvtt=900)
    await bench.until(lambda: bench.pool.core.unowned_kvtt == 200)
    engine.call.cancel()
    await bench.until(lambda: not bench.pool.core.engines())
    engine.sequence = 0
    await join(engine, unowned_kvtt=1000)
    await engine.report(unowned_useful_kvtt=1000)
    await engine.report({"run_id": "r1", "useful_kvtt": 1})
    await bench.until(lambda: bench.pool.core.run("r1").useful_kvtt == 1)
    assert bench.pool.core.unowned_kvtt == 300
    assert bench.pool.core.value == 301 << 64
    assert bench.pool.core.num_late_reports == 0


@pytest.mark.parametrize(
    ("computed_s", "is_known"),
    [
        pytest.param(2.0, True, id="measured"),
        pytest.param(0.0, False, id="not measured: from start to end"),
    ],
)
async def test_the_critical_path_is_what_was_computed(bench, finished, computed_s, is_known):
    engine = bench.engine()
    await join(engine)
    await bench.start("r1")
    inference = finished("r1", computed_s=62.0, waited_s=0.0)
    inference.computed_s = computed_s
    await engine.report({"run_id": "r1", "useful_kvtt": 5}, finished=[inference])
    await bench.until(lambda: bench.pool.core.run("r1").num_finished == 1)
    (times,) = bench.pool.core._runs["r1"].times
    assert times.computing_s == pytest.approx(2.0 if is_known else 62.0)


async def test_a_tool_before_the_first_inference_is_not_unfair(bench, finished):
    """StartRun, half a minute of a tool, one second of computing: nobody was in the way."""
    engine = bench.engine()
    await join(engine)
    await bench.start("r1", cost_kvtt=10)
    bench.clock.advance(31.0)
    last = finished("r1", computed_s=1.0, waited_s=0.0)
    await engine.report({"run_id": "r1", "useful_kvtt": 10}, finished=[last])
    await bench.until(lambda: bench.pool.core.run("r1").num_finished == 1)
    ending = asyncio.ensure_future(bench.end("r1"))
    await bench.until(lambda: bench.pool.facts["r1"].ending is not None)
    bench.clock.advance(0.25)
    await ending
    await bench.until(lambda: bench.pool.ended.get("r1").fairness_ratio is not None)
    assert bench.pool.ended.get("r1").fairness_ratio == pytest.approx(1.0, abs=0.01)


async def test_waiting_again_after_a_preemption_does_not_widen_the_bound(bench, finished):
    engine = bench.engine()
    await join(engine)
    await bench.start("r1", cost_kvtt=10)
    inference = finished("r1", computed_s=62.0, waited_s=0.0)
    inference.computed_s = 2.0
    await engine.report({"run_id": "r1", "useful_kvtt": 10}, finished=[inference])
    await bench.until(lambda: bench.pool.core.run("r1").num_finished == 1)
    assert bench.pool.endings.bound.longest_inference_s == pytest.approx(2.0)
