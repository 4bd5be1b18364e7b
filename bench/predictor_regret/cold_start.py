"""What not to know an application costs: new, known a little, or changed (rule E1, K2)."""

import copy
import math
import random
import statistics
from dataclasses import replace

from shelves import Given, by_model, cost_of, scenario_of
from templates import FEW, new_model, old_model

from justitia.core.estimates import Estimate, Ladder, Source, clamp_cost_kvtt
from justitia.core.learning import Learner, LearningRules
from justitia.sim.estimators import DEFAULT_COST_KVTT, History
from justitia.sim.loop import PlaySettings, play

LEARNING = PlaySettings(learning=LearningRules())
#: Ended runs of the application at which it is looked at; from the last number on it has a model.
KNOWN = (0, 1, 3, 5, 20)
MODEL_FROM = 20
#: Ended runs for which an application's own mean was waited for, once.
PATIENCE_RUNS = 5
#: How much more a changed application costs, from the middle of its runs on.
CHANGE = 3.0


class PatientHistory(History):
    """Rule E1's ladder, but an application's own mean counts only once five runs of it ended."""

    def __init__(self, cost):
        super().__init__(cost)
        self.ended = {}

    def learn(self, run, true_cost_kvtt):
        """Let the ladder hear of an application's runs when there are enough of them."""
        ended = self.ended.setdefault(run.application, [])
        ended.append((run, true_cost_kvtt))
        if len(ended) == PATIENCE_RUNS:
            for each in ended:
                super().learn(*each)
        elif len(ended) > PATIENCE_RUNS:
            super().learn(run, true_cost_kvtt)


class OnceHistory(History):
    """Rule E1's ladder, but no open run is estimated anew."""

    def learn(self, run, true_cost_kvtt):
        super().learn(run, true_cost_kvtt)


class PartlyKnown(Given):
    """Estimates of a pool in which one application is new; it learns nothing more."""

    def __init__(self, told, application, estimate_kvtt):
        self.told = told
        self.application = application
        self.estimate_kvtt = estimate_kvtt

    def run(self, run):
        if run.application != self.application:
            return self.told.run(run)
        return Estimate(clamp_cost_kvtt(self.estimate_kvtt(run)), Source.HISTORY)

    def inference(self, run, place):
        return self.told.inference(run, place)


def length_of(run):
    """Of a plan or a recorded run: what the ladder takes for the prompt's length."""
    return max(1, run.inferences[0].prompt_tokens)


def ladder_of(runs):
    ladder = Ladder(DEFAULT_COST_KVTT)
    for run in runs:
        ladder.learn(run.application, prompt_length=length_of(run), cost_kvtt=cost_of(run))
    return ladder


def by_ladder(known, others):
    """Rule E1 as it is: the mean of the known runs, without any the pool's of the length class."""
    ladder = ladder_of([*others, *known])
    application = known[0].application if known else ""
    return lambda run: ladder.estimate(application, prompt_length=length_of(run)).cost_kvtt


def shrunk(prior_runs):
    """The geometric mean of the known runs and of the pool's, which counts as ``prior_runs``."""

    def make(known, others):
        prior_kvtt = by_ladder([], others)
        total = sum(math.log(cost_of(run)) for run in known)

        def estimate_kvtt(run):
            weight = len(known) + prior_runs
            if not known:
                return prior_kvtt(run)
            return math.exp((total + prior_runs * math.log(prior_kvtt(run))) / weight)

        return estimate_kvtt

    return make


def by_default(known, others):
    """What a run is taken for where nobody knows anything."""
    del known, others
    return lambda run: DEFAULT_COST_KVTT  # noqa: ARG005 - whatever the run


def patient(known, others):
    """The pool's mean of the length class until five runs have ended."""
    return by_ladder(known if len(known) >= PATIENCE_RUNS else [], others)


#: What else could be made of few runs.
OTHERS = {"patient": patient, "shrunk_1": shrunk(1), "shrunk_5": shrunk(5)}


#: The model from before a new prompt template goes on; so do its lessons.
OLD_TEMPLATE = "old_template"


def states(known_runs, others):
    """Yield (ladder's name, ended runs, estimate of a run) for a new or reworded application."""
    yield "default", 0, by_default([], [])
    for number in KNOWN:
        known = known_runs[:number]
        if number >= MODEL_FROM:
            yield "model", number, by_model(known)
        yield "ladder", number, by_ladder(known, others)
        if 0 < number < MODEL_FROM:
            for name, make in OTHERS.items():
                yield name, number, make(known, others)
    yield OLD_TEMPLATE, 0, old_model(known_runs)
    yield "new_template", FEW, new_model(known_runs[:FEW])


def mean_jct_s(played, chosen):
    return played.summarize(chosen).mean_jct_s


def regret_of(played, trained_play, application):
    """Mean JCT by that of the trained state: of the application's runs, and of all others."""

    def is_new(run):
        return run.application == application

    def is_other(run):
        return run.application != application

    return tuple(
        mean_jct_s(played, chosen) / mean_jct_s(trained_play, chosen)
        for chosen in (is_new, is_other)
    )


