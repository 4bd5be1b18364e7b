"""Which recorded runs are played, how large, when they come, and what their clients declare."""

import random
from collections import defaultdict
from dataclasses import dataclass, replace

from justitia.local.workload import Arrival, Workload
from justitia.predictor.recordings import NUM_SHELVES
from justitia.sim.estimators import make_estimator
from justitia.sim.loop import play
from justitia.sim.scenario import ApplicationPlan, Scenario
from justitia.sim.workloads.arrivals import Poisson
from justitia.sim.workloads.recorded import run_plan
from justitia.sim.workloads.tables import PAPER_ENGINE as ENGINE

#: So many times longer than runs take to arrive the engine works on them.
LOAD = 3.0
#: A seed's arrivals and errors of what is played before are those of the seed so much further on.
BEFORE = 1000
#: Name of the play before, which only teaches.
BEFORE_PLAY = "before"
#: Runs of the very first play on a new engine, of which nothing is kept.
NUM_FIRST = 4


@dataclass(frozen=True, slots=True, kw_only=True)
class Size:
    """How many runs of each application, and how many times longer than they were recorded.

    The runs played before are to teach: an application's lessons count from five ended runs on.
    ``pace``: the emulated GPU is so many times slower than an A100, and runs come so much later.
    """

    judged: int = 7
    before: int = 12
    lengths: int = 4
    pace: float = 1.0


FULL = Size()
QUICK = Size(judged=3, before=5, lengths=2)


@dataclass(frozen=True, slots=True)
class Scenarios:
    """A seed's runs, and those that are played before."""

    judged: Scenario
    before: Scenario

    def of(self, name):
        """What a play of this name plays."""
        return self.before if name == BEFORE_PLAY else self.judged

    @property
    def first(self):
        """A few runs at once, whose play takes what costs are to be had only once."""
        few = tuple(replace(run, arrival_s=0.0) for run in self.before.runs[:NUM_FIRST])
        return replace(self.before, runs=few)

    @property
    def applications(self):
        """Names of all applications."""
        return [application.name for application in self.judged.applications]


def scenarios_of(runs, seed, size):
    """Make a seed's scenarios of recorded runs."""
    own, others = chosen(runs, seed, size)
    return Scenarios(
        scenario_of(own, seed, size.lengths),
        scenario_of(others, seed + BEFORE, size.lengths),
    )


def chosen(runs, seed, size):
    """Draw a seed's runs from one shelf, and those before from the others: they share no text."""
    shelf = seed % NUM_SHELVES
    rng = random.Random(f"{seed}/chosen")
    judged = _of_each([run for run in runs if run.shelf == shelf], size.judged, rng)
    before = _of_each([run for run in runs if run.shelf != shelf], size.before, rng)
    return judged, before


def _of_each(runs, number, rng):
    """Draw so many runs of each application, in random order."""
    groups = defaultdict(list)
    for run in runs:
        groups[run.application].append(run)
    drawn = [run for name in sorted(groups) for run in _some(groups[name], number, rng)]
    return rng.sample(drawn, len(drawn))


def _some(runs, number, rng):
    if len(runs) < number:
        raise SystemExit(
            f"error: {runs[0].application}: {len(runs)} recorded runs where {number} are wanted"
        )
    return rng.sample(runs, number)


def longer(run, factor):
    """Lengthen a run's prompts and outputs; nothing of it is taken to be cached."""
    return replace(
        run,
        inferences=tuple(
            replace(
                each,
                prompt_tokens=factor * max(1, each.prompt_tokens),
                cached_tokens=0,
                output_tokens=factor * max(1, each.output_tokens),
            )
            for each in run.inferences
        ),
    )


def scenario_of(runs, seed, lengths):
    """Let the runs arrive in their order, `LOAD` times as fast as an engine serves them."""
    runs = [longer(run, lengths) for run in runs]
    work_s = play(_scenario(runs, [0.0] * len(runs), seed), "fcfs").duration_s
    times_s = Poisson().times_s(random.Random(f"{seed}/arrivals"), len(runs), work_s / LOAD)
    return _scenario(runs, times_s, seed)


def _scenario(runs, times_s, seed):
    return Scenario(
        engines=(ENGINE,),
        runs=tuple(
            run_plan(run, run_id=f"{run.application}-{number}", arrival_s=at_s)
            for number, (run, at_s) in enumerate(zip(runs, times_s, strict=True))
        ),
        applications=tuple(
            ApplicationPlan(name=name) for name in sorted({run.application for run in runs})
        ),
        seed=seed,
    )


def workload_of(scenario, pace):
    """Arrivals as local mode plays them; a run's place in the scenario stands for its task."""
    return Workload(
        seed=scenario.seed,
        window_s=pace * scenario.runs[-1].arrival_s,
        arrivals=tuple(
            Arrival(pace * run.arrival_s, run.application, number)
            for number, run in enumerate(scenario.runs)
        ),
    )


def costs_of(scenario, estimator):
    """What an estimator of the simulator says of each run, by its place; None: nothing."""
    if estimator is None:
        return [None] * len(scenario.runs)
    made = make_estimator(estimator, scenario)
    return [made.run(run).cost_kvtt for run in scenario.runs]
