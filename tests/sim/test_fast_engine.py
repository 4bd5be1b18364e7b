"""The fast engine, on small cases worked out by hand and on random ones."""

from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from justitia.core.cost import inference_cost_kvtt
from justitia.core.policies import EVERY_POLICY
from justitia.sim.fast.engine import FastEngine
from justitia.sim.fast.flight import Flight
from justitia.sim.loop import PlaySettings, play
from justitia.sim.scenario import Segment
from justitia.step_time import DecodePace
from justitia.testing.sim_scenarios import (
    STEP_S,
    Workshop,
    engine,
    inference,
    run,
    scenario,
    scenarios,
    steps,
)

ANY_POLICY = st.sampled_from(sorted(EVERY_POLICY))


def results(played):
    return {each.run_id: each for each in played.runs}


def play_steps(plan, policy="fcfs"):
    """End of each run, in steps."""
    return {each.run_id: steps(each.finished_at_s) for each in play(plan, policy).runs}


def test_a_prompt_in_two_chunks_and_three_tokens_take_four_steps():
    """8 tokens, then the other 2 and the first token, then two decode steps: 8 + 10 + 11 + 12."""
    plan = scenario(run("a", inference(10, 3)), engines=(engine(max_num_batched_tokens=8),))
    played = play(plan, "fcfs")
    assert played.duration_s == 4 * STEP_S
    assert played.useful_kvtt == 8 + 10 + 11 + 12
    assert played.engines[0].steps == 4
    assert played.engines[0].plans == 4, "two prompts' steps, decoding in one go, and the end"


def test_an_inference_without_output_takes_its_prefill():
    played = play(scenario(run("a", inference(10, 0))), "fcfs")
    assert (played.useful_kvtt, played.engines[0].steps) == (10, 1)


def test_the_budget_goes_to_what_runs_first_and_the_rest_to_the_next_prompt():
    """Step 1: a 6, b 2 of 4. Step 2: a decodes, b's 2. Step 3: a and b decode. Step 4: b."""
    plan = scenario(
        run("a", inference(6, 3)),
        run("b", inference(4, 3)),
        engines=(engine(max_num_batched_tokens=8),),
    )
    played = results(play(plan, "fcfs"))
    assert steps(played["a"].finished_at_s) == 3
    assert steps(played["b"].finished_at_s) == 4
    assert played["a"].true_kvtt == 6 + 7 + 8
    assert played["b"].true_kvtt == 2 + 4 + 5 + 6


def test_a_free_place_is_needed_to_be_admitted():
    plan = scenario(
        run("a", inference(4, 3)), run("b", inference(4, 3)), engines=(engine(max_num_seqs=1),)
    )
    assert play_steps(plan) == {"a": 3, "b": 6}


def test_a_whole_sequence_must_fit_to_be_admitted():
    """10 blocks: a has 6, b would need 5 of the 4 left; it waits for a's end."""
    plan = scenario(
        run("a", inference(21, 3)),
        run("b", inference(17, 1)),
        engines=(engine(blocks=10, max_num_batched_tokens=24),),
    )
    assert play_steps(plan) == {"a": 3, "b": 4}


def test_the_watermark_keeps_blocks_free_only_while_something_runs():
    """11 blocks counted with vLLM's placeholder: 30 % of them are 3. a has 6; b's 2 would do."""
    runs = (run("a", inference(21, 3)), run("b", inference(5, 1)))
    shape = {"blocks": 10, "max_num_batched_tokens": 30}
    without = scenario(*runs, engines=(engine(**shape),))
    with_mark = scenario(*runs, engines=(engine(**shape, watermark=0.3),))
    assert play_steps(without) == {"a": 3, "b": 1}
    assert play_steps(with_mark) == {"a": 3, "b": 4}


def test_who_came_last_is_preempted_and_computes_again_what_it_had():
    """4 blocks of 4. a and b have 2 each: both go from 7 to 8 tokens. For its 9th token a needs a
    third block: b loses its own, with 1 token generated... and is computed again when a ended.
    """
    plan = scenario(
        run("a", inference(7, 6)),
        run("b", inference(7, 4)),
        engines=(engine(blocks=4, has_prefix_cache=False),),
    )
    played = results(play(plan, "fcfs"))
    # a: 7, 8, 9, 10, 11, 12. b: 7, 8, then alone again: 9 (prompt and two tokens) and 10.
    assert steps(played["a"].finished_at_s) == 6
    assert steps(played["b"].finished_at_s) == 8
    assert played["b"].num_preemptions == 1
    assert played["a"].true_kvtt == sum(range(7, 13))
    assert played["b"].true_kvtt == 7 + 8 + 9 + 10
    assert played["b"].wasted_kvtt == 0, "one step computes it all and a new token"


