"""What a candidate's errors do in the simulator: mean JCT and ratios of the runs it has judged."""

import math
import statistics
import sys
from pathlib import Path

from justitia.core.learning import LearningRules
from justitia.predictor.recordings import NUM_SHELVES
from justitia.sim.limits import played_gps_jcts_s
from justitia.sim.loop import PlaySettings, play

sys.path.append(str(Path(__file__).resolve().parents[1] / "predictor_regret"))
from shelves import Told, key_of, scenario_of

SEED = 11
WAYS = {"fixed": None, "k2": PlaySettings(learning=LearningRules())}


class Stage:
    """Each shelf's runs on one overloaded engine, and what exact costs make of them."""

    def __init__(self, runs):
        self.runs = runs
        self.scenarios, self.exact, self.references_s = [], [], []
        for shelf in range(NUM_SHELVES):
            scenario = scenario_of([run for run in runs if run.shelf == shelf], SEED)
            exact = play(scenario, "justitia")
            self.scenarios.append(scenario)
            self.exact.append(exact)
            self.references_s.append(played_gps_jcts_s(exact))

    def told(self, judged):
        """Estimates as a candidate has made them of each run, without having seen its shelf."""
        costs = {}
        for application, each in judged.items():
            runs = [run for run in self.runs if run.application == application]
            in_turn = [run for shelf in range(NUM_SHELVES) for run in runs if run.shelf == shelf]
            for run, log_cost in zip(in_turn, each.predicted, strict=True):
                costs[key_of(run)] = math.exp(log_cost)
        return Told(costs, self.runs)

    def figures(self, judged):
        """By way: mean JCT over that with exact costs (mean over the shelves), worst rho_ps."""
        told = self.told(judged)
        figures = {}
        for way, settings in WAYS.items():
            quotients, worst = [], 0.0
            stages = zip(self.scenarios, self.exact, self.references_s, strict=True)
            for scenario, exact, references_s in stages:
                played = play(scenario, "justitia", settings, estimator=told)
                mean_s = exact.summarize().mean_jct_s
                quotients.append(played.summarize().mean_jct_s / mean_s)
                pairs = zip(played.runs, references_s, strict=True)
                worst = max(worst, *(run.jct_s / reference_s for run, reference_s in pairs))
            figures[way] = statistics.fmean(quotients), worst
        return figures


def play_figures(runs, judged_by_name):
    """Play with each candidate's predictions, printed as a table on the way."""
    stage = Stage(runs)
    print("\nMean JCT over that with exact costs, and worst ρ, in the simulator\n")
    print("| predictor | mean JCT, F stays | worst ρ | mean JCT, K2 | worst ρ |")
    print("|---|--:|--:|--:|--:|")
    figures = {}
    for name, judged in judged_by_name.items():
        played = stage.figures(judged)
        (fixed, fixed_worst), (learned, learned_worst) = played["fixed"], played["k2"]
        print(
            f"| {name} | {fixed:.3f} | {fixed_worst:.2f} | {learned:.3f} | {learned_worst:.2f} |",
            flush=True,
        )
        figures[f"{name}_mean_jct_over_exact"] = round(fixed, 3)
        figures[f"{name}_worst_rho_ps"] = round(fixed_worst, 2)
        figures[f"{name}_mean_jct_over_exact_k2"] = round(learned, 3)
        figures[f"{name}_worst_rho_ps_k2"] = round(learned_worst, 2)
    return figures
