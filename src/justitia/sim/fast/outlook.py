"""For how many steps the order of those that wait stays as it is, where it depends on service.

An answer that is too small is harmless: the engine plans anew, and finds nothing changed.
"""

from collections.abc import Callable, Iterable, Mapping
from typing import Final

from justitia.core.policies import Inference, Key, Policy
from justitia.core.policies.las import LeastAttainedService
from justitia.core.policies.srjf import ShortestRemainingRunFirst
from justitia.core.policies.vtc import Vtc
from justitia.core.queue import InferenceQueue
from justitia.sim.fast.sequence import RunAccount

#: The head, and a key that no other run is below.
_Pair = tuple[Inference, Key]


class OutlookQueue(InferenceQueue):
    """A queue that also knows a key that no one but the head is below."""

    def rival_key(self) -> Key | None:
        """Return a lower bound of the keys of all runs but the head's; None: there are none.

        ``peek`` must have been called since the last change.
        """
        # The second smallest of a heap is one of the two below the first; an outdated entry among
        # them belongs to a run that has an entry of its own elsewhere, and only makes this smaller.
        second = self._order[1:3]
        return min(entry[0] for entry in second) if second else None


def is_foreseen(policy: Policy) -> bool:
    """Whether ``steps_of_order`` knows a policy whose order depends on service.

    Others are told of every step by itself: what they make of it may depend on that.
    """
    return type(policy) in _LOOKS


def steps_of_order(
    policy: Policy, queue: OutlookQueue, accounts: Iterable[RunAccount], tick: int, most: int
) -> int:
    """Count the steps, from 1 to ``most``, after which the head may be another one.

    The steps are decode steps of the same sequences, from ``tick`` on, up to which the policy knows
    what was served. ``accounts``: of all runs of which something runs. The policy must be foreseen.
    """
    look = _LOOKS[type(policy)]
    head = queue.peek()
    rival = None if head is None else queue.rival_key()
    if head is None or rival is None or most == 1:
        return most
    return max(1, min(most, look(policy, (head, rival), accounts, tick, most)))


def _until_counter_passes(
    policy: Policy, pair: _Pair, accounts: Iterable[RunAccount], _tick: int, most: int
) -> int:
    """VTC and LAS: counters only grow, by 2 for each token; who is not served stands still."""
    head, rival = pair
    account = next((each for each in accounts if each.run_id == head.run_id), None)
    if account is None or not account.num_decoding:
        return most
    counter, arrival = policy.key(head)
    ahead = rival[0] - counter - (arrival > rival[1])
    return ahead // (2 * account.num_decoding) + 1


def _until_less_is_left(
    policy: Policy, pair: _Pair, accounts: Iterable[RunAccount], tick: int, most: int
) -> int:
    """SRJF: what is left only shrinks, of those that are served."""
    head, _ = pair
    key = policy.key(head)
    for account in accounts:
        if account.num_waiting and account.num_decoding and account.run_id != head.run_id:
            left, arrival = policy.key(Inference("", account.run_id, 0))
            spare = left - key[0] - (arrival < key[1])
            most = _steps_for(account, spare, tick, most)
    return most


def _steps_for(account: RunAccount, spare_kvtt: int, tick: int, most: int) -> int:
    """Count the steps, up to ``most``, after which a run has got more than ``spare_kvtt``."""
    limit = account.useful_at(tick) + spare_kvtt
    low, high = 1, most
    while low < high:
        middle = (low + high) // 2
        if account.useful_at(tick + middle) > limit:
            high = middle
        else:
            low = middle + 1
    return low


_Look = Callable[[Policy, _Pair, Iterable[RunAccount], int, int], int]
_LOOKS: Final[Mapping[type[Policy], _Look]] = {
    Vtc: _until_counter_passes,
    LeastAttainedService: _until_counter_passes,
    ShortestRemainingRunFirst: _until_less_is_left,
}
