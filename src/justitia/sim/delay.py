"""Rule D1 on plays: by how much a run ended later than in the fluid system, and how much may be.

The fluid system is that of ``justitia.sim.limits``: ideal GPS with exact costs, doing by any moment
what the play had done by it. Here no floor is put under it: D1 says f - f_GPS whatever the run
could have done by itself.
"""

from collections.abc import Mapping
from dataclasses import dataclass, replace

from justitia.sim.limits import fluid_runs, gps_jcts_s, on_curve
from justitia.sim.loop import play
from justitia.sim.results import PlayResult
from justitia.sim.scenario import EnginePlan, RunPlan, Scenario
from justitia.sim.service_curve import Curve


@dataclass(frozen=True, slots=True, kw_only=True)
class DelayBound:
    """What rule D1 allows in a scenario; times of runs and inferences that have an engine alone."""

    longest_inference_s: float
    largest_run_s: float

    @property
    def total_s(self) -> float:
        """2 x longest inference + largest run.

        Runs of several stages are only promised one longest inference more for each further stage
        (``docs/algorithm.md``); here they are held to the same.
        """
        return 2 * self.longest_inference_s + self.largest_run_s


def delay_bound(scenario: Scenario) -> DelayBound:
    """Measure what rule D1 is made of; all engines must be alike.

    Run times on an engine that has nothing else to do, so shorter than under load: the bound is on
    the strict side.
    """
    singles = (
        RunPlan(
            id=f"{run.id}/{place}",
            application=run.application,
            arrival_s=0.0,
            inferences=(replace(inference, after=(), pause_s=0.0),),
        )
        for run in scenario.runs
        for place, inference in enumerate(run.inferences)
    )
    engine = scenario.engines[0]
    return DelayBound(
        longest_inference_s=max(_alone_s(run, engine) for run in singles),
        largest_run_s=max(_alone_s(run, engine) for run in scenario.runs),
    )


def _alone_s(run: RunPlan, engine: EnginePlan) -> float:
    alone = replace(run, arrival_s=0.0)
    return play(Scenario(engines=(engine,), runs=(alone,)), "fcfs").runs[0].jct_s


def delays_s(scenario: Scenario, played: PlayResult, served: Curve) -> Mapping[str, float]:
    """Seconds by which each run ended later than in the fluid system; below 0: earlier.

    ``served``: useful work of the play by time (``play_with_meter``).

    Raises:
        InvalidValueError: an engine has a prefix cache: costs are not known then.
    """
    without_floors = [replace(run, floor_s=0.0) for run in fluid_runs(scenario)]
    fluid_s = on_curve(gps_jcts_s, without_floors, served)
    return {run.run_id: run.jct_s - fluid for run, fluid in zip(played.runs, fluid_s, strict=True)}
