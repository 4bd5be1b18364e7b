"""Recorded runs as simulated work, and predictions by models that know none of their texts.

Each shelf of the recordings (a fifth of the documents) is played by itself. Its runs are predicted
by models of the four others. Those others' runs are what the scheduler has seen before: each of
them is predicted by models of the three shelves that are left, so no model has seen what it says.
"""

import random
from collections import defaultdict
from dataclasses import replace

from justitia.core.cost import inference_cost_kvtt, run_cost_kvtt
from justitia.core.estimates import Estimate, Source, clamp_cost_kvtt
from justitia.predictor.learner import learn
from justitia.predictor.recordings import NUM_SHELVES
from justitia.predictor.samples import Sample
from justitia.predictor.settings import TrainingSettings
from justitia.sim.loop import play
from justitia.sim.scenario import ApplicationPlan, EnginePlan, Scenario
from justitia.sim.workloads.arrivals import Poisson
from justitia.sim.workloads.recorded import run_plan

ENGINE = EnginePlan(
    blocks=256,
    block_size_tokens=16,
    max_model_len_tokens=1024,
    watermark=0.08,
    has_prefix_cache=False,
)
#: As much KV cache as ``bench/agents.py`` gives the real small model: fewer than three of the
#: largest inferences fill it, so what waits for one block waits for one of them to end.
SMALL_ENGINE = replace(ENGINE, blocks=64)
#: So many times longer than runs take to arrive the engine works on them.
LOAD = 4.0
#: Seed of the arrivals of what has been seen before.
BEFORE = 1000


def cost_of(run):
    """What a recorded run costs where nothing is cached (rules C1, C2)."""
    return run_cost_kvtt(
        inference_cost_kvtt(
            max(1, each.prompt_tokens),
            0,
            each.output_tokens,
            step_budget_tokens=ENGINE.max_num_batched_tokens,
        )
        for each in run.inferences
    )


def key_of(run):
    """By what a run is found again: of a recorded one and of its plan the same."""
    return run.application, text_of(run)


def text_of(run):
    """Return the request of a recorded run or of its plan."""
    return getattr(run, "prompt", None) or getattr(run, "text", "")


def scenario_of(runs, seed, engine=ENGINE):
    """Let all of ``runs`` arrive in random order, `LOAD` times as fast as they are served."""
    rng = random.Random(f"{seed}/order")
    order = rng.sample(runs, len(runs))
    times_s = Poisson().times_s(rng, len(order), 1.0)
    window_s = play(_scenario(order, [0.0] * len(order), seed, engine), "fcfs").duration_s / LOAD
    return _scenario(order, [window_s * time for time in times_s], seed, engine)


def _scenario(runs, times_s, seed, engine):
    plans = tuple(
        run_plan(run, run_id=f"{run.application}-{number}", arrival_s=at_s)
        for number, (run, at_s) in enumerate(zip(runs, times_s, strict=True))
    )
    names = sorted({run.application for run in runs})
    applications = tuple(ApplicationPlan(name=name) for name in names)
    return Scenario(engines=(engine,), runs=plans, applications=applications, seed=seed)


class Given:
    """Estimates that runs that end change nothing of."""

    def learn(self, run, true_cost_kvtt):
        del run, true_cost_kvtt


class Told(Given):
    """Estimates that were made beforehand; an inference is its application's mean."""

    def __init__(self, costs, known):
        self.costs = costs
        counts, totals = defaultdict(int), defaultdict(int)
        for run in known:
            counts[run.application] += len(run.inferences)
            totals[run.application] += cost_of(run)
        self.inference_kvtt = {name: totals[name] / counts[name] for name in totals}

    def run(self, run):
        return Estimate(clamp_cost_kvtt(self.costs[key_of(run)]), Source.MODEL)

    def inference(self, run, place):
        del place
        return clamp_cost_kvtt(self.inference_kvtt[run.application])


def trained(runs):
    """Train the product's default model for each application of these runs."""
    groups = defaultdict(list)
    for run in runs:
        sample = Sample(application=run.application, prompt=run.prompt, cost_kvtt=cost_of(run))
        groups[run.application].append(sample)
    settings = TrainingSettings(min_samples=2)
    return {name: learn(group, settings, 0, lambda _: None) for name, group in groups.items()}


def by_model(known, put=str):
    """Ask a model of one application's runs what another one costs, its request put this way."""
    model = trained(known)[known[0].application]
    return lambda run: model.predict(put(text_of(run))).cost_kvtt


class Shelf:
    """A shelf's runs, the others', and what models that do not know them say of each."""

    def __init__(self, number, runs, models):
        self.number = number
        self.runs = [run for run in runs if run.shelf == number]
        self.others = [run for run in runs if run.shelf != number]
        self.costs = {
            key_of(run): models[frozenset({number, run.shelf})][run.application]
            .predict(run.prompt)
            .cost_kvtt
            for run in runs
        }

    def told(self):
        return Told(self.costs, self.others)

    def before(self, engine=ENGINE):
        """What the scheduler has seen before: the other shelves' runs."""
        return scenario_of(self.others, BEFORE + self.number, engine)


def make_shelves(runs):
    """Train for each shelf without it, and without it and one more."""
    out = {frozenset({one, two}) for one in range(NUM_SHELVES) for two in range(NUM_SHELVES)}
    models = {
        left_out: trained([run for run in runs if run.shelf not in left_out]) for left_out in out
    }
    return [Shelf(number, runs, models) for number in range(NUM_SHELVES)]
