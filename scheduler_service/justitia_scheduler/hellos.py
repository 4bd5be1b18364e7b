"""Reading an engine's Hello, which may come in many messages."""

import asyncio
import contextlib
from collections.abc import AsyncIterator
from dataclasses import dataclass
from typing import Final

from justitia.api.v1 import engine_pb2
from justitia.core.errors import InvalidValueError
from justitia.core.units import Ticks
from justitia_scheduler.engine_facts import EngineFacts, KnownRun, engine_facts, known_runs
from justitia_scheduler.limits import MAX_KNOWN_RUNS, parse_ticks

#: How long an engine may take between its stream's start and the end of its Hello.
_TIMEOUT_S: Final = 30.0


@dataclass(frozen=True, kw_only=True, slots=True)
class WholeHello:
    """All pages of a Hello. ``num_dropped`` counts invalid items, and too many, by kind."""

    facts: EngineFacts
    known: list[KnownRun]
    last_value: Ticks
    num_dropped: dict[str, int]


async def read_hello(messages: AsyncIterator[engine_pb2.EngineMessage]) -> WholeHello:
    """Read all pages; runs beyond ``MAX_KNOWN_RUNS`` are left out, however many pages come.

    Raises:
        InvalidValueError: the stream begins with something else, ends or takes too long.
    """
    known: list[KnownRun] = []
    dropped: dict[str, int] = {}
    last_value = Ticks(0)
    with contextlib.suppress(StopAsyncIteration, TimeoutError):
        async with asyncio.timeout(_TIMEOUT_S):
            while True:
                message = await anext(messages)
                if not message.HasField("hello"):
                    break
                hello = message.hello
                _add(known, hello, dropped)
                last_value = max(last_value, _value(hello, dropped))
                if not hello.more_follows:
                    return WholeHello(
                        facts=engine_facts(hello),
                        known=known,
                        last_value=last_value,
                        num_dropped=dropped,
                    )
                await asyncio.sleep(0)
    raise InvalidValueError("message", "a session must begin with a whole Hello")


def _add(known: list[KnownRun], hello: engine_pb2.Hello, dropped: dict[str, int]) -> None:
    room = MAX_KNOWN_RUNS - len(known)
    if room > 0:
        page = known_runs(hello, num_dropped=dropped)
        known += page[:room]
        num_over = len(page) - room
    else:
        num_over = len(hello.known_runs)
    if num_over > 0:
        dropped["known_run"] = dropped.get("known_run", 0) + num_over


def _value(hello: engine_pb2.Hello, dropped: dict[str, int]) -> Ticks:
    if not hello.HasField("last_virtual_time"):
        return Ticks(0)
    try:
        return parse_ticks("last_virtual_time", hello.last_virtual_time.ticks)
    except InvalidValueError:
        dropped["last_virtual_time"] = dropped.get("last_virtual_time", 0) + 1
        return Ticks(0)
