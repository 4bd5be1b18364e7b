# ruff: noqa: ARG002  (hooks that do nothing still have their full signature)
"""What a policy is: keys by which inferences are ordered, moved by what happens to their runs."""

from dataclasses import dataclass
from typing import ClassVar

#: Ascending order of service; keys of one policy have one length.
Key = tuple[int, ...]

#: Key of a run that the policy does not know (ended, or never started): it is served at once.
UNKNOWN_RUN_KEY: Key = (0, -1)


@dataclass(frozen=True, slots=True)
class Inference:
    """A waiting inference. ``sequence`` is its place in order of arrival, unique in an engine.

    ``expected_kvtt`` is what it is expected to cost alone (rule C1); only SJF reads it.
    """

    inference_id: str
    run_id: str
    sequence: int
    expected_kvtt: int = 1


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

    def key(self, inference: Inference) -> Key:
        """Place of an inference in the order of service."""
        raise NotImplementedError