def test_recomputing_in_chunks_is_wasted_up_to_the_old_mark():
    """As above with 5 tokens a step: b's 9 tokens are computed again as 5 and 4."""
    plan = scenario(
        run("a", inference(7, 6)),
        run("b", inference(7, 4)),
        engines=(engine(blocks=4, has_prefix_cache=False, max_num_batched_tokens=5),),
    )
    played = results(play(plan, "fcfs"))
    assert played["b"].num_preemptions == 1
    assert played["b"].wasted_kvtt == 5


def test_the_policy_decides_who_is_preempted():
    """The same under shortest first: b is the smaller one and stays."""
    plan = scenario(
        run("a", inference(7, 6)),
        run("b", inference(7, 4)),
        engines=(engine(blocks=4, has_prefix_cache=False),),
    )
    played = results(play(plan, "sjf"))
    assert (played["a"].num_preemptions, played["b"].num_preemptions) == (1, 0)


def test_a_run_that_comes_during_a_stretch_is_admitted_at_the_next_step():
    plan = scenario(run("a", inference(4, 100)), run("b", inference(4, 1), at_s=10.5 * STEP_S))
    assert play_steps(plan) == {"a": 100, "b": 12}


def test_inferences_wait_for_those_before_them_and_for_their_pause():
    plan = scenario(
        run(
            "a",
            inference(4, 2),
            inference(4, 5),
            inference(4, 1, after=(0,), pause_s=10 * STEP_S),
            inference(4, 1, after=(1, 2)),
        )
    )
    # 0 ends at 2, 1 at 5, 2 comes at 12 and ends at 13, 3 ends at 14.
    assert play_steps(plan) == {"a": 14}


def test_a_flight_tells_steps_that_have_begun_from_those_that_have_ended():
    flight = Flight(10.0, 15.0, 5, DecodePace(1.0, 0.0))
    assert [flight.planned(now_s) for now_s in (10.0, 12.5, 13.0, 15.0)] == [1, 3, 3, 5]
    assert [flight.done(now_s) for now_s in (10.0, 12.5, 13.0, 15.0)] == [0, 2, 3, 5]
    flight.cut(12.5)
    assert (flight.steps, flight.due_s) == (3, 13.0)


# -- an order that changes with service, in the middle of a stretch ---------------------------

STEPWISE = pytest.mark.parametrize("is_stepwise", [False, True])
SMALL = (engine(blocks=20),)


@STEPWISE
def test_vtc_lets_another_run_pass_as_soon_as_the_counter_of_the_head_is_above_its_own(is_stepwise):
    """Both start at once. h has 4 + 2 a step, s has 40 after its 10 steps; h is above that after
    19. All the while the head, h's second inference, does not fit; that of s does.
    """
    plan = scenario(
        run("h", inference(4, 60), inference(70, 1, pause_s=STEP_S)),
        run("s", inference(20, 10), inference(4, 1, after=(0,))),
        engines=SMALL,
    )
    played = results(play(plan, "vtc", PlaySettings(is_stepwise=is_stepwise)))
    assert steps(played["s"].finished_at_s) == 20


@STEPWISE
def test_srjf_lets_another_run_pass_as_soon_as_less_of_it_is_left(is_stepwise):
    """The head costs 64 + 76 + ... + 79 = 374 and does not fit. The other one has 4 + ... + 63 and
    4 to get: 367 after 54 steps. Its small one is admitted then.
    """
    plan = scenario(
        run("r", inference(4, 60), inference(4, 1, pause_s=3 * STEP_S)),
        run("h", inference(76, 4), at_s=STEP_S),
        engines=SMALL,
    )
    played = results(play(plan, "srjf", PlaySettings(is_stepwise=is_stepwise)))
    assert steps(played["r"].waiting_s) == 54 - 3


