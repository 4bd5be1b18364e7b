"""When a predictor is trained: exactly once for each reason (FK8)."""

from dataclasses import replace
from datetime import UTC, datetime, timedelta

import pytest

from justitia.resources.profile_status import JobOutcome, JobTrigger
from justitia_operator.facts import REQUEST_ANNOTATION, Figures, JobRecord, ModelFacts
from justitia_operator.gather import read_application, read_profile
from justitia_operator.training import (
    TrainingFacts,
    build_digest,
    decide_training,
    is_without_effect,
    previous_slot,
)

NOW = datetime(2026, 11, 30, 12, 0, 30, tzinfo=UTC)
MODEL = ModelFacts(
    version="v1", published_at="2026-11-30T09:00:00Z", samples=100, relative_error=0.2
)


#: Where ``ended`` Jobs began at 10:00: a third of the samples came later, or not quite.
GROWN, NOT_YET = "2026-11-30T10:00:01Z", "2026-11-30T10:00:00Z"


@pytest.fixture
def facts(make):
    def build(
        *,
        samples=0,
        new=0,
        newest=None,
        third=None,
        error=0.0,
        model=None,
        last=None,
        now=NOW,
        privacy="Text",
        source=None,
        asked=None,
        **spec,
    ):
        if source is not None:
            spec["samples"] = source
        spec["training"] = {"minSamples": 100, **spec.get("training", {})}
        application = make.application(
            predictor={"profileRef": {"name": "default"}, "privacy": privacy}
        )
        if asked is not None:
            application["metadata"]["annotations"] = {REQUEST_ANNOTATION: asked}
        figures = Figures(
            samples=samples,
            samples_since_model=new,
            newest_sample_at=newest and datetime.fromisoformat(newest),
            newest_third_from=third and datetime.fromisoformat(third),
            model_relative_error=error,
            model_judged_runs=new,
            model_version="" if model is None else model.version,
        )
        return TrainingFacts(
            application=read_application(make.stored(application)),
            profile=read_profile(make.stored(make.profile(**spec), uid="uid-profile")),
            figures=figures,
            model=model,
            last=last,
            now=now,
        )

    return build


def ended(due, outcome=JobOutcome.FAILED, started_at="2026-11-30T10:00:00Z"):
    """The Job of a training that was due, after its end."""
    return JobRecord(
        application="chat",
        name=due.name,
        trigger=due.trigger,
        outcome=outcome,
        newest_sample_at=due.newest_sample_at,
        started_at=started_at,
        finished_at="2026-11-30T10:10:00Z",
    )


# -- the first training ----------------------------------------------------------------------------


@pytest.mark.parametrize(("samples", "is_due"), [(99, False), (100, True), (5000, True)])
def test_the_first_training_waits_for_enough_samples(facts, samples, is_due):
    due = decide_training(facts(samples=samples))
    assert (due is not None) == is_due
    assert due is None or due.trigger is JobTrigger.FIRST


def test_fk8_the_same_reason_always_gives_the_same_name(facts):
    names = {decide_training(facts(samples=samples)).name for samples in (100, 130, 199)}
    assert len(names) == 1


@pytest.mark.parametrize("outcome", [JobOutcome.FAILED, JobOutcome.SUCCEEDED])
def test_fk8_a_first_training_in_vain_is_repeated_once_the_samples_have_grown_by_half(
    facts, outcome
):
    last = ended(decide_training(facts(samples=100)), outcome)
    names = {last.name}
    for number in range(3):
        assert decide_training(facts(samples=5000, third=NOT_YET, last=last)) is None
        due = decide_training(facts(samples=100 + number, third=GROWN, last=last))
        assert due.trigger is JobTrigger.FIRST
        last = ended(due, outcome)
        names.add(last.name)
    assert len(names) == 4


def test_fk8_a_first_training_in_vain_is_repeated_also_where_samples_are_at_their_limit(facts):
    last = ended(decide_training(facts(samples=20_000)), JobOutcome.SUCCEEDED)
    assert decide_training(facts(samples=20_000, third=NOT_YET, last=last)) is None
    assert decide_training(facts(samples=20_000, third=GROWN, last=last)) is not None
    # Some have gone by age since, and few have come: no reason to try again.
    assert decide_training(facts(samples=101, third=NOT_YET, last=last)) is None


