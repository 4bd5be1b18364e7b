"""Statuses: truthful, readable by generic tools, quiet at rest, bounded (FK7)."""

from dataclasses import replace

import pytest

from justitia.resources.application_status import ApplicationStatus, EffectivePolicy
from justitia.resources.profile_status import JobOutcome, JobTrigger, ProfileStatus
from justitia_operator.checks import Inputs, Programming, build_conditions
from justitia_operator.facts import Condition, Figures, JobRecord, ModelFacts, PoolState, Reach
from justitia_operator.gather import read_application, read_profile
from justitia_operator.status import (
    Trained,
    Urgency,
    build_application_status,
    build_profile_status,
    compare,
    effective_policy,
)

NOW = "2026-11-30T12:00:00Z"
FIGURES = Figures(
    active_runs=3,
    completed_runs=120,
    weighted_share=1 / 3,
    ratio_p50=0.81234,
    ratio_p99=1.29876,
    jct_mean_s=12.3456,
    jct_p90_s=45.678,
    prediction_source="Model",
    model_version="v1",
    relative_error=0.21234,
)
POOL = PoolState(is_shadow=False, policies={"engine-0": "justitia"})
JOB = JobRecord(
    application="chat",
    name="chat-1-2",
    trigger=JobTrigger.FIRST,
    outcome=JobOutcome.FAILED,
    started_at="2026-11-30T09:00:00Z",
    finished_at="2026-11-30T09:05:00Z",
    reason="DeadlineExceeded",
    message="m",
)
MODEL = ModelFacts(
    version="v1", published_at="2026-11-30T09:00:00Z", samples=100, relative_error=0.21234
)


@pytest.fixture
def build(make):
    def build(*, old=None, spec=None, **changes):
        body = make.stored(make.application(**(spec or {})), generation=4)
        application = read_application({**body, "status": old or {}})
        defaults = {
            "application": application,
            "ref_problem": None,
            "profile": None,
            "programming": Programming.IN_FORCE,
            "pool": POOL,
            "figures": FIGURES,
        }
        inputs = Inputs(**{**defaults, **changes})
        return build_application_status(inputs, build_conditions(inputs), now=NOW)

    return build


def test_the_status_of_an_application_says_everything_in_three_digits(build):
    status = build()
    assert status["observedGeneration"] == 4
    assert status["applicationName"] == "chat"
    assert status["pool"] == "team-a/llama"
    assert status["effectivePolicy"] == "Justitia"
    assert status["runs"] == {"active": 3, "completed": 120}
    assert status["weightedShare"] == "0.333"
    assert status["fairnessRatio"] == {"p50": "0.812", "p99": "1.3"}
    assert status["jctSeconds"] == {"mean": "12.3", "p90": "45.7"}
    assert status["prediction"] == {
        "source": "Model",
        "modelVersion": "v1",
        "relativeError": "0.212",
    }
    ApplicationStatus.model_validate(status)


def test_what_was_not_measured_is_absent(build):
    status = build(figures=Figures())
    for key in ("fairnessRatio", "jctSeconds", "prediction"):
        assert key not in status
    ApplicationStatus.model_validate(status)


def test_a_number_that_is_none_is_absent(build):
    broken = replace(FIGURES, ratio_p50=float("nan"), weighted_share=float("nan"))
    status = build(figures=broken)
    assert "weightedShare" not in status
    assert status["fairnessRatio"] == {"p99": "1.3"}


def test_fk3_an_invalid_application_has_a_status_too(build):
    status = build(spec={"weight": 0}, programming=Programming.NOT, figures=None, pool=None)
    assert "applicationName" not in status
    assert status["effectivePolicy"] == "None"
    ApplicationStatus.model_validate(status)


def test_while_the_service_is_away_figures_stay_as_they_were(build):
    old = build()
    new = build(old=old, figures=None, pool=None, reach=Reach.NO, programming=Programming.UNKNOWN)
    for key in ("runs", "weightedShare", "fairnessRatio", "jctSeconds", "prediction"):
        assert new[key] == old[key]


@pytest.mark.parametrize(
    ("pool", "expected"),
    [
        (None, EffectivePolicy.NONE),
        (PoolState(is_shadow=False), EffectivePolicy.NONE),
        (POOL, EffectivePolicy.JUSTITIA),
        (replace(POOL, is_shadow=True), EffectivePolicy.SHADOW),
        (PoolState(is_shadow=False, policies={"a": "justitia", "b": "vtc"}), EffectivePolicy.MIXED),
        (PoolState(is_shadow=True, policies={"a": "fcfs"}), EffectivePolicy.OTHER),
    ],
)
def test_the_effective_policy(pool, expected):
    assert effective_policy(pool) is expected


# -- whether to write ------------------------------------------------------------------------------


def test_fk7_an_equal_status_is_not_written(build):
    status = build()
    assert compare(build(old=status), build(old=status)) is Urgency.NOT


def test_fk7_figures_that_hardly_move_are_no_change(build):
    old = build()
    barely = replace(FIGURES, ratio_p99=1.29991, jct_mean_s=12.3499, weighted_share=0.33341)
    assert compare(old, build(old=old, figures=barely)) is Urgency.NOT