@STEPWISE
def test_las_lets_another_run_pass_as_soon_as_the_head_has_got_more(is_stepwise):
    """As with VTC, and nobody is lifted: s begins at 0 and has 40 after its 10 steps."""
    plan = scenario(
        run("h", inference(4, 60), inference(70, 1, pause_s=STEP_S)),
        run("s", inference(20, 10), inference(4, 1, after=(0,))),
        engines=SMALL,
    )
    played = results(play(plan, "las", PlaySettings(is_stepwise=is_stepwise)))
    assert steps(played["s"].finished_at_s) == 20


@pytest.mark.parametrize("policy", ["vtc", "las", "srjf"])
def test_an_order_that_is_foreseen_is_not_planned_step_by_step(policy):
    plan = scenario(run("a", inference(4, 60)), run("b", inference(30, 40)), engines=SMALL)
    engine_totals = play(plan, policy).engines[0]
    assert engine_totals.plans < engine_totals.steps / 4


# -- what is told of runs ----------------------------------------------------


def test_a_run_arrives_at_an_engine_with_its_first_inference():
    """The pool meets a first, the engine b: by arrival of runs, b is served before a."""
    plan = scenario(
        run("a", inference(4, 1, pause_s=4 * STEP_S)),
        run("b", inference(4, 8), inference(4, 1, after=(0,)), at_s=STEP_S),
        run("c", inference(8, 1), at_s=7 * STEP_S),
        engines=(engine(max_num_seqs=1),),
    )
    assert play_steps(plan, "parrot") == {"b": 10, "a": 11, "c": 12}


def test_the_smallest_priority_of_a_client_goes_first():
    """c comes last and goes before b; a has 0, as everybody who does not say."""
    plan = scenario(
        run("a", inference(4, 3)),
        replace(run("b", inference(4, 3)), priority=2),
        replace(run("c", inference(4, 3)), priority=1),
        engines=(engine(max_num_seqs=1),),
    )
    assert play_steps(plan, "vllm-priority") == {"a": 3, "c": 6, "b": 9}
    assert play_steps(plan, "fcfs") == {"a": 3, "b": 6, "c": 9}


# -- prefix cache ----------------------------------------------------


def test_what_two_prompts_share_is_computed_once_and_paid_once():
    """10 shared tokens fill 2 blocks, the third block is of each one's own."""
    plan = scenario(
        run("a", inference((Segment("s", 10), Segment("", 4)), 2)),
        run("b", inference((Segment("s", 10), Segment("", 4)), 2)),
    )
    played = results(play(plan, "fcfs"))
    assert played["b"].cached_tokens == 8
    assert played["a"].true_kvtt == 14 + 15
    assert played["b"].true_kvtt == 6 + 7


def test_who_is_left_pays_for_what_was_shared():
    """a ends after 2 steps: from then on b pays for the 8 tokens too."""
    plan = scenario(
        run("a", inference((Segment("s", 10), Segment("", 4)), 2)),
        run("b", inference((Segment("s", 10), Segment("", 4)), 4)),
    )
    played = results(play(plan, "fcfs"))
    assert played["b"].true_kvtt == 6 + 7 + 16 + 17


def test_the_last_token_of_a_prompt_is_always_computed():
    """8 tokens are 2 full blocks; one of them is computed again for its last token."""
    plan = scenario(
        run("a", inference((Segment("s", 8),), 1)),
        run("b", inference((Segment("s", 8),), 1), at_s=5 * STEP_S),
    )
    assert results(play(plan, "fcfs"))["b"].cached_tokens == 4


def test_an_answer_that_a_later_prompt_goes_on_from_is_cached():
    """Turn 2 holds turn 1 and its answer: 12 + 9 tokens, of which 20 were computed: 5 blocks."""
    first = inference((Segment("u", 12),), 9, output_stream="o")
    then = inference((Segment("u", 12), Segment("o", 9), Segment("", 5)), 1, after=(0,))
    assert results(play(scenario(run("a", first, then)), "fcfs"))["a"].cached_tokens == 20


