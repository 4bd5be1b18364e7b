"""From the API server's objects to facts: whatever is in an object harms no other (FK3)."""

import pytest

from justitia.resources.profile_status import JobOutcome, JobTrigger
from justitia_operator.facts import Key, Kind
from justitia_operator.gather import (
    parse_time,
    read_application,
    read_job,
    read_object,
    read_profile,
    read_service,
)


def test_an_application_is_read_with_its_identity_and_references(make):
    body = make.stored(
        make.application(
            poolRef={"name": "llama", "namespace": "pools"},
            predictor={"profileRef": {"name": "small"}},
        ),
        generation=3,
    )
    facts = read_application(body)
    assert facts.meta.key == Key("team-a", "chat")
    assert (facts.meta.uid, facts.meta.generation) == ("uid-1", 3)
    assert facts.pool == Key("pools", "llama")
    assert facts.profile == Key("team-a", "small")


@pytest.mark.parametrize(
    ("spec", "said"),
    [
        pytest.param({"weight": 0}, "spec.weight", id="weight of zero"),
        pytest.param({"weight": "lots"}, "spec.weight", id="weight that is no quantity"),
        pytest.param({"run": {"idleTimeout": "soon"}}, "spec.run.idleTimeout", id="no duration"),
        pytest.param({"poolRef": []}, "spec.poolRef", id="list for an object"),
        pytest.param({"mode": "Sometimes"}, "spec.mode", id="unknown mode"),
    ],
)
def test_fk3_a_bad_spec_becomes_a_problem_that_names_the_field(make, spec, said):
    facts = read_application(make.stored(make.application(**spec)))
    assert facts.spec is None
    assert said in facts.problem
    assert facts.meta.key == Key("team-a", "chat")


def test_fk3_fields_of_a_newer_schema_are_passed_over(make):
    facts = read_application(make.stored(make.application(weight=2, futureField={"a": 1})))
    assert facts.spec is not None
    assert facts.spec.weight == 2


@pytest.mark.parametrize("kind", list(Kind))
@pytest.mark.parametrize(
    "body",
    [
        pytest.param({}, id="nothing"),
        pytest.param({"metadata": None, "spec": None, "status": None}, id="nulls"),
        pytest.param({"metadata": [], "spec": 7, "status": "x"}, id="other types"),
        pytest.param(
            {
                "metadata": {"name": "a", "namespace": "b", "generation": "x", "labels": 3},
                "status": {"conditions": 5, "applications": [7, {"lastJob": 1}]},
            },
            id="odd parts",
        ),
    ],
)
def test_fk3_no_object_makes_reading_fail(kind, body):
    read_object(kind, body)


@pytest.mark.parametrize("status", [{"conditions": "?", "runs": -1}, "?", None, []])
def test_an_unreadable_status_does_not_refuse_the_spec(make, status):
    facts = read_application(make.stored(make.application()) | {"status": status})
    assert facts.spec is not None
    assert facts.conditions == ()


def test_a_pool_grants_the_namespaces_that_its_annotation_lists(make):
    pool = read_service(make.service(namespace="pools", grants=" team-a , team-b,"))
    assert pool.admits("team-a")
    assert pool.admits("team-b")
    assert pool.admits("pools")
    assert not pool.admits("team-c")
    assert not pool.admits("")


def test_a_star_grants_every_namespace_and_no_annotation_none(make):
    assert read_service(make.service(namespace="pools", grants="*")).admits("anyone")
    assert not read_service(make.service(namespace="pools")).admits("anyone")


def test_a_running_job_is_read(make):
    job = read_job(make.job(startTime="2026-11-30T09:00:01Z", active=1, ready=0))
    assert job.record.outcome is JobOutcome.RUNNING
    assert job.record.trigger is JobTrigger.FIRST
    assert job.record.started_at == "2026-11-30T09:00:01Z"
    assert not job.has_pod


def test_a_job_that_has_no_start_began_when_it_was_created(make):
    assert read_job(make.job()).record.started_at == "2026-11-30T09:00:00Z"


def test_fk8_a_failed_job_tells_why_and_when(make):
    record = read_job(make.job(**make.failed_job)).record
    assert record.outcome is JobOutcome.FAILED
    assert record.reason == "BackoffLimitExceeded"
    assert record.finished_at == "2026-11-30T09:05:00Z"


def test_a_finished_job_is_read(make):
    record = read_job(make.job(**make.done_job)).record
    assert record.outcome is JobOutcome.SUCCEEDED
    assert record.finished_at == "2026-11-30T09:05:00Z"


def test_a_profile_remembers_the_last_job_of_each_application(make):
    last = {
        "application": "chat",
        "name": "chat-1-2",
        "trigger": "NewSamples",
        "outcome": "Failed",
        "startedAt": "2026-11-30T09:00:00Z",
        "reason": "DeadlineExceeded",
    }
    body = make.stored(make.profile(), applications=[{"name": "chat", "lastJob": last}])
    record = read_profile(body).records["chat"]
    assert record.trigger is JobTrigger.NEW_SAMPLES
    assert record.outcome is JobOutcome.FAILED
    assert record.reason == "DeadlineExceeded"


def test_times_are_read_with_their_zone_and_nonsense_is_none():
    assert parse_time("2026-11-30T09:00:00Z").isoformat() == "2026-11-30T09:00:00+00:00"
    assert parse_time("2026-11-30T09:00:00").tzinfo is not None
    assert parse_time("yesterday") is None
    assert parse_time(None) is None
