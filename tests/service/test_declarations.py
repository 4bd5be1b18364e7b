"""Who declared an application, what it can learn from, and how its objective stands."""

import time
from dataclasses import replace

import grpc
import pytest

from justitia.api.v1 import admin_pb2
from justitia.predictor.artefact import to_bytes
from justitia.testing.models import handmade_model
from justitia_scheduler.model_keeper import Publication
from justitia_scheduler.store import ModelRow, SampleRow

MARK = "justitia-operator:team-a/chat#uid-1"


async def listed(bench, **fields):
    answer = await bench.admin.ListApplications(admin_pb2.ListApplicationsRequest(**fields))
    return {(item.pool, item.name): item for item in answer.applications}


def sample(number, *, pool="default", application="chat", finished_at_s=1000.0):
    return SampleRow(
        pool=pool,
        application=application,
        run_id=f"r{number}",
        prompt_text="x",
        cost_kvtt=10,
        num_inferences=1,
        finished_at_s=finished_at_s,
    )


async def test_the_mark_of_who_declared_an_application_is_kept_and_replaced(bench):
    assert (await bench.declare("chat", declared_by=MARK)).declared_by == MARK
    assert (await listed(bench))["default", "chat"].declared_by == MARK
    assert (await bench.declare("chat")).declared_by == ""


async def test_a_mark_survives_a_restart(open_service, close_service, tmp_path):
    bench = await open_service(tmp_path / "journal")
    await bench.declare("chat", declared_by=MARK, objective_max_ratio=2, objective_for_s=60)
    await close_service(bench)
    bench = await open_service(tmp_path / "journal")
    chat = (await listed(bench))["default", "chat"]
    assert (chat.declared_by, chat.objective_for_s) == (MARK, 60)
    await close_service(bench)


@pytest.mark.parametrize(
    ("fields", "named"),
    [
        ({"declared_by": "a\tb"}, "declared_by"),
        ({"declared_by": "x" * 257}, "declared_by"),
        ({"objective_for_s": -1.0}, "objective_for_s"),
        ({"objective_for_s": float("nan")}, "objective_for_s"),
    ],
)
async def test_bad_marks_and_times_are_refused_by_field(bench, fields, named):
    with pytest.raises(grpc.aio.AioRpcError) as error:
        await bench.declare("chat", **fields)
    assert error.value.code() is grpc.StatusCode.INVALID_ARGUMENT
    assert named in error.value.details()


async def test_an_objective_has_its_time_or_the_default(bench):
    assert (await bench.declare("a")).objective_for_s == 300
    assert (await bench.declare("b", objective_for_s=0)).objective_for_s == 0


async def test_applications_of_all_pools_are_listed_together(bench):
    await bench.declare("chat")
    await bench.declare("chat", pool="other")
    assert set(await listed(bench, all_pools=True)) == {("default", "chat"), ("other", "chat")}
    assert set(await listed(bench)) == {("default", "chat")}
    with pytest.raises(grpc.aio.AioRpcError) as error:
        await listed(bench, all_pools=True, pool="other")
    assert "pool" in error.value.details()


async def test_samples_are_counted_by_application_and_since_the_model(bench):
    await bench.declare("chat")
    await bench.declare("idle")
    store = bench.service.store()
    model = ModelRow(
        pool="default",
        application="chat",
        version="v1",
        published_at_s=2000.0,
        samples=3,
        relative_error=0.1,
        is_active=True,
        artefact=b"large",
    )
    await bench.service.journal.call(store.put_model, model, keep=5)
    bench.pool.changes.samples.extend(
        [
            *(sample(n) for n in range(3)),
            *(sample(n, finished_at_s=2001.0) for n in range(3, 5)),
            sample(9, pool="other"),
        ]
    )
    await bench.service.journal.committed()
    status = {name: item.status for (_, name), item in (await listed(bench)).items()}
    assert (status["chat"].samples, status["chat"].samples_since_model) == (5, 2)
    assert (status["idle"].samples, status["idle"].samples_since_model) == (0, 0)
    assert status["chat"].newest_sample_at.seconds == 2001
    assert status["chat"].newest_third_from.seconds == 2001
    assert not status["idle"].HasField("newest_sample_at")
    assert not status["idle"].HasField("newest_third_from")
    assert (await bench.declare("chat")).status.samples == 5


