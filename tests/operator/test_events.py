"""Events: stable reasons, one for each change, none for what is no news."""

from dataclasses import replace

import pytest

from justitia_operator.events import build_events
from justitia_operator.facts import Condition


def condition(type_, status, reason, message="m"):
    return Condition(type=type_, status=status, reason=reason, message=message, since="t")


READY = condition("Ready", "True", "Programmed")
REFUSED = condition("Ready", "False", "Refused")
AWAY = condition("Ready", "Unknown", "SchedulerUnreachable")
ABOVE = condition("FairnessObjectiveMet", "False", "ObjectiveMissed")
WITHIN = condition("FairnessObjectiveMet", "True", "ObjectiveMet")
FEW = condition("FairnessObjectiveMet", "Unknown", "TooFewRuns")


@pytest.mark.parametrize(
    ("old", "new", "expected"),
    [
        pytest.param([], [READY], ["Programmed"], id="first seen"),
        pytest.param([READY], [READY], [], id="no change"),
        pytest.param([READY], [replace(READY, message="other")], [], id="another message"),
        pytest.param([READY], [REFUSED], ["Refused"], id="refused"),
        pytest.param([REFUSED], [READY], ["Programmed"], id="accepted"),
        pytest.param([READY], [AWAY], [], id="the service is away: not each application's news"),
        pytest.param([AWAY], [READY], [], id="and back"),
        pytest.param([AWAY], [REFUSED], ["Refused"], id="back with a warning"),
        pytest.param([], [WITHIN], [], id="an objective that was never missed"),
        pytest.param([FEW], [WITHIN], [], id="enough runs"),
        pytest.param([WITHIN], [ABOVE], ["ObjectiveMissed"], id="missed"),
        pytest.param([ABOVE], [WITHIN], ["ObjectiveMet"], id="met again"),
    ],
)
def test_which_changes_are_told(old, new, expected):
    assert [event.reason for event in build_events(old, new)] == expected


def test_the_same_trouble_in_two_conditions_is_told_once():
    new = [
        condition("Ready", "False", "InvalidSpec"),
        condition("ResolvedRefs", "False", "InvalidSpec"),
        condition("PredictorReady", "False", "ProfileNotFound"),
    ]
    new.append(condition("ResolvedRefs", "False", "ProfileNotFound"))
    told = [(event.reason, event.type) for event in build_events([], new)]
    assert told == [("InvalidSpec", "Warning"), ("ProfileNotFound", "Warning")]


def test_an_event_carries_type_message_and_the_time_of_its_change():
    (event,) = build_events([READY], [replace(REFUSED, message="too much", since="then")])
    assert (event.type, event.message, event.since) == ("Warning", "too much", "then")
