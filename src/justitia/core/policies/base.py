# ruff: noqa: ARG002  (hooks that do nothing still have their full signature)
"""What a policy is: keys by which inferences are ordered, moved by what happens to their runs."""

from collections.abc import Iterable
from dataclasses import dataclass
from typing import ClassVar

#: Ascending order of service; keys of one policy have one length.
Key = tuple[int, ...]

#: Key of a run that the policy does not know (ended, or never started): it is served at once.
UNKNOWN_RUN_KEY: Key = (0, -1)


@dataclass(frozen=True, slots=True)
class Inference:
    """A waiting inference. ``sequence`` is its place in order of arrival, unique in an engine.

    ``expected_kvtt`` is what it is expected to cost alone (rule C1); SJF reads it. The rest is read
    by rivals alone: the length of its prompt, how many tokens of that the prefix cache held
    when it was queued, and the client's priority, smallest first.
    """

    inference_id: str
    run_id: str
    sequence: int
    expected_kvtt: int = 1
    prompt_tokens: int = 0
    cached_tokens: int = 0
    priority: int = 0

    @property
    def uncached_tokens(self) -> int:
        """Prompt tokens that are to be computed."""
        return max(0, self.prompt_tokens - self.cached_tokens)


@dataclass(frozen=True, slots=True)
class Service:
    """What a run got since the last time: prompt tokens admitted, tokens generated, useful kvtt."""

    prompt_tokens: int = 0
    output_tokens: int = 0
    useful_kvtt: int = 0


class Policy:
    """Base of all policies; every hook does nothing unless a policy needs it.

    Hooks are called by the owner of the queue, which refreshes the run in the queue afterwards
    wherever they return True (the key has changed), and after ``start_run`` and ``end_run`` if
    something of the run waits. A policy never sees a clock. Hooks may come for runs that the policy
    does not know, in any order: starts, ends and tags travel separate ways, and an error here would
    end an engine's step. They change nothing then, and such a run is served at once.
    """

    name: ClassVar[str]
    #: True: each inference has a key of its own. False: all inferences of a run share its key.
    is_per_inference: ClassVar[bool] = False
    #: Which parts of a ``Service`` the keys depend on; the owner need not tell of the others.
    counts_tokens: ClassVar[bool] = False
    counts_kvtt: ClassVar[bool] = False

    def start_run(self, run_id: str, sequence: int) -> None:
        """A run is seen for the first time; ``sequence`` is its place in order of arrival.

        A repeat changes nothing.
        """

    def end_run(self, run_id: str) -> None:
        """Forget a run."""

    def set_application(self, run_id: str, application: str) -> None:
        """Its application, after ``start_run``; no key of what waits already changes."""

    def set_cost(self, run_id: str, cost_kvtt: int) -> bool:
        """Its estimated total cost is known, or has changed."""
        return False

    def set_finish(self, run_id: str, finish: int, sequence: int) -> bool:
        """Its virtual finish F in ticks, and its place in order of arrival in the whole pool."""
        return False

    def activate(self, run_id: str, least_waiting: Key | None) -> bool:
        """Something of it waits, after nothing did; ``least_waiting`` is the key of the head."""
        return False

    def deactivate(self, run_id: str) -> None:
        """Nothing of it waits any longer."""

    def charge(self, run_id: str, service: Service) -> bool:
        """It has been served."""
        return False

    def take(self, inference: Inference) -> None:
        """The queue's head is about to be popped; of waiting keys only its own flow's may move.

        A preempted inference waits again, and is popped again.
        """

    def take_moved(self) -> Iterable[str]:
        """Take the flows, other than the one that a hook was called for, whose keys have moved.

        The queue asks whenever it refreshes, so a policy that needs this serves one queue.
        """
        return ()

    def flow(self, run_id: str) -> str:
        """Whose inferences share a key, except for ``place``: a run's, or all of an application.

        It must not change while something of the run waits.
        """
        return run_id

    def place(self, inference: Inference) -> int:
        """Order within a flow, before that of arrival; keys must agree, and it never changes."""
        return 0

    def key(self, inference: Inference) -> Key:
        """Place of an inference in the order of service."""
        raise NotImplementedError
