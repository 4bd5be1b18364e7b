"""What a type of applications is made of: stages of inferences that are alike."""

from dataclasses import dataclass
from enum import StrEnum

from justitia.sim.workloads.spread import SYNTHETIC, Spread


class SizeClass(StrEnum):
    """How large runs of a type are, against those of the others."""

    SMALL = "small"
    MEDIUM = "medium"
    LARGE = "large"

    @property
    def priority(self) -> int:
        """Priority that a careful client sends with them: small ones first."""
        return list(SizeClass).index(self)


class Waits(StrEnum):
    """What an inference of a stage waits for."""

    #: For all inferences of the stage before.
    ALL = "all"
    #: For its counterpart in the stage before, of which there are as many.
    EACH = "each"
    #: For the one before it in its own stage, whose prompt it extends.
    CHAIN = "chain"


@dataclass(frozen=True, slots=True, kw_only=True)
class Stage:
    """Inferences of a run that are alike.

    The prompt is, in this order: the instructions that all runs of the type share, the run's text
    (``reads_text``), what the inference has of its own, and the outputs of the stage before
    (``reads_output_tokens``: that many of them at most, 0 none). ``count`` None: as many as the
    stage before. ``pause_s``: shortest and longest time of a tool before the stage.
    """

    name: str
    count: Spread | None
    instructions: Spread
    output: Spread
    own: Spread | None = None
    reads_text: bool = False
    reads_output_tokens: int = 0
    waits: Waits = Waits.ALL
    pause_s: tuple[float, float] = (0.0, 0.0)


@dataclass(frozen=True, slots=True, kw_only=True)
class Kind:
    """A type of applications. ``text``: length of what the user sends, shared by its inferences.

    ``shape_source`` says where the stages come from; each number has a source of its own.
    """

    name: str
    abbreviation: str
    about: str
    size_class: SizeClass
    text: Spread
    stages: tuple[Stage, ...]
    shape_source: str = SYNTHETIC
