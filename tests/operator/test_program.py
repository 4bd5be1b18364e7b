"""What the scheduler service is told, from tables of facts."""

from dataclasses import replace

import pytest

from justitia_operator.conditions import Reason
from justitia_operator.facts import Declared, Key
from justitia_operator.gather import read_application, read_profile, read_service
from justitia_operator.program import (
    Action,
    References,
    Slot,
    build_mark,
    build_program,
    check_references,
    is_same,
    key_of_mark,
    plan_application,
    service_name,
    wanted_modes,
)

OWNER = "justitia-operator"
SLOT = Slot("team-a/llama", "chat")


@pytest.fixture
def facts(make):
    def build(uid="uid-1", **spec):
        return read_application(make.stored(make.application(**spec), uid=uid))

    return build


@pytest.fixture
def pool(make):
    def build(namespace="team-a", grants=None):
        return read_service(make.service(namespace=namespace, grants=grants))

    return build


def held_for(application, **changes):
    program = replace(build_program(OWNER, application), **changes)
    return {Slot(program.pool, program.name): Declared(program=program)}


def plan(application, references, held=None, ours=None):
    held = held or {}
    if ours is None:
        ours = [
            slot
            for slot, declared in held.items()
            if key_of_mark(OWNER, declared.program.declared_by) == application.meta.key
        ]
    return plan_application(OWNER, application, references, held, ours)


# -- names and marks -------------------------------------------------------------------------------


def test_an_application_beside_its_pool_goes_by_its_own_name(facts):
    assert service_name(facts()) == "chat"


def test_an_application_of_another_namespace_goes_by_both_names(facts):
    application = facts(poolRef={"name": "llama", "namespace": "pools"})
    assert service_name(application) == "team-a/chat"
    assert build_program(OWNER, application).pool == "pools/llama"


def test_fk1_the_mark_holds_namespace_name_and_uid(facts):
    mark = build_mark(OWNER, facts())
    assert mark == "justitia-operator:team-a/chat#uid-1"
    assert key_of_mark(OWNER, mark) == Key("team-a", "chat")


@pytest.mark.parametrize(
    "mark",
    ["", "someone", "other-operator:team-a/chat#uid-1", "justitia-operator:nonsense"],
)
def test_other_marks_are_nobody_of_ours(mark):
    assert key_of_mark(OWNER, mark) is None


# -- plans -----------------------------------------------------------------------------------------


def test_a_new_application_is_declared(facts, pool):
    plan_ = plan(facts(weight="500m"), References(pool=pool(), profile=None))
    assert plan_.action is Action.APPLY
    assert plan_.program.weight == 0.5


def test_what_the_service_holds_already_needs_no_call(facts, pool):
    application = facts(weight=2)
    plan_ = plan(application, References(pool=pool(), profile=None), held_for(application))
    assert plan_.action is Action.KEEP


@pytest.mark.parametrize(
    "changes",
    [
        {"weight": 3.0},
        {"fallback_cost_kvtt": 7.0},
        {"privacy": "None"},
        {"idle_timeout_s": 1.0},
        {"max_duration_s": 9.0},
        {"max_concurrent_runs": 3},
        {"objective_max_ratio": 2.0},
        {"declared_by": ""},
    ],
    ids=lambda changes: next(iter(changes)),
)
def test_fk6_whatever_differs_is_declared_again(facts, pool, changes):
    application = facts()
    held = held_for(application, **changes)
    plan_ = plan(application, References(pool=pool(), profile=None), held)
    assert plan_.action is Action.APPLY


def test_fk1_a_recreated_application_starts_without_the_history_of_the_old_one(facts, pool):
    old, new = facts(uid="uid-old"), facts(uid="uid-new")
    plan_ = plan(new, References(pool=pool(), profile=None), held_for(old))
    assert plan_.action is Action.APPLY
    assert plan_.removed_first == (SLOT,)


def test_a_moved_application_leaves_its_old_pool_after_the_new_one_is_in_force(facts, pool):
    old = facts(poolRef={"name": "small"})
    plan_ = plan(facts(), References(pool=pool(), profile=None), held_for(old))
    assert plan_.action is Action.APPLY
    assert plan_.removed_after == (Slot("team-a/small", "chat"),)


def test_what_a_person_declared_by_hand_is_taken_over(facts, pool):
    application = facts()
    held = held_for(application, declared_by="", weight=9.0)
    plan_ = plan(application, References(pool=pool(), profile=None), held)
    assert plan_.action is Action.APPLY
    assert not plan_.removed_first


def test_what_another_operator_keeps_declared_is_left_alone(facts, pool):
    application = facts()
    held = held_for(application, declared_by="cluster-b:team-a/chat#uid-9")
    plan_ = plan(application, References(pool=pool(), profile=None), held)
    assert plan_.action is Action.LEAVE
    assert plan_.program is not None


def test_fk3_an_object_that_became_invalid_keeps_what_it_had(facts, pool):
    valid, invalid = facts(), facts(weight=0)
    plan_ = plan(invalid, References(pool=pool(), profile=None), held_for(valid))
    assert plan_.action is Action.LEAVE
    assert not plan_.removed_after


# -- references ------------------------------------------------------------------------------------


