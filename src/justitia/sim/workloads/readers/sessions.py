"""What readers find, before it is cut into runs: sessions of calls."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

from justitia.sim.scenario import InferencePlan, RunPlan, Segment
from justitia.sim.workloads.readers.options import RunIs


@dataclass(frozen=True, slots=True, kw_only=True)
class Call:
    """One call of a model in a session.

    ``at_s``: when it was made, in seconds after the session's begin; None: not known. ``after``:
    places of the session's calls whose end it waits for, ``pause_s`` the time from there on.
    ``begins_turn``: a user's question, and no tool's result.
    """

    prompt: tuple[Segment, ...]
    output_tokens: int
    at_s: float | None = 0.0
    after: tuple[int, ...] = ()
    pause_s: float = 0.0
    begins_turn: bool = False
    text: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Session:
    """Calls in the order in which they were made; ``begins_at_s`` None: the file does not tell.

    A request that belongs to no session is one of one call.
    """

    name: str
    calls: tuple[Call, ...]
    begins_at_s: float | None = None
    application: str = ""


def runs_of(
    session: Session, run_is: RunIs, *, begins_at_s: float, application: str
) -> Iterator[RunPlan]:
    """Cut a session into runs."""
    parts = _parts(session.calls, run_is)
    for number, places in enumerate(parts):
        first = session.calls[places[0]]
        yield RunPlan(
            id=session.name if len(parts) == 1 else f"{session.name}/{number}",
            application=session.application or application,
            arrival_s=begins_at_s + (first.at_s or 0.0),
            inferences=tuple(_inferences(session.calls, places)),
            text=first.text,
        )


def _parts(calls: Sequence[Call], run_is: RunIs) -> list[list[int]]:
    parts: list[list[int]] = []
    for place, call in enumerate(calls):
        is_new = {
            RunIs.REQUEST: True,
            RunIs.TURN: call.begins_turn,
            RunIs.SESSION: False,
        }[run_is]
        if is_new or not parts:
            parts.append([])
        parts[-1].append(place)
    return parts


def _inferences(calls: Sequence[Call], places: Sequence[int]) -> Iterator[InferencePlan]:
    """Keep the order inside the part; what waited for calls of another part comes at its time."""
    inside = {place: number for number, place in enumerate(places)}
    begin_s = calls[places[0]].at_s or 0.0
    for place in places:
        call = calls[place]
        after = tuple(inside[other] for other in call.after if other in inside)
        pause_s = call.pause_s if after else max(0.0, (call.at_s or 0.0) - begin_s)
        yield InferencePlan(
            prompt=call.prompt, output_tokens=call.output_tokens, after=after, pause_s=pause_s
        )


def with_pauses_up_to(session: Session, max_pause_s: float | None) -> Session:
    """Cut pauses that are longer; the calls from there on were made so much earlier."""
    if max_pause_s is None:
        return session
    calls: list[Call] = []
    cut_s = 0.0
    for call in session.calls:
        pause_s = min(call.pause_s, max_pause_s)
        cut_s += call.pause_s - pause_s
        at_s = None if call.at_s is None else max(0.0, call.at_s - cut_s)
        calls.append(replace(call, pause_s=pause_s, at_s=at_s))
    return replace(session, calls=tuple(calls))
