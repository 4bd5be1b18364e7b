"""A length or a count that differs from run to run: lognormal, rounded, within bounds."""

import math
import random
from dataclasses import dataclass
from typing import Final

SYNTHETIC: Final = "synthetic"


@dataclass(frozen=True, slots=True)
class Spread:
    """Median, spread and bounds of one number of a table.

    ``sigma``: standard deviation of the logarithm; 0 is a fixed number. ``own``: share of that
    variance which each inference has for itself, from 0 to 1; the rest all inferences of a run have
    in common, and it is what a predictor can learn. ``source``: where the number comes from.
    """

    median: int
    sigma: float
    least: int
    most: int
    own: float = 0.5
    source: str = SYNTHETIC

    def draw(self, rng: random.Random, common: float) -> int:
        """Draw the number for one inference.

        ``common``: how far the run as a whole lies above the median, in standard deviations.
        """
        deviations = math.sqrt(1 - self.own) * common + math.sqrt(self.own) * rng.gauss(0, 1)
        number = round(self.median * math.exp(self.sigma * deviations))
        return min(max(number, self.least), self.most)


def fixed(number: int, source: str = SYNTHETIC) -> Spread:
    """Make a number that is always the same."""
    return Spread(number, 0.0, number, number, 0.0, source)
