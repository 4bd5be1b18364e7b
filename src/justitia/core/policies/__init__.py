"""The orders of service, all behind one queue (``justitia.core.queue``).

A policy says which key a waiting inference has; the queue and the choice of victims are the same
for all. ``POLICIES`` are those that the product offers; ``RIVALS``, other systems' orders and
variants of our own, are there to be compared in the simulator.
"""

from collections.abc import Callable, Mapping
from typing import Final

from justitia.core.errors import InvalidValueError
from justitia.core.policies.base import UNKNOWN_RUN_KEY, Inference, Key, Policy, Service
from justitia.core.policies.dlpm import DeficitLongestPrefix
from justitia.core.policies.drr import DeficitRoundRobin
from justitia.core.policies.fairserve import WeightedServiceCounter
from justitia.core.policies.fcfs import Fcfs
from justitia.core.policies.justitia import Justitia
from justitia.core.policies.justitia_probe import JustitiaProbe
from justitia.core.policies.las import LeastAttainedService
from justitia.core.policies.mlfq import MultiLevelFeedback
from justitia.core.policies.parrot import Parrot
from justitia.core.policies.round_robin import RoundRobin
from justitia.core.policies.sjf import ShortestInferenceFirst
from justitia.core.policies.sliding_window import SlidingWindow
from justitia.core.policies.srjf import ShortestRemainingRunFirst
from justitia.core.policies.vllm_priority import VllmPriority
from justitia.core.policies.vtc import Vtc

_Makers = Mapping[str, Callable[[], Policy]]

POLICIES: Final[_Makers] = {
    policy.name: policy
    for policy in (Fcfs, ShortestInferenceFirst, Parrot, Vtc, ShortestRemainingRunFirst, Justitia)
}
RIVALS: Final[_Makers] = {
    policy.name: policy
    for policy in (
        VllmPriority,
        WeightedServiceCounter,
        DeficitLongestPrefix,
        MultiLevelFeedback,
        LeastAttainedService,
        RoundRobin,
        DeficitRoundRobin,
        SlidingWindow,
        JustitiaProbe,
    )
}
EVERY_POLICY: Final[_Makers] = {**POLICIES, **RIVALS}


def make_policy(name: str, *, among: _Makers = POLICIES) -> Policy:
    """Make a fresh policy by name, one of ``among``.

    Raises:
        InvalidValueError: no policy there has this name; the message lists those that exist.
    """
    try:
        return among[name]()
    except KeyError:
        known = ", ".join(sorted(among))
        raise InvalidValueError("policy", f"must be one of {known}; got {name!r}") from None


__all__ = [
    "EVERY_POLICY",
    "POLICIES",
    "RIVALS",
    "UNKNOWN_RUN_KEY",
    "Inference",
    "Key",
    "Policy",
    "Service",
    "make_policy",
]
