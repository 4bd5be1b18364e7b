"""vLLM's ``--scheduling-policy priority``: whatever priority the client gives."""

from typing import ClassVar

from justitia.core.policies.base import Inference, Key, Policy


class VllmPriority(Policy):
    """Smallest priority first, then arrival of the inference, as vLLM's priority queue has it.

    Starves: under a load of small numbers a large one is never served. Victims too are those of the
    largest (priority, arrival), as in vLLM.
    """

    name: ClassVar[str] = "vllm-priority"
    is_per_inference: ClassVar[bool] = True

    def key(self, inference: Inference) -> Key:
        """(Priority, arrival)."""
        return inference.priority, inference.sequence