def test_fk8_what_an_attempt_has_seen_is_told_by_the_services_own_clock(facts):
    """That of the API server, which says when the Job began, may be hours behind or ahead."""
    seen, later = "2026-11-30T17:00:00.000002Z", "2026-11-30T17:00:00.000003Z"
    last = ended(decide_training(facts(samples=100, newest=seen)))
    assert decide_training(facts(samples=100, newest=later, third=seen, last=last)) is None
    due = decide_training(facts(samples=150, newest=later, third=later, last=last))
    assert datetime.fromisoformat(due.newest_sample_at) == datetime.fromisoformat(later)


def test_fk8_the_same_attempt_in_vain_is_always_followed_by_the_same_job(facts):
    last = ended(decide_training(facts(samples=100)), JobOutcome.SUCCEEDED)
    names = {decide_training(facts(samples=n, third=GROWN, last=last)).name for n in (100, 900)}
    assert len(names) == 1


def test_fk8_while_a_job_runs_no_other_is_due(facts):
    first = decide_training(facts(samples=100))
    running = ended(first, JobOutcome.RUNNING)
    assert decide_training(facts(samples=10_000, last=running)) is None


def test_another_application_profile_or_spec_gives_another_job(facts):
    base = facts(samples=100)
    reborn = replace(
        base, application=replace(base.application, meta=replace(base.application.meta, uid="x"))
    )
    other = facts(samples=100, training={"seed": 7})
    names = [decide_training(each).name for each in (base, reborn, other)]
    assert len(set(names)) == 3


def test_job_names_fit_into_labels_whatever_the_application_is_called(facts):
    base = facts(samples=100)
    key = base.application.meta.key._replace(name="a." * 31 + "z")
    meta = replace(base.application.meta, key=key)
    named = replace(base, application=replace(base.application, meta=meta))
    name = decide_training(named).name
    assert len(name) <= 63
    assert all(part and not part.startswith("-") for part in name.split("."))


@pytest.mark.parametrize(
    "trigger", [trigger for trigger in JobTrigger if trigger is not JobTrigger.FIRST]
)
def test_a_failure_of_another_trigger_does_not_end_first_trainings_for_ever(facts, trigger):
    first = decide_training(facts(samples=100))
    other = replace(first, trigger=trigger, name=first.name[:-8] + "aaaaaaaa")
    due = decide_training(facts(samples=5000, last=ended(other)))
    assert due.trigger is JobTrigger.FIRST
    assert decide_training(facts(samples=5000, last=ended(due))) is None


def test_the_first_training_after_a_failure_stands_back_behind_what_is_asked_for(facts):
    """Its Job may be there from before: a trigger that can't act must not keep others away."""
    first = decide_training(facts(samples=100))
    failed = ended(replace(first, trigger=JobTrigger.REQUESTED, name=first.name[:-8] + "aaaaaaaa"))
    due = decide_training(facts(samples=100, last=failed, asked="2026-11-30T11:00:00Z"))
    assert due.trigger is JobTrigger.REQUESTED


@pytest.mark.parametrize("trigger", [JobTrigger.REQUESTED, JobTrigger.NEW_SAMPLES])
def test_a_model_that_was_refused_or_taken_back_is_not_made_again_at_once(facts, trigger):
    first = decide_training(facts(samples=100))
    other = replace(first, trigger=trigger, name=first.name[:-8] + "aaaaaaaa")
    done = ended(other, JobOutcome.SUCCEEDED)
    assert decide_training(facts(samples=5000, third=NOT_YET, last=done)) is None
    due = decide_training(facts(samples=5000, third=GROWN, last=done))
    assert due.trigger is JobTrigger.FIRST


# -- what keeps a training from being due ----------------------------------------------------------


