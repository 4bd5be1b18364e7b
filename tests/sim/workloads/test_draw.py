import random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from justitia.sim.scenario import Scenario
from justitia.sim.workloads.draw import draw_run
from justitia.sim.workloads.spread import Spread, fixed
from justitia.sim.workloads.summary import total_cost_kvtt
from justitia.sim.workloads.tables import (
    ALFWORLD,
    DOCUMENT_MERGING,
    FACT_VERIFICATION,
    KINDS,
    MAP_REDUCE,
    MAX_CONTEXT_TOKENS,
    PAPER_ENGINE,
    SELF_CONSISTENT,
)

KIND_NAMES = st.sampled_from(sorted(KINDS))


def draw(kind, seed=0, **more):
    return draw_run(kind, random.Random(seed), run_id=f"run-{seed}", **more)


def cost(*runs):
    return total_cost_kvtt(Scenario(engines=(PAPER_ENGINE,), runs=runs))


@given(KIND_NAMES, st.integers(0, 2**40), st.one_of(st.none(), st.floats(-4, 4)))
def test_every_run_is_whole_and_every_inference_fits(name, seed, size):
    run = draw(KINDS[name], seed, size=size)
    assert run.application == name
    for inference in run.inferences:
        assert inference.output_tokens >= 1
        assert inference.prompt_tokens + inference.output_tokens <= MAX_CONTEXT_TOKENS
        assert bool(inference.after) or inference.pause_s == 0


def test_small_types_are_sent_with_a_smaller_priority_than_large_ones():
    priorities = [draw(kind).priority for kind in (ALFWORLD, SELF_CONSISTENT, MAP_REDUCE)]
    assert priorities == [0, 1, 2]


@given(st.integers(0, 2**40))
def test_a_chain_extends_the_prompt_before_it_by_output_and_answer(seed):
    first, *rest = draw(ALFWORLD, seed).inferences
    before = first
    for place, inference in enumerate(rest):
        assert inference.after == (place,)
        assert inference.prompt_tokens > before.prompt_tokens + before.output_tokens
        before = inference


def test_counterparts_wait_for_one_another():
    run = draw(FACT_VERIFICATION)
    claims, *others = run.inferences
    queries, verdicts = others[: len(others) // 2], others[len(others) // 2 :]
    assert claims.after == ()
    assert {query.after for query in queries} == {(0,)}
    assert [verdict.after for verdict in verdicts] == [(1 + n,) for n in range(len(queries))]
    assert all(0.5 <= verdict.pause_s <= 2 for verdict in verdicts)


def test_a_stage_waits_for_all_of_the_one_before_and_reads_a_part_of_it():
    *maps, reduce = draw(MAP_REDUCE).inferences
    assert reduce.after == tuple(range(len(maps)))
    written = sum(each.output_tokens for each in maps)
    assert reduce.prompt_tokens == 80 + min(2400, written)


def test_samples_of_one_question_share_the_whole_prompt(shared_tokens):
    run = draw(SELF_CONSISTENT)
    first, second = run.inferences[:2]
    assert shared_tokens(first.prompt, second.prompt) == first.prompt_tokens


def test_runs_of_a_type_share_their_instructions_alone(shared_tokens):
    left, right = draw(SELF_CONSISTENT, 1), draw(SELF_CONSISTENT, 2)
    assert shared_tokens(left.inferences[0].prompt, right.inferences[0].prompt) == 600


def test_drafts_are_read_by_their_own_scores():
    run = draw(DOCUMENT_MERGING)
    num = (len(run.inferences) - 1) // 2
    text = run.inferences[0].prompt[1].tokens
    for draft, score in zip(run.inferences[:num], run.inferences[num:-1], strict=True):
        assert score.prompt_tokens == 150 + text + draft.output_tokens


def test_a_larger_size_costs_more_and_counts_can_be_given():
    sizes = [cost(draw(MAP_REDUCE, size=size)) for size in (-1.0, 0.0, 1.0)]
    assert sizes == sorted(sizes)
    assert sizes[2] > 1.5 * sizes[0]
    assert len(draw(MAP_REDUCE, counts={"map": 64}).inferences) == 65


def test_runs_of_one_type_differ_enough_to_be_worth_predicting():
    """Between the cheapest and the dearest tenth lies a factor of two at least."""
    for kind in KINDS.values():
        costs = sorted(cost(draw(kind, seed)) for seed in range(40))
        assert costs[35] > 1.7 * costs[4], kind.name


def test_a_spread_keeps_what_inferences_have_in_common():
    """Of a variance that is half their own, half is common: the correlation."""
    rng = random.Random(1)
    spread = Spread(1000, 0.3, 1, 10**6, own=0.5)
    common = [rng.gauss(0, 1) for _ in range(2000)]
    pairs = [(spread.draw(rng, z), spread.draw(rng, z)) for z in common]
    mean = [sum(pair[side] for pair in pairs) / len(pairs) for side in (0, 1)]
    product = sum((a - mean[0]) * (b - mean[1]) for a, b in pairs)
    squares = [sum((pair[side] - mean[side]) ** 2 for pair in pairs) for side in (0, 1)]
    assert product / (squares[0] * squares[1]) ** 0.5 == pytest.approx(0.5, abs=0.08)


def test_a_fixed_number_is_fixed():
    assert {fixed(7).draw(random.Random(seed), 3.0) for seed in range(9)} == {7}
