"""Sessions of coding agents by TraceLab (uw-syfi): JSONL, a row a call of the model.

Read are ``session_id``, ``round_index``, ``input_tokens_total``, ``prefix_tokens`` (how many of
them the engine had cached), ``output_tokens``, ``first_input_event_type`` and ``timing_events``. A
call is made at its last input event and ends at its last output event. A session's prompts share
what ``prefix_tokens`` tells; sharing between sessions is not recorded. Sub-agents are sessions of
their own, whose parents the corpus does not name: they are read as such.
"""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Final

from justitia.sim.workloads.readers.fields import Fields, as_list, as_object, instant, tokens
from justitia.sim.workloads.readers.prompts import GrowingPrompt
from justitia.sim.workloads.readers.reading import Reading
from justitia.sim.workloads.readers.sessions import Session
from justitia.sim.workloads.readers.threads import CallTree, Timed

_INPUTS: Final = ("user_message", "tool_result")
_OUTPUTS: Final = ("text", "reasoning", "tool_call")


@dataclass(frozen=True, slots=True, kw_only=True)
class _Round:
    index: int
    at_s: float
    ended_s: float
    input_tokens: int
    prefix_tokens: int
    output_tokens: int
    begins_turn: bool


def read_tracelab(reading: Reading, paths: Iterable[Path]) -> Iterator[Session]:
    """Read sessions; their rows may be anywhere in the files."""
    rounds: dict[str, list[_Round]] = {}
    for path in paths:
        for place, fields in reading.json_rows(path):
            found = reading.attempt(place, partial(_round, fields))
            if found is not None and not reading.is_failed(found.output_tokens):
                rounds.setdefault(str(fields["session_id"]), []).append(found)
    reading.note("sub-agents are sessions of their own, as the corpus has them")
    for session_id, found_rounds in rounds.items():
        yield _session(session_id, found_rounds)


def _session(session_id: str, rounds: list[_Round]) -> Session:
    ordered = sorted(rounds, key=lambda each: (each.at_s, each.index))
    begins_s = ordered[0].at_s
    tree, prompt = CallTree(), GrowingPrompt(f"tracelab/{session_id}")
    for each in ordered:
        tree.add(
            Timed(
                prompt=prompt.next(each.input_tokens, each.prefix_tokens),
                output_tokens=each.output_tokens,
                at_s=each.at_s - begins_s,
                api_s=each.ended_s - each.at_s,
                begins_turn=each.begins_turn,
            )
        )
    return Session(name=session_id, calls=tuple(tree.calls), begins_at_s=begins_s)


def _round(fields: Fields) -> _Round:
    if not fields.get("session_id"):
        raise ValueError("session_id: must be given")
    events = [
        as_object(event, "timing_events")
        for event in as_list(fields.get("timing_events"), "timing_events")
    ]
    asked = _instants(events, _INPUTS)
    answered = _instants(events, _OUTPUTS)
    if not asked and not answered:
        raise ValueError("timing_events: tell no time")
    at_s = max(asked) if asked else min(answered)
    first = fields.get("first_input_event_type")
    kinds = [event.get("event_type") for event in events]
    return _Round(
        index=tokens(fields, "round_index"),
        at_s=at_s,
        ended_s=max([at_s, *answered]),
        input_tokens=tokens(fields, "input_tokens_total", least=1),
        prefix_tokens=tokens(fields, "prefix_tokens"),
        output_tokens=tokens(fields, "output_tokens"),
        begins_turn=first == "user_message" if first else "user_message" in kinds,
    )


def _instants(events: Iterable[Fields], types: Iterable[str]) -> list[float]:
    wanted = set(types)
    return [
        instant(event.get("timestamp"), "timing_events: timestamp")
        for event in events
        if event.get("event_type") in wanted and event.get("timestamp")
    ]