def test_prompts_that_are_withheld_teach_nothing(facts):
    assert decide_training(facts(samples=1000, privacy="None")) is None
    volume = {"configMap": {"name": "runs"}}  # the service would refuse its model
    assert decide_training(facts(samples=1000, privacy="None", source=volume)) is None
    assert decide_training(facts(samples=1000, privacy="Hashed")) is not None


def test_samples_of_a_volume_are_counted_by_the_job_itself(facts):
    source = {"configMap": {"name": "runs"}}
    due = decide_training(facts(samples=0, privacy="Hashed", source=source))
    assert due.trigger is JobTrigger.FIRST


def test_nothing_is_due_before_the_service_has_told_what_it_has(facts):
    assert decide_training(replace(facts(samples=1000), figures=None)) is None


def test_nothing_is_due_for_an_application_that_is_being_deleted(facts):
    built = facts(samples=1000)
    meta = replace(built.application.meta, is_deleting=True)
    assert (
        decide_training(replace(built, application=replace(built.application, meta=meta))) is None
    )


def test_a_model_that_somebody_published_needs_no_first_training(facts):
    assert decide_training(facts(samples=1000, model=MODEL)) is None


# -- new samples and errors ------------------------------------------------------------------------

WHEN = {"retrainWhen": {"newSamples": 50, "relativeErrorAbove": "500m"}}


@pytest.mark.parametrize(("new", "is_due"), [(49, False), (50, True)])
def test_new_samples_start_a_training(facts, new, is_due):
    due = decide_training(facts(samples=500, new=new, model=MODEL, training=WHEN))
    assert (due is not None) == is_due
    assert due is None or due.trigger is JobTrigger.NEW_SAMPLES


@pytest.mark.parametrize("outcome", [JobOutcome.FAILED, JobOutcome.SUCCEEDED])
def test_fk8_after_an_attempt_in_vain_half_as_many_new_samples_again_are_awaited(facts, outcome):
    first = decide_training(facts(samples=500, new=50, model=MODEL, training=WHEN))
    again = {"new": 900, "model": MODEL, "training": WHEN, "last": ended(first, outcome)}
    assert decide_training(facts(samples=900, third=NOT_YET, **again)) is None
    due = decide_training(facts(samples=900, third=GROWN, **again))
    assert due.trigger is JobTrigger.NEW_SAMPLES
    assert due.name != first.name


def test_a_new_model_makes_the_same_trigger_a_new_reason(facts):
    first = decide_training(facts(samples=500, new=50, model=MODEL, training=WHEN))
    newer = replace(MODEL, version="v2", published_at="2026-11-30T10:09:00Z")
    done = ended(first, JobOutcome.SUCCEEDED)
    second = decide_training(facts(samples=500, new=50, model=newer, training=WHEN, last=done))
    assert second.name != first.name


@pytest.mark.parametrize(
    ("error", "new", "is_due"),
    [(0.5, 40, False), (0.51, 40, True), (9.0, 19, False)],
    ids=["at the limit", "above it", "too few runs to judge"],
)
def test_an_error_above_the_limit_starts_a_training(facts, error, new, is_due):
    due = decide_training(facts(samples=500, new=new, error=error, model=MODEL, training=WHEN))
    assert (due is not None) == is_due
    assert due is None or due.trigger is JobTrigger.RELATIVE_ERROR


def test_only_what_the_model_itself_got_wrong_starts_a_training(facts):
    others = facts(samples=500, new=40, model=MODEL, training=WHEN)
    others = replace(others, figures=replace(others.figures, relative_error=9.0))
    assert decide_training(others) is None
    few = facts(samples=500, new=40, error=9.0, model=MODEL, training=WHEN)
    few = replace(few, figures=replace(few.figures, model_judged_runs=19))
    assert decide_training(few) is None


def test_fk8_an_error_starts_one_training_for_each_model(facts):
    first = decide_training(facts(samples=500, new=30, error=2.0, model=MODEL, training=WHEN))
    again = {"new": 40, "error": 3.0, "model": MODEL, "training": WHEN, "last": ended(first)}
    assert decide_training(facts(samples=500, third=NOT_YET, **again)) is None
    second = decide_training(facts(samples=500, third=GROWN, **again))
    assert second.trigger is JobTrigger.RELATIVE_ERROR
    assert second.name != first.name


