"""Cost of an inference and of a run in KV token-time (rules C1 and C2).

``kvtt`` counts the KV tokens that an inference holds, summed over the engine steps it takes.
"""

from collections.abc import Iterable

from justitia.core.errors import InvalidValueError, shown

_MAX_TOKENS = 10**9


def _require_count(field: str, value: int, *, minimum: int = 0) -> None:
    if not minimum <= value <= _MAX_TOKENS:
        raise InvalidValueError(
            field, f"must be from {minimum} to {_MAX_TOKENS}, got {shown(value)}"
        )


def inference_cost_kvtt(
    prompt_tokens: int, cached_tokens: int, output_tokens: int, *, step_budget_tokens: int
) -> int:
    """Cost of one inference that runs undisturbed, in kvtt (rule C1); at least 1.

    With prompt p, cached prefix s, output d and a prefill budget of B tokens a step, the prefill
    takes n = ceil((p - s) / B) steps (at least one: an engine always computes the last prompt
    token), the k-th of which holds s + min(kB, p - s) tokens; the last one also yields the first
    output token. The d - 1 decode steps that follow hold p + 1, p + 2, ..., p + d - 1 tokens.

    ``cached_tokens`` beyond the prompt counts as the whole prompt. An output of 0 (embedding,
    scoring) costs its prefill.

    Raises:
        InvalidValueError: a count is negative or absurd (over 1e9), or the budget is below 1.
    """
    _require_count("prompt_tokens", prompt_tokens)
    _require_count("cached_tokens", cached_tokens)
    _require_count("output_tokens", output_tokens)
    _require_count("step_budget_tokens", step_budget_tokens, minimum=1)
    cached = min(cached_tokens, prompt_tokens)
    steps = max(1, -(-(prompt_tokens - cached) // step_budget_tokens))
    # The first steps - 1 of them fill a whole budget each; the last one holds the whole prompt.
    prefill = (steps - 1) * cached + step_budget_tokens * steps * (steps - 1) // 2 + prompt_tokens
    decode_steps = max(0, output_tokens - 1)
    decode = decode_steps * prompt_tokens + decode_steps * (decode_steps + 1) // 2
    return max(1, prefill + decode)


def paper_cost_kvtt(prompt_tokens: int, output_tokens: int) -> int:
    """Compute the paper's cost, p*d + d**2/2 (arXiv 2510.17015, section IV-A): the prefill is free.

    Rounded up, at least 1. Kept to compare: a long prompt with a short answer is undercharged by an
    order of magnitude.
    """
    _require_count("prompt_tokens", prompt_tokens)
    _require_count("output_tokens", output_tokens)
    doubled = 2 * prompt_tokens * output_tokens + output_tokens**2
    return max(1, -(-doubled // 2))


def dominant_cost_kvtt(
    prompt_tokens: int,
    cached_tokens: int,
    output_tokens: int,
    *,
    step_budget_tokens: int,
    kv_capacity_tokens: int,
) -> int:
    """Cost of one inference by its dominant share of KV cache and step budget; at least 1.

    A step counts the larger one of two shares: of the KV cache, by the tokens held (as rule C1 has
    it), and of the tokens that a step can compute. Both are given in the KV tokens of a full cache
    of M tokens, so a step of b of B budget tokens costs at least b M / B. Rounded up. Kept to
    compare: for decoding it equals rule C1, a prefill is charged for the steps that it fills.

    Raises:
        InvalidValueError: a count is negative or absurd (over 1e9), or a budget is below 1.
    """
    _require_count("prompt_tokens", prompt_tokens)
    _require_count("cached_tokens", cached_tokens)
    _require_count("output_tokens", output_tokens)
    _require_count("step_budget_tokens", step_budget_tokens, minimum=1)
    _require_count("kv_capacity_tokens", kv_capacity_tokens, minimum=1)
    budget, capacity = step_budget_tokens, kv_capacity_tokens
    cached = min(cached_tokens, prompt_tokens)
    full_steps = max(0, -(-(prompt_tokens - cached) // budget) - 1)
    # The last token of a prompt is always computed.
    last = max(1, prompt_tokens - cached - full_steps * budget)
    # All in shares of 1 / budget, so that nothing is rounded before the end.
    total = budget * _sum_of_larger(cached, budget, full_steps, capacity)
    total += max(prompt_tokens * budget, last * capacity)
    decode_steps = max(0, output_tokens - 1)
    total += _sum_of_larger(prompt_tokens * budget, budget, decode_steps, capacity)
    return max(1, -(-total // budget))


def _sum_of_larger(start: int, growth: int, count: int, floor: int) -> int:
    """Sum max(start + k growth, floor) over k from 1 to ``count``."""
    few = min(count, max(0, (floor - start - 1) // growth))
    many = count - few
    return few * floor + many * (start + few * growth) + growth * many * (many + 1) // 2


def vtc_cost_tokens(prompt_tokens: int, output_tokens: int) -> int:
    """Cost in the unit of VTC (arXiv 2401.00588), p + 2d weighted tokens."""
    return prompt_tokens + 2 * output_tokens


def run_cost_kvtt(inference_costs_kvtt: Iterable[int]) -> int:
    """Cost of a run: the sum over its inferences (rule C2)."""
    return sum(inference_costs_kvtt)
