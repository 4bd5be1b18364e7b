"""Weighted service counter: FairServe's order (arXiv 2411.15997), with the run as the client.

FairServe counts tokens as shares of what a typical inference of that application takes, so who uses
an application with long prompts is not behind for that. Simplified: prompt tokens are not told
apart into the user's and the system's; what is typical is that of the application, not of the stage
of an interaction, and where it is not given it is the mean of what the application has got so far;
a user with several interactions at a time, of which those under way go first, is several runs here.
FairServe's other half, throttling, refuses requests and is no order.
"""

from collections.abc import Mapping
from types import MappingProxyType
from typing import ClassVar, Final

from justitia.core.cost import vtc_cost_tokens
from justitia.core.policies.base import Inference, Service
from justitia.core.policies.vtc import Vtc
from justitia.core.units import UNIT_WEIGHT, NanoWeight

#: A typical inference, in the unit of the counters at weight 1.
TYPICAL: Final = 1 << 30


class WeightedServiceCounter(Vtc):
    """Smallest counter of typical inferences per weight first, then arrival of the run; VTC's lift.

    ``typical_tokens``: weighted tokens (p + 2d) of a typical inference, by application.
    ``weights``: of applications whose weight is not 1.
    """

    name: ClassVar[str] = "fairserve"

    def __init__(
        self,
        typical_tokens: Mapping[str, int] = MappingProxyType({}),
        weights: Mapping[str, NanoWeight] = MappingProxyType({}),
    ) -> None:
        super().__init__()
        self._typical_tokens = typical_tokens
        self._weights = weights
        self._application: dict[str, str] = {}
        # By application, for the mean; applications are few.
        self._total_tokens: dict[str, int] = {}
        self._num_taken: dict[str, int] = {}

    def set_application(self, run_id: str, application: str) -> None:
        """What is served from now on is a share of what is typical there."""
        if run_id in self._counter:
            self._application[run_id] = application

    def end_run(self, run_id: str) -> None:
        """Forget it."""
        super().end_run(run_id)
        self._application.pop(run_id, None)

    def take(self, inference: Inference) -> None:
        """Count it, for the mean; what nobody knows is nobody's."""
        if inference.run_id in self._counter:
            application = self._application.get(inference.run_id, "")
            self._num_taken[application] = self._num_taken.get(application, 0) + 1

    def charge(self, run_id: str, service: Service) -> bool:
        """Count tokens as shares of a typical inference."""
        tokens = vtc_cost_tokens(service.prompt_tokens, service.output_tokens)
        if run_id not in self._counter or tokens == 0:
            return False
        application = self._application.get(run_id, "")
        self._total_tokens[application] = self._total_tokens.get(application, 0) + tokens
        total, number = self._typical(application)
        weight = self._weights.get(application, UNIT_WEIGHT)
        shares = tokens * number * TYPICAL * UNIT_WEIGHT
        self._counter[run_id] += max(1, shares // (total * weight))
        return True

    def _typical(self, application: str) -> tuple[int, int]:
        """Return a number of weighted tokens, and of how many typical inferences they are."""
        given = self._typical_tokens.get(application)
        if given is not None:
            return given, 1
        return self._total_tokens[application], max(1, self._num_taken.get(application, 0))