def test_fk8_triggers_do_not_take_turns_after_a_failure(facts):
    """A failure by one trigger must not be followed by another of the same cause, and back."""
    base = {"samples": 500, "error": 2.0, "model": MODEL, "training": WHEN}
    first = decide_training(facts(new=50, **base))
    assert first.trigger is JobTrigger.NEW_SAMPLES
    assert decide_training(facts(new=60, last=ended(first), **base)) is None
    by_error = decide_training(facts(new=40, **base))
    assert by_error.trigger is JobTrigger.RELATIVE_ERROR
    assert decide_training(facts(new=60, last=ended(by_error), **base)) is None
    due = decide_training(facts(new=60, third=GROWN, last=ended(by_error), **base))
    assert due.trigger is JobTrigger.NEW_SAMPLES


# -- whose model is active -------------------------------------------------------------------------


@pytest.mark.parametrize("api_minutes", [-300, -3, 0, 3], ids="API server {:+} min".format)
@pytest.mark.parametrize(
    ("seen", "is_in_vain"),
    [
        pytest.param("2026-11-30T08:59:00Z", False, id="made it"),
        pytest.param("2026-11-30T09:00:00.500000Z", False, id="in the second of its last sample"),
        pytest.param("2026-11-30T09:00:01Z", True, id="came later"),
    ],
)
def test_whether_a_job_made_the_active_model_is_told_by_one_clock(
    facts, api_minutes, seen, is_in_vain
):
    """The service's, which dates samples and models; the API server's dates the Job."""
    begun = datetime.fromisoformat(seen) + timedelta(minutes=api_minutes)
    first = decide_training(facts(samples=500, newest=seen))
    last = ended(first, JobOutcome.SUCCEEDED, started_at=begun.isoformat())
    assert is_without_effect(last, MODEL) == is_in_vain
    again = facts(samples=900, new=50, third=seen, model=MODEL, training=WHEN, last=last)
    assert (decide_training(again) is None) == is_in_vain


@pytest.mark.parametrize(
    ("started_at", "is_in_vain"),
    [("2026-11-30T08:59:00Z", False), ("2026-11-30T09:00:00Z", True), ("", True)],
)
def test_where_no_sample_was_known_the_begin_of_the_job_tells(facts, started_at, is_in_vain):
    volume = facts(source={"configMap": {"name": "runs"}})
    last = ended(decide_training(volume), JobOutcome.SUCCEEDED, started_at=started_at)
    assert is_without_effect(last, MODEL) == is_in_vain


def test_a_job_long_after_the_model_was_in_vain_though_no_run_has_ended_since(facts):
    due = decide_training(facts(samples=500, newest="2026-11-30T08:59:00Z"))
    last = ended(due, JobOutcome.SUCCEEDED, started_at="2026-11-30T11:00:00Z")
    assert is_without_effect(last, MODEL)


def test_without_an_active_model_every_attempt_was_in_vain(facts):
    due = decide_training(facts(samples=500, newest="2026-11-30T08:59:00Z"))
    assert is_without_effect(ended(due, JobOutcome.SUCCEEDED), None)
    assert not is_without_effect(None, MODEL)


# -- another spec ----------------------------------------------------------------------------------


def test_another_way_to_build_the_model_starts_one_training(facts):
    first = decide_training(facts(samples=100))
    done = ended(first, JobOutcome.SUCCEEDED, started_at="2026-11-30T08:50:00Z")
    changed = {"samples": 200, "model": MODEL, "training": {"seed": 7}}
    due = decide_training(facts(last=done, **changed))
    assert due.trigger is JobTrigger.SPEC_CHANGED
    assert decide_training(facts(last=ended(due), **changed)) is None


def test_when_and_where_a_training_runs_is_no_other_model(facts):
    spec = facts().profile.spec
    moved = facts(training={"schedule": "@daily", **WHEN}, job={"backoffLimit": 5}).profile.spec
    assert build_digest(spec) == build_digest(moved)
    assert build_digest(spec) != build_digest(facts(features={"maxTerms": 999}).profile.spec)


