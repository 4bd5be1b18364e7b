"""When runs arrive: times in seconds from 0 to the end of a window, in order."""

import math
import random
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Protocol

from justitia.core.errors import InvalidValueError


class Arrivals(Protocol):
    """A way of arriving. ``about`` is for reports."""

    @property
    def about(self) -> str:
        """A few words on it."""

    def times_s(self, rng: random.Random, num_runs: int, window_s: float) -> list[float]:
        """Draw ``num_runs`` times within the window, ascending."""


@dataclass(frozen=True, slots=True)
class Poisson:
    """Independent of one another: a Poisson process of which the number is given."""

    @property
    def about(self) -> str:
        """A few words on it."""
        return "Poisson"

    def times_s(self, rng: random.Random, num_runs: int, window_s: float) -> list[float]:
        """Draw times."""
        return sorted(window_s * rng.random() for _ in range(num_runs))


@dataclass(frozen=True, slots=True)
class Uniform:
    """At equal distances, the first at 0."""

    @property
    def about(self) -> str:
        """A few words on it."""
        return "at equal distances"

    def times_s(self, rng: random.Random, num_runs: int, window_s: float) -> list[float]:
        """Tell the times."""
        del rng
        return [number * window_s / num_runs for number in range(num_runs)]


@dataclass(frozen=True, slots=True, kw_only=True)
class OnOff:
    """Poisson while on, nothing while off; it begins with on.

    Raises:
        InvalidValueError: a time is not finite, ``on_s`` is not above 0, or ``off_s`` below 0.
    """

    on_s: float
    off_s: float

    def __post_init__(self) -> None:
        for name, value, least in (("on_s", self.on_s, 1e-9), ("off_s", self.off_s, 0.0)):
            if not least <= value < math.inf:
                raise InvalidValueError(name, f"must be a finite number >= {least}, got {value!r}")

    @property
    def about(self) -> str:
        """A few words on it."""
        return f"on for {self.on_s:g} s, off for {self.off_s:g} s"

    def times_s(self, rng: random.Random, num_runs: int, window_s: float) -> list[float]:
        """Draw times; a window that ends while off ends with the last on."""
        cycle_s = self.on_s + self.off_s
        whole, rest_s = divmod(window_s, cycle_s)
        on_total_s = whole * self.on_s + min(rest_s, self.on_s)
        drawn = sorted(on_total_s * rng.random() for _ in range(num_runs))
        return [min(at + at // self.on_s * self.off_s, window_s) for at in drawn]


@dataclass(frozen=True, slots=True, kw_only=True)
class Recorded:
    """Bursts as they were recorded: a stretch of a trace's timestamps, scaled to the window.

    The stretch begins at a random one. ``bucket_s``: the recording's resolution; each time is
    spread evenly over its bucket (Mooncake: about 3 s, within which its order is unknown).

    Raises:
        InvalidValueError: there are no timestamps, they are not ascending, or ``bucket_s`` is not
            a finite number >= 0.
    """

    timestamps_s: Sequence[float]
    bucket_s: float
    source: str = "a trace"

    def __post_init__(self) -> None:
        stamps = self.timestamps_s
        if not stamps or any(b < a for a, b in pairwise(stamps)):
            raise InvalidValueError("timestamps_s", "must be ascending, and at least one")
        if not 0 <= self.bucket_s < math.inf:
            raise InvalidValueError(
                "bucket_s", f"must be a finite number >= 0, got {self.bucket_s!r}"
            )

    @property
    def about(self) -> str:
        """A few words on it."""
        return f"bursts of {self.source}"

    def times_s(self, rng: random.Random, num_runs: int, window_s: float) -> list[float]:
        """Take a stretch.

        Raises:
            InvalidValueError: it has fewer timestamps than there are runs.
        """
        if num_runs > len(self.timestamps_s):
            raise InvalidValueError(
                "timestamps_s", f"has {len(self.timestamps_s)}, which are less than {num_runs} runs"
            )
        first = rng.randrange(len(self.timestamps_s) - num_runs + 1)
        stretch = self.timestamps_s[first : first + num_runs]
        times_s = jittered(stretch, self.bucket_s, rng)
        return scaled(times_s, window_s)


def jittered(times_s: Sequence[float], bucket_s: float, rng: random.Random) -> list[float]:
    """Spread each time evenly over its bucket, which begins at it; ascending."""
    return sorted(at + bucket_s * rng.random() for at in times_s)


def scaled(times_s: Sequence[float], window_s: float) -> list[float]:
    """Shift and stretch ascending times so that the first is 0 and the last the window's end.

    Times that are all one stay together, at 0.
    """
    if not times_s:
        return []
    first, span_s = times_s[0], times_s[-1] - times_s[0]
    if span_s <= 0:
        return [0.0] * len(times_s)
    return [min(window_s * ((at - first) / span_s), window_s) for at in times_s]
