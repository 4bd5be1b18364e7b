"""All experiments, in the order in which the report tells them."""

import difflib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Final

from justitia.core.errors import InvalidValueError
from justitia.sim.reproduce import beyond, decisions, paper
from justitia.sim.reproduce.experiment import Experiment


@dataclass(frozen=True, slots=True)
class Part:
    """Experiments that belong together, as a part of the report."""

    title: str
    experiments: tuple[Experiment, ...]


CATALOGUE: Final = (
    Part("The paper's evaluation", paper.EXPERIMENTS),
    Part("Decisions", decisions.EXPERIMENTS),
    Part("Beyond the paper", beyond.EXPERIMENTS),
)


def choose(catalogue: Sequence[Part], names: Sequence[str]) -> tuple[Part, ...]:
    """Keep the experiments that are named, in the catalogue's order; all where none is named.

    Raises:
        InvalidValueError: there is no experiment of that name.
    """
    known = [each.name for each in every(catalogue)]
    for name in names:
        if name not in known:
            near = difflib.get_close_matches(name, known) or known
            raise InvalidValueError(name, f"is no experiment; there are: {', '.join(near)}")
    chosen = (
        Part(part.title, tuple(e for e in part.experiments if not names or e.name in names))
        for part in catalogue
    )
    return tuple(part for part in chosen if part.experiments)


def every(parts: Sequence[Part]) -> Iterator[Experiment]:
    """Go through the experiments of all parts."""
    return (experiment for part in parts for experiment in part.experiments)
