"""The waiting queue from its definition: a list, sorted anew whenever somebody looks."""

from justitia.core.policies import Inference, Policy


class SortedListQueue:
    """Does what ``InferenceQueue`` promises, slowly."""

    def __init__(self, policy: Policy) -> None:
        self._policy = policy
        self._waiting: list[Inference] = []

    def __len__(self) -> int:
        return len(self._waiting)

    def order(self) -> list[Inference]:
        """All that wait, next first."""
        return sorted(self._waiting, key=lambda i: (self._policy.key(i), i.sequence))

    def num_waiting(self, run_id: str) -> int:
        """How many of a run wait."""
        return sum(inference.run_id == run_id for inference in self._waiting)

    def add(self, inference: Inference) -> None:
        """Queue an inference; the policy hears when it is the first of its run."""
        if self.num_waiting(inference.run_id) == 0:
            order = self.order()
            self._policy.activate(inference.run_id, self._policy.key(order[0]) if order else None)
        self._waiting.append(inference)

    def remove(self, inference_id: str) -> bool:
        """Take one out; the policy hears when it was the last of its run."""
        for inference in self._waiting:
            if inference.inference_id == inference_id:
                self._waiting.remove(inference)
                if self.num_waiting(inference.run_id) == 0:
                    self._policy.deactivate(inference.run_id)
                return True
        return False

    def pop(self) -> Inference:
        """Take the next."""
        inference = self.order()[0]
        self._policy.take(inference)
        self.remove(inference.inference_id)
        return inference
