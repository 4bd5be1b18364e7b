"""Which changes of conditions are told as Kubernetes events. Pure.

An event tells of a change, so it comes from the conditions before and after: nothing is told again
after a restart, and what changes nothing is not told at all. What concerns all applications at once
(the scheduler service is away) is left to metrics and conditions.
"""

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Final

from justitia_operator.conditions import Reason, Type
from justitia_operator.facts import Condition

NORMAL: Final = "Normal"
WARNING: Final = "Warning"

#: Every event: its reason and its type.
EVENT_TYPES: Final = {
    Reason.PROGRAMMED: NORMAL,
    Reason.INVALID_SPEC: WARNING,
    Reason.DECLARED_ELSEWHERE: WARNING,
    Reason.REFUSED: WARNING,
    Reason.REF_NOT_PERMITTED: WARNING,
    Reason.POOL_NOT_FOUND: WARNING,
    Reason.PROFILE_NOT_FOUND: WARNING,
    Reason.PROFILE_INVALID: WARNING,
    Reason.PROMPTS_WITHHELD: WARNING,
    Reason.MODEL_ACTIVE: NORMAL,
    Reason.TRAINING_FAILED: WARNING,
    Reason.NOTHING_PUBLISHED: WARNING,
    Reason.ENGINE_POLICY_DIFFERS: WARNING,
    Reason.POOL_ENFORCES: WARNING,
    Reason.POOL_IN_SHADOW: WARNING,
    Reason.NOT_ENFORCED: WARNING,
    Reason.OBJECTIVE_MISSED: WARNING,
    Reason.OBJECTIVE_MET: NORMAL,
    Reason.JOB_CREATED: NORMAL,
    Reason.TRAINING_REFUSED: WARNING,
}
#: Told only as the end of what another event told the beginning of.
_ENDINGS: Final = {Reason.OBJECTIVE_MET: Reason.OBJECTIVE_MISSED}
#: The same reason in two conditions is told once.
_TELLING: Final = {
    Reason.INVALID_SPEC: Type.READY,
    Reason.PROFILE_NOT_FOUND: Type.RESOLVED_REFS,
    Reason.TRAINING_FAILED: Type.PREDICTOR_READY,
}
#: A condition that comes back from these says nothing new.
_PAUSES: Final = (Reason.SCHEDULER_UNREACHABLE, Reason.NOT_PROGRAMMED)


@dataclass(frozen=True, kw_only=True, slots=True)
class Event:
    """An event about an object; ``since`` tells two of the same reason apart."""

    type: str
    reason: str
    message: str
    since: str = ""


def build_events(old: Iterable[Condition], new: Iterable[Condition]) -> tuple[Event, ...]:
    """Say what changed, one event for each condition at most."""
    before = {condition.type: condition for condition in old}
    return tuple(
        Event(
            type=EVENT_TYPES[Reason(condition.reason)],
            reason=condition.reason,
            message=condition.message,
            since=condition.since,
        )
        for condition in new
        if _is_told(before.get(condition.type), condition)
    )


def _is_told(before: Condition | None, after: Condition) -> bool:
    if (
        after.reason not in EVENT_TYPES
        or _TELLING.get(Reason(after.reason), after.type) != after.type
    ):
        return False
    if before is None:
        return after.reason not in _ENDINGS
    if before.reason == after.reason:
        return False
    if after.reason in _ENDINGS:
        return before.reason == _ENDINGS[Reason(after.reason)]
    is_pause = before.reason in _PAUSES and before.status == "Unknown"
    return not (is_pause and EVENT_TYPES[Reason(after.reason)] == NORMAL)
