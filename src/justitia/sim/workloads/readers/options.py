"""What a reader has to be told, because files do not tell it or are not to be trusted."""

import math
from dataclasses import dataclass
from enum import StrEnum

from justitia.core.errors import InvalidValueError
from justitia.sim.scenario import EnginePlan
from justitia.sim.workloads.tables import PAPER_ENGINE


class RunIs(StrEnum):
    """What of a file becomes a run."""

    REQUEST = "request"
    #: What a user asks and all that follows from it until the next question.
    TURN = "turn"
    SESSION = "session"


class TimeUnit(StrEnum):
    """Unit of a file's timestamps."""

    SECONDS = "s"
    MILLISECONDS = "ms"

    @property
    def seconds(self) -> float:
        """Length of it."""
        return 1.0 if self is TimeUnit.SECONDS else 1e-3


class IdScope(StrEnum):
    """Where equal ids of blocks mean equal tokens."""

    GLOBAL = "global"
    FILE = "file"


@dataclass(frozen=True, slots=True, kw_only=True)
class ReadOptions:
    """How to read; None leaves it to what the format declares.

    Raises:
        InvalidValueError: a number is out of its range.
    """

    seed: int = 0
    #: Name of the runs' application; empty: the format's name.
    application: str = ""
    run_is: RunIs | None = None
    time_unit: TimeUnit | None = None
    block_size_tokens: int | None = None
    id_scope: IdScope | None = None
    #: Arrivals are scaled to this window; pauses inside runs are not. Files that do not tell when
    #: sessions began need it: they begin at times drawn from it.
    window_s: float | None = None
    #: Resolution of the timestamps: each is spread evenly over so much.
    bucket_s: float = 0.0
    #: Longest pause between two inferences of a run, such as a tool's; longer ones are cut.
    max_pause_s: float | None = None
    #: Time between a session's turns, where the file does not tell.
    think_s: float | None = None
    #: For files that hold text and no numbers of tokens.
    chars_per_token: float | None = None
    #: For requests that do not tell how long their output is.
    output_tokens: int | None = None
    #: Runs are read until there are so many.
    max_runs: int | None = None
    #: Keep requests whose output has 0 tokens, which are failures in most traces.
    does_keep_failed: bool = False
    #: Sub-agents' times count from the session's begin and not from the sub-agent's.
    are_sub_agents_absolute: bool = False
    #: The first bad row ends the reading, instead of being counted.
    is_strict: bool = False
    engines: tuple[EnginePlan, ...] = (PAPER_ENGINE,)

    def __post_init__(self) -> None:
        for name, value in (
            ("window_s", self.window_s),
            ("bucket_s", self.bucket_s),
            ("max_pause_s", self.max_pause_s),
            ("think_s", self.think_s),
        ):
            if value is not None and not 0 <= value < math.inf:
                raise InvalidValueError(name, f"must be a finite number >= 0, got {value!r}")
        for name, number in (
            ("block_size_tokens", self.block_size_tokens),
            ("max_runs", self.max_runs),
            ("output_tokens", self.output_tokens),
        ):
            if number is not None and number < 1:
                raise InvalidValueError(name, f"must be >= 1, got {number!r}")
        if self.chars_per_token is not None and not 0 < self.chars_per_token < math.inf:
            raise InvalidValueError(
                "chars_per_token", f"must be a finite number > 0, got {self.chars_per_token!r}"
            )
