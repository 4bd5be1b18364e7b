"""Errors of the core: one base, one class per thing a caller may want to tell apart."""

from typing import Final

_MAX_SHOWN: Final = 80


class CoreError(Exception):
    """Base of every error that the core raises on purpose."""


class InvalidValueError(CoreError, ValueError):
    """A value from outside is refused. ``field`` names it, the message holds the value."""

    def __init__(self, field: str, problem: str) -> None:
        super().__init__(f"{field}: {problem}")
        self.field = field


def shown(value: object) -> str:
    """Write a refused value for a message: short, whatever was sent."""
    try:
        text = repr(value)
    except ValueError:  # Python refuses to print integers of more than 4300 digits
        return "a number of thousands of digits"
    return text if len(text) <= _MAX_SHOWN else f"{text[:_MAX_SHOWN]}..."


class UnknownRunError(CoreError, KeyError):
    """No open run has this id."""

    def __init__(self, run_id: str) -> None:
        super().__init__(run_id)
        self.run_id = run_id

    def __str__(self) -> str:
        return f"run_id: no open run {self.run_id!r}"


class RunExistsError(CoreError):
    """The id belongs to an open run that was started with other facts."""


class InvariantError(CoreError):
    """The core's own state contradicts itself: a bug here, never a caller's fault."""
