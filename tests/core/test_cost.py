"""Closed forms of cost against a loop over steps."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from justitia.core.cost import (
    dominant_cost_kvtt,
    inference_cost_kvtt,
    paper_cost_kvtt,
    run_cost_kvtt,
    vtc_cost_tokens,
)
from justitia.core.errors import InvalidValueError


def cost_step_by_step(prompt, cached, output, budget):
    """Play the steps: fill the prompt within the budget, then one token a step."""
    filled = cached = min(cached, prompt)
    total = 0
    while True:  # an engine always computes at least one step
        filled = min(prompt, filled + budget)
        total += filled
        if filled == prompt:
            break
    for _ in range(output - 1):  # the last prefill step has yielded the first token
        filled += 1
        total += filled
    return max(1, total)


@settings(derandomize=True, deadline=None, max_examples=300, database=None)
@given(st.integers(0, 200), st.integers(0, 250), st.integers(0, 40), st.integers(1, 220))
def test_the_closed_form_is_the_sum_over_steps(prompt, cached, output, budget):
    closed = inference_cost_kvtt(prompt, cached, output, step_budget_tokens=budget)
    assert closed == cost_step_by_step(prompt, cached, output, budget)


def shares_step_by_step(prompt, cached, output, budget, capacity):
    """Play the steps, each at the larger share of cache and budget; in 1 / budget of a KV token."""
    filled = min(cached, prompt)
    total = 0
    while True:
        computed = max(1, min(budget, prompt - filled))
        filled = min(prompt, filled + budget)
        total += max(filled * budget, computed * capacity)
        if filled == prompt:
            break
    for _ in range(output - 1):
        filled += 1
        total += max(filled * budget, capacity)
    return max(1, -(-total // budget))


@settings(derandomize=True, deadline=None, max_examples=300, database=None)
@given(
    st.integers(0, 200),
    st.integers(0, 250),
    st.integers(0, 40),
    st.integers(1, 220),
    st.integers(1, 400),
)
def test_the_dominant_share_is_the_sum_over_steps(prompt, cached, output, budget, capacity):
    closed = dominant_cost_kvtt(
        prompt, cached, output, step_budget_tokens=budget, kv_capacity_tokens=capacity
    )
    assert closed == shares_step_by_step(prompt, cached, output, budget, capacity)


def test_the_dominant_share_of_a_cache_of_nothing_is_refused():
    with pytest.raises(InvalidValueError, match="kv_capacity_tokens"):
        dominant_cost_kvtt(1, 0, 1, step_budget_tokens=8, kv_capacity_tokens=0)


@pytest.mark.parametrize(
    ("prompt", "cached", "output", "budget", "cost"),
    [
        pytest.param(100, 0, 1, 1000, 100, id="one prefill step yields the first token"),
        pytest.param(100, 0, 0, 1000, 100, id="embedding costs its prefill"),
        pytest.param(100, 0, 3, 1000, 100 + 101 + 102, id="decode grows by one"),
        pytest.param(100, 0, 1, 40, 40 + 80 + 100, id="chunked prefill"),
        pytest.param(5, 0, 1, 1, 1 + 2 + 3 + 4 + 5, id="budget of one"),
        pytest.param(100, 60, 1, 40, 100, id="cached prefix is held, not computed"),
        pytest.param(100, 100, 1, 8, 100, id="all cached still takes a step"),
        pytest.param(100, 10**9, 1, 8, 100, id="more cached than there is"),
        pytest.param(0, 0, 0, 1, 1, id="never zero"),
        pytest.param(10**9, 0, 1, 10**9, 10**9, id="the largest that is taken"),
    ],
)
def test_known_costs(prompt, cached, output, budget, cost):
    assert inference_cost_kvtt(prompt, cached, output, step_budget_tokens=budget) == cost


@pytest.mark.parametrize(
    ("arguments", "budget", "field"),
    [
        ((-1, 0, 1), 8, "prompt_tokens"),
        ((1, -1, 1), 8, "cached_tokens"),
        ((1, 0, -1), 8, "output_tokens"),
        ((1, 0, 1), 0, "step_budget_tokens"),
        ((10**9 + 1, 0, 1), 8, "prompt_tokens"),
        pytest.param((1, 0, 10**5000), 8, "output_tokens", id="thousands of digits"),
        ((float("nan"), 0, 1), 8, "prompt_tokens"),
    ],
)
def test_absurd_counts_are_refused_by_name(arguments, budget, field):
    with pytest.raises(InvalidValueError) as caught:
        inference_cost_kvtt(*arguments, step_budget_tokens=budget)
    assert caught.value.field == field
    assert len(str(caught.value)) < 200


@pytest.mark.parametrize(
    ("prompt", "output", "cost"), [(100, 10, 1050), (100, 1, 101), (0, 0, 1), (3, 3, 14), (7, 0, 1)]
)
def test_the_papers_formula(prompt, output, cost):
    """p*d + d**2/2, rounded up."""
    assert paper_cost_kvtt(prompt, output) == cost


def test_the_papers_formula_undercharges_a_long_prompt_with_a_short_answer():
    ours = inference_cost_kvtt(8000, 0, 2, step_budget_tokens=512)
    assert ours > 4 * paper_cost_kvtt(8000, 2)


def test_vtc_and_run_costs():
    assert vtc_cost_tokens(100, 10) == 120
    assert run_cost_kvtt([]) == 0
    assert run_cost_kvtt(iter([1, 2, 3])) == 6
