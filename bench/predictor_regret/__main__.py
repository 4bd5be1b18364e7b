"""What the real predictor's errors cost, with and without learning inside a run.

    make bench NAME=predictor_regret
    python bench/predictor_regret [--recordings FILE] [--seeds 11 12 13]

The recorded runs of the nine example agents are played on one fast engine whose KV cache is the
bottleneck, a shelf (a fifth of the documents) at a time. The product's default model, trained on
the other four shelves, predicts them. Figures are means over the shelves within a seed, then
medians over the seeds (worst ones: the median over the seeds of the worst of all shelves). What
they mean:

* ``mean_jct_over_exact``, ``worst_rho_ps``: with the predictor and rule K2, warmed up by the other
  shelves' runs. Mean JCT is divided by that of the same policy with exact costs. ``rho_ps`` is a
  run's JCT by that under ideal fair sharing of the work that the play with exact costs did, but not
  below its critical path (rule R1's reference, there); ``worst_rho`` takes the play's own reference
  instead, in which estimates are wrong too. ``share_harmed`` is the share of runs whose
  ``rho_ps`` is above 1.3, ``worst_late_over_longest`` the most that one of these ended later than
  the reference, in longest inferences (an engine to itself).
* ``*_X``: the same for another way. ``exact``: exact costs. ``fixed``: the predictor, F stays.
  ``cold``: K2 that has seen nothing before. ``history``: no model, means of ended runs (rule E1's
  ladder), from nothing, F stays; ``history_cold_k2``: with K2, and open runs learn from ended
  ones (rule E2); ``history_once_k2``: with K2 alone; ``history_patient``: F stays, and an
  application's own mean counts only once five runs of it have ended; ``history_warm``: the ladder
  after the other shelves' runs, F stays; ``history_k2``: that with K2 and E2.
  ``vtc``, ``fcfs``: no estimates.
* ``*_small_kv``: on an engine with a quarter of the KV cache, where what waits for a block waits
  for one of few inferences to end: the worst ratios are those of runs of a few steps.
* ``new_X_at_N``, with K2: mean JCT of the runs of an application of which N runs have ended, while
  models know the others, by that where a model knows it, too; mean over applications and shelves;
  ``*_others``: the same of all other runs. X: ``ladder`` (rule E1), ``default`` (the pool's default
  cost), ``model`` (of N runs), ``patient`` (the ladder, but its own mean counts once five runs
  of it have ended), ``shrunk_M`` (own runs and M times what the pool's say, geometric mean).
  ``old_template`` and ``new_template``: a known application whose requests come in other words from
  now on (``templates.py``): the model from before, and one of 20 such runs; its costs stay.
  ``template_*_error``: how far these two are off.
* ``changed_X``: an application's runs cost three times as much from the middle on, prompts and
  outputs alike longer, all shelves played together, K2 from nothing: mean JCT of the changed runs
  by that with exact costs, mean over the applications; ``*_all``: of all runs; ``*_others``: of
  those that have not changed. ``old``, ``new``: the model from before, and one that knows of it.
* ``new_llm_X``: the same where all applications change at once, as under another LLM: each costs
  from one half to twice what it did from the middle of its runs on.
* ``error_*``: of the predictions of these runs, |predicted - true| / true: its mean over the
  applications of the means, and the sum of the errors by the sum of the costs.
"""

import argparse
import copy
import json
import platform
import statistics
from pathlib import Path

from cold_start import (
    OnceHistory,
    PatientHistory,
    change_figures,
    change_rows,
    cold_figures,
    cold_rows,
)
from measuring import measures, over_shelves
from shelves import (
    ENGINE,
    LOAD,
    SMALL_ENGINE,
    Told,
    cost_of,
    key_of,
    make_shelves,
    scenario_of,
)
from templates import template_figures

from justitia.core.learning import Learner, LearningRules
from justitia.predictor.recordings import NUM_SHELVES, read_recordings
from justitia.sim.cost_units import EXACT
from justitia.sim.cost_units import cost_of as unit_cost
from justitia.sim.delay import delay_bound
from justitia.sim.estimators import History
from justitia.sim.loop import PlaySettings, play

RECORDINGS = Path(__file__).resolve().parents[2] / "examples" / "recordings" / "runs.jsonl.gz"
SEEDS = (11, 12, 13)
LEARNING = PlaySettings(learning=LearningRules())
#: The way that the figures without a suffix are of.
OURS = "k2"
#: What is kept of the plays on the small engine.
SMALL_WAYS = (OURS, "exact", "fixed", "vtc")


def history_of(shelf):
    """Means of the other shelves' runs."""
    before = shelf.before()
    history = History(unit_cost(EXACT, before))
    costs = {key_of(run): cost_of(run) for run in shelf.others}
    for run in before.runs:
        history.learn(run, costs[key_of(run)])
    return history


