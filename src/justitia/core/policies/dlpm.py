"""Longest prefix match within deficit credits: DLPM (arXiv 2501.14312), with the run as the client.

DLPM serves the waiting request with the longest cached prefix among those of clients that have
credit left, charges the tokens that its prompt adds to the cache and those that it generates, and,
when nobody who waits has credit, gives a quantum to everybody without. So a client's credit is a
count of refills and a rest; here each client counts how many refills it needs, which moves only
when it is served itself. Simplified: the match is the one that the inference was queued with; who
wants it up to date takes the inference out and adds it again. The second deficit of D2LPM, over
workers, is a router's.
"""

from typing import ClassVar, Final

from justitia.core.cost import vtc_cost_tokens
from justitia.core.policies.base import Inference, Key, Policy, Service

_QUANTUM_TOKENS: Final = 4096
_UNKNOWN_REFILLS: Final = -1


class DeficitLongestPrefix(Policy):
    """Fewest refills needed first, then the longest cached prefix, then arrival of the run.

    ``quantum_tokens``: weighted tokens of a refill; small ones are fairer, large ones keep prefixes
    together. A newcomer has no credit before the next refill.
    """

    name: ClassVar[str] = "dlpm"
    counts_tokens: ClassVar[bool] = True

    def __init__(self, quantum_tokens: int = _QUANTUM_TOKENS) -> None:
        self._quantum_tokens = quantum_tokens
        # Refills so far; all who wait need as many at least.
        self._num_refills = 0
        # What a run has got, as if it had had all refills from the beginning.
        self._served_tokens: dict[str, int] = {}
        self._arrival: dict[str, int] = {}

    def start_run(self, run_id: str, sequence: int) -> None:
        """Wait for the next refill."""
        self._arrival.setdefault(run_id, sequence)
        self._served_tokens.setdefault(run_id, (self._num_refills + 1) * self._quantum_tokens)

    def end_run(self, run_id: str) -> None:
        """Forget it."""
        self._served_tokens.pop(run_id, None)
        self._arrival.pop(run_id, None)

    def activate(self, run_id: str, least_waiting: Key | None) -> bool:  # noqa: ARG002 - as in Policy
        """Refills that went by are lost to those who had credit; the rest of theirs they keep."""
        refills = self._refills(run_id)
        if refills is None or refills >= self._num_refills:
            return False
        self._served_tokens[run_id] += (self._num_refills - refills) * self._quantum_tokens
        return True

    def _refills(self, run_id: str) -> int | None:
        """Refills that a run needs to be served."""
        served = self._served_tokens.get(run_id)
        return None if served is None else served // self._quantum_tokens

    def take(self, inference: Inference) -> None:
        """Refill if need be; charge the prompt."""
        refills = self._refills(inference.run_id)
        if refills is not None:
            self._num_refills = max(self._num_refills, refills)
            self._served_tokens[inference.run_id] += inference.uncached_tokens

    def charge(self, run_id: str, service: Service) -> bool:
        """Charge what was generated, 2 a token; the prompt was charged when it was taken."""
        if run_id not in self._served_tokens:
            return False
        before = self._refills(run_id)
        self._served_tokens[run_id] += vtc_cost_tokens(0, service.output_tokens)
        return self._refills(run_id) != before

    def place(self, inference: Inference) -> int:
        """Longest match first."""
        return -inference.cached_tokens

    def key(self, inference: Inference) -> Key:
        """(Refills needed, cached tokens descending, arrival of the run)."""
        refills = self._refills(inference.run_id)
        arrival = self._arrival.get(inference.run_id, 0)
        refills = _UNKNOWN_REFILLS if refills is None else refills
        return refills, self.place(inference), arrival
