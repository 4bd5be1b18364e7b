"""What an experiment is: what it wants played, and what it makes of that. Pure data.

An experiment says first which jobs it needs; somebody runs those that no earlier call has run, in
whatever order and process; then the experiment tells what came out. So nothing is lost when it is
interrupted, and two experiments that need the same play have it once.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, fields
from typing import Any, Protocol

from justitia.sim.loop import PlaySettings, play
from justitia.sim.results import PlayResult
from justitia.sim.scenario import Scenario

#: Arguments in a fixed order; all are plain values, so that a job has the same name everywhere.
Arguments = tuple[tuple[str, Any], ...]


@dataclass(frozen=True, slots=True)
class Case:
    """A scenario by the module-level function that makes it, and its arguments by name."""

    make: Callable[..., Scenario]
    arguments: Arguments = ()

    @classmethod
    def of(cls, make: Callable[..., Scenario], **arguments: Any) -> "Case":
        """Name a scenario; the arguments must have a repr that says all of them."""
        return cls(make, tuple(sorted(arguments.items())))

    @property
    def name(self) -> str:
        """The same for the same scenario."""
        return _call_name(self.make, self.arguments)

    def scenario(self) -> Scenario:
        """Make it."""
        return self.make(**dict(self.arguments))


class Job(Protocol):
    """Something that takes time and always comes to the same outcome. It can be pickled."""

    @property
    def name(self) -> str:
        """Say all that the outcome depends on, besides the code."""

    def run(self) -> Any:
        """Do it."""


@dataclass(frozen=True, slots=True)
class Play:
    """A scenario played under a policy; its outcome is a ``PlayResult``.

    ``warm_up``: a scenario that is played first, for ``settings.learning`` to have learned from.
    """

    case: Case
    policy: str
    settings: PlaySettings = field(default_factory=PlaySettings)
    warm_up: Case | None = None

    @property
    def name(self) -> str:
        """The same for the same play; says every field, those that may be absent by name."""
        said = ["play"]
        for each in fields(self):
            value = getattr(self, each.name)
            if each.default is not None:
                said.append(_said(value))
            elif value is not None:
                said.append(f"{each.name}={_said(value)}")
        return " ".join(said)

    def run(self) -> PlayResult:
        """Play it on fast engines."""
        warm_up = None if self.warm_up is None else self.warm_up.scenario()
        return play(self.case.scenario(), self.policy, self.settings, warm_up=warm_up)


@dataclass(frozen=True, slots=True)
class Measurement:
    """Whatever a module-level function finds out; its outcome is what JSON can hold.

    A file that it reads must be an argument of type ``Path``: when it changes, so does the outcome.
    ``is_timed``: it reads a clock, so nothing else may run meanwhile.
    """

    function: Callable[..., Any]
    arguments: Arguments = ()
    is_timed: bool = False

    @classmethod
    def of(cls, function: Callable[..., Any], **arguments: Any) -> "Measurement":
        """Name a measurement; the arguments must have a repr that says all of them."""
        return cls(function, tuple(sorted(arguments.items())))

    @classmethod
    def timed(cls, function: Callable[..., Any], **arguments: Any) -> "Measurement":
        """Name a measurement that reads a clock."""
        return cls(function, tuple(sorted(arguments.items())), is_timed=True)

    @property
    def name(self) -> str:
        """The same for the same measurement."""
        return f"measure {_call_name(self.function, self.arguments)}"

    def run(self) -> Any:
        """Call the function."""
        return self.function(**dict(self.arguments))


#: Outcomes by job.
Outcomes = Mapping[Any, Any]

#: None: nothing to say here. Numbers are rounded when they are shown.
Cell = str | int | float | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Table:
    """``columns`` name units; ``note`` stands below it."""

    title: str
    columns: tuple[str, ...]
    rows: tuple[tuple[Cell, ...], ...]
    note: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Series:
    """One line, or one bar of each group. ``is_paper``: read off the paper, drawn apart."""

    label: str
    values: tuple[float, ...]
    is_paper: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Figure:
    """``kind``: lines (over ``x``), bars (groups named by ``x``), or cdf (of the values)."""

    name: str
    title: str
    kind: str
    series: tuple[Series, ...]
    x: tuple[float, ...] | tuple[str, ...] = ()
    x_label: str = ""
    y_label: str = ""
    is_log_x: bool = False
    is_log_y: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Section:
    """What an experiment has to say. ``paragraphs`` are Markdown; numbers in them are computed."""

    paragraphs: tuple[str, ...] = ()
    tables: tuple[Table, ...] = ()
    figures: tuple[Figure, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Scale:
    """How much is played. ``--quick`` has one seed, fewer runs and fewer points."""

    seeds: tuple[int, ...] = (11, 12, 13)
    is_quick: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Experiment:
    """``name`` as in file names; ``source``: the figure or table of the paper, or empty."""

    name: str
    title: str
    source: str
    jobs: Callable[[Scale], Sequence[Job]]
    tell: Callable[[Scale, Outcomes], Section]
    about: str = ""


def _said(value: Any) -> str:
    if isinstance(value, Case):
        return value.name
    return value if isinstance(value, str) else repr(value)


def _call_name(function: Callable[..., Any], arguments: Arguments) -> str:
    shown = ", ".join(f"{name}={value!r}" for name, value in arguments)
    return f"{function.__module__}.{function.__qualname__}({shown})"
