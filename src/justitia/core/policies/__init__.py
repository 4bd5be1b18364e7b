"""The orders of service, all behind one queue (``justitia.core.queue``).

A policy says which key a waiting inference has; the queue and the choice of victims are the same
for all.
"""

from collections.abc import Callable, Mapping
from typing import Final

from justitia.core.errors import InvalidValueError
from justitia.core.policies.base import UNKNOWN_RUN_KEY, Inference, Key, Policy, Service
from justitia.core.policies.fcfs import Fcfs
from justitia.core.policies.justitia import Justitia
from justitia.core.policies.parrot import Parrot
from justitia.core.policies.sjf import ShortestInferenceFirst
from justitia.core.policies.srjf import ShortestRemainingRunFirst
from justitia.core.policies.vtc import Vtc

POLICIES: Final[Mapping[str, Callable[[], Policy]]] = {
    policy.name: policy
    for policy in (Fcfs, ShortestInferenceFirst, Parrot, Vtc, ShortestRemainingRunFirst, Justitia)
}


def make_policy(name: str) -> Policy:
    """Make a fresh policy by name.

    Raises:
        InvalidValueError: no policy has this name; the message lists those that exist.
    """
    try:
        return POLICIES[name]()
    except KeyError:
        known = ", ".join(sorted(POLICIES))
        raise InvalidValueError("policy", f"must be one of {known}; got {name!r}") from None


__all__ = ["POLICIES", "UNKNOWN_RUN_KEY", "Inference", "Key", "Policy", "Service", "make_policy"]
