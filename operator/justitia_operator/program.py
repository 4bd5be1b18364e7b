"""What the scheduler service should hold for an application, and what it should hold no longer.

Pure. The mark (``declared_by``) carries the whole identity of the resource, namespace, name and
uid, behind the operator's own name. So a decision needs no memory: whatever carries a mark of this
operator, and whose resource is not there, is to be removed; a recreated resource has another uid
and starts without the history of the one before it; what carries no such mark is never removed.
"""

import math
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, replace
from enum import StrEnum
from typing import Final, NamedTuple

from justitia.resources.application import Mode
from justitia_operator.conditions import Reason
from justitia_operator.facts import (
    ApplicationFacts,
    Declared,
    Key,
    PoolObject,
    ProfileFacts,
    Program,
)

_SAME: Final = 1e-9
_NUMBERS: Final = (
    "weight",
    "fallback_cost_kvtt",
    "idle_timeout_s",
    "max_duration_s",
    "objective_max_ratio",
    "objective_for_s",
)


class Slot(NamedTuple):
    """Where the service keeps an application."""

    pool: str
    name: str


class Action(StrEnum):
    """What to do about an application."""

    APPLY = "apply"
    #: The service holds it already as it should be.
    KEEP = "keep"
    #: It cannot be programmed now; what the service holds stays until that is decided.
    LEAVE = "leave"
    #: It may not be programmed; what the service holds for it goes.
    REMOVE = "remove"


@dataclass(frozen=True, kw_only=True, slots=True)
class Plan:
    """What to do, in this order: ``removed_first``, the program, ``removed_after``.

    A pool is only left once the new one is in force; a slot of another resource is emptied first.
    """

    action: Action
    program: Program | None = None
    removed_first: tuple[Slot, ...] = ()
    removed_after: tuple[Slot, ...] = ()


@dataclass(frozen=True, kw_only=True, slots=True)
class References:
    """What an application's references lead to; None: there is no such object."""

    pool: PoolObject | None
    profile: ProfileFacts | None


class RefProblem(NamedTuple):
    """Why a reference does not resolve."""

    reason: Reason
    message: str
    action: Action


def build_mark(owner: str, application: ApplicationFacts) -> str:
    """Write the mark of an application's declaration."""
    return f"{owner}:{application.meta.key}#{application.meta.uid}"


def key_of_mark(owner: str, mark: str) -> Key | None:
    """Read which resource a mark of this operator names; None: it is not ours."""
    prefix, _, rest = mark.rpartition(":")
    namespace, slash, name = rest.partition("#")[0].partition("/")
    return Key(namespace, name) if prefix == owner and slash else None


def service_name(application: ApplicationFacts) -> str:
    """Name an application as clients do in ``x-justitia-application``."""
    key = application.meta.key
    return key.name if application.pool.namespace == key.namespace else str(key)


def build_program(owner: str, application: ApplicationFacts) -> Program:
    """Say what the service is to hold; only for a spec that was read."""
    spec = application.spec
    if spec is None:
        raise ValueError(f"{application.meta.key}: the spec is refused: {application.problem}")
    fallback, objective = spec.fallback_cost, spec.fairness.objective
    return Program(
        pool=str(application.pool),
        name=service_name(application),
        declared_by=build_mark(owner, application),
        weight=float(spec.weight),
        fallback_cost_kvtt=None if fallback is None else float(round(fallback.kv_token_time)),
        privacy=spec.predictor.privacy,
        idle_timeout_s=spec.run.idle_timeout_s,
        max_duration_s=spec.run.max_duration_s or 0.0,
        max_concurrent_runs=spec.run.max_concurrent or 0,
        objective_max_ratio=0.0 if objective is None else float(objective.max_ratio),
        objective_for_s=0.0 if objective is None else objective.for_s,
    )


def is_same(wanted: Program, held: Program) -> bool:
    """Whether the service holds what is wanted, but for what it rounds."""
    if wanted.objective_max_ratio == 0:
        held = replace(held, objective_for_s=wanted.objective_for_s)
    rest = {name: getattr(held, name) for name in _NUMBERS}
    return replace(wanted, **rest) == held and all(
        _close(getattr(wanted, name), getattr(held, name)) for name in _NUMBERS
    )


def _close(wanted: float | None, held: float | None) -> bool:
    if wanted is None or held is None:
        return wanted is held
    return math.isclose(wanted, held, rel_tol=_SAME)


