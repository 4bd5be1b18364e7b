"""The two clocks of the service, handed in so that tests own time."""

import time
from collections.abc import Callable
from dataclasses import dataclass


@dataclass(frozen=True, kw_only=True, slots=True)
class Clocks:
    """Where times come from; nothing else in the service reads a clock.

    ``monotonic_s`` never goes back and decides everything. ``wall_s`` (seconds since 1970) is only
    for what people read and for what must survive a restart; it may jump.
    """

    monotonic_s: Callable[[], float] = time.monotonic
    wall_s: Callable[[], float] = time.time

    def wall_at(self, monotonic_s: float) -> float:
        """Wall-clock time of a moment of the monotonic clock."""
        return self.wall_s() - (self.monotonic_s() - monotonic_s)

    def monotonic_at(self, wall_s: float) -> float:
        """Moment of the monotonic clock of a wall-clock time; never later than now."""
        return self.monotonic_s() - max(0.0, self.wall_s() - wall_s)
