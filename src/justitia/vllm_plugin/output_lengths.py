"""What an inference alone will cost, for the policies that order single inferences."""

from collections import OrderedDict
from typing import Final

from justitia.core.cost import inference_cost_kvtt
from justitia.vllm_plugin.facts import EngineLimits

_MAX_APPLICATIONS: Final = 10_000


class OutputLengths:
    """Mean output of each application's inferences so far, in tokens."""

    def __init__(self, limits: EngineLimits) -> None:
        self._limits = limits
        self._totals: OrderedDict[str, tuple[int, int]] = OrderedDict()  # (inferences, tokens)

    def expect_kvtt(self, application: str, prompt_tokens: int, max_output_tokens: int) -> int:
        """Cost (rule C1) with that mean as output; with the largest possible if none is known."""
        count, total = self._totals.get(application, (0, 0))
        output = round(total / count) if count else max_output_tokens
        limit = max(1, self._limits.max_model_len_tokens - prompt_tokens)
        return inference_cost_kvtt(
            prompt_tokens,
            0,
            max(0, min(output, max_output_tokens, limit)),
            step_budget_tokens=self._limits.step_budget_tokens,
        )

    def learn(self, application: str, output_tokens: int) -> None:
        """Take in an inference that ended by itself."""
        count, total = self._totals.pop(application, (0, 0))
        self._totals[application] = (count + 1, total + output_tokens)
        if len(self._totals) > _MAX_APPLICATIONS:
            self._totals.popitem(last=False)
