"""What candidates' errors do in the simulator: mean JCT and ratios of the runs they have judged."""

import math
import sys
from pathlib import Path
from statistics import NormalDist

from justitia.core.learning import LearningRules
from justitia.predictor.recordings import NUM_SHELVES
from justitia.sim.delay import delay_bound
from justitia.sim.loop import PlaySettings, play

sys.path.append(str(Path(__file__).resolve().parents[1] / "predictor_regret"))
from measuring import measures, over_shelves
from shelves import Told, key_of, scenario_of

SEED = 11
#: Percentiles of the default's distribution that are played in place of its median.
QUANTILES = (30, 70, 90)
#: Suffix of the figures, and settings.
WAYS = {"": None, "_k2": PlaySettings(learning=LearningRules())}


def told_by(judged, runs, quantile=0.5):
    """Estimates as a candidate has made them of each run, without having seen its shelf.

    ``quantile`` of what it says; others than the median only of candidates that say how sure
    they are.
    """
    costs, sigmas = {}, NormalDist().inv_cdf(quantile)
    for application, each in judged.items():
        own = [run for run in runs if run.application == application]
        in_turn = [run for shelf in range(NUM_SHELVES) for run in own if run.shelf == shelf]
        log_sigmas = each.log_sigmas if sigmas else [0.0] * len(each.predicted)
        for run, log_cost, sigma in zip(in_turn, each.predicted, log_sigmas, strict=True):
            costs[key_of(run)] = math.exp(log_cost + sigmas * sigma)
    return Told(costs, runs)


def measures_of(runs, told):
    """Play a shelf's runs: with exact costs, and by (candidate, way) with what it says."""
    scenario = scenario_of(runs, SEED)
    plays = {"exact": play(scenario, "justitia")}
    for name, estimator in told.items():
        for way, settings in WAYS.items():
            plays[name, way] = play(scenario, "justitia", settings, estimator=estimator)
    return measures(plays, delay_bound(scenario).longest_inference_s)


def play_figures(runs, judged_by_name, default):
    """Play with each candidate's predictions, the default's also at `QUANTILES`; a table of it."""
    told = {name: told_by(judged, runs) for name, judged in judged_by_name.items()}
    if default in judged_by_name:
        for percent in QUANTILES:
            told[f"{default}_p{percent}"] = told_by(judged_by_name[default], runs, percent / 100)
    shelves = [[run for run in runs if run.shelf == shelf] for shelf in range(NUM_SHELVES)]
    rows = over_shelves([measures_of(shelf, told) for shelf in shelves])
    print("\nMean JCT over that with exact costs, and worst ρ, in the simulator\n")
    print("| predictor | mean JCT, F stays | worst ρ | mean JCT, K2 | worst ρ |")
    print("|---|--:|--:|--:|--:|")
    figures = {}
    for name in told:
        cells = []
        for way in WAYS:
            row = rows[name, way]
            mean, worst = row["mean_jct_over_exact"], row["worst_rho_ps"]
            cells += [f"{mean:.3f}", f"{worst:.2f}"]
            figures[f"{name}_mean_jct_over_exact{way}"] = round(mean, 3)
            figures[f"{name}_worst_rho_ps{way}"] = round(worst, 2)
        print(f"| {name} | {' | '.join(cells)} |")
    return figures
