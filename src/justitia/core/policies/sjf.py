"""Shortest inference first (vLLM-SJF in the paper)."""

from typing import ClassVar

from justitia.core.policies.base import Inference, Key, Policy


class ShortestInferenceFirst(Policy):
    """Smallest expected cost of the single inference, then arrival."""

    name: ClassVar[str] = "sjf"
    is_per_inference: ClassVar[bool] = True

    def key(self, inference: Inference) -> Key:
        """Expected cost."""
        return inference.expected_kvtt, inference.sequence
