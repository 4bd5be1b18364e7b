"""Inputs of NVIDIA's AIPerf: JSON lines of its single-turn, multi-turn and Mooncake forms.

A row is a request with ``text`` (or ``text_input``, ``texts``, ``messages``) and perhaps
``output_length``, ``timestamp`` or ``delay`` (ms); or with numbers of tokens, as Mooncake's; or a
session with ``turns`` of these. A turn's prompt holds the turns before it and their outputs.
"""

from collections.abc import Iterable, Iterator, Sequence
from functools import partial
from pathlib import Path
from typing import Final

from justitia.core.errors import shown
from justitia.sim.workloads.readers.chats import as_text, text_prompt, told_output_tokens
from justitia.sim.workloads.readers.fields import (
    Fields,
    as_list,
    as_object,
    first_of,
    optional_seconds,
)
from justitia.sim.workloads.readers.files import Place
from justitia.sim.workloads.readers.mooncake import Blocks, request
from justitia.sim.workloads.readers.prompts import GrowingPrompt
from justitia.sim.workloads.readers.reading import Reading
from justitia.sim.workloads.readers.session_book import SessionBook
from justitia.sim.workloads.readers.sessions import Call, Session

_TEXTS: Final = ("text", "text_input", "texts", "messages")


def read_aiperf(reading: Reading, paths: Iterable[Path]) -> Iterator[Session]:
    """Read requests and sessions."""
    blocks, book = Blocks(reading), SessionBook(reading)
    for path in paths:
        for place, fields in reading.json_rows(path):
            if "turns" in fields:
                session = reading.attempt(place, partial(_session, reading, place, fields))
                if session is not None and session.calls:
                    yield session
                continue
            call = reading.attempt(place, partial(_request, reading, blocks, place, fields))
            if call is not None and not reading.is_failed(call.output_tokens):
                yield from book.take(place, fields.get("session_id"), call)
    yield from book.rest()


def _request(reading: Reading, blocks: Blocks, place: Place, fields: Fields) -> Call:
    if first_of(fields, "input_length", "input_tokens") is not None:
        return request(reading, blocks, place, fields)
    text = _text(fields)
    at_s, delay_s = _times_s(reading, fields)
    return Call(
        prompt=text_prompt(reading, text),
        output_tokens=told_output_tokens(reading, fields, "output_length"),
        at_s=at_s,
        pause_s=delay_s or 0.0,
        begins_turn=True,
        text=text,
    )


def _session(reading: Reading, place: Place, fields: Fields) -> Session:
    unique = reading.unique(place)
    turns = [as_object(turn, "turns") for turn in as_list(fields["turns"], "turns")]
    if not turns:
        raise ValueError("turns: must have at least one")
    return Session(
        name=str(fields.get("session_id") or unique),
        calls=tuple(_calls(reading, unique, turns)),
        begins_at_s=_times_s(reading, turns[0])[0],
    )


def _calls(reading: Reading, name: str, turns: Sequence[Fields]) -> Iterator[Call]:
    prompt, history_tokens, at_s, num = GrowingPrompt(name), 0, 0.0, 0
    begins_s = next((at for turn in turns if (at := _times_s(reading, turn)[0]) is not None), None)
    for turn in turns:
        text = _text(turn)
        history_tokens += reading.text_tokens(text)
        if turn.get("role") == "system":
            continue
        told_s, delay_s = _times_s(reading, turn)
        before_s = at_s
        at_s = before_s + (delay_s or 0.0) if told_s is None else told_s - (begins_s or 0.0)
        output_tokens = told_output_tokens(reading, turn, "output_length")
        yield Call(
            prompt=prompt.next(history_tokens, prompt.tokens),
            output_tokens=output_tokens,
            at_s=at_s,
            after=(num - 1,) if num else (),
            pause_s=max(0.0, at_s - before_s) if num else 0.0,
            begins_turn=True,
            text=text,
        )
        history_tokens += output_tokens
        num += 1


def _times_s(reading: Reading, fields: Fields) -> tuple[float | None, float | None]:
    unit_s = reading.unit_s
    at_s = optional_seconds(fields, "timestamp", unit_s=unit_s)
    return at_s, optional_seconds(fields, "delay", unit_s=unit_s)


def _text(fields: Fields) -> str:
    name = next((name for name in _TEXTS if fields.get(name) is not None), None)
    if name is None:
        raise ValueError(f"text: must be given; the row has {shown(sorted(fields))}")
    if name != "messages":
        return as_text(fields[name], name)
    messages = (as_object(each, name) for each in as_list(fields[name], name))
    return "\n".join(as_text(message.get("content") or "", "content") for message in messages)
