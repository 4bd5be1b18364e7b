"""The exact engine: vLLM's scheduler with the plugin, under the loop."""

import builtins

import pytest

from justitia.core.errors import InvalidValueError, InvariantError
from justitia.core.policies import POLICIES, make_policy
from justitia.sim.engine import RunTag, Submission
from justitia.sim.exact.make import exact_engines
from justitia.sim.loop import PlaySettings, play
from justitia.sim.scenario import Segment
from justitia.step_time import Chunk, StepTime
from justitia.testing.sim_scenarios import STEP_S, engine, inference, run, scenario, steps


@pytest.fixture(scope="module")
def make():
    return exact_engines()


class Kept:
    """Keeps the engines that are made."""

    def __init__(self, make):
        self._make = make
        self.engines = []

    def __call__(self, engine_id, plan, policy):
        self.engines.append(self._make(engine_id, plan, policy))
        return self.engines[-1]


@pytest.mark.parametrize("policy", sorted(POLICIES))
def test_a_prompt_in_two_chunks_and_three_tokens_take_four_steps(make, policy):
    """8 tokens, then the other 2 and the first token, then two decode steps: 8 + 10 + 11 + 12."""
    plan = scenario(run("a", inference(10, 3)), engines=(engine(max_num_batched_tokens=8),))
    kept = Kept(make)
    played = play(plan, policy, make_engine=kept)
    assert played.duration_s == 4 * STEP_S
    assert played.useful_kvtt == 8 + 10 + 11 + 12
    assert played.engines[0].steps == 4
    kept.engines[0].check_empty()


def test_an_inference_without_output_ends_with_its_prompt(make):
    played = play(scenario(run("a", inference(10, 0))), "justitia", make_engine=make)
    assert (played.useful_kvtt, played.engines[0].steps) == (10, 1)


def test_a_later_call_finds_the_answer_that_its_prompt_goes_on_from(make):
    system, answer = Segment("system", 8), Segment("answer", 8)
    first = inference((system,), 8, output_stream="answer")
    second = inference((system, answer, Segment("tool", 4)), 2, after=(0,))
    played = play(scenario(run("a", first, second)), "fcfs", make_engine=make)
    assert played.runs[0].cached_tokens == 8 + 4, "of the answer the last token was not computed"


def test_runs_go_in_the_order_of_the_tags_that_the_loop_gives(make):
    """One place: the small run's F is the smaller one, though it came second."""
    runs = [
        run("other", inference(4, 30)),
        run("big", inference(40, 60)),
        run("small", inference(8, 2), at_s=STEP_S),
    ]
    plan = scenario(*runs, engines=(engine(max_num_seqs=1),))
    order = {
        policy: play(plan, policy, make_engine=make).finish_order for policy in ("fcfs", "justitia")
    }
    assert order["fcfs"] == ["other", "big", "small"]
    assert order["justitia"] == ["other", "small", "big"]


@pytest.mark.parametrize(
    ("estimator", "order"), [("exact", ["short", "a", "long"]), ("history", ["a", "long", "short"])]
)
def test_single_inferences_are_ordered_by_what_the_estimator_says(make, estimator, order):
    """By history all are alike, though the plugin by itself would go by the longest answers."""
    outputs = {"a": 30, "long": 60, "short": 2}
    runs = [run(name, inference(8, output)) for name, output in outputs.items()]
    plan = scenario(*runs, engines=(engine(max_num_seqs=1),))
    settings = PlaySettings(estimator=estimator)
    assert play(plan, "sjf", settings, make_engine=make).finish_order == order


def test_what_a_preemption_threw_away_is_wasted(make):
    runs = [run("a", inference(16, 30)), run("b", inference(16, 30))]
    plan = scenario(
        *runs, engines=(engine(blocks=16, max_num_batched_tokens=8, has_prefix_cache=False),)
    )
    kept = Kept(make)
    played = play(plan, "justitia", make_engine=kept)
    assert played.engines[0].preemptions > 0
    assert played.wasted_kvtt > 0
    assert sum(each.num_preemptions for each in played.runs) == played.engines[0].preemptions
    kept.engines[0].check_empty()


