"""What can go wrong with a call, and the one table from that to gRPC status codes."""

from collections.abc import Mapping
from enum import StrEnum
from typing import Final

import grpc

from justitia.core.errors import (
    CoreError,
    InvalidValueError,
    InvariantError,
    RunExistsError,
    UnknownRunError,
)


class Outcome(StrEnum):
    """How a refused call is classed; also a metric's label."""

    INVALID = "invalid"  # a field's value; nothing changed
    NOT_FOUND = "not_found"
    PRECONDITION = "precondition"  # what is declared forbids it
    CONFLICT = "conflict"  # the id belongs to something with other facts
    EXHAUSTED = "exhausted"  # a limit is reached; later may work
    REPLACED = "replaced"  # a newer session of the same engine took over
    STOPPING = "stopping"  # the service is being stopped
    BUG = "bug"  # never a caller's fault


STATUS: Final[Mapping[Outcome, grpc.StatusCode]] = {
    Outcome.INVALID: grpc.StatusCode.INVALID_ARGUMENT,
    Outcome.NOT_FOUND: grpc.StatusCode.NOT_FOUND,
    Outcome.PRECONDITION: grpc.StatusCode.FAILED_PRECONDITION,
    Outcome.CONFLICT: grpc.StatusCode.ALREADY_EXISTS,
    Outcome.EXHAUSTED: grpc.StatusCode.RESOURCE_EXHAUSTED,
    Outcome.REPLACED: grpc.StatusCode.ABORTED,
    Outcome.STOPPING: grpc.StatusCode.UNAVAILABLE,
    Outcome.BUG: grpc.StatusCode.INTERNAL,
}

_CORE: Final[tuple[tuple[type[CoreError], Outcome], ...]] = (
    (InvalidValueError, Outcome.INVALID),
    (UnknownRunError, Outcome.NOT_FOUND),
    (RunExistsError, Outcome.CONFLICT),
    (InvariantError, Outcome.BUG),
)


class CallError(Exception):
    """A call is refused; the message names the field, the value and, if any, the next step."""

    def __init__(self, outcome: Outcome, message: str) -> None:
        super().__init__(message)
        self.outcome = outcome


def outcome_of(error: BaseException) -> Outcome:
    """Class any error that came out of a call."""
    if isinstance(error, CallError):
        return error.outcome
    return next((outcome for kind, outcome in _CORE if isinstance(error, kind)), Outcome.BUG)