def cold_rows(shelf, taught, seed):
    """Yield (ladder, ended runs, is K2, regret of its runs, regret of others) on one shelf."""
    scenario = scenario_of(shelf.runs, seed)
    told = shelf.told()
    trained_plays = {
        False: play(scenario, "justitia", estimator=told),
        True: play(scenario, "justitia", LEARNING, learner=copy.deepcopy(taught), estimator=told),
    }
    for application in sorted({run.application for run in shelf.runs}):
        known_runs = [run for run in shelf.others if run.application == application]
        random.Random(f"{seed}/{application}").shuffle(known_runs)
        others = [run for run in shelf.others if run.application != application]
        for name, number, estimate_kvtt in states(known_runs, others):
            estimator = PartlyKnown(told, application, estimate_kvtt)
            for is_k2 in (True,) if name in OTHERS else (False, True):
                settings, learner = None, None
                if is_k2:
                    settings, learner = LEARNING, copy.deepcopy(taught)
                    if name != OLD_TEMPLATE:
                        learner.forget(application)
                    if number:
                        seen = scenario_of(known_runs[:number], seed)
                        play(seen, "justitia", LEARNING, learner=learner, estimator=estimator)
                played = play(scenario, "justitia", settings, learner=learner, estimator=estimator)
                regret = regret_of(played, trained_plays[is_k2], application)
                yield (name, number, is_k2, *regret)


def cold_figures(rows):
    """Mean regrets by ladder, ended runs and K2, printed as a table on the way."""
    groups = {}
    for name, number, is_k2, own, others in rows:
        groups.setdefault((name, number, is_k2), []).append((own, others))
    print("\n| estimates of the new application | ended runs | K2 | its runs | others |")
    print("|---|--:|---|--:|--:|")
    figures = {}
    for (name, number, is_k2), pairs in sorted(groups.items()):
        own, others = (statistics.fmean(column) for column in zip(*pairs, strict=True))
        print(f"| {name} | {number} | {'yes' if is_k2 else 'no'} | {own:.3f} | {others:.3f} |")
        if is_k2:
            figures[f"new_{name}_at_{number}"] = round(own, 3)
            figures[f"new_{name}_at_{number}_others"] = round(others, 3)
    return figures


def changed(scenario, factors):
    """Let the later half of some applications' runs cost ``factors`` times as much.

    Returns the scenario, and the factors by run.
    """
    by_run = {}
    for application, factor in factors.items():
        ids = [run.id for run in scenario.runs if run.application == application]
        by_run |= dict.fromkeys(ids[len(ids) // 2 :], factor)
    runs = tuple(larger(run, by_run[run.id]) if run.id in by_run else run for run in scenario.runs)
    return replace(scenario, runs=runs), by_run


def changes_of(applications, seed):
    """Yield what changes: each application by itself, then all at once, as by another LLM."""
    for application in applications:
        yield "changed", {application: CHANGE}
    # Evenly spread from one half to twice, in no order that the names know of.
    steps = [2 * place / max(1, len(applications) - 1) - 1 for place in range(len(applications))]
    random.Random(f"{seed}/llm").shuffle(steps)
    yield "new_llm", {name: 2.0**step for name, step in zip(applications, steps, strict=True)}


def larger(run, factor):
    """Stretch prompts and outputs alike, so that the cost, quadratic in them, grows by factor."""
    by = math.sqrt(factor)
    inferences = tuple(
        replace(
            each,
            prompt=tuple(replace(part, tokens=round(part.tokens * by)) for part in each.prompt),
            output_tokens=round(each.output_tokens * by),
        )
        for each in run.inferences
    )
    return replace(run, inferences=inferences)


class Stretched(Given):
    """Estimates of a model that has been trained anew since the change."""

    def __init__(self, told, factors):
        self.told, self.factors = told, factors

    def run(self, run):
        estimate = self.told.run(run)
        factor = self.factors.get(run.id, 1.0)
        return replace(estimate, cost_kvtt=clamp_cost_kvtt(factor * estimate.cost_kvtt))

    def inference(self, run, place):
        return self.told.inference(run, place)


def change_rows(runs, told, seed):
    """Yield (name of the way, mean JCT of changed runs, of all, of others) over exact costs'."""
    scenario = scenario_of(runs, seed)
    for what, factors in changes_of(sorted({run.application for run in runs}), seed):
        after, by_run = changed(scenario, factors)
        exact = play(after, "justitia")
        retrained = Stretched(told, by_run)

        def is_changed(run, by_run=by_run):
            return run.run_id in by_run

        def is_same(run, by_run=by_run):
            return run.run_id not in by_run

        plays = {
            "old_fixed": play(after, "justitia", estimator=told),
            "old_k2": play(
                after, "justitia", LEARNING, learner=Learner(LEARNING.learning), estimator=told
            ),
            "new_fixed": play(after, "justitia", estimator=retrained),
            "new_k2": play(
                after, "justitia", LEARNING, learner=Learner(LEARNING.learning), estimator=retrained
            ),
        }
        for way, played in plays.items():
            yield (
                f"{what}_{way}",
                mean_jct_s(played, is_changed) / mean_jct_s(exact, is_changed),
                mean_jct_s(played, lambda _: True) / mean_jct_s(exact, lambda _: True),
                mean_jct_s(played, is_same) / mean_jct_s(exact, is_same),
            )


def change_figures(rows):
    """Means over the applications, printed as a table on the way."""
    groups = {}
    for way, *values in rows:
        groups.setdefault(way, []).append(values)
    print("\n| after a change | changed runs | all runs | all others |")
    print("|---|--:|--:|--:|")
    figures = {}
    for way, values in groups.items():
        own, everybody, others = (statistics.fmean(column) for column in zip(*values, strict=True))
        print(f"| {way} | {own:.3f} | {everybody:.3f} | {others:.3f} |")
        figures[way] = round(own, 3)
        figures[f"{way}_all"] = round(everybody, 3)
        figures[f"{way}_others"] = round(others, 3)
    return figures
