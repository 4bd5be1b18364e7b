"""Conditions from tables of facts; each key is a sentence, the order of checks is part of it."""

from dataclasses import replace

import pytest

from justitia.resources.application_status import ApplicationStatus
from justitia.resources.profile_status import JobOutcome, JobTrigger, ProfileStatus
from justitia_operator import checks
from justitia_operator.checks import CHAINS, Inputs, Programming, build_conditions
from justitia_operator.conditions import (
    APPLICATION_CONDITIONS,
    MEANINGS,
    PROFILE_CONDITIONS,
    Reason,
    Type,
    from_body,
    merge,
    to_body,
)
from justitia_operator.events import EVENT_TYPES
from justitia_operator.facts import (
    Condition,
    Figures,
    JobRecord,
    ModelFacts,
    PoolState,
    Reach,
)
from justitia_operator.gather import read_application, read_profile
from justitia_operator.program import Action, RefProblem
from justitia_operator.training import Due

POOL = PoolState(is_shadow=False, policies={"engine-0": "justitia"})
FAILED = JobRecord(
    application="chat",
    name="chat-1-2",
    trigger=JobTrigger.FIRST,
    outcome=JobOutcome.FAILED,
    reason="BackoffLimitExceeded",
    message="no samples",
)
RUNNING = replace(FAILED, outcome=JobOutcome.RUNNING, reason="", message="")
DONE = replace(FAILED, outcome=JobOutcome.SUCCEEDED, reason="", message="")
DUE = Due(trigger=JobTrigger.FIRST, name="chat-1-2", why="there is no model yet")
WITH_PROFILE = {"predictor": {"profileRef": {"name": "default"}}}
OBJECTIVE = {"fairness": {"objective": {"maxRatio": "1.5", "for": "1m"}}}


@pytest.fixture
def inputs(make):
    """Facts of an application in force, with what a case changes."""

    def build(*, spec=None, profile_spec=None, conditions=(), **changes):
        application = read_application(make.stored(make.application(**(spec or {})), generation=2))
        has_profile = "predictor" in (spec or {}) and profile_spec is not False
        defaults = {
            "application": replace(application, conditions=tuple(conditions)),
            "ref_problem": None,
            "profile": read_profile(make.stored(make.profile(**(profile_spec or {}))))
            if has_profile
            else None,
            "programming": Programming.IN_FORCE,
            "pool": POOL,
            "figures": Figures(),
        }
        return Inputs(**{**defaults, **changes})

    return build


def told(inputs):
    return {c.type: (c.status, c.reason) for c in build_conditions(inputs)}


def message(inputs, type_):
    return next(c.message for c in build_conditions(inputs) if c.type == type_)


# -- Ready and ResolvedRefs ------------------------------------------------------------------------

GONE_POOL = RefProblem(Reason.POOL_NOT_FOUND, "there is no Service team-a/llama", Action.LEAVE)

READY = {
    "an application that is in force is ready": ({}, ("True", "Programmed")),
    "an invalid spec comes before everything else": (
        {"spec": {"weight": 0}, "reach": Reach.NO, "programming": Programming.NOT},
        ("False", "InvalidSpec"),
    ),
    "a reference that does not resolve": (
        {"ref_problem": GONE_POOL, "programming": Programming.NOT},
        ("False", "RefsNotResolved"),
    ),
    "a name that another operator keeps": (
        {"programming": Programming.ELSEWHERE, "refusal": "kept by 'b'"},
        ("False", "DeclaredElsewhere"),
    ),
    "a refusal of the service": (
        {"programming": Programming.REFUSED, "refusal": "application.weight: too much"},
        ("False", "Refused"),
    ),
    "a service that is away for long": (
        {"reach": Reach.NO},
        ("Unknown", "SchedulerUnreachable"),
    ),
    "a service that was away when this generation came": (
        {"programming": Programming.UNKNOWN, "reach": Reach.BRIEFLY_NOT},
        ("Unknown", "SchedulerUnreachable"),
    ),
}


@pytest.mark.parametrize(("changes", "expected"), READY.values(), ids=READY)
def test_ready(inputs, changes, expected):
    assert told(inputs(**changes))["Ready"] == expected


