"""Least attained service, by run: Autellix's PLAS (arXiv 2502.13965), llm-d's program-aware order.

Simplified: exact service where Autellix sorts programs into a few levels of it, counted as it is
got and not when a call ends; in llm-d's weighted tokens (p + 2d), where Autellix counts time. Left
out is what looks at a clock: Autellix's boost of programs that have waited too long, llm-d's share
of the head's waiting time in the score and its decay of what was got long ago. Autellix's variant
for parallel calls (ATLAS, the longest chain in place of the sum) is not here.
"""

from typing import ClassVar

from justitia.core.policies.base import Key
from justitia.core.policies.vtc import Vtc


class LeastAttainedService(Vtc):
    """Least weighted tokens attained since the run began first, then arrival of the run.

    VTC without its lift: a newcomer, or who was away, goes before everybody that has got more, so a
    long run starves under a stream of short ones.
    """

    name: ClassVar[str] = "las"

    def activate(self, run_id: str, least_waiting: Key | None) -> bool:  # noqa: ARG002 - as in Policy
        """Nothing is lifted."""
        return False