def test_fk12_a_pool_of_another_namespace_needs_a_grant(facts, pool):
    application = facts(poolRef={"name": "llama", "namespace": "pools"})
    references = References(pool=pool("pools", grants="team-b"), profile=None)
    plan_ = plan(application, references, held_for(application))
    assert plan_.action is Action.REMOVE
    assert plan_.removed_after == (Slot("pools/llama", "team-a/chat"),)
    problem = check_references(application, references, is_declared=True)
    assert problem.reason is Reason.REF_NOT_PERMITTED
    granted = References(pool=pool("pools", grants="team-a"), profile=None)
    assert plan(application, granted).action is Action.APPLY


def test_fk12_without_a_grant_nothing_is_told_of_whether_the_pool_exists(facts, pool):
    application = facts(poolRef={"name": "llama", "namespace": "pools"})
    absent = check_references(application, References(pool=None, profile=None), is_declared=False)
    refused = check_references(
        application, References(pool=pool("pools"), profile=None), is_declared=False
    )
    assert absent.message == refused.message
    assert absent.reason is refused.reason


def test_fk6_a_pool_that_is_being_replaced_costs_no_history(facts):
    for ref in ({"name": "llama"}, {"name": "llama", "namespace": "pools"}):
        application = facts(poolRef=ref)
        absent = References(pool=None, profile=None)
        plan_ = plan(application, absent, held_for(application))
        assert plan_.action is Action.LEAVE
        assert not plan_.removed_after


def test_an_application_without_a_pool_is_not_declared(facts):
    plan_ = plan(facts(), References(pool=None, profile=None))
    assert plan_.action is Action.LEAVE
    problem = check_references(facts(), References(pool=None, profile=None), is_declared=False)
    assert problem.reason is Reason.POOL_NOT_FOUND
    assert "team-a/llama" in problem.message


def test_a_missing_profile_is_told_and_does_not_stop_the_runs(facts, pool, make):
    application = facts(predictor={"profileRef": {"name": "small"}})
    references = References(pool=pool(), profile=None)
    assert plan(application, references).action is Action.APPLY
    problem = check_references(application, references, is_declared=True)
    assert problem.reason is Reason.PROFILE_NOT_FOUND
    found = References(pool=pool(), profile=read_profile(make.stored(make.profile("small"))))
    assert check_references(application, found, is_declared=True) is None


# -- numbers ---------------------------------------------------------------------------------------


@pytest.mark.parametrize("weight", ["1n", "100m", "0.1", "333333333n", "1G", "123456789.987654321"])
def test_fk4_a_weight_survives_the_way_through_the_service(facts, weight):
    from justitia.core.units import parse_weight, weight_to_float

    wanted = build_program(OWNER, facts(weight=weight))
    held = replace(wanted, weight=weight_to_float(parse_weight(wanted.weight)))
    assert is_same(wanted, held)


@pytest.mark.parametrize("cost", ["1", "1500m", "1e6", "123456789012345678", "1E"])
def test_fk4_a_cost_survives_the_way_through_the_service(facts, cost):
    from justitia.core.estimates import require_cost_kvtt

    wanted = build_program(OWNER, facts(fallbackCost={"kvTokenTime": cost}))
    held = require_cost_kvtt("cost", wanted.fallback_cost_kvtt)
    assert is_same(wanted, replace(wanted, fallback_cost_kvtt=float(held)))


def test_without_an_objective_its_time_makes_no_difference(facts):
    wanted = build_program(OWNER, facts())
    assert is_same(wanted, replace(wanted, objective_for_s=300.0))
    wanted = build_program(OWNER, facts(fairness={"objective": {"maxRatio": "1.5", "for": "1m"}}))
    assert not is_same(wanted, replace(wanted, objective_for_s=300.0))


def test_fk4_local_mode_and_the_operator_declare_the_same(facts, make):
    from justitia.local.declare import build_application as build_local
    from justitia.resources.reading import read_resource
    from justitia_operator.scheduler import build_application

    spec = {
        "weight": "250m",
        "fallbackCost": {"kvTokenTime": "2M"},
        "predictor": {"privacy": "Hashed"},
        "run": {"idleTimeout": "90s", "maxDuration": "1h30m", "maxConcurrent": 7},
        "fairness": {"objective": {"maxRatio": "1.5"}},
    }
    operators = build_application(build_program(OWNER, facts(**spec)))
    local = build_local(read_resource(make.application(**spec)))
    for message in (operators, local):
        for name in ("pool", "declared_by", "objective_for_s"):
            message.ClearField(name)
    assert operators == local


# -- modes -----------------------------------------------------------------------------------------


def test_a_pool_is_in_shadow_only_where_all_its_applications_ask_for_it(facts):
    shadow, enforce = facts(mode="Shadow"), facts(mode="Enforce")
    other = facts(mode="Shadow", poolRef={"name": "small"})
    assert wanted_modes([shadow, other]) == {"team-a/llama": True, "team-a/small": True}
    for both in ([shadow, enforce, other], [enforce, shadow, other]):
        assert wanted_modes(both) == {"team-a/llama": False, "team-a/small": True}
    assert wanted_modes([facts(weight=0)]) == {}
