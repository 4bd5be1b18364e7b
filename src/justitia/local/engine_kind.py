"""What local mode's engine computes with; apart, so that `--help` needs nothing else."""

from enum import StrEnum
from typing import Final

#: Prefill budget of the engines that local mode starts (vLLM --max-num-batched-tokens).
STEP_BUDGET_TOKENS: Final = 2048


class EngineKind(StrEnum):
    """What computes the tokens."""

    CPU = "cpu"  # SmolLM2-135M-Instruct on this machine's CPU: real text
    EMULATED = "emulated"  # no model: steps last as LLaMA-7B's on an A100, the text is noise
