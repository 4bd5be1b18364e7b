"""Multi-level feedback with skip-join: FastServe (arXiv 2305.05920), by run.

FastServe demotes a job that has used up the quantum of its level between two tokens, and swaps its
KV cache out. Here an inference that runs is not preempted for order's sake, so what is demoted is
the run: the levels are those of the service that it has attained, in weighted tokens (p + 2d)
instead of time. An inference skips the levels that its prompt alone would use up. FastServe's
promotion of jobs that have waited too long needs a clock and is left out: the lowest level can
starve.
"""

from typing import ClassVar, Final

from justitia.core.cost import vtc_cost_tokens
from justitia.core.policies.base import Inference, Key, Policy, Service

#: Weighted tokens up to which level 0 reaches; each further level reaches twice as far.
_QUANTUM_TOKENS: Final = 512
_MAX_LEVEL: Final = 12
_UNKNOWN_LEVEL: Final = -1


class MultiLevelFeedback(Policy):
    """Lowest level first, then arrival of the run, then the level of the prompt."""

    name: ClassVar[str] = "mlfq"
    counts_tokens: ClassVar[bool] = True

    def __init__(self, quantum_tokens: int = _QUANTUM_TOKENS, max_level: int = _MAX_LEVEL) -> None:
        self._quantum_tokens = quantum_tokens
        self._max_level = max_level
        self._attained_tokens: dict[str, int] = {}
        self._arrival: dict[str, int] = {}

    def start_run(self, run_id: str, sequence: int) -> None:
        """Start at the top."""
        self._attained_tokens.setdefault(run_id, 0)
        self._arrival.setdefault(run_id, sequence)

    def end_run(self, run_id: str) -> None:
        """Forget it."""
        self._attained_tokens.pop(run_id, None)
        self._arrival.pop(run_id, None)

    def charge(self, run_id: str, service: Service) -> bool:
        """Count; True where that demotes the run."""
        if run_id not in self._attained_tokens:
            return False
        before = self._attained_tokens[run_id]
        after = before + vtc_cost_tokens(service.prompt_tokens, service.output_tokens)
        self._attained_tokens[run_id] = after
        return self._level(before) != self._level(after)

    def _level(self, tokens: int) -> int:
        """Level k holds what is below 2**k quanta and not on a level above."""
        return min(self._max_level, (tokens // self._quantum_tokens).bit_length())

    def place(self, inference: Inference) -> int:
        """Level that its prompt lets it join at."""
        return self._level(inference.prompt_tokens)

    def key(self, inference: Inference) -> Key:
        """(Level, arrival of the run, level of the prompt)."""
        run_id = inference.run_id
        joins_at = self.place(inference)
        if run_id not in self._arrival:
            return _UNKNOWN_LEVEL, 0, joins_at
        level = max(joins_at, self._level(self._attained_tokens[run_id]))
        return level, self._arrival[run_id], joins_at
