"""What experiments share in telling: numbers over seeds, and plays beside a reference.

A quotient is taken within a seed first; then come the median over the seeds and their range.
"""

import statistics
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any, Final

from justitia.sim.reproduce.experiment import Job, Outcomes, Play, Scale
from justitia.sim.results import PlayResult

#: Makes the job of a seed.
JobOfSeed = Callable[[int], Job]
PlayOfSeed = Callable[[int], Play]


@dataclass(frozen=True, slots=True)
class Spread:
    """Median and range over seeds. As text: ``0.412 (0.398 to 0.431)``."""

    median: float
    least: float
    most: float

    @classmethod
    def of(cls, values: Iterable[float]) -> "Spread":
        """Take at least one value."""
        listed = sorted(values)
        return cls(statistics.median(listed), listed[0], listed[-1])

    def shown(self, form: Callable[[float], str]) -> str:
        """Write it; the range only where there is one."""
        middle, least, most = form(self.median), form(self.least), form(self.most)
        return middle if least == most else f"{middle} ({least} to {most})"

    def __str__(self) -> str:
        """Write it as numbers."""
        return self.shown(number)

    @property
    def as_percent(self) -> str:
        """Write shares as percent."""
        return self.shown(percent)


@dataclass(frozen=True, slots=True, kw_only=True)
class Versus:
    """A play against a reference, over seeds (``PlayResult.against``)."""

    mean_jct: Spread
    share_not_later: Spread
    worst: Spread

    def cells(self) -> tuple[str, str, str]:
        """As under ``VERSUS_COLUMNS``."""
        return str(self.mean_jct), self.share_not_later.as_percent, str(self.worst)


VERSUS_COLUMNS: Final = ("mean JCT ÷ reference's", "runs not later", "worst quotient")
"""Columns of ``Versus.cells``; say in the table's note what the reference is."""


def over_seeds(
    scale: Scale, outcomes: Outcomes, job_of: JobOfSeed, measure: Callable[[Any], float]
) -> Spread:
    """Measure the outcome of each seed's job."""
    return Spread.of(measure(outcomes[job_of(seed)]) for seed in scale.seeds)


def quotient(
    scale: Scale,
    outcomes: Outcomes,
    play_of: PlayOfSeed,
    reference_of: PlayOfSeed,
    measure: Callable[[PlayResult], float],
) -> Spread:
    """Divide by the reference's number of the same seed."""
    return Spread.of(
        measure(outcomes[play_of(seed)]) / measure(outcomes[reference_of(seed)])
        for seed in scale.seeds
    )


def versus(
    scale: Scale, outcomes: Outcomes, play_of: PlayOfSeed, reference_of: PlayOfSeed
) -> Versus:
    """Compare run by run with the reference's play of the same seed."""
    each = [outcomes[play_of(seed)].against(outcomes[reference_of(seed)]) for seed in scale.seeds]
    return Versus(
        mean_jct=Spread.of(one.mean_jct_quotient for one in each),
        share_not_later=Spread.of(one.share_not_later for one in each),
        worst=Spread.of(one.worst for one in each),
    )


def mean_jct_s(result: PlayResult) -> float:
    """Mean job completion time."""
    return result.summarize().mean_jct_s


def p90_jct_s(result: PlayResult) -> float:
    """90th percentile of the job completion times."""
    return result.summarize().p90_jct_s


_WHOLE: Final = 100
_ONE_PLACE: Final = 10
_THREE_PLACES: Final = 0.1


def number(value: float) -> str:
    """Write a number with about three digits that count."""
    size = abs(value)
    if size >= _WHOLE:
        return f"{value:,.0f}"
    if size >= _ONE_PLACE:
        return f"{value:.1f}"
    return f"{value:.3f}" if size >= _THREE_PLACES else f"{value:.3g}"


def percent(share: float) -> str:
    """Write a share as percent."""
    return f"{100 * share:.1f} %"


def listed_seeds(scale: Scale) -> str:
    """Name the seeds, for a note below a table."""
    names = ", ".join(str(seed) for seed in scale.seeds)
    return f"seed {names}" if len(scale.seeds) == 1 else f"median (range) over seeds {names}"
