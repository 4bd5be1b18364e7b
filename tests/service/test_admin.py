"""Applications and pools through the API, and the metrics that tell of them (FS9, FS10)."""

import grpc
import pytest
from prometheus_client import generate_latest
from prometheus_client.parser import text_string_to_metric_families

from justitia.api.v1 import admin_pb2, common_pb2, engine_pb2


async def applications(bench):
    answer = await bench.admin.ListApplications(admin_pb2.ListApplicationsRequest())
    return {application.name: application for application in answer.applications}


async def test_a_declared_application_comes_back_with_its_defaults(bench):
    declared = await bench.declare("chat")
    assert declared.weight == 1
    assert declared.idle_timeout_s == 60
    assert declared.privacy == admin_pb2.PRIVACY_TEXT
    assert (await applications(bench))["chat"] == declared
    replaced = await bench.declare("chat", weight=2.5, fallback_cost_kvtt=77)
    assert (await applications(bench)) == {"chat": replaced}
    run = await bench.start("r1", "chat")
    assert run.estimate.cost_kvtt == 77


@pytest.mark.parametrize(
    ("fields", "named"),
    [
        pytest.param({"weight": -1}, "weight", id="negative weight"),
        pytest.param({"weight": float("nan")}, "weight", id="NaN weight"),
        pytest.param({"weight": float("inf")}, "weight", id="infinite weight"),
        pytest.param({"weight": 1e-12}, "weight", id="tiny weight"),
        pytest.param({"weight": 1e10}, "weight", id="huge weight"),
        pytest.param({"fallback_cost_kvtt": 0.0}, "fallback_cost_kvtt", id="zero fallback"),
        pytest.param({"fallback_cost_kvtt": float("nan")}, "fallback_cost_kvtt", id="NaN"),
        pytest.param({"idle_timeout_s": -1}, "idle_timeout_s", id="negative timeout"),
        pytest.param({"idle_timeout_s": float("nan")}, "idle_timeout_s", id="NaN timeout"),
        pytest.param({"max_duration_s": float("inf")}, "max_duration_s", id="infinite duration"),
        pytest.param({"max_concurrent_runs": -1}, "max_concurrent_runs", id="negative limit"),
        pytest.param({"objective_max_ratio": 0.5}, "objective_max_ratio", id="ratio below 1"),
        pytest.param({"privacy": 17}, "privacy", id="unknown privacy"),
        pytest.param({"name": ""}, "name", id="no name"),
        pytest.param({"name": "a\tb"}, "name", id="control character"),
    ],
)
async def test_a_bad_declaration_is_refused_by_field_and_changes_nothing(bench, fields, named):
    with pytest.raises(grpc.aio.AioRpcError) as error:
        await bench.declare(**{"name": "chat", **fields})
    assert error.value.code() is grpc.StatusCode.INVALID_ARGUMENT
    assert named in error.value.details()
    assert not await applications(bench)


async def test_deleting_an_application_leaves_its_runs_open_and_takes_its_metrics(bench):
    await bench.declare("chat", weight=2)
    await bench.start("r1", "chat", cost_kvtt=1000)
    started = {"pool": "default", "application": "chat"}
    assert bench.metric("justitia_runs_started_total", **started) == 1
    for _ in range(2):
        await bench.admin.DeleteApplication(admin_pb2.DeleteApplicationRequest(name="chat"))
    bench.pool.show_gauges()
    assert bench.metric("justitia_runs_started_total", **started) is None
    assert bench.metric("justitia_open_runs", **started, state="idle") is None
    run = await bench.get("r1")
    assert run.weight == 1
    await bench.end("r1")
    assert bench.metric("justitia_runs_ended_total", **started, reason="end_run") is None
    assert "chat" not in bench.pool.tracks