# -- references ------------------------------------------------------------------------------------


def _grants_namespace(
    application: ApplicationFacts, references: References, *, is_declared: bool
) -> RefProblem | None:
    pool, own = application.pool, application.meta.key.namespace
    if pool.namespace == own or (references.pool and references.pool.admits(own)):
        return None
    # Whether the Service exists is no business of a namespace that has no grant.
    is_lost = references.pool is None and is_declared
    return RefProblem(
        Reason.REF_NOT_PERMITTED,
        f"spec.poolRef.namespace: no Service {pool} grants namespace {own!r} in its annotation"
        " justitia.dev/allowed-namespaces",
        Action.LEAVE if is_lost else Action.REMOVE,
    )


def _has_pool(
    application: ApplicationFacts, references: References, *, is_declared: bool
) -> RefProblem | None:
    del is_declared
    if references.pool is not None:
        return None
    return RefProblem(
        Reason.POOL_NOT_FOUND,
        f"spec.poolRef.name: there is no Service {application.pool}",
        # A Service that is being replaced must not cost the application its history.
        Action.LEAVE,
    )


def _has_profile(
    application: ApplicationFacts, references: References, *, is_declared: bool
) -> RefProblem | None:
    del is_declared
    if application.profile is None or references.profile is not None:
        return None
    return RefProblem(
        Reason.PROFILE_NOT_FOUND,
        f"spec.predictor.profileRef.name: there is no PredictorProfile {application.profile}",
        Action.APPLY,  # runs are served all the same; estimates come from the ladder's other steps
    )


_RefCheck = Callable[..., RefProblem | None]
#: In this order; the first problem is told.
REF_CHECKS: tuple[_RefCheck, ...] = (_grants_namespace, _has_pool, _has_profile)


def check_references(
    application: ApplicationFacts, references: References, *, is_declared: bool
) -> RefProblem | None:
    """Find the first reference that does not resolve."""
    for check in REF_CHECKS:
        problem = check(application, references, is_declared=is_declared)
        if problem is not None:
            return problem
    return None


# -- plans -----------------------------------------------------------------------------------------


def plan_application(
    owner: str,
    application: ApplicationFacts,
    references: References,
    held: Mapping[Slot, Declared],
    ours: Iterable[Slot],
) -> Plan:
    """Decide what the service is told.

    ``held``: what it holds; ``ours``: the slots whose mark names this namespace and name, whatever
    the uid.
    """
    ours = tuple(ours)
    if application.spec is None:
        # An object that an older schema let in keeps what it had (FK3).
        return Plan(action=Action.LEAVE)
    wanted = build_program(owner, application)
    slot = Slot(wanted.pool, wanted.name)
    is_declared = slot in held and held[slot].program.declared_by == wanted.declared_by
    problem = check_references(application, references, is_declared=is_declared)
    if problem is not None and problem.action is not Action.APPLY:
        removed = ours if problem.action is Action.REMOVE else ()
        return Plan(action=problem.action, removed_after=removed)
    if is_elsewhere(owner, application, held.get(slot)):
        return Plan(action=Action.LEAVE, program=wanted)
    others = tuple(other for other in ours if other != slot)
    if is_declared and is_same(wanted, held[slot].program):
        return Plan(action=Action.KEEP, program=wanted, removed_after=others)
    is_reborn = slot in ours and not is_declared
    return Plan(
        action=Action.APPLY,
        program=wanted,
        removed_first=(slot,) if is_reborn else (),
        removed_after=others,
    )


def wanted_modes(applications: Iterable[ApplicationFacts]) -> dict[str, bool]:
    """Say of each pool whether it is to be in shadow: if all applications in force ask for it.

    An order that one application asks for is in force for all: a pool has one queue.
    """
    modes: dict[str, bool] = {}
    for application in applications:
        if application.spec is not None:
            pool = str(application.pool)
            is_shadow = application.spec.mode is Mode.SHADOW
            modes[pool] = modes.get(pool, True) and is_shadow
    return modes


def is_elsewhere(owner: str, application: ApplicationFacts, held: Declared | None) -> bool:
    """Whether somebody else keeps the slot declared.

    What nobody's mark is on (``justitia apply``, local mode) is taken over: the resource is the
    later and the lasting word.
    """
    if held is None or not held.program.declared_by:
        return False
    return key_of_mark(owner, held.program.declared_by) != application.meta.key
