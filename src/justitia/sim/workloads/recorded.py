"""Recorded runs of real agents as a scenario, with their prompts' texts for a real predictor.

A recording (``justitia.predictor.recordings``) tells each inference's stage and numbers of tokens,
in the order in which they ended. What is not recorded is assumed: inferences of a stage run side by
side, those of ``CHAINED`` one after the other; a stage waits for all of the stage before, or, where
there are as many, each for its counterpart. What was cached is a prefix that the stage's inferences
have in common; of a chain, it is the history.
"""

import random
from collections.abc import Iterator, Mapping, Sequence
from itertools import cycle, groupby
from pathlib import Path
from typing import Final

from justitia.core.errors import InvalidValueError
from justitia.predictor.recordings import RecordedInference, RecordedRun, read_recordings
from justitia.sim.scenario import (
    ApplicationPlan,
    EnginePlan,
    InferencePlan,
    RunPlan,
    Scenario,
    Segment,
)
from justitia.sim.workloads.arrivals import Arrivals, Poisson
from justitia.sim.workloads.mixes import apportion
from justitia.sim.workloads.readers.prompts import GrowingPrompt
from justitia.sim.workloads.tables import PAPER_ENGINE

CHAINED: Final = frozenset({"act", "execute"})
"""Stages whose inferences follow one another, in the agents of ``examples/agents``."""


def recorded_scenario(
    path: Path,
    *,
    seed: int,
    num_runs: int,
    window_s: float,
    arrivals: Arrivals = Poisson(),  # noqa: B008 - immutable
    mix: Mapping[str, float] | None = None,
    engines: Sequence[EnginePlan] = (PAPER_ENGINE,),
) -> Scenario:
    """Let recorded runs arrive within ``window_s`` seconds, in random order.

    ``mix``: shares of the applications; None: as they are in the file. A recording comes again only
    when all of its application have come.

    Raises:
        InvalidValueError: the file has a bad line or no runs, or lacks an application of the mix.
        OSError: it cannot be opened.
    """
    groups = _by_application(path)
    shares = mix or {name: float(len(runs)) for name, runs in groups.items()}
    missing = sorted(name for name, share in shares.items() if share and name not in groups)
    if missing:
        raise InvalidValueError(str(path), f"has no runs of {', '.join(missing)}")
    names = apportion(shares, num_runs)
    rng = random.Random(f"{seed}/recorded")  # noqa: S311 - repeatable, not secret
    rng.shuffle(names)
    supplies = {name: cycle(rng.sample(runs, len(runs))) for name, runs in sorted(groups.items())}
    times_s = arrivals.times_s(random.Random(f"{seed}/arrivals"), num_runs, window_s)  # noqa: S311
    return Scenario(
        engines=tuple(engines),
        runs=tuple(
            run_plan(next(supplies[name]), run_id=f"{name}-{number}", arrival_s=at_s)
            for number, (name, at_s) in enumerate(zip(names, times_s, strict=True))
        ),
        applications=tuple(ApplicationPlan(name=name) for name in sorted(shares)),
        seed=seed,
        about=f"{num_runs} recorded runs within {window_s:g} s, {arrivals.about}, seed {seed}",
    )


def run_plan(run: RecordedRun, *, run_id: str, arrival_s: float = 0.0) -> RunPlan:
    """Turn one recorded run into a plan."""
    plans: list[InferencePlan] = []
    before: tuple[int, ...] = ()
    for stage, group in groupby(run.inferences, key=lambda each: each.stage):
        inferences = list(group)
        prompts = _prompts(run.application, run_id, stage, inferences)
        places = range(len(plans), len(plans) + len(inferences))
        for place, inference, prompt in zip(places, inferences, prompts, strict=True):
            after = _after(stage, before, place, places)
            plans.append(
                InferencePlan(prompt=prompt, output_tokens=inference.output_tokens, after=after)
            )
        before = tuple(places)
    return RunPlan(
        id=run_id,
        application=run.application,
        arrival_s=arrival_s,
        inferences=tuple(plans),
        text=run.prompt,
    )


def _by_application(path: Path) -> dict[str, list[RecordedRun]]:
    found = read_recordings(path)
    if found.bad_lines:
        bad = found.bad_lines[0]
        raise InvalidValueError(f"{path}:{bad.number}", bad.reason)
    if not found.runs:
        raise InvalidValueError(str(path), "holds no recorded runs")
    groups: dict[str, list[RecordedRun]] = {}
    for run in found.runs:
        groups.setdefault(run.application, []).append(run)
    return groups


def _after(stage: str, before: tuple[int, ...], place: int, places: range) -> tuple[int, ...]:
    if stage in CHAINED and place > places[0]:
        return (place - 1,)
    if len(before) == len(places):
        return (before[place - places[0]],)
    return before


def _prompts(
    application: str, run_id: str, stage: str, inferences: Sequence[RecordedInference]
) -> Iterator[tuple[Segment, ...]]:
    history = GrowingPrompt(f"{run_id}/{stage}")
    for number, inference in enumerate(inferences):
        total = max(1, inference.prompt_tokens)
        cached = min(inference.cached_tokens, total - 1)
        if stage in CHAINED:
            yield history.next(total, cached)
            continue
        parts = (
            (f"{application}/{stage}", cached),
            (f"{run_id}/{stage}/{number}", total - cached),
        )
        yield tuple(Segment(stream, tokens) for stream, tokens in parts if tokens > 0)


def timestamps_s(scenario: Scenario) -> list[float]:
    """Tell when a scenario's runs arrive, to give another one the same bursts."""
    return [run.arrival_s for run in scenario.runs]