async def test_the_status_tells_what_became_of_the_runs(bench, finished):
    await bench.declare("chat")
    engine = bench.engine()
    await engine.join()
    for number in range(3):
        run_id = f"r{number}"
        await bench.start(run_id, "chat", cost_kvtt=100)
        bench.clock.advance(2)
        await engine.report({"run_id": run_id, "useful_kvtt": 200}, finished=[finished(run_id)])
        await bench.until(lambda run_id=run_id: bench.pool.core.run(run_id).num_finished)
        await bench.end_after_grace(run_id)
    await bench.start("open", "chat", cost_kvtt=100)
    status = (await applications(bench))["chat"].status
    assert status.completed_runs == 3
    assert status.active_runs == 1
    assert status.weighted_share == 1
    assert status.jct_mean_s == pytest.approx(2)
    assert status.prediction_relative_error == 0.5
    assert status.prediction_source == common_pb2.ESTIMATE_SOURCE_CLIENT
    assert status.fairness_ratio_p50 > 0


async def test_from_the_first_finished_run_on_their_mean_is_the_estimate(bench, finished):
    await bench.declare("chat")
    engine = bench.engine()
    await engine.join()
    for number in range(3):
        run_id = f"r{number}"
        run = await bench.start(run_id, "chat")
        expected = common_pb2.ESTIMATE_SOURCE_HISTORY if number else 5
        assert run.estimate.source == expected
        await engine.report({"run_id": run_id, "useful_kvtt": 300}, finished=[finished(run_id)])
        await bench.until(lambda run_id=run_id: bench.pool.core.run(run_id).num_finished)
        await bench.end_after_grace(run_id)
    assert run.estimate.cost_kvtt == 300


async def test_cut_off_runs_teach_nothing(bench, finished):
    await bench.declare("chat")
    engine = bench.engine()
    await engine.join()
    await bench.start("r1", "chat")
    aborted = finished("r1", is_aborted=True)
    await engine.report({"run_id": "r1", "useful_kvtt": 3}, finished=[aborted])
    await bench.until(lambda: bench.pool.core.run("r1").num_finished)
    await bench.end_after_grace("r1")
    assert bench.pool.ladder.history() == ({}, {})


async def test_an_unknown_pool_is_named_and_an_application_may_found_one(bench):
    with pytest.raises(grpc.aio.AioRpcError) as error:
        await bench.admin.DescribePool(admin_pb2.DescribePoolRequest(pool="other"))
    assert error.value.code() is grpc.StatusCode.NOT_FOUND
    assert "'other'" in error.value.details()
    await bench.declare("chat", pool="other")
    assert (await bench.start("r1", "chat")).pool == "other"


async def test_the_metrics_page_parses_and_keeps_its_rules(bench, finished):
    await bench.declare("chat")
    engine = bench.engine()
    await engine.join()
    await engine.report(
        {"run_id": "r1", "useful_kvtt": 300},
        new=[engine_pb2.NewRun(run_id="r1", application="chat")],
        finished=[finished("r1")],
        kv_used_tokens=160,
        preemptions=2,
        tag_delay_s=float("nan"),
    )
    await engine.hear_tag("r1")
    await bench.end_after_grace("r1")
    bench.pool.show_gauges()
    text = generate_latest(bench.service.metrics.registry).decode()
    families = {family.name: family for family in text_string_to_metric_families(text)}
    promised = {
        "justitia_run_jct_seconds",
        "justitia_run_reference_jct_seconds",
        "justitia_fairness_ratio",
        "justitia_queue_wait_seconds",
        "justitia_open_runs",
        "justitia_delivered_kvtt",
        "justitia_engine_kv_capacity_tokens",
        "justitia_engine_kv_used_tokens",
        "justitia_virtual_time_kvtt",
        "justitia_tag_latency_seconds",
        "justitia_decision_seconds",
        "justitia_prediction_relative_error_ratio",
        "justitia_estimates",
        "justitia_engine_up",
        "justitia_engine_preemptions",
        "justitia_bound_violations",
        "justitia_journal_errors",
        "justitia_unidentified_inferences",
    }
    assert promised <= families.keys()
    for family in families.values():
        assert family.name.startswith("justitia_")
        assert family.documentation
        assert all(sample.value == sample.value for sample in family.samples), family.name
    assert bench.metric("justitia_metric_errors_total") == 0


async def test_a_metric_that_fails_is_counted_and_breaks_nothing(bench):
    metrics = bench.service.metrics
    metrics.observe(metrics.jct, "only one label", value=1)
    metrics.observe(metrics.jct, "default", "chat", value=float("nan"))
    metrics.count(metrics.bound_violations, "default", by=-1)
    assert bench.metric("justitia_metric_errors_total") == 3