def test_the_message_of_an_invalid_spec_names_field_and_value(inputs):
    case = inputs(spec={"weight": "-3"}, programming=Programming.NOT)
    assert "spec.weight" in message(case, "Ready")
    assert "-3" in message(case, "Ready")


def test_the_services_own_words_reach_the_user(inputs):
    case = inputs(programming=Programming.REFUSED, refusal="a pool has at most 2000 of them")
    assert message(case, "Ready") == "a pool has at most 2000 of them"


def test_resolved_refs(inputs):
    assert told(inputs())["ResolvedRefs"] == ("True", "Resolved")
    case = inputs(ref_problem=GONE_POOL, programming=Programming.NOT)
    assert told(case)["ResolvedRefs"] == ("False", "PoolNotFound")
    assert message(case, "ResolvedRefs") == "there is no Service team-a/llama"


def test_fk7_a_short_outage_changes_no_condition_of_the_same_generation(inputs):
    before = tuple(
        Condition(type=type_, status="True", reason="Whatever", message="m", observed_generation=2)
        for type_ in CHAINS
    )
    case = inputs(conditions=before, reach=Reach.BRIEFLY_NOT)
    stood = told(case)
    for type_ in ("Ready", "PolicyEffective"):
        assert stood[type_] == ("True", "Whatever")
    outdated = tuple(replace(condition, observed_generation=1) for condition in before)
    case = inputs(conditions=outdated, reach=Reach.BRIEFLY_NOT)
    assert told(case)["Ready"] == ("Unknown", "SchedulerUnreachable")


@pytest.mark.parametrize(
    "programming", [Programming.NOT, Programming.REFUSED, Programming.ELSEWHERE]
)
def test_what_is_not_in_force_has_no_policy_and_no_fairness(inputs, programming):
    case = inputs(spec=OBJECTIVE, programming=programming, pool=None, figures=None)
    assert told(case)["PolicyEffective"] == ("Unknown", "NotProgrammed")
    assert told(case)["FairnessObjectiveMet"] == ("Unknown", "NotProgrammed")


# -- PredictorReady --------------------------------------------------------------------------------

PREDICTOR = {
    "no predictor is asked for": ({}, ("True", "NotRequested")),
    "the profile is not there": (
        {"spec": WITH_PROFILE, "profile_spec": False},
        ("False", "ProfileNotFound"),
    ),
    "a model predicts": (
        {"spec": WITH_PROFILE, "figures": Figures(model_version="v1")},
        ("True", "ModelActive"),
    ),
    "a model predicts though the next training failed": (
        {"spec": WITH_PROFILE, "figures": Figures(model_version="v1"), "last_job": FAILED},
        ("True", "ModelActive"),
    ),
    "the profile is invalid": (
        {"spec": WITH_PROFILE, "profile_spec": {"training": {"minSamples": 1}}},
        ("False", "ProfileInvalid"),
    ),
    "prompts are withheld": (
        {"spec": {"predictor": {"profileRef": {"name": "default"}, "privacy": "None"}}},
        ("False", "PromptsWithheld"),
    ),
    "a training runs": ({"spec": WITH_PROFILE, "last_job": RUNNING}, ("False", "TrainingRuns")),
    "the API server refuses the Job": (
        {"spec": WITH_PROFILE, "due": DUE, "job_refusal": "exceeded quota"},
        ("False", "TrainingRefused"),
    ),
    "a training waits for others": (
        {"spec": WITH_PROFILE, "due": DUE, "last_job": FAILED},
        ("False", "WaitingForJob"),
    ),
    "the last training failed": (
        {"spec": WITH_PROFILE, "last_job": FAILED},
        ("False", "TrainingFailed"),
    ),
    "the last training published nothing": (
        {"spec": WITH_PROFILE, "last_job": DONE},
        ("False", "NothingPublished"),
    ),
    "samples are collected": (
        {"spec": WITH_PROFILE, "figures": Figures(samples=37)},
        ("False", "CollectingSamples"),
    ),
    "the service is away": (
        {"spec": WITH_PROFILE, "reach": Reach.NO},
        ("Unknown", "SchedulerUnreachable"),
    ),
}


@pytest.mark.parametrize(("changes", "expected"), PREDICTOR.values(), ids=PREDICTOR)
def test_predictor_ready(inputs, changes, expected):
    assert told(inputs(**changes))["PredictorReady"] == expected


