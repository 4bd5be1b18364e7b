"""Learning inside a run (rule K2): tags move, a crash loses nothing, a deletion ends it."""

import pytest

from justitia.api.v1 import admin_pb2, engine_pb2
from justitia_scheduler.run_facts import RunOrder

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
    assert tag.learned_kvtt == pytest.approx(gained)
    assert tag.estimate == first.estimate, "rule K3"
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


def is_whole(bench, run_id):
    return bench.pool.core._runs[run_id].trail.is_whole


@pytest.mark.parametrize(
    "fault",
    [{"arrived_age_s": 0.1}, {"useful_kvtt": -1}, {"finished_age_s": float("nan")}],
    ids=str,
)
async def test_a_run_of_which_a_finished_inference_is_dropped_teaches_nothing(bench, fault):
    engine = bench.engine()
    await engine.join()
    for run_id in ("r1", "r2"):
        await bench.start(run_id)
    broken = finished_at("r1", 10)
    for name, value in fault.items():
        setattr(broken, name, value)
    runs = [{"run_id": run_id, "useful_kvtt": 10} for run_id in ("r1", "r2")]
    await engine.report(*runs, finished=[broken, finished_at("r2", 10)])
    await bench.until(lambda: bench.pool.core.run("r2").num_finished == 1)
    assert (is_whole(bench, "r1"), is_whole(bench, "r2")) == (False, True)


async def test_a_run_beyond_the_limit_of_a_report_teaches_nothing(bench, monkeypatch):
    monkeypatch.setattr("justitia_scheduler.engine_facts.MAX_REPORT_ITEMS", 2)
    engine = bench.engine()
    await engine.join()
    for run_id in ("early", "r1", "r2", "late"):
        await bench.start(run_id)
    await engine.report(finished=[finished_at("early", 10), finished_at("r1", 10)])
    await engine.report(finished=[finished_at("r2", 10), finished_at("r2", 10)])
    done = [finished_at("r1", 10), finished_at("r2", 10), finished_at("late", 10)]
    await engine.report({"run_id": "r1", "useful_kvtt": 20}, finished=done)
    await bench.until(lambda: bench.pool.core.run("r1").num_finished == 2)
    wholes = [is_whole(bench, run_id) for run_id in ("early", "r1", "r2", "late")]
    assert wholes == [False, True, True, False]


async def test_an_engine_that_breaks_off_leaves_no_lesson(bench):
    await bench.declare("chat")
    engine = bench.engine()
    await engine.join()
    await bench.start("r1", "chat", cost_kvtt=1000)
    await engine.report({"run_id": "r1", "num_waiting": 3})
    await bench.until(lambda: bench.pool.core.run("r1").num_waiting == 3)
    engine.call.cancel()
    await bench.until(lambda: not bench.pool.core.engines())
    await engine.join(known=[engine_pb2.KnownRun(run_id="r1", useful_kvtt=200, num_running=1)])
    await engine.report({"run_id": "r1", "useful_kvtt": 300}, finished=[finished_at("r1", 100)])
    await bench.until(lambda: bench.pool.core.run("r1").num_finished == 1)
    await bench.end_after_grace("r1")
    assert bench.pool.learning.applications() == []


async def test_a_finished_inference_that_waits_for_its_run_is_lost_with_the_session(bench):
    engine = bench.engine()
    await engine.join()
    for run_id in ("r1", "r2"):
        await bench.start(run_id)
    await engine.report({"run_id": "r2", "num_waiting": 1}, finished=[finished_at("r1", 10)])
    await bench.until(lambda: bench.pool.core.run("r2").num_waiting == 1)
    engine.call.cancel()
    await bench.until(lambda: not bench.pool.core.engines())
    assert (is_whole(bench, "r1"), is_whole(bench, "r2")) == (False, False)


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
    assert bench.pool.core.run("wide").learned_kvtt == tag.learned_kvtt
    assert bench.pool.learning.lessons("chat") == lessons
    engine = bench.engine(incarnation="start-2")
    await engine.join()
    await open_wide(bench, engine, "wide-2")
    again = await engine.hear_tag("wide-2")
    assert again.learned_kvtt == tag.learned_kvtt
    await close_service(bench)


async def test_a_moved_f_is_in_the_next_commit_however_many_runs_progress(
    tmp_path, open_service, crash_service, close_service
):
    path = tmp_path / "journal.db"
    bench = await open_service(path)
    await bench.declare("chat")
    engine = bench.engine()
    await engine.join()
    await teach(bench, engine)
    for number in range(5000):
        bench.pool.start_run(RunOrder(run_id=f"busy{number}"))
    await bench.start("wide", "chat", cost_kvtt=1000)
    await engine.hear_tag("wide")
    engine.tags.clear()
    for number in range(5000):
        bench.pool.changes.progress(f"busy{number}")
    bench.pool.changes.progress("wide")
    await engine.report({"run_id": "wide", "num_waiting": 20})
    tag = await engine.hear_tag("wide")
    await bench.service.journal.committed()
    await crash_service(bench)

    bench = await open_service(path, clock=bench.clock)
    assert bench.pool.core.run("wide").learned_kvtt == tag.learned_kvtt
    assert (await bench.get("wide")).virtual_finish == tag.virtual_finish
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
    (lessons,) = bench.pool.learning._learner._by_application["chat"].values()
    lessons.by_level[0].square = float("nan")
    bench.pool.changes.lessons["chat"] = None
    await close_service(bench)
    bench = await open_service(path, clock=bench.clock)
    assert bench.pool.learning.applications() == []
    assert "chat" in bench.pool.applications
    await close_service(bench)
