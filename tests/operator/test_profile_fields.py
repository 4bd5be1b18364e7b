"""Every field of a PredictorProfile reaches the Job, or decides when there is one."""

import functools
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path

import kubernetes_validate
import pytest
import yaml
from kubernetes_validate import utils

from justitia.resources.profile_status import JobOutcome, JobTrigger
from justitia.testing.profile_fields import FIELD_CASES, leaves
from justitia_operator.facts import Figures, JobRecord, ModelFacts
from justitia_operator.gather import read_application, read_profile
from justitia_operator.manifests import TrainerOptions, build_job
from justitia_operator.status import Trained, build_profile_status
from justitia_operator.training import Due, TrainingFacts, build_digest, decide_training

CRD = Path(__file__).parents[2] / "crds" / "predictorprofiles.yaml"
NOW = datetime(2026, 11, 30, 12, 0, 30, tzinfo=UTC)
DUE = Due(trigger=JobTrigger.FIRST, name="chat-12345678-abcdef01", why="there is no model yet")
OPTIONS = TrainerOptions(image="justitia/trainer:1", scheduler_address="scheduler:50051")
MODEL = ModelFacts(
    version="v1", published_at="2026-11-30T09:00:00Z", samples=50, relative_error=0.2
)
FIGURES = Figures(samples=50)
LATER = replace(
    FIGURES,
    model_version="v1",
    samples_since_model=40,
    model_relative_error=0.5,
    model_judged_runs=40,
)


@pytest.fixture
def observe(make):
    """What the operator makes of a profile: the Job, and whether one is due."""

    def observe(spec):
        application = read_application(
            make.stored(make.application(predictor={"profileRef": {"name": "default"}}))
        )
        profile = read_profile(make.stored(make.profile(**spec), uid="uid-profile"))
        assert profile.spec is not None, profile.problem
        first = TrainingFacts(
            application=application,
            profile=profile,
            figures=FIGURES,
            model=None,
            last=None,
            now=NOW,
        )
        triggers = [
            due and due.trigger
            for due in map(decide_training, (first, replace(first, figures=LATER, model=MODEL)))
        ]
        return build_job(DUE, application, profile, OPTIONS), triggers, profile.spec

    return observe


def fields_of(part):
    (version,) = yaml.safe_load(CRD.read_text())["spec"]["versions"]
    return sorted(leaves(version["schema"]["openAPIV3Schema"]["properties"][part]))


def test_there_is_a_case_for_every_field_of_the_schema():
    assert fields_of("spec") == sorted(case.path for case in FIELD_CASES)


@pytest.mark.parametrize("case", FIELD_CASES, ids=lambda case: case.path)
def test_the_operator_heeds_every_field(observe, case):
    assert observe(case.one)[:2] != observe(case.other)[:2]


@pytest.mark.parametrize(
    "case",
    [case for case in FIELD_CASES if case.path.startswith(("features", "model", "samples"))],
    ids=lambda case: case.path,
)
def test_another_way_to_build_a_model_is_another_spec(observe, case):
    assert build_digest(observe(case.one)[2]) != build_digest(observe(case.other)[2])


@pytest.mark.parametrize(("given", "seconds"), [("10500ms", 11), ("10s", 10), ("1h0.001s", 3601)])
def test_times_of_a_job_are_rounded_up(observe, given, seconds):
    spec = observe({"job": {"activeDeadline": given, "ttl": given}})[0]["spec"]
    assert spec["activeDeadlineSeconds"] == spec["ttlSecondsAfterFinished"] == seconds


def paths_of(value, path=""):
    if isinstance(value, dict):
        for name, item in value.items():
            yield from paths_of(item, f"{path}.{name}")
    elif isinstance(value, list):
        for item in value:
            yield from paths_of(item, f"{path}[]")
    else:
        yield path.removeprefix(".")


def test_the_status_fills_every_field_with_what_became_of_trainings(make):
    model = {
        "application": "team-a/chat",
        "version": "v1",
        "trainedAt": "2026-11-30T09:00:00Z",
        "samples": 50,
        "relativeError": "0.2",
    }
    job = {
        "application": "team-a/chat",
        "name": DUE.name,
        "trigger": "NewSamples",
        "outcome": "Failed",
        "newestSampleAt": "2026-11-30T08:59:00Z",
        "startedAt": "2026-11-30T10:00:00Z",
        "finishedAt": "2026-11-30T10:10:00Z",
        "reason": "DeadlineExceeded",
        "message": "it took too long",
    }
    record = JobRecord(
        application=job["application"],
        name=job["name"],
        trigger=JobTrigger.NEW_SAMPLES,
        outcome=JobOutcome.FAILED,
        newest_sample_at=job["newestSampleAt"],
        started_at=job["startedAt"],
        finished_at=job["finishedAt"],
        reason=job["reason"],
        message=job["message"],
    )
    trained = Trained(name="chat", service_name="team-a/chat", model=MODEL, last=record)
    profile = read_profile(make.stored(make.profile(), generation=3))
    status = build_profile_status(profile, [trained], now="2026-11-30T12:00:00Z")
    assert status["activeModel"] == status["applications"][0]["activeModel"] == model
    assert status["lastJob"] == status["applications"][0]["lastJob"] == job
    assert (status["observedGeneration"], status["applicationCount"]) == (3, 1)
    assert sorted(set(paths_of(status))) == fields_of("status")


def test_an_error_that_was_not_measured_is_absent(make):
    trained = Trained(name="chat", service_name="chat", model=replace(MODEL, relative_error=0.0))
    profile = read_profile(make.stored(make.profile()))
    status = build_profile_status(profile, [trained], now="2026-11-30T12:00:00Z")
    assert "relativeError" not in status["activeModel"]


@pytest.fixture(scope="module")
def kubernetes():
    """Check an object as a Kubernetes of some version does; its schema is read once."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(utils, "schema_contents", functools.cache(utils.schema_contents))
        yield functools.partial(kubernetes_validate.validate, strict=True)


@pytest.mark.parametrize("version", ["1.31", "1.37"])
def test_a_job_is_valid_whatever_the_profile_says(observe, kubernetes, version):
    for case in FIELD_CASES:
        for spec in (case.one, case.other):
            kubernetes(observe(spec)[0], version)
    broken = observe({})[0]
    broken["spec"]["activeDeadline"] = 60
    with pytest.raises(kubernetes_validate.ValidationError):
        kubernetes(broken, version)
