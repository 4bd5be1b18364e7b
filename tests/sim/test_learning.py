"""Learning inside a run (rule K2) in plays: what inferences cost, who is told, what it brings."""

from collections import defaultdict

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from justitia.core.estimates import Estimate, Source
from justitia.core.learning import Learner, LearningRules
from justitia.core.policies import EVERY_POLICY
from justitia.sim.fast.engine import FastEngine
from justitia.sim.loop import PlaySettings, play
from justitia.sim.reproduce.experiment import Case, Play
from justitia.sim.step_models import step_time_of
from justitia.sim.workloads.generate import generate
from justitia.testing.sim_scenarios import engine, inference, run, scenario, scenarios

RULES = LearningRules()
ON = PlaySettings(learning=RULES)


class Ear:
    """Makes engines of which it hears every report."""

    def __init__(self):
        self.totals = {}
        self.finished = defaultdict(int)
        self.tags = []

    def __call__(self, engine_id, plan, policy):
        ear = self

        class Heard(FastEngine):
            def report(self, now_s):
                report = super().report(now_s)
                for each in report.runs:
                    ear.totals[engine_id, each.run_id] = each.useful_kvtt
                    for times in each.finished:
                        ear.finished[engine_id, each.run_id] += times.useful_kvtt
                return report

            def tag(self, tag, now_s):
                ear.tags.append((engine_id, tag.run_id, tag.finish))
                super().tag(tag, now_s)

        return Heard(engine_id, plan, policy, step_time_of(plan.step_time))


@settings(derandomize=True, max_examples=80, deadline=None)
@given(plan=scenarios(), policy=st.sampled_from(sorted(EVERY_POLICY)))
def test_what_inferences_cost_adds_up_to_what_their_run_has_got(plan, policy):
    ear = Ear()
    play(plan, policy, make_engine=ear)
    assert ear.finished == ear.totals


@settings(derandomize=True, max_examples=40, deadline=None)
@given(plan=scenarios(), estimator=st.sampled_from(["exact", "error:1.0", "history"]))
def test_learning_changes_the_order_and_never_the_work(plan, estimator):
    fixed = play(plan, "justitia", PlaySettings(estimator=estimator))
    rules = LearningRules(patience=1.1, early_share=1.0)
    learned = play(plan, "justitia", PlaySettings(estimator=estimator, learning=rules))
    assert {each.run_id for each in learned.runs} == {each.run_id for each in fixed.runs}
    assert sum(each.true_kvtt for each in learned.runs) == learned.useful_kvtt


def wide(run_id, width, at_s=0.0):
    return run(run_id, *(inference(8, 8) for _ in range(width)), at_s=at_s, application="app")


class Alike:
    """Takes all runs and inferences for the same."""

    def run(self, run):
        del run
        return Estimate(1000, Source.HISTORY)

    def inference(self, run, place):
        del run, place
        return 100

    def learn(self, run, true_cost_kvtt):
        del run, true_cost_kvtt


def taught():
    """One that has met runs of 1 to 10 equal inferences, all of which were estimated alike."""
    learner = Learner(LearningRules(early_share=1.0))
    runs = [wide(f"t{n}", 1 + n % 10, at_s=float(n)) for n in range(60)]
    play(scenario(*runs), "justitia", learner=learner, estimator=Alike())
    return learner


def test_every_engine_that_knows_a_run_hears_of_its_new_f():
    ear = Ear()
    plan = scenario(wide("wide", 10), engines=(engine(), engine()))
    play(plan, "justitia", learner=taught(), make_engine=ear, estimator=Alike())
    by_engine = defaultdict(list)
    for engine_id, _, finish in ear.tags:
        by_engine[engine_id].append(finish)
    first, second = by_engine.values()
    assert first[0] == second[0] != first[-1] == second[-1]


def test_a_wide_run_that_was_taken_for_a_narrow_one_lets_others_pass():
    others = (wide(f"n{n}", 1, at_s=0.01 * (n + 1)) for n in range(5))
    plan = scenario(wide("wide", 10), *others, engines=(engine(max_num_seqs=2),))
    fixed = {each.run_id: each.jct_s for each in play(plan, "justitia", estimator=Alike()).runs}
    learned = play(plan, "justitia", learner=taught(), estimator=Alike())
    by_id = {each.run_id: each.jct_s for each in learned.runs}
    narrow = [f"n{n}" for n in range(5)]
    assert sum(by_id[name] for name in narrow) < sum(fixed[name] for name in narrow)


def test_at_exact_estimates_nothing_is_learned_that_would_move_an_f():
    ear = Ear()
    plan = generate(seed=4, num_runs=40, window_s=40.0)
    play(plan, "justitia", ON, make_engine=ear)
    assert len(ear.tags) == len({(engine, run) for engine, run, _ in ear.tags})


@pytest.mark.parametrize("error", ["error:1.0"])
def test_what_was_learned_before_makes_wrong_estimates_cheaper(error):
    case = Case.of(generate, seed=11, num_runs=60, window_s=72.0)
    warm_up = Case.of(generate, seed=1011, num_runs=150, window_s=180.0)
    fixed = Play(case, "justitia", PlaySettings(estimator=error))
    learned = Play(case, "justitia", PlaySettings(estimator=error, learning=RULES), warm_up)
    assert learned.run().summarize().mean_jct_s < fixed.run().summarize().mean_jct_s
    assert learned.name != Play(case, "justitia", learned.settings).name
