"""Deficit round robin over applications: Dynamo's router, whose static classes they stand for.

The cost of an inference is the part of its prompt that is not cached, at least 1, as it was when it
was queued; output is free. That is Dynamo's ``scheduling_cost``. Dynamo lets a class go on while
its credit covers the head's cost; here it goes on while any credit is left, and what it overdrew is
taken off the next rounds (surplus round robin): shares and bounds are the same, and the key does
not depend on which inference is at the head. Dynamo's priorities within a class are left out.
Dynamo charges a request once; here a preempted one is charged again.
"""

from collections.abc import Mapping
from types import MappingProxyType
from typing import ClassVar, Final

from justitia.core.policies.base import UNKNOWN_RUN_KEY, Inference, Key
from justitia.core.policies.by_application import ByApplication
from justitia.core.policies.ring import Ring

_QUANTUM_TOKENS: Final = 4096


class DeficitRoundRobin(ByApplication):
    """An application is served for a quantum of uncached tokens, then the next on the ring.

    ``quanta_tokens``: those of applications whose quantum, and with it their share, is another one
    than ``quantum_tokens``. Credit that is left when nothing waits any more is lost, a debt is not.
    """

    name: ClassVar[str] = "drr"

    def __init__(
        self,
        quantum_tokens: int = _QUANTUM_TOKENS,
        quanta_tokens: Mapping[str, int] = MappingProxyType({}),
    ) -> None:
        super().__init__()
        self._quantum_tokens = quantum_tokens
        self._quanta_tokens = quanta_tokens
        self._ring = Ring()
        self._served_tokens: dict[str, int] = {}
        self._place: dict[str, int] = {}

    def _quantum(self, application: str) -> int:
        return self._quanta_tokens.get(application, self._quantum_tokens)

    def application_waits(self, application: str) -> None:
        """Join at the ring's next visit, with a full quantum then."""
        place = self._place.setdefault(application, len(self._place))
        full = self._ring.next_round(place) * self._quantum(application)
        self._served_tokens[application] = max(self._served_tokens.get(application, 0), full)

    def take(self, inference: Inference) -> None:
        """Charge the application."""
        application = self.application_of(inference.run_id)
        if application is not None:
            self._ring.visit(*self._turn(application))
            served = self._served_tokens.get(application, 0)
            self._served_tokens[application] = served + max(1, inference.uncached_tokens)

    def _turn(self, application: str) -> tuple[int, int]:
        served = self._served_tokens.get(application, 0)
        return served // self._quantum(application), self._place.get(application, 0)

    def key(self, inference: Inference) -> Key:
        """(Round of the next turn, place on the ring)."""
        application = self.application_of(inference.run_id)
        return UNKNOWN_RUN_KEY if application is None else self._turn(application)