@pytest.mark.parametrize(
    ("changes", "urgency"),
    [
        ({"figures": replace(FIGURES, completed_runs=121)}, Urgency.LATER),
        ({"figures": replace(FIGURES, ratio_p99=2.0)}, Urgency.LATER),
        ({"pool": PoolState(is_shadow=False)}, Urgency.NOW),
        ({"programming": Programming.REFUSED, "refusal": "no"}, Urgency.NOW),
        ({"figures": replace(FIGURES, verdict="missed"), "spec": None}, Urgency.NOT),
    ],
    ids=["a run more", "another ratio", "no engine", "refused", "a verdict without objective"],
)
def test_fk7_conditions_are_urgent_and_figures_are_not(build, changes, urgency):
    old = build()
    assert compare(old, build(old=old, **changes)) is urgency


def test_fk7_a_new_generation_is_told_at_once(build):
    old = build()
    new = {**build(old=old), "observedGeneration": 5}
    assert compare(old, new) is Urgency.NOW


def test_fk7_conditions_of_others_neither_trigger_nor_stop_a_write(build):
    status = build()
    foreign = {"type": "example.com/Audited", "status": "True", "reason": "Yes"}
    old = {**status, "conditions": [foreign, *status["conditions"]]}
    assert compare(old, build(old=status)) is Urgency.NOT


@pytest.mark.parametrize("old", [{}, {"conditions": None}, {"conditions": "?"}, {"runs": []}])
def test_fk3_any_old_status_can_be_compared(build, old):
    assert compare(old, build()) is Urgency.NOW


# -- profiles --------------------------------------------------------------------------------------


@pytest.fixture
def profile(make):
    return read_profile(make.stored(make.profile(), generation=2))


def conditions(status):
    return {c["type"]: (c["status"], c["reason"]) for c in status["conditions"]}


def test_a_profile_without_applications_is_valid_and_idle(profile):
    status = build_profile_status(profile, [], now=NOW)
    assert conditions(status) == {"Ready": ("True", "Valid"), "Training": ("False", "Idle")}
    assert status["applicationCount"] == 0
    ProfileStatus.model_validate(status)


def test_an_invalid_profile_says_why(make):
    bad = read_profile(make.stored(make.profile(training={"minSamples": 1})))
    status = build_profile_status(bad, [], now=NOW)
    assert conditions(status)["Ready"] == ("False", "InvalidSpec")
    assert "spec.training.minSamples" in status["conditions"][0]["message"]
    ProfileStatus.model_validate(status)


def test_fk8_a_failed_job_surfaces_its_reason(profile):
    trained = [Trained(name="chat", service_name="chat", last=JOB)]
    status = build_profile_status(profile, trained, now=NOW)
    assert conditions(status)["Training"] == ("False", "TrainingFailed")
    assert status["lastJob"]["reason"] == "DeadlineExceeded"
    assert status["applications"][0]["lastJob"]["outcome"] == "Failed"
    ProfileStatus.model_validate(status)


def test_the_newest_model_and_job_of_all_applications_stand_at_the_top(profile):
    newer = replace(MODEL, version="v2", published_at="2026-11-30T11:00:00Z")
    running = replace(JOB, outcome=JobOutcome.RUNNING, started_at="2026-11-30T11:30:00Z")
    trained = [
        Trained(name="a", service_name="a", model=newer, last=JOB),
        Trained(name="b", service_name="b", model=MODEL, last=replace(running, application="b")),
    ]
    status = build_profile_status(profile, trained, now=NOW)
    assert status["activeModel"]["version"] == "v2"
    assert status["lastJob"]["application"] == "b"
    assert conditions(status)["Training"] == ("True", "TrainingRuns")
    ProfileStatus.model_validate(status)


def test_fk7_a_profile_of_many_applications_stays_bounded(profile):
    trained = [Trained(name=f"a{n:04}", service_name=f"a{n:04}", last=JOB) for n in range(1000)]
    status = build_profile_status(profile, trained, now=NOW)
    assert status["applicationCount"] == 1000
    assert len(status["applications"]) == 100
    assert len(str(status["conditions"])) < 2000
    ProfileStatus.model_validate(status)


def test_what_a_profile_remembers_survives_the_way_through_the_api_server(profile, make):
    trained = [Trained(name="chat", service_name="chat", last=JOB)]
    status = build_profile_status(profile, trained, now=NOW)
    again = read_profile(make.stored(make.profile()) | {"status": status})
    assert again.records["chat"] == JOB


def test_unchanged_profiles_are_not_written_and_new_outcomes_are_at_once(profile, make):
    trained = [Trained(name="chat", service_name="chat", last=JOB)]
    old = build_profile_status(profile, trained, now=NOW)
    stored = read_profile(make.stored(make.profile(), generation=2) | {"status": old})
    later = "2026-11-30T13:00:00Z"
    assert compare(old, build_profile_status(stored, trained, now=later)) is Urgency.NOT
    done = [replace(trained[0], last=replace(JOB, outcome=JobOutcome.SUCCEEDED))]
    assert compare(old, build_profile_status(stored, done, now=later)) is Urgency.NOW
    assert isinstance(stored.conditions[0], Condition)
