"""Justitia without a shared virtual time: each engine makes its own, of what it sees."""

from collections.abc import Mapping
from typing import ClassVar

from justitia.core.policies.base import UNKNOWN_RUN_KEY, Inference, Key, Policy, Service
from justitia.core.units import UNIT_WEIGHT, NanoWeight, Ticks, service_ticks
from justitia.core.virtual_time import FluidClock


class JustitiaPerEngine(Policy):
    """Smallest virtual finish first, in a fluid system of this engine alone.

    A run begins when it comes to this engine and counts with all that it is expected to cost; V
    grows by what this engine delivers. When it ends, what it got here takes the place of that.
    """

    name: ClassVar[str] = "justitia-per-engine"
    counts_kvtt: ClassVar[bool] = True

    def __init__(self, weights: Mapping[str, NanoWeight]) -> None:
        self._weights = weights
        self._fluid = FluidClock()
        self._sequence: dict[str, int] = {}
        self._weight: dict[str, NanoWeight] = {}
        self._got_kvtt: dict[str, int] = {}
        self._tags: dict[str, tuple[Ticks, Ticks]] = {}

    def start_run(self, run_id: str, sequence: int) -> None:
        """Note the arrival."""
        self._sequence.setdefault(run_id, sequence)

    def set_application(self, run_id: str, application: str) -> None:
        """Note its weight."""
        self._weight[run_id] = self._weights.get(application, UNIT_WEIGHT)

    def set_cost(self, run_id: str, cost_kvtt: int) -> bool:
        """S = V, F = S + C/w, once."""
        if run_id not in self._sequence or run_id in self._tags:
            return False
        weight = self._weight.setdefault(run_id, UNIT_WEIGHT)
        self._tags[run_id] = self._fluid.arrive(self._sequence[run_id], cost_kvtt, weight)
        return True

    def charge(self, run_id: str, service: Service) -> bool:
        """V grows; nobody's key moves."""
        self._fluid.deliver(service.useful_kvtt)
        self._got_kvtt[run_id] = self._got_kvtt.get(run_id, 0) + service.useful_kvtt
        return False

    def end_run(self, run_id: str) -> None:
        """Let it leave the fluid system at S + (what it got here)/w."""
        got_kvtt, sequence = self._got_kvtt.pop(run_id, 0), self._sequence.pop(run_id, -1)
        weight, tags = self._weight.pop(run_id, UNIT_WEIGHT), self._tags.pop(run_id, None)
        if tags is not None and sequence in self._fluid:
            start, _ = tags
            finish = Ticks(start + service_ticks(got_kvtt, weight))
            self._fluid.move(sequence, finish, weight)

    def key(self, inference: Inference) -> Key:
        """(F, arrival at this engine)."""
        tags, sequence = self._tags.get(inference.run_id), self._sequence.get(inference.run_id)
        return UNKNOWN_RUN_KEY if tags is None or sequence is None else (tags[1], sequence)
