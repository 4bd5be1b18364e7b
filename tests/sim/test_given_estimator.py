"""An estimator that the caller makes, such as a real predictor."""

from justitia.core.estimates import Estimate, Source
from justitia.core.learning import LearningRules
from justitia.sim.loop import PlaySettings, play
from justitia.sim.workloads.generate import generate


class Sevens:
    def __init__(self):
        self.ended = []

    def run(self, _run):
        return Estimate(7, Source.MODEL)

    def inference(self, _run, _place):
        return 7

    def learn(self, run, _true_cost_kvtt):
        self.ended.append(run.id)


def test_it_estimates_all_runs_and_learns_from_them_when_they_end():
    scenario = generate(seed=1, num_runs=4, window_s=10.0)
    sevens = Sevens()
    played = play(scenario, "justitia", estimator=sevens)
    assert [run.predicted_kvtt for run in played.runs] == [7] * 4
    assert sorted(sevens.ended) == sorted(run.id for run in scenario.runs)


def test_it_sees_the_warm_up_too():
    scenario = generate(seed=1, num_runs=4, window_s=10.0)
    warm_up = generate(seed=2, num_runs=3, window_s=10.0)
    sevens = Sevens()
    settings = PlaySettings(learning=LearningRules())
    play(scenario, "justitia", settings, warm_up=warm_up, estimator=sevens)
    assert len(sevens.ended) == 7