class Ways:
    """Ways to play a shelf's runs; what they have seen before is played once."""

    def __init__(self, shelf, engine):
        self.told, self.before = shelf.told(), shelf.before(engine)
        self.history = history_of(shelf)
        self.live = History(unit_cost(EXACT, self.before))
        self.taught = self.teach(self.told)
        self.taught_history = self.teach(self.live)

    def teach(self, estimator):
        """Return what has learned from the other shelves' runs, so estimated."""
        learner = Learner(LEARNING.learning)
        play(self.before, "justitia", LEARNING, learner=learner, estimator=estimator)
        return learner

    def plays(self, scenario):
        """Play a scenario of the shelf's runs in each way; by name."""

        def learning(learner, estimator):
            learner, estimator = copy.deepcopy((learner, estimator))
            return play(scenario, "justitia", LEARNING, learner=learner, estimator=estimator)

        cost = unit_cost(EXACT, scenario)
        return {
            OURS: learning(self.taught, self.told),
            "exact": play(scenario, "justitia"),
            "fixed": play(scenario, "justitia", estimator=self.told),
            "cold": learning(None, self.told),
            "history": play(scenario, "justitia", PlaySettings(estimator="history")),
            "history_cold_k2": learning(None, History(cost)),
            "history_once_k2": learning(None, OnceHistory(cost)),
            "history_patient": play(scenario, "justitia", estimator=PatientHistory(cost)),
            "history_warm": play(scenario, "justitia", estimator=copy.deepcopy(self.history)),
            "history_k2": learning(self.taught_history, self.live),
            "vtc": play(scenario, "vtc"),
            "fcfs": play(scenario, "fcfs"),
        }


def figures_of(by_seed, suffix=""):
    """Medians over the seeds; the single values of ours beside them."""
    figures = {}
    for way in SMALL_WAYS if suffix else by_seed[0]:
        for what in by_seed[0][way]:
            values = [row[way][what] for row in by_seed]
            name = (what if way == OURS else f"{what}_{way}") + suffix
            figures[name] = round(statistics.median(values), 3)
            if way == OURS:
                figures[f"{name}_by_seed"] = [round(value, 3) for value in values]
    return figures


def played_figures(shelves, seeds, engine, suffix=""):
    """Play each shelf with each seed, telling of each."""
    rows = {seed: [] for seed in seeds}
    for shelf in shelves:
        ways = Ways(shelf, engine)
        for seed in seeds:
            scenario = scenario_of(shelf.runs, seed, engine)
            longest_s = delay_bound(scenario).longest_inference_s
            row = measures(ways.plays(scenario), longest_s)
            rows[seed].append(row)
            told = ", ".join(
                f"{way} {each['mean_jct_over_exact']:.3f} {each['worst_rho_ps']:.2f}"
                for way, each in row.items()
            )
            blocks = engine.blocks
            print(f"{blocks} blocks, shelf {shelf.number}, seed {seed}: {told}", flush=True)
    return figures_of([over_shelves(rows[seed]) for seed in seeds], suffix)


def error_figures(shelves):
    """How far the predictions are off, all shelves together."""
    errors, costs = {}, []
    for shelf in shelves:
        for run in shelf.runs:
            error = abs(shelf.costs[key_of(run)] - cost_of(run))
            errors.setdefault(run.application, []).append((error, cost_of(run)))
    for rows in errors.values():
        costs += rows
    means = {name: statistics.fmean(e / c for e, c in rows) for name, rows in errors.items()}
    pooled = sum(e for e, _ in costs) / sum(c for _, c in costs)
    return {
        "error_mean": round(statistics.fmean(means.values()), 3),
        "error_pooled": round(pooled, 3),
    }


def cold_start_figures(shelves, seed):
    """What a new application costs, itself and the others."""
    rows = [row for shelf in shelves for row in cold_rows(shelf, Ways(shelf, ENGINE).taught, seed)]
    return cold_figures(rows) | template_figures(shelves)


def changed_figures(shelves, seed):
    """What a changed application costs; here all shelves' runs are played together."""
    runs = [run for shelf in shelves for run in shelf.runs]
    costs = {key_of(run): shelf.costs[key_of(run)] for shelf in shelves for run in shelf.runs}
    return change_figures(change_rows(runs, Told(costs, runs), seed))


PARTS = {
    "large": lambda shelves, seeds: played_figures(shelves, seeds, ENGINE),
    "small": lambda shelves, seeds: played_figures(shelves, seeds, SMALL_ENGINE, "_small_kv"),
    "error": lambda shelves, _: error_figures(shelves),
    "cold": lambda shelves, seeds: cold_start_figures(shelves, seeds[0]),
    "changed": lambda shelves, seeds: changed_figures(shelves, seeds[0]),
}


def arguments():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--recordings", type=Path, default=RECORDINGS)
    parser.add_argument("--seeds", nargs="*", type=int, default=list(SEEDS))
    parser.add_argument("--shelves", nargs="*", type=int, default=list(range(NUM_SHELVES)))
    parser.add_argument("--only", nargs="*", choices=PARTS, default=list(PARTS))
    return parser.parse_args()


def main():
    options = arguments()
    runs = read_recordings(options.recordings).runs
    shelves = [shelf for shelf in make_shelves(runs) if shelf.number in options.shelves]
    figures = {}
    for part in options.only:
        figures |= PARTS[part](shelves, options.seeds)
    print(json.dumps(result_of(figures, runs, options.seeds)))


def result_of(figures, runs, seeds):
    return {
        "name": "predictor_regret",
        "figures": figures,
        "reference": "the same runs under Justitia with exact costs (mean JCT), and ideal fair "
        "sharing of the work that it did (rho)",
        "seeds": list(seeds),
        "conditions": f"{len(runs)} recorded runs of nine applications, {NUM_SHELVES} shelves each "
        f"played by itself, predicted by models of the other four; simulated A100 with "
        f"{ENGINE.blocks} blocks of {ENGINE.block_size_tokens} tokens, no prefix cache, Poisson "
        f"arrivals {LOAD:g} times as fast as served; Python {platform.python_version()}",
    }


if __name__ == "__main__":
    main()