async def test_without_a_model_every_sample_is_new(bench):
    await bench.declare("chat")
    bench.pool.changes.samples.extend(sample(n) for n in range(3))
    await bench.service.journal.committed()
    assert (await listed(bench))["default", "chat"].status.samples_since_model == 3


async def test_samples_without_a_prompt_make_nothing_due(bench):
    await bench.declare("chat")
    untold = [replace(sample(n, finished_at_s=2000.0 + n), prompt_text="") for n in range(30)]
    bench.pool.changes.samples.extend(untold)
    await bench.service.journal.committed()
    status = (await listed(bench))["default", "chat"].status
    assert (status.samples, status.samples_since_model) == (0, 0)
    assert not status.HasField("newest_sample_at")
    assert not status.HasField("newest_third_from")
    bench.pool.changes.samples.append(sample(1))
    await bench.service.journal.committed()
    status = (await listed(bench))["default", "chat"].status
    assert (status.samples, status.samples_since_model) == (1, 1)
    assert status.newest_sample_at.seconds == status.newest_third_from.seconds == 1000


async def test_samples_have_grown_by_half_when_their_newest_third_is_later_than_all_were(bench):
    await bench.declare("chat")
    seen, grown_at = None, []
    for number in range(1, 41):
        bench.pool.changes.samples.append(sample(number, finished_at_s=1000.0 + number))
        await bench.service.journal.committed()
        status = (await listed(bench))["default", "chat"].status
        if seen is None or status.newest_third_from.seconds > seen:
            grown_at.append(number)
            seen = status.newest_sample_at.seconds
    assert grown_at == [1, 2, 3, 5, 8, 12, 18, 27]


async def test_models_are_listed_without_their_artefacts_and_given_with_them(bench):
    await bench.declare("chat")
    store, call = bench.service.store(), bench.service.journal.call
    for name in ("chat", "other"):
        row = ModelRow(
            pool="default",
            application=name,
            version=f"v-{name}",
            published_at_s=time.time(),
            samples=3,
            relative_error=0.1,
            is_active=True,
            artefact=b"large",
        )
        await call(store.put_model, row, keep=5)
    rows = await call(store.models, "default", "chat")
    assert [(row.version, row.artefact) for row in rows] == [("v-chat", b"")]
    assert len(await call(store.models, "default")) == 2
    (row,) = await call(store.models, "default", "chat", has_artefacts=True)
    assert row.artefact == b"large"


async def test_the_status_repeats_what_the_alert_reads(bench):
    none = (await bench.declare("a")).status.objective_verdict
    few = (await bench.declare("b", objective_max_ratio=2)).status.objective_verdict
    assert none == admin_pb2.OBJECTIVE_VERDICT_NO_OBJECTIVE
    assert few == admin_pb2.OBJECTIVE_VERDICT_TOO_FEW_RUNS
    for _ in range(20):
        bench.pool.objectives.note("b", 3.0)
    verdicts = []
    for _ in range(2):
        bench.pool.objectives.show()
        verdicts.append((await listed(bench))["default", "b"].status.objective_verdict)
        bench.clock.advance(300)
    assert verdicts == [admin_pb2.OBJECTIVE_VERDICT_MET, admin_pb2.OBJECTIVE_VERDICT_MISSED]
    assert (await listed(bench))["default", "b"].status.fairness_ratio_recent_p90 == 3
    metric = bench.metric("justitia_fairness_objective_met", pool="default", application="b")
    assert metric == 0


async def test_a_new_model_is_not_judged_by_the_errors_of_the_one_before_it(bench):
    await bench.declare("chat")
    track = bench.pool.tracks.setdefault("chat", bench.pool.track("chat"))
    track.relative_errors.extend([5.0, 7.0])
    assert (await listed(bench))["default", "chat"].status.prediction_relative_error == 6
    content = to_bytes(handmade_model("chat"))
    await bench.service.models.publish(
        bench.service.parts("default"), Publication(application="chat", artefact=content)
    )
    assert (await listed(bench))["default", "chat"].status.prediction_relative_error == 0
