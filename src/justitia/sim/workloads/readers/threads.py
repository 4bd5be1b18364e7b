"""Sessions of coding agents as trees: a main thread, and sub-agents that it may wait for."""

from dataclasses import dataclass, field
from typing import Final

from justitia.sim.scenario import Segment
from justitia.sim.workloads.readers.sessions import Call

MAIN: Final = ""
NO_SERVER_TIME: Final = "some calls lack the server's time: pauses after them have it in"


@dataclass(frozen=True, slots=True, kw_only=True)
class Timed:
    """A call with what is recorded of its times, in seconds after the session's begin.

    ``api_s``: how long the server took. ``think_s``: time between the end of the thread's call
    before and this one. None: not recorded.
    """

    prompt: tuple[Segment, ...]
    output_tokens: int
    at_s: float
    api_s: float | None = None
    think_s: float | None = None
    begins_turn: bool = False


@dataclass(kw_only=True)
class CallTree:
    """Calls of a session while it is read.

    A thread's call waits for the one before it; a sub-agent's first one for the main thread's last;
    the main thread's next one also for the sub-agents that it awaits. A pause is the time from the
    end of what a call waited for, as far as that is recorded: a tool's or a person's time.
    """

    calls: list[Call] = field(default_factory=list)
    #: When the call at that place ended; its begin where the server's time is not recorded.
    _ends_s: list[float] = field(default_factory=list)
    _last: dict[str, int] = field(default_factory=dict)
    _awaited: list[int] = field(default_factory=list)

    def add(self, timed: Timed, thread: str = MAIN) -> None:
        """Add a call of a thread; a new name begins a sub-agent."""
        after, think_s = self._waits(thread), timed.think_s
        if len(after) != 1 or thread not in self._last:
            think_s = None
        if thread == MAIN:
            self._awaited.clear()
        ended_s = max((self._ends_s[place] for place in after), default=timed.at_s)
        pause_s = timed.at_s - ended_s if think_s is None else think_s
        self._last[thread] = len(self.calls)
        self.calls.append(
            Call(
                prompt=timed.prompt,
                output_tokens=timed.output_tokens,
                at_s=timed.at_s,
                after=after,
                pause_s=max(0.0, pause_s) if after else 0.0,
                begins_turn=timed.begins_turn or not self.calls,
            )
        )
        self._ends_s.append(timed.at_s + max(0.0, timed.api_s or 0.0))

    def end(self, thread: str, *, is_awaited: bool) -> None:
        """End a sub-agent; ``is_awaited``: the main thread's next call waits for it."""
        last = self._last.pop(thread, None)
        if is_awaited and last is not None:
            self._awaited.append(last)

    @property
    def main_end_s(self) -> float:
        """When the main thread's last call ended; 0 before the first."""
        return self._ends_s[self._last[MAIN]] if MAIN in self._last else 0.0

    def _waits(self, thread: str) -> tuple[int, ...]:
        place = self._last.get(thread, self._last.get(MAIN))
        own = set() if place is None else {place}
        return tuple(sorted(own | (set(self._awaited) if thread == MAIN else set())))
