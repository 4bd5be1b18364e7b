"""Data sets of text: conversations as ShareGPT has them, and prompts for vLLM's benchmarks.

A conversation: ``conversations`` (``from``, ``value``) or ``messages`` (``role``, ``content``);
each answer in it is a call, whose prompt is everything before. A prompt: ``prompt``, and perhaps
``output_tokens``. Neither has times, nor numbers of tokens.
"""

import hashlib
from collections.abc import Iterable, Iterator
from functools import partial
from pathlib import Path
from typing import Final

from justitia.core.errors import InvalidValueError
from justitia.sim.scenario import Segment
from justitia.sim.workloads.readers.documents import objects_of
from justitia.sim.workloads.readers.fields import Fields, as_list, as_object, first_of, tokens
from justitia.sim.workloads.readers.files import Place
from justitia.sim.workloads.readers.prompts import GrowingPrompt
from justitia.sim.workloads.readers.reading import Reading
from justitia.sim.workloads.readers.sessions import Call, Session

_ANSWERS: Final = ("assistant", "gpt", "chatgpt", "bing", "bard", "model")
_ASKS: Final = ("user", "human")


def read_chats(reading: Reading, paths: Iterable[Path]) -> Iterator[Session]:
    """Read conversations, from an array or JSON lines."""
    for path in paths:
        for place, fields in objects_of(reading, path):
            session = reading.attempt(place, partial(_conversation, reading, place, fields))
            if session is not None and session.calls:
                yield session


def read_prompts(reading: Reading, paths: Iterable[Path]) -> Iterator[Session]:
    """Read prompts."""
    for path in paths:
        for place, fields in objects_of(reading, path):
            session = reading.attempt(place, partial(_prompt, reading, place, fields))
            if session is not None and not reading.is_failed(session.calls[0].output_tokens):
                yield session


def text_prompt(reading: Reading, text: str) -> tuple[Segment, ...]:
    """Make the prompt of a text; equal texts are equal prompts."""
    digest = hashlib.sha256(text.encode(errors="surrogatepass")).hexdigest()
    return (Segment(f"text/{digest[:24]}", reading.text_tokens(text)),)


def told_output_tokens(reading: Reading, fields: Fields, *names: str) -> int:
    """Return the length of an output that a row tells, or the option's.

    Raises:
        ValueError: it tells a bad one.
        InvalidValueError: neither is there.
    """
    if first_of(fields, *names) is not None:
        return tokens(fields, *names)
    if reading.options.output_tokens is None:
        raise InvalidValueError(
            "output_tokens", f"must be given: the file has rows without {names[0]}"
        )
    return reading.options.output_tokens


def as_text(value: object, name: str) -> str:
    """Return a text, or the texts of a list of parts.

    Raises:
        ValueError: it is neither.
    """
    if isinstance(value, str):
        return value
    if isinstance(value, list):
        parts = (part.get("text", "") if isinstance(part, dict) else part for part in value)
        return "".join(part for part in parts if isinstance(part, str))
    raise ValueError(f"{name}: must be a text, got {type(value).__name__}")


def think_s(reading: Reading) -> float:
    """Return the time between turns.

    Raises:
        InvalidValueError: it was not told.
    """
    if reading.options.think_s is None:
        raise InvalidValueError(
            "think_s", "must be given: the file's sessions have turns and no times"
        )
    return reading.options.think_s


def _conversation(reading: Reading, place: Place, fields: Fields) -> Session:
    name = reading.unique(place)
    prompt = GrowingPrompt(name)
    calls: list[Call] = []
    history_tokens, at_s, asked, has_asked = 0, 0.0, "", False
    for role, text in _messages(fields):
        length = reading.text_tokens(text) if text else 0
        if role in _ANSWERS and history_tokens and length:
            waits_s = think_s(reading) if calls and has_asked else 0.0
            at_s += waits_s
            calls.append(
                Call(
                    prompt=prompt.next(history_tokens, prompt.tokens),
                    output_tokens=length,
                    at_s=at_s,
                    after=(len(calls) - 1,) if calls else (),
                    pause_s=waits_s,
                    begins_turn=has_asked or not calls,
                    text=asked,
                )
            )
            has_asked = False
        elif role in _ASKS:
            asked, has_asked = text, True
        history_tokens += length
    return Session(name=name, calls=tuple(calls))


def _messages(fields: Fields) -> Iterator[tuple[str, str]]:
    key = next((key for key in ("conversations", "messages") if key in fields), None)
    if key is None:
        raise ValueError("conversations: must be given, or messages")
    for number, entry in enumerate(as_list(fields[key], key)):
        message = as_object(entry, f"{key}[{number}]")
        text = first_of(message, "value", "content")
        yield (
            str(first_of(message, "from", "role")).lower(),
            "" if text is None else as_text(text, f"{key}[{number}]"),
        )


def _prompt(reading: Reading, place: Place, fields: Fields) -> Session:
    text = as_text(fields.get("prompt"), "prompt")
    call = Call(
        prompt=text_prompt(reading, text),
        output_tokens=told_output_tokens(reading, fields, "output_tokens", "expected_output_len"),
        begins_turn=True,
        text=text,
    )
    return Session(name=reading.unique(place), calls=(call,))