def test_what_was_freed_first_is_evicted_first():
    """10 blocks. a's 5 and b's 4 are cached. c takes the empty one and 4 of a's 5."""
    runs = [
        run("a", inference((Segment("a", 20),), 1)),
        run("b", inference((Segment("b", 16),), 1), at_s=5 * STEP_S),
        run("c", inference((Segment("c", 20),), 1), at_s=10 * STEP_S),
        run("b2", inference((Segment("b", 16), Segment("", 1)), 1), at_s=15 * STEP_S),
        run("a2", inference((Segment("a", 20), Segment("", 1)), 1), at_s=20 * STEP_S),
    ]
    played = results(play(scenario(*runs, engines=(engine(blocks=10),)), "fcfs"))
    assert played["b2"].cached_tokens == 16
    # b2 took c's empty... its one new block is the last that a had.
    assert played["a2"].cached_tokens == 0


# -- any scenario, any policy ----------------------------------------------------


class Watched(FastEngine):
    """Looks after each plan whether the head could have been admitted."""

    def plan(self, now_s):
        before = self.totals.preemptions
        super().plan(now_s)
        if self._flight is None:
            assert not self._batch.running
            assert not self._batch.num_waiting
        elif self.totals.preemptions == before and not self._has_charged_prompts():
            flight = self._flight
            tokens = self._batch.decoding.num + sum(tokens for _, tokens in flight.chunks)
            taken = self._batch.decoding.blocks_for(1) if flight.pace is not None else 0
            head = self._batch.head()
            assert not (
                head is not None
                and self._batch.has_place(tokens)
                and self._batch.hit(head, self._batch.kv.num_free - taken) >= 0
            ), "idle KV that the head could use"

    def _has_charged_prompts(self):
        """Once the step is planned, VTC charges prompts: the head may be another one then."""
        return self._batch.policy.counts_tokens and self._flight.chunks


@settings(derandomize=True, deadline=None, max_examples=150, database=None)
@given(plan=scenarios(), policy=ANY_POLICY)
def test_everything_ends_nothing_leaks_and_the_head_never_waits_for_nothing(plan, policy):
    workshop = Workshop(Watched)
    played = play(plan, policy, make_engine=workshop.make)
    assert len(played.runs) == len(plan.runs)
    for made in workshop.engines:
        made.check_empty()
    assert played.useful_kvtt == sum(each.true_kvtt for each in played.runs)
    assert played.wasted_kvtt == sum(each.wasted_kvtt for each in played.runs)
    assert all(each.reference_jct_s > 0 for each in played.runs)


@settings(derandomize=True, deadline=None, max_examples=150, database=None)
@given(plan=scenarios(), policy=ANY_POLICY)
def test_steps_in_one_go_come_to_the_same_as_step_by_step(plan, policy):
    skipped = play(plan, policy)
    stepwise = play(plan, policy, PlaySettings(is_stepwise=True))
    assert skipped.runs == stepwise.runs
    assert [e.steps for e in skipped.engines] == [e.steps for e in stepwise.engines]
    assert skipped.useful_kvtt == stepwise.useful_kvtt
    assert skipped.surplus_kvtt == stepwise.surplus_kvtt


@settings(derandomize=True, deadline=None, max_examples=30, database=None)
@given(plan=scenarios(), policy=ANY_POLICY)
def test_a_play_can_be_repeated(plan, policy):
    assert play(plan, policy) == play(plan, policy)


@settings(derandomize=True, deadline=None, max_examples=60, database=None)
@given(
    plan=scenarios(
        has_sharing=False, blocks=1000, max_num_batched_tokens=10_000, max_num_seqs=1000
    ),
    policy=ANY_POLICY,
)
def test_undisturbed_inferences_are_charged_what_the_closed_form_says(plan, policy):
    for each, result in zip(plan.runs, play(plan, policy).runs, strict=True):
        assert result.true_kvtt == sum(
            inference_cost_kvtt(i.prompt_tokens, 0, i.output_tokens, step_budget_tokens=10_000)
            for i in each.inferences
        )
        assert result.predicted_kvtt == result.true_kvtt
        assert result.wasted_kvtt == 0


@pytest.mark.parametrize("policy", sorted(EVERY_POLICY))
def test_one_run_alone_is_as_fast_under_every_policy(policy):
    plan = scenario(run("a", *(inference(9, 20) for _ in range(12)), inference(5, 5)))
    assert play(plan, policy).duration_s == play(plan, "fcfs").duration_s