def test_fk8_why_a_training_failed_is_in_the_message(inputs):
    case = inputs(spec=WITH_PROFILE, last_job=FAILED)
    said = message(case, "PredictorReady")
    assert "BackoffLimitExceeded" in said
    assert "no samples" in said


def test_fk8_why_a_training_does_not_start_is_in_the_message(inputs):
    stuck = replace(RUNNING, message="Unschedulable: 0/3 nodes are available")
    case = inputs(spec=WITH_PROFILE, last_job=stuck)
    assert "0/3 nodes are available" in message(case, "PredictorReady")


def test_collecting_says_how_far_it_is(inputs):
    case = inputs(spec=WITH_PROFILE, figures=Figures(samples=13))
    assert message(case, "PredictorReady") == (
        "13 of 20 finished runs with a prompt are recorded; a run's prompt comes with StartRun, not"
        " with its headers"
    )


def test_a_training_whose_model_is_not_in_use_is_told_beside_the_model_that_is(inputs):
    active = ModelFacts(
        version="v1", published_at="2026-11-30T09:00:00Z", samples=100, relative_error=0.2
    )
    facts = {"spec": WITH_PROFILE, "figures": Figures(model_version="v1"), "model": active}
    messages = [
        {c.type: c for c in build_conditions(inputs(**facts, last_job=job))}[
            Type.PREDICTOR_READY
        ].message
        for job in (
            replace(DONE, started_at="2026-11-30T10:00:00Z"),
            replace(DONE, started_at="2026-11-30T08:59:00Z"),
        )
    ]
    assert "is not in use" in messages[0]
    assert messages[1] == "model v1 predicts"


# -- PolicyEffective -------------------------------------------------------------------------------

POLICY = {
    "every engine serves as asked": ({}, ("True", "InForce")),
    "no engine is connected": (
        {"pool": PoolState(is_shadow=False)},
        ("Unknown", "NoEngines"),
    ),
    "an engine serves in another order": (
        {"pool": PoolState(is_shadow=False, policies={"a": "justitia", "b": "fcfs"})},
        ("False", "EnginePolicyDiffers"),
    ),
    "shadow is asked for and the pool enforces": (
        {"spec": {"mode": "Shadow"}},
        ("False", "PoolEnforces"),
    ),
    "the order is asked for and the pool is in shadow": (
        {"pool": PoolState(is_shadow=True, policies={"a": "justitia"})},
        ("False", "PoolInShadow"),
    ),
    "shadow is asked for and given": (
        {"spec": {"mode": "Shadow"}, "pool": PoolState(is_shadow=True, policies={"a": "justitia"})},
        ("True", "InForce"),
    ),
    "a field without effect comes before all that": (
        {"spec": {"failureMode": "FailClose"}, "pool": PoolState(is_shadow=True)},
        ("False", "NotEnforced"),
    ),
    "credentials have no effect yet": (
        {"spec": {"identity": {"credentials": [{"secretRef": {"name": "a", "key": "b"}}]}}},
        ("False", "NotEnforced"),
    ),
}


@pytest.mark.parametrize(("changes", "expected"), POLICY.values(), ids=POLICY)
def test_policy_effective(inputs, changes, expected):
    assert told(inputs(**changes))["PolicyEffective"] == expected


def test_the_incident_of_a_policy_nobody_asked_for_is_told_by_engine_and_policy(inputs):
    """A pool that silently served first come, first served, went unnoticed for a day."""
    pool = PoolState(is_shadow=False, policies={"e2": "fcfs", "e1": "fcfs", "e0": "justitia"})
    said = message(inputs(pool=pool), "PolicyEffective")
    assert said == "engine e1 serves in the order of 'fcfs', not of 'justitia'; 2 do so"


# -- FairnessObjectiveMet --------------------------------------------------------------------------

FAIRNESS = {
    "no objective is set": ({}, ("True", "NoObjective")),
    "the service says met": (
        {"spec": OBJECTIVE, "figures": Figures(verdict="met")},
        ("True", "ObjectiveMet"),
    ),
    "the service says missed": (
        {"spec": OBJECTIVE, "figures": Figures(verdict="missed")},
        ("False", "ObjectiveMissed"),
    ),
    "too few runs have finished": (
        {"spec": OBJECTIVE, "figures": Figures(verdict="too_few_runs")},
        ("Unknown", "TooFewRuns"),
    ),
    "the objective is newer than what the service said": (
        {"spec": OBJECTIVE, "figures": Figures(verdict="no_objective")},
        ("Unknown", "TooFewRuns"),
    ),
}


