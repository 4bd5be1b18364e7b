"""Errors of the core: one base, one class per thing a caller may want to tell apart."""


class CoreError(Exception):
    """Base of every error that the core raises on purpose."""


class InvalidValueError(CoreError, ValueError):
    """A value from outside is refused. ``field`` names it, the message holds the value."""

    def __init__(self, field: str, problem: str) -> None:
        super().__init__(f"{field}: {problem}")
        self.field = field


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
