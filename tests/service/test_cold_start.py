"""A new application: what its first runs cost is held against those that are open (E1, E2)."""

import pytest

from justitia.api.v1 import admin_pb2, common_pb2, engine_pb2
from justitia.core.estimates import Estimate, Source
from justitia.core.units import UNIT_WEIGHT


async def serve(bench, engine, run_id, kvtt):
    """Serve a run's only inference at a cost, and end the run."""
    done = engine_pb2.FinishedInference(
        run_id=run_id, useful_kvtt=kvtt, started_age_s=0.5, arrived_age_s=1.0
    )
    await engine.report({"run_id": run_id, "useful_kvtt": kvtt}, finished=[done])
    await bench.until(lambda: bench.pool.core.run(run_id).num_finished > 0)
    await bench.end_after_grace(run_id)


@pytest.fixture
async def engine(bench):
    """One engine, and a new application with three open runs that nobody knows anything of."""
    await bench.declare("new")
    await bench.declare("other")
    engine = bench.engine()
    await engine.join()
    for run_id in ("first", "second", "third"):
        await bench.start(run_id, "new")
    await bench.start("stranger", "other")
    await bench.start("declared", "new", cost_kvtt=777)
    return engine


async def test_the_first_run_to_end_says_what_the_others_cost(bench, engine):
    before = await bench.get("second")
    assert before.estimate.source == common_pb2.ESTIMATE_SOURCE_DEFAULT
    await engine.hear_tag("second")
    del engine.tags["second"]
    await serve(bench, engine, "first", 3000)
    for run_id in ("second", "third"):
        run = await bench.get(run_id)
        assert run.estimate.source == common_pb2.ESTIMATE_SOURCE_HISTORY
        assert run.estimate.cost_kvtt == 3000
        assert run.virtual_start == before.virtual_start
    tag = await engine.hear_tag("second")
    assert tag.virtual_finish.kvtt - tag.virtual_start.kvtt == 3000
    assert tag.estimate.cost_kvtt == 3000


@pytest.mark.usefixtures("engine")
async def test_very_many_open_runs_hear_of_it_in_slices_and_nobody_else_waits(bench):
    for number in range(500):
        await bench.start(f"r{number}", "new")
    taught = Estimate(3000, Source.HISTORY)
    pool = bench.pool
    pool.learning._spread("new", taught, "new")
    assert 0 < sum(view.estimate == taught for view in pool.core.runs()) < 500
    again, now_s = Estimate(5, Source.DEFAULT), bench.clock.now_s
    pool.core.end_run("r499", now_s=now_s)
    pool.core.start_run("r499", "other", weight=UNIT_WEIGHT, estimate=again, now_s=now_s)
    await bench.until(lambda: not pool.backlog)
    estimates = {view.run_id: view.estimate for view in pool.core.runs()}
    assert all(estimates[f"r{number}"] == taught for number in range(499))
    assert estimates["r499"] == again, "the id names another application's run by now"


async def test_neither_a_declared_cost_nor_another_application_is_touched(bench, engine):
    stranger = await bench.get("stranger")
    await serve(bench, engine, "first", 3000)
    assert (await bench.get("declared")).estimate.cost_kvtt == 777
    assert (await bench.get("stranger")).virtual_finish == stranger.virtual_finish


async def test_the_mean_goes_on_while_their_number_doubles(bench, engine):
    await serve(bench, engine, "first", 3000)
    await serve(bench, engine, "second", 1000)
    assert (await bench.get("third")).estimate.cost_kvtt == 2000
    await bench.start("fourth", "new")
    await serve(bench, engine, "third", 8000)
    assert (await bench.get("fourth")).estimate.cost_kvtt == 2000
    await bench.start("fifth", "new")
    assert (await bench.get("fifth")).estimate.cost_kvtt == 4000


async def test_a_run_that_has_got_more_already_is_taken_for_that(bench, engine):
    await engine.report({"run_id": "third", "useful_kvtt": 9000, "num_running": 1})
    await bench.until(lambda: bench.pool.core.run("third").useful_kvtt == 9000)
    await serve(bench, engine, "first", 3000)
    run = await bench.get("third")
    assert run.virtual_finish.kvtt - run.virtual_start.kvtt == 9000


async def test_what_a_run_has_shown_itself_stands(bench, engine):
    bench.pool.core._runs["third"].learned_kvtt = 5000
    await serve(bench, engine, "first", 3000)
    assert bench.pool.core.run("third").cost_kvtt == 5000
    assert bench.pool.core.run("second").cost_kvtt == 3000


async def test_a_small_change_moves_nobody(bench, engine):
    await serve(bench, engine, "first", 3000)
    before = await bench.get("third")
    await serve(bench, engine, "second", 3100)
    assert await bench.get("third") == before


async def test_the_ends_of_an_application_that_is_gone_teach_nothing(bench, engine):
    await serve(bench, engine, "first", 3000)
    await bench.admin.DeleteApplication(admin_pb2.DeleteApplicationRequest(name="new"))
    before = await bench.get("third")
    await serve(bench, engine, "second", 9000)
    assert await bench.get("third") == before
    await bench.declare("new")
    await bench.start("again", "new")
    source = (await bench.get("again")).estimate.source
    assert source == common_pb2.ESTIMATE_SOURCE_DEFAULT


async def test_it_counts_as_moved_and_not_as_so_many_new_estimates(bench, engine):
    labels = {"pool": "default", "application": "new"}
    await serve(bench, engine, "first", 3000)
    assert bench.metric("justitia_run_reestimates_total", **labels) == 2
    assert not bench.metric("justitia_estimates_total", source="history", **labels)


async def test_switched_off_every_estimate_stays(open_service, close_service):
    bench = await open_service(is_learning=False)
    await bench.declare("new")
    engine = bench.engine()
    await engine.join()
    await bench.start("first", "new")
    before = await bench.start("second", "new")
    await serve(bench, engine, "first", 3000)
    assert (await bench.get("second")).virtual_finish == before.virtual_finish
    await bench.start("third", "new")
    assert (await bench.get("third")).estimate.cost_kvtt == 3000
    await close_service(bench)


async def test_what_is_estimated_anew_survives_a_crash(
    tmp_path, open_service, crash_service, close_service
):
    bench = await open_service(tmp_path / "journal.db")
    await bench.declare("new")
    engine = bench.engine()
    await engine.join()
    await bench.start("first", "new")
    await bench.start("second", "new")
    await serve(bench, engine, "first", 3000)
    finish = (await bench.get("second")).virtual_finish
    await bench.service.journal.committed()
    await crash_service(bench)
    bench = await open_service(tmp_path / "journal.db", clock=bench.clock)
    assert (await bench.get("second")).virtual_finish == finish
    await bench.start("third", "new")
    assert (await bench.get("third")).estimate.cost_kvtt == 3000
    await close_service(bench)