def test_two_steps_in_flight_end_one_after_the_other():
    """A second run is planned before the first one's step has ended, and waits a step more."""
    plan = scenario(run("a", inference(4, 4)), run("b", inference(4, 4), at_s=STEP_S / 2))
    ends = {
        is_async: {
            each.run_id: steps(each.finished_at_s)
            for each in play(plan, "fcfs", make_engine=exact_engines(is_async=is_async)).runs
        }
        for is_async in (False, True)
    }
    assert ends == {False: {"a": 4, "b": 5}, True: {"a": 4, "b": 6}}


def test_a_run_that_the_plugin_has_forgotten_is_tagged_again(make):
    """Closed after a pause of a day, its F still holds when it comes back behind a bigger run."""
    late_s = 200_000.0
    runs = [
        run("a", inference(4, 2), inference(4, 2, after=(0,), pause_s=late_s)),
        run("between", inference(4, 2), at_s=100_000.0),
        run("other", inference(4, 30), at_s=late_s),
        run("big", inference(40, 60), at_s=late_s),
    ]
    kept = Kept(make)
    plan = scenario(*runs, engines=(engine(max_num_seqs=1),))
    played = play(plan, "justitia", make_engine=kept)
    assert played.finish_order == ["between", "other", "a", "big"]
    assert played.runs[0].true_kvtt == 2 * (4 + 5)


def test_runs_that_are_over_are_forgotten(make):
    kept = Kept(make)
    runs = [run(name, inference(4, 2), at_s=at_s) for at_s, name in enumerate("abc")]
    play(scenario(*runs), "justitia", make_engine=kept)
    known = [each.run_id for each in kept.engines[0]._scheduler.justitia.runs]
    assert known == ["c"], "the plugin hears of an end when it plans the next step"


def test_names_that_the_plugin_would_refuse_are_refused(make):
    with pytest.raises(InvalidValueError, match="1 to 256 printable characters"):
        play(scenario(run("a\n", inference(4, 2))), "fcfs", make_engine=make)


def test_an_error_inside_the_plugin_ends_the_play(make):
    """In production the plugin goes on in arrival order; here that would be a wrong result."""
    made = make("e", engine(), make_policy("justitia"))
    made.tag(RunTag("a", 1, 0, 1), 0.0)
    plan = run("a", inference(4, 2)).inferences[0]
    made.submit(Submission("a", "", 0, plan, 1), 0.0)
    made._scheduler.justitia.ledger.blocks = None
    with pytest.raises(InvariantError, match="the plugin has failed"):
        made.plan(0.0)


def test_without_vllm_one_sentence_says_so(monkeypatch):
    real = builtins.__import__

    def without(name, *args, **kwargs):
        if name.startswith("justitia.sim.exact.engine"):
            raise ModuleNotFoundError("No module named 'vllm'", name="vllm")
        return real(name, *args, **kwargs)

    monkeypatch.setattr(builtins, "__import__", without)
    with pytest.raises(InvalidValueError, match=r"vLLM is not installed; install it with: pip"):
        exact_engines()


def test_an_engine_that_vllm_refuses_is_refused(make):
    plan = scenario(run("a", inference(4, 2)), engines=(engine(watermark=1.0),))
    with pytest.raises(InvalidValueError, match="watermark"):
        play(plan, "fcfs", make_engine=make)


def test_rivals_that_the_plugin_does_not_offer_are_refused(make):
    with pytest.raises(InvalidValueError, match=r"policy: must be one of fcfs, .*; got 'las'"):
        play(scenario(run("a", inference(4, 2))), "las", make_engine=make)


def test_step_times_come_from_the_play_s_model(make):
    made = make("e", engine(step_time='{"floor_s": 2.0}'), make_policy("fcfs"))
    plan = run("a", inference(4, 2)).inferences[0]
    made.submit(Submission("a", "", 0, plan, 1), 0.0)
    made.plan(0.0)
    assert made.due_s == StepTime(floor_s=2.0).of([Chunk(4, 4)])
