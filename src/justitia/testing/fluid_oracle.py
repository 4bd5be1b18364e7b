"""Generalised processor sharing from its definition, in exact fractions.

An independent witness for ``justitia.core``: it knows what each flow has been served and what it
still has to get, not virtual finish times; it looks at every flow at every step; it shares no code
with the core. While any flow has something left, work is split among those by their weights.
"""

from dataclasses import dataclass, field
from fractions import Fraction


@dataclass
class OracleFlow:
    """One flow: what it has to get and got, and where V stood when it was done."""

    weight: Fraction
    cost: Fraction
    served: Fraction = Fraction(0)
    done_at: Fraction | None = None

    @property
    def rest(self) -> Fraction:
        """Work that it still has to get."""
        return self.cost - self.served


@dataclass
class FluidOracle:
    """Work in kvtt, V in kvtt per unit of weight; ``departed`` in the order they were done."""

    value: Fraction = Fraction(0)
    surplus: Fraction = Fraction(0)
    flows: dict[str, OracleFlow] = field(default_factory=dict)
    departed: list[str] = field(default_factory=list)

    def active(self) -> list[OracleFlow]:
        """Flows that are being served."""
        return [flow for flow in self.flows.values() if flow.done_at is None]

    def is_active(self, name: str) -> bool:
        """Whether a flow is being served."""
        return self.flows[name].done_at is None

    def total_weight(self) -> Fraction:
        """Sum of the weights that share the work."""
        return sum((flow.weight for flow in self.active()), Fraction(0))

    def finish(self, name: str) -> Fraction:
        """V at which a flow is done (or was), if nothing but work happens."""
        flow = self.flows[name]
        return self.value + flow.rest / flow.weight if flow.done_at is None else flow.done_at

    def arrive(self, name: str, cost: Fraction, weight: Fraction) -> None:
        """Start to serve a flow."""
        self.flows[name] = OracleFlow(weight, cost)

    def deliver(self, work: Fraction) -> None:
        """Split work among the active flows, ending each as it gets its last bit."""
        while work > 0 and (active := self.active()):
            total = self.total_weight()
            # Work until the first of them is done: all get their share at once.
            part = min(work, *(flow.rest * total / flow.weight for flow in active))
            for flow in active:
                flow.served += part * flow.weight / total
            self.value += part / total
            work -= part
            self._end_those_done()
        self.surplus += work

    def rest(self) -> None:
        """Do all that is left, though nobody pays for it."""
        self.deliver(sum((flow.rest for flow in self.active()), Fraction(0)))

    def reweigh(self, name: str, weight: Fraction) -> None:
        """Give a flow another weight from now on; what it was served stays its own.

        One that is done keeps the V at which its cost was covered.
        """
        flow = self.flows[name]
        if flow.done_at is not None:
            flow.served = flow.cost + (flow.served - flow.cost) * weight / flow.weight
        flow.weight = weight

    def correct(self, name: str, cost: Fraction) -> None:
        """Let a flow have cost ``cost`` all along; it leaves, stays or comes back accordingly.

        One that was done (too early) counts as if V's growth since then had been served to it.
        """
        flow = self.flows[name]
        if flow.done_at is not None:
            missed = (self.value - flow.done_at) * flow.weight
            if cost > flow.served + missed:
                self.departed.remove(name)
                flow.served += missed
                flow.done_at = None
        flow.cost = cost
        self._end_those_done()

    def _end_those_done(self) -> None:
        for name, flow in self.flows.items():
            if flow.done_at is None and flow.rest <= 0:
                flow.done_at = self.value
                self.departed.append(name)
