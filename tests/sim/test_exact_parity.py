"""Fast and exact engines play the same scenarios; ``docs/simulator.md`` says where they differ."""

import random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from justitia.core.errors import InvalidValueError
from justitia.core.learning import LearningRules
from justitia.core.policies import POLICIES
from justitia.sim.exact.parity import compare
from justitia.sim.loop import PlaySettings, play
from justitia.sim.scenario import Segment
from justitia.testing.sim_scenarios import (
    EXACT_STEP_TIME,
    engine,
    inference,
    run,
    scenario,
    scenarios,
)

#: What the project asks for; most scenarios are alike to the last bit.
MOST_DIFFERENCE = 0.03
LEAST_CORRELATION = 0.98


def crowd(*, has_sharing, seed=1, **others):
    """24 runs of 1 to 5 inferences, in stages, more than the engine can serve at a time."""
    rng = random.Random(seed)
    runs = []
    for number in range(24):
        calls = []
        for place in range(rng.randint(1, 5)):
            own = Segment("", rng.randint(3, 40))
            shared = Segment(rng.choice("ab"), rng.randint(4, 30))
            prompt = (shared, own) if has_sharing else (own,)
            after = (place - 1,) if place and rng.random() < 0.5 else ()
            calls.append(inference(prompt, rng.randint(0, 30), after=after))
        runs.append(run(f"r{number}", *calls, at_s=rng.randrange(600) / 512))
    plan = {"step_time": EXACT_STEP_TIME, "has_prefix_cache": has_sharing} | others
    return scenario(*runs, engines=(engine(**plan),))


SCENARIOS = {
    "chunked prefill": crowd(has_sharing=False, blocks=400, max_num_batched_tokens=16),
    "preemption": crowd(has_sharing=False, blocks=40),
    "few places and a watermark": crowd(
        has_sharing=False, blocks=40, max_num_seqs=6, watermark=0.3
    ),
}


@pytest.mark.parametrize("policy", ["fcfs", "justitia", "vtc", "srjf"])
@pytest.mark.parametrize("name", list(SCENARIOS))
def test_without_a_prefix_cache_the_two_agree_to_the_last_bit(name, policy):
    parity = compare(SCENARIOS[name], policy)
    assert parity.fast.runs == parity.exact.runs
    assert parity.fast.wasted_kvtt == parity.exact.wasted_kvtt
    assert (parity.jct_difference, parity.order_correlation) == (0.0, 1.0)
    assert name != "preemption" or parity.fast.wasted_kvtt > 0, "what the case is about"


@pytest.mark.parametrize("estimator", ["error:1.0", "history"])
def test_they_agree_too_while_f_moves(estimator):
    plan = SCENARIOS["preemption"]
    rules = LearningRules(early_share=1.0, min_change=0.0)
    parity = compare(plan, "justitia", PlaySettings(estimator=estimator, learning=rules))
    assert parity.fast.runs == parity.exact.runs
    fixed = play(plan, "justitia", PlaySettings(estimator=estimator))
    assert fixed.runs != parity.fast.runs, "what the case is about"


@pytest.mark.parametrize("policy", ["vtc", "srjf", "parrot"])
def test_both_number_runs_as_their_first_inferences_reach_the_engine(policy):
    rng = random.Random(3)
    runs = [
        run(
            f"r{number}",
            inference(rng.randint(4, 40), rng.randint(4, 20), pause_s=rng.randrange(40) / 128),
            inference(rng.randint(4, 40), rng.randint(4, 20), after=(0,)),
            at_s=number / 256,
        )
        for number in range(16)
    ]
    plan = {"blocks": 40, "step_time": EXACT_STEP_TIME, "has_prefix_cache": False}
    parity = compare(scenario(*runs, engines=(engine(**plan),)), policy)
    assert parity.fast.runs == parity.exact.runs


@settings(max_examples=20, deadline=None)
@given(scenarios(has_sharing=False), st.sampled_from(sorted(POLICIES)))
def test_random_scenarios_without_sharing_are_alike_to_the_last_bit(plan, policy):
    parity = compare(plan, policy)
    assert parity.fast.runs == parity.exact.runs
    assert parity.fast.duration_s == parity.exact.duration_s


@pytest.mark.parametrize("policy", ["fcfs", "justitia"])
def test_with_a_prefix_cache_the_two_are_close(policy):
    parity = compare(crowd(has_sharing=True, blocks=60), policy)
    assert abs(parity.jct_difference) <= MOST_DIFFERENCE
    assert parity.order_correlation >= LEAST_CORRELATION
    assert min(each.cached_tokens for each in parity.fast.engines) > 0


@pytest.mark.parametrize("policy", ["fcfs", "justitia"])
def test_prompts_of_whole_blocks_that_are_all_cached_change_little(policy):
    """Their last block is computed anew, and vLLM keeps both; the fast engine keeps one."""
    runs = [
        run(f"r{number}", *(inference((Segment("a", 4 * size),), 6) for size in (3, 5, 8)))
        for number in range(12)
    ]
    plan = {"blocks": 40, "max_num_batched_tokens": 16, "step_time": EXACT_STEP_TIME}
    parity = compare(scenario(*runs, engines=(engine(**plan),)), policy)
    assert parity.fast.runs != parity.exact.runs, "the difference that the docs speak of is gone"
    assert abs(parity.jct_difference) <= MOST_DIFFERENCE
    assert parity.order_correlation >= LEAST_CORRELATION


def test_two_steps_in_flight_make_little_difference_to_long_answers():
    """Each end is known a step later, and so is room for the next one: about 1 in 100 steps."""
    rng = random.Random(1)
    runs = [
        run(f"r{number}", *(inference(rng.randint(4, 40), rng.randint(80, 120)) for _ in range(2)))
        for number in range(12)
    ]
    plan = scenario(*runs, engines=(engine(blocks=200),))
    parity = compare(plan, "justitia", is_async=True)
    assert -MOST_DIFFERENCE <= parity.jct_difference < 0
    assert parity.order_correlation >= LEAST_CORRELATION


def test_fast_engines_plan_a_fraction_of_the_steps():
    """Wall time follows; it is not asserted, for this machine may be busy."""
    runs = [run(f"r{number}", inference(100, 400), at_s=number / 64) for number in range(8)]
    plan = {"blocks": 400, "block_size_tokens": 16, "max_num_batched_tokens": 2048}
    parity = compare(scenario(*runs, engines=(engine(**plan),)), "justitia")
    assert parity.exact.engines[0].plans > 10 * parity.fast.engines[0].plans
    assert parity.speed_quotient > 1


def test_a_scenario_without_runs_is_refused():
    with pytest.raises(InvalidValueError, match="runs: must be at least one"):
        compare(scenario(), "fcfs")
