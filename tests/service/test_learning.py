"""Learning inside a run (rule K2): tags move, a crash loses nothing, a deletion ends it."""

import pytest

from justitia.api.v1 import admin_pb2, engine_pb2

RUNS = 12


def finished_at(run_id, useful_kvtt, *, is_aborted=False):
    return engine_pb2.FinishedInference(
        run_id=run_id,
        prompt_tokens=10,
        output_tokens=5,
        useful_kvtt=useful_kvtt,
        is_aborted=is_aborted,
        started_age_s=0.5,
        arrived_age_s=1.0,
    )


async def teach(bench, engine, *, runs=RUNS, num_aborted=0, application="chat"):
    """Runs of n inferences come to 100 n, whatever was declared."""
    for number in range(runs):
        run_id, size = f"taught-{number}", 3 + 2 * number
        await bench.start(run_id, application, cost_kvtt=1000)
        await engine.report({"run_id": run_id, "num_waiting": size})
        total = 100 * size
        done = [finished_at(run_id, 100) for _ in range(size)]
        done += [finished_at(run_id, 100, is_aborted=True) for _ in range(num_aborted)]
        await engine.report({"run_id": run_id, "useful_kvtt": total}, finished=done)
        core = bench.pool.core
        await bench.until(lambda core=core, run_id=run_id: core.run(run_id).num_finished > 0)
        await bench.end_after_grace(run_id)


async def open_wide(bench, engine, run_id="wide", application="chat"):
    """A run that shows a fan-out of 20 and is declared to cost 1000; returns its first tag."""
    await bench.start(run_id, application, cost_kvtt=1000)
    first = await engine.hear_tag(run_id)
    del engine.tags[run_id]
    await engine.report({"run_id": run_id, "num_waiting": 20})
    return first


async def test_a_fan_out_moves_f_and_the_engines_hear_of_it(bench):
    await bench.declare("chat")
    engine = bench.engine()
    await engine.join()
    await teach(bench, engine)
    first = await open_wide(bench, engine)
    tag = await engine.hear_tag("wide")
    assert tag.virtual_start == first.virtual_start
    gained = tag.virtual_finish.kvtt - tag.virtual_start.kvtt
    assert 1500 < gained < 2500
    assert tag.estimate.cost_kvtt == pytest.approx(gained)
    assert tag.estimate.source == first.estimate.source, "rule K3"
    run = await bench.get("wide")
    assert run.virtual_finish == tag.virtual_finish
    assert run.estimate == first.estimate
    labels = {"pool": "default", "application": "chat"}
    assert bench.metric("justitia_run_reestimates_total", **labels) >= 1
    assert bench.metric("justitia_learned_relative_error_ratio_count", **labels) == RUNS


async def test_runs_with_aborted_inferences_teach_nothing(bench):
    await bench.declare("chat")
    engine = bench.engine()
    await engine.join()
    await teach(bench, engine, num_aborted=1)
    await open_wide(bench, engine)
    await bench.until(lambda: bench.pool.core.run("wide").num_waiting == 20)
    assert bench.pool.core.run("wide").learned_kvtt == 0


async def test_switched_off_every_f_stays(open_service, close_service):
    bench = await open_service(is_learning=False)
    await bench.declare("chat")
    engine = bench.engine()
    await engine.join()
    await teach(bench, engine)
    await open_wide(bench, engine)
    await engine.report({"run_id": "wide", "useful_kvtt": 5000, "num_waiting": 20})
    await bench.until(lambda: bench.pool.core.run("wide").useful_kvtt == 5000)
    assert bench.pool.core.run("wide").learned_kvtt == 0
    await close_service(bench)


async def test_f_and_lessons_survive_a_crash(tmp_path, open_service, crash_service, close_service):
    path = tmp_path / "journal.db"
    bench = await open_service(path)
    await bench.declare("chat")
    engine = bench.engine()
    await engine.join()
    await teach(bench, engine)
    await open_wide(bench, engine)
    tag = await engine.hear_tag("wide")
    lessons = bench.pool.learning.lessons("chat")
    await bench.service.journal.committed()
    await crash_service(bench)

    bench = await open_service(path, clock=bench.clock)
    assert (await bench.get("wide")).virtual_finish == tag.virtual_finish
    assert bench.pool.core.run("wide").learned_kvtt == tag.estimate.cost_kvtt
    assert bench.pool.learning.lessons("chat") == lessons
    engine = bench.engine(incarnation="start-2")
    await engine.join()
    await open_wide(bench, engine, "wide-2")
    again = await engine.hear_tag("wide-2")
    assert again.estimate.cost_kvtt == tag.estimate.cost_kvtt
    await close_service(bench)


async def test_lessons_go_with_their_application(
    tmp_path, open_service, crash_service, close_service
):
    path = tmp_path / "journal.db"
    bench = await open_service(path)
    await bench.declare("chat")
    engine = bench.engine()
    await engine.join()
    await teach(bench, engine)
    await bench.service.journal.committed()
    await bench.admin.DeleteApplication(admin_pb2.DeleteApplicationRequest(name="chat"))
    assert bench.pool.learning.lessons("chat") is None
    await crash_service(bench)
    bench = await open_service(path, clock=bench.clock)
    assert bench.pool.learning.applications() == []
    await close_service(bench)


async def test_damaged_lessons_are_left_out(tmp_path, open_service, close_service):
    path = tmp_path / "journal.db"
    bench = await open_service(path)
    await bench.declare("chat")
    engine = bench.engine()
    await engine.join()
    await teach(bench, engine, runs=1)
    bench.pool.learning._learner._by_application["chat"].by_level[0].square = float("nan")
    bench.pool.changes.lessons["chat"] = None
    await close_service(bench)
    bench = await open_service(path, clock=bench.clock)
    assert bench.pool.learning.applications() == []
    assert "chat" in bench.pool.applications
    await close_service(bench)