@pytest.mark.parametrize(("changes", "expected"), FAIRNESS.values(), ids=FAIRNESS)
def test_fk14_fairness_objective_met_repeats_the_services_verdict(inputs, changes, expected):
    assert told(inputs(**changes))["FairnessObjectiveMet"] == expected


def test_a_missed_objective_is_told_with_both_numbers(inputs):
    case = inputs(spec=OBJECTIVE, figures=Figures(verdict="missed", ratio_recent=1.8349))
    expected = "the 90th percentile of recent fair ratios is 1.83, above 1.5"
    assert message(case, "FairnessObjectiveMet") == expected


# -- the tables ------------------------------------------------------------------------------------


def test_every_reason_has_a_meaning_and_is_listed_with_a_condition_or_event():
    assert set(MEANINGS) == set(Reason)
    listed = {
        reason
        for table in (APPLICATION_CONDITIONS, PROFILE_CONDITIONS)
        for reasons in table.values()
        for reason in reasons
    }
    assert listed | set(EVENT_TYPES) == set(Reason)


def test_every_listed_reason_of_an_application_is_reached_and_no_other(inputs):
    cases = [*READY.values(), *PREDICTOR.values(), *POLICY.values(), *FAIRNESS.values()]
    problems = [
        RefProblem(reason, "m", Action.LEAVE)
        for reason in (Reason.POOL_NOT_FOUND, Reason.REF_NOT_PERMITTED, Reason.PROFILE_NOT_FOUND)
    ]
    cases += [
        ({"ref_problem": problem, "programming": Programming.NOT}, None) for problem in problems
    ]
    cases += [({"spec": {**WITH_PROFILE, **OBJECTIVE}, "reach": Reach.NO}, None)]
    cases += [
        ({"spec": {**WITH_PROFILE, **OBJECTIVE}, "programming": Programming.NOT}, None),
    ]
    reached = {type_: set() for type_ in CHAINS}
    for changes, _ in cases:
        for type_, (_, reason) in told(inputs(**changes)).items():
            reached[type_].add(reason)
    assert reached == {type_: set(reasons) for type_, reasons in APPLICATION_CONDITIONS.items()}


def test_all_five_conditions_are_always_there(inputs):
    for changes, _ in [*READY.values(), *PREDICTOR.values()]:
        assert list(told(inputs(**changes))) == list(Type)[:5]


def test_messages_are_bounded(inputs):
    case = inputs(programming=Programming.REFUSED, refusal="x" * 5000)
    assert len(message(case, "Ready")) == checks._MAX_MESSAGE_CHARS


# -- merging ---------------------------------------------------------------------------------------

OLD = Condition(type="Ready", status="True", reason="Programmed", since="then")


@pytest.mark.parametrize(
    ("changes", "since"),
    [
        ({}, "then"),
        ({"reason": "Other"}, "then"),
        ({"message": "other"}, "then"),
        ({"status": "False"}, "now"),
    ],
    ids=["nothing", "the reason", "the message", "the status"],
)
def test_fk7_the_time_of_a_transition_moves_with_the_status_alone(changes, since):
    merged = merge([OLD], [replace(OLD, since="", **changes)], generation=5, now="now")
    assert merged[0].since == since
    assert merged[0].observed_generation == 5


def test_a_condition_survives_the_way_through_the_api_server():
    condition = replace(OLD, message="m", observed_generation=3)
    assert from_body(to_body(condition)) == condition
    assert from_body("nonsense") is None
    assert from_body({"type": 3}) is None


def test_fk7_every_condition_fits_the_schema(inputs):
    now = "2026-11-30T12:00:00Z"
    for changes, _ in [*READY.values(), *PREDICTOR.values(), *POLICY.values(), *FAIRNESS.values()]:
        merged = merge([], build_conditions(inputs(**changes)), generation=1, now=now)
        document = {"conditions": [to_body(condition) for condition in merged]}
        ApplicationStatus.model_validate(document)
        ProfileStatus.model_validate(document)
