"""Puts rows of one session together."""

from collections.abc import Iterator, Sequence
from dataclasses import replace

from justitia.core.errors import InvalidValueError
from justitia.sim.workloads.readers.files import Place
from justitia.sim.workloads.readers.reading import Reading
from justitia.sim.workloads.readers.sessions import Call, Session


class SessionBook:
    """Calls by session; one that belongs to none is a session of its own, complete at once.

    Where rows name sessions, whether a run is a request, a turn or the session must have been said.
    """

    def __init__(self, reading: Reading) -> None:
        self._reading = reading
        self._calls: dict[str, list[Call]] = {}

    def take(self, place: Place, session_id: object, call: Call) -> Iterator[Session]:
        """Take a call; what is complete comes back.

        Raises:
            InvalidValueError: the row names a session, and what a run is was not said.
        """
        if session_id in (None, ""):
            name = f"{self._reading.format_name}-{self._reading.num_rows}"
            yield Session(name=name, calls=(replace(call, at_s=0.0),), begins_at_s=call.at_s)
            return
        if self._reading.options.run_is is None:
            raise InvalidValueError(
                f"{place}: session_id", "is given: say whether a run is a request, turn or session"
            )
        self._calls.setdefault(str(session_id), []).append(call)

    def rest(self) -> Iterator[Session]:
        """Yield the sessions, in order of their first rows."""
        for session_id, calls in self._calls.items():
            begins_at_s = calls[0].at_s
            linked = tuple(_linked(calls, begins_at_s or 0.0))
            yield Session(name=session_id, calls=linked, begins_at_s=begins_at_s)


def _linked(calls: Sequence[Call], begins_at_s: float) -> Iterator[Call]:
    """Let each call wait for the one before.

    One that tells only its pause is put so long after the one before, as if that had taken no time.
    Where only times are told, the time between two is the pause, the server's own included.
    """
    at_s = 0.0
    for number, call in enumerate(calls):
        before_s = at_s
        at_s = before_s + call.pause_s if call.at_s is None else call.at_s - begins_at_s
        pause_s = call.pause_s or max(0.0, at_s - before_s)
        after = (number - 1,) if number else ()
        yield replace(call, at_s=at_s, after=after, pause_s=pause_s if number else 0.0)
