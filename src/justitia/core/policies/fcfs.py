"""First come, first served, by inference: stock vLLM."""

from typing import ClassVar

from justitia.core.policies.base import Inference, Key, Policy


class Fcfs(Policy):
    """Order of arrival of inferences."""

    name: ClassVar[str] = "fcfs"
    is_per_inference: ClassVar[bool] = True

    def key(self, inference: Inference) -> Key:
        """Arrival."""
        return (inference.sequence,)
