"""The least time of an engine: by hand, and never more than plays take."""

import math

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from justitia.sim.engine_time import least_engine_s, least_mean_of_any_order_s, timed_runs
from justitia.sim.loop import play
from justitia.sim.workloads.generate import generate
from justitia.testing.sim_scenarios import engine, inference, scenarios

#: Coefficients with which prompts take most of the time, 1 s a step and 1 s a token.
SLOW_PROMPTS = (
    '{"floor_s": 1.0, "compute_s": 0.5, "per_token_s": 1.0, "per_sequence_s": 0.25,'
    ' "per_kv_token_s": 0.0625, "per_prefill_pair_s": 0.125}'
)


def test_an_inference_has_its_share_of_the_floor_and_what_is_its_own():
    """Ten blocks of 4, a prompt of 6 tokens and 3 of output, in at most 2 chunks.

    Blocks: 2 while 6, 7 and 8 tokens are held; so 6 of 10 floors. Prompt: 6 s less 2 x 0.5 s. Three
    sequences; decoding reads 7 + 8 tokens; 18 pairs less 12.
    """
    plan = engine(blocks=10, step_time=SLOW_PROMPTS, max_num_batched_tokens=64, max_num_seqs=8)
    expected = 0.6 + 5.0 + 3 * 0.25 + 15 * 0.0625 + 6 * 0.125
    assert least_engine_s(inference(6, 3), plan) == pytest.approx(expected)


def test_a_prompt_that_may_come_in_single_tokens_has_none_of_its_time():
    """In steps of 8 tokens, 8 of which others may take, a chunk can be hidden below the floor."""
    crowded = engine(
        blocks=10,
        max_num_batched_tokens=8,
        max_num_seqs=8,
        step_time=SLOW_PROMPTS.replace('"per_token_s": 1.0', '"per_token_s": 0.25'),
    )
    bare = 0.6 + 3 * 0.25 + 15 * 0.0625
    assert least_engine_s(inference(6, 3), crowded) == pytest.approx(bare)


@settings(derandomize=True, deadline=None, max_examples=40, database=None)
@given(
    plan=scenarios(has_prefix_cache=False, max_runs=8, step_time=SLOW_PROMPTS),
    policy=st.sampled_from(["srjf", "justitia", "fcfs", "vtc"]),
)
def test_runs_that_have_ended_had_at_least_that_time(plan, policy):
    """Whatever chunks, preemptions and watermarks do, by any moment."""
    played = play(plan, policy)
    needs = [each.cost for each in timed_runs(plan)]
    for end in played.runs:
        done_s = math.fsum(
            need
            for need, each in zip(needs, played.runs, strict=True)
            if each.finished_at_s <= end.finished_at_s
        )
        assert done_s <= len(plan.engines) * end.finished_at_s + 1e-9


@settings(derandomize=True, deadline=None, max_examples=25, database=None)
@given(plan=scenarios(has_prefix_cache=False, max_runs=8, step_time=SLOW_PROMPTS))
def test_no_policy_has_a_mean_below_the_bound(plan):
    least_s = least_mean_of_any_order_s(plan)
    for policy in ("srjf", "fcfs"):
        assert play(plan, policy).summarize().mean_jct_s >= least_s - 1e-9


def test_the_bound_is_close_where_an_engine_is_full():
    """The paper's mix on the paper's engine: SRJF takes less than twice the least."""
    plan = generate(seed=5, num_runs=60, window_s=60)
    least_s = least_mean_of_any_order_s(plan)
    mean_s = play(plan, "srjf").summarize().mean_jct_s
    assert least_s < mean_s < 1.6 * least_s