# -- the schedule ----------------------------------------------------------------------------------


def test_a_schedule_starts_one_training_for_each_of_its_times(facts):
    spec = {"samples": 200, "model": MODEL, "training": {"schedule": "0 12 * * *"}}
    due = decide_training(facts(**spec))
    assert due.trigger is JobTrigger.SCHEDULE
    later = facts(
        now=NOW + timedelta(hours=3), last=ended(due, started_at="2026-11-30T12:00:31Z"), **spec
    )
    assert decide_training(later) is None
    tomorrow = replace(later, now=NOW + timedelta(days=1))
    assert decide_training(tomorrow).name != due.name


def test_times_before_the_profile_are_not_made_up_for(facts):
    spec = {"samples": 200, "model": MODEL, "training": {"schedule": "0 3 * * *"}}
    assert decide_training(facts(**spec)) is None  # the profile is of 08:00
    assert decide_training(facts(now=NOW + timedelta(days=3), **spec)) is not None


def test_the_schedule_waits_for_enough_samples(facts):
    spec = {"training": {"schedule": "0 12 * * *"}, "model": MODEL}
    assert decide_training(facts(samples=99, **spec)) is None


@pytest.mark.parametrize(
    ("schedule", "expected"),
    [
        ("* * * * *", "2026-11-30T12:00"),
        ("0 12 * * *", "2026-11-30T12:00"),
        ("1 12 * * *", "2026-11-29T12:01"),
        ("*/15 8-11 * * MON", "2026-11-30T11:45"),
        ("0 3 * * 1", "2026-11-30T03:00"),
        ("@hourly", "2026-11-30T12:00"),
        ("@daily", "2026-11-30T00:00"),
        ("@weekly", "2026-11-29T00:00"),
        ("@monthly", "2026-11-01T00:00"),
        ("0 0 29 2 *", "2024-02-29T00:00"),
        ("0 0 30 2 *", None),
        (None, None),
    ],
)
def test_the_last_time_of_a_schedule(schedule, expected):
    slot = previous_slot(schedule, NOW)
    assert (slot and f"{slot:%Y-%m-%dT%H:%M}") == expected


def test_schedules_are_read_in_utc_wherever_the_operator_runs():
    from zoneinfo import ZoneInfo

    tokyo = NOW.astimezone(ZoneInfo("Asia/Tokyo"))
    assert previous_slot("0 12 * * *", tokyo) == previous_slot("0 12 * * *", NOW)


# -- on request ------------------------------------------------------------------------------------


def test_a_training_that_was_asked_for_is_due_once(facts):
    asked = "2026-11-30T11:00:00Z"
    due = decide_training(facts(samples=100, model=MODEL, asked=asked))
    assert due.trigger is JobTrigger.REQUESTED
    begun = ended(due, started_at="2026-11-30T11:00:01Z")
    assert decide_training(facts(samples=100, model=MODEL, asked=asked, last=begun)) is None


def test_asking_again_gives_another_job(facts):
    names = {
        decide_training(facts(samples=100, model=MODEL, asked=asked)).name
        for asked in ("2026-11-30T11:00:00Z", "2026-11-30T11:00:01Z")
    }
    assert len(names) == 2


def test_a_request_also_repeats_a_first_training_that_failed(facts):
    first = ended(decide_training(facts(samples=100)))
    due = decide_training(facts(samples=100, last=first, asked="2026-11-30T11:00:00Z"))
    assert due.trigger is JobTrigger.REQUESTED


@pytest.mark.parametrize(
    "asked",
    [
        pytest.param("2020-01-01T00:00:00Z", id="fk1-copied-with-all-metadata"),
        pytest.param("2026-11-30T12:00:31Z", id="in-the-future"),
        pytest.param("now", id="no-time"),
        pytest.param("", id="empty"),
    ],
)
def test_what_is_no_request_of_this_application_trains_nothing(facts, asked):
    assert decide_training(facts(samples=100, model=MODEL, asked=asked)) is None
