"""What the scheduler service tells an engine, and how it gets to the engine's own thread."""

import threading
from dataclasses import dataclass, field, replace
from typing import Final

from justitia.core.estimates import Estimate
from justitia.core.units import Ticks

#: Tags that may wait for a step; an idle engine makes none. The oldest go first.
_MAX_TAGS: Final = 200_000


@dataclass(frozen=True, slots=True)
class RunTag:
    """What a run is ordered by.

    ``learned_kvtt``: what it is taken to cost by what it has shown (rule K2), 0 while ``estimate``
    stands.
    """

    run_id: str
    finish: Ticks
    start: Ticks
    sequence: int
    weight: float
    estimate: Estimate | None = None
    learned_kvtt: int = 0

    @property
    def believed(self) -> Estimate | None:
        """The estimate as it counts for orders by cost: with what the run has shown."""
        if self.estimate is None or not self.learned_kvtt:
            return self.estimate
        return replace(self.estimate, cost_kvtt=self.learned_kvtt)


@dataclass(slots=True)
class Directive:
    """What the service wants now. Every part may be absent.

    Each says what is so, so repeats are harmless.
    """

    received_at_s: float
    tags: dict[str, RunTag] = field(default_factory=dict)
    ended_run_ids: dict[str, None] = field(default_factory=dict)
    is_shadow: bool | None = None
    value: Ticks | None = None
    default_cost_kvtt: int = 0
    #: All weights there are, or none: nothing new.
    weights: dict[str, float] = field(default_factory=dict)
    #: Parts of messages that were refused.
    num_refused: int = 0

    def merge(self, later: "Directive") -> None:
        """Add a later message: what it says replaces what was said before."""
        for run_id in later.ended_run_ids:
            self.tags.pop(run_id, None)
        self.ended_run_ids.update(later.ended_run_ids)
        for run_id in later.tags:
            self.ended_run_ids.pop(run_id, None)
        self.tags.update(later.tags)
        while len(self.tags) > _MAX_TAGS:
            del self.tags[next(iter(self.tags))]
        while len(self.ended_run_ids) > _MAX_TAGS:
            del self.ended_run_ids[next(iter(self.ended_run_ids))]
        self.is_shadow = self.is_shadow if later.is_shadow is None else later.is_shadow
        self.value = self.value if later.value is None else later.value
        self.default_cost_kvtt = later.default_cost_kvtt or self.default_cost_kvtt
        self.weights = later.weights or self.weights
        self.num_refused += later.num_refused


class Inbox:
    """Messages of the service that wait for the next step, merged: an engine at rest takes none."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._waiting: Directive | None = None

    def put(self, directive: Directive) -> None:
        """Add a message; called by the session's thread."""
        with self._lock:
            if self._waiting is None:
                self._waiting = directive
            else:
                self._waiting.merge(directive)

    def take(self) -> Directive | None:
        """Take all that is there.

        Called by the engine's thread in every step, so it is cheap at rest.
        """
        if self._waiting is None:
            return None
        with self._lock:
            taken, self._waiting = self._waiting, None
        return taken
