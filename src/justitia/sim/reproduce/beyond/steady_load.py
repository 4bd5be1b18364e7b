"""A queue that neither grows nor empties: five policies at loads of 0.5 to 0.95."""

import statistics
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from typing import Final

from justitia.sim.limits import fluid_runs, reached_rate_kvtt_s
from justitia.sim.reproduce.experiment import (
    Case,
    Experiment,
    Figure,
    Outcomes,
    Play,
    Scale,
    Section,
    Series,
    Table,
)
from justitia.sim.reproduce.telling import (
    Spread,
    listed_seeds,
    mean_jct_s,
    number,
    over_seeds,
    percent,
    quotient,
)
from justitia.sim.results import PlayResult
from justitia.sim.scenario import Scenario
from justitia.sim.workloads.cases import steady

_POLICIES: Final = ("justitia", "srjf", "vtc", "las", "fcfs")
_LOADS: Final = (0.5, 0.7, 0.9, 0.95)
_QUICK_LOADS: Final = (0.7, 0.95)
_NUM_RUNS: Final = 400
_QUICK_RUNS: Final = 150
_OVERLOAD: Final = 3.0
#: Seconds of an engine for as much work as a full cache does in a step, prompts included. The mix
#: keeps engines at this pace where there is always a queue; the column of measured loads checks it.
STEP_S: Final = 0.0161
_THEORY: Final = "15 to 20 %"


def steady_queue(*, load: float, seed: int, num_runs: int) -> Scenario:
    """Draw the Hermes mix at a share of what an engine can do of it where there is a queue."""
    return steady(load, seed=seed, num_runs=num_runs, full_step_s=STEP_S)


def _play(seed: int, *, scale: Scale, policy: str, load: float) -> Play:
    num_runs = _QUICK_RUNS if scale.is_quick else _NUM_RUNS
    return Play(Case.of(steady_queue, load=load, seed=seed, num_runs=num_runs), policy)


def _loads(scale: Scale) -> tuple[float, ...]:
    return _QUICK_LOADS if scale.is_quick else _LOADS


def _jobs(scale: Scale) -> Sequence[Play]:
    points = [(policy, load) for load in _loads(scale) for policy in _POLICIES]
    return [
        _play(seed, scale=scale, policy=policy, load=load)
        for policy, load in (*points, ("fcfs", _OVERLOAD))
        for seed in scale.seeds
    ]


class _Told:
    def __init__(self, scale: Scale, outcomes: Outcomes) -> None:
        self._scale = scale
        self._outcomes = outcomes
        self._load_at_one = [self._measured_load(seed) for seed in scale.seeds]
        self._floor_s = Spread.of(self._mean_floor_s(seed) for seed in scale.seeds)

    def _play(self, policy: str, load: float) -> partial[Play]:
        return partial(_play, scale=self._scale, policy=policy, load=load)

    def spread(self, measure: Callable[[PlayResult], float], policy: str, load: float) -> Spread:
        return over_seeds(self._scale, self._outcomes, self._play(policy, load), measure)

    def over(self, policy: str, other: str, load: float) -> Spread:
        """Mean JCT over another policy's."""
        mine, theirs = self._play(policy, load), self._play(other, load)
        return quotient(self._scale, self._outcomes, mine, theirs, mean_jct_s)

    def _measured_load(self, seed: int) -> float:
        """Work that arrives in a second, over what the engine does in one with a queue.

        For each unit of load: at all loads the same runs come, only faster.
        """
        play = self._play("fcfs", _OVERLOAD)(seed)
        scenario = play.case.scenario()
        span_s = scenario.runs[-1].arrival_s - scenario.runs[0].arrival_s
        arrives = sum(run.cost for run in fluid_runs(scenario)) / span_s
        return arrives / _OVERLOAD / reached_rate_kvtt_s(self._outcomes[play])

    def _mean_floor_s(self, seed: int) -> float:
        scenario = self._play("fcfs", _OVERLOAD)(seed).case.scenario()
        return statistics.fmean(run.floor_s for run in fluid_runs(scenario))

    def table(self) -> Table:
        return Table(
            title="Mean JCT in seconds, and ρ P99, by load",
            columns=(
                "load",
                "measured load",
                *_POLICIES,
                "justitia ÷ srjf",
                "justitia ÷ vtc",
                *(f"ρ P99 {policy}" for policy in _POLICIES),
            ),
            rows=tuple(
                (
                    f"{load:g}",
                    str(Spread.of(load * each for each in self._load_at_one)),
                    *(number(self.spread(mean_jct_s, policy, load).median) for policy in _POLICIES),
                    str(self.over("justitia", "srjf", load)),
                    str(self.over("justitia", "vtc", load)),
                    *(
                        number(self.spread(lambda r: r.summarize().ratio_p99, policy, load).median)
                        for policy in _POLICIES
                    ),
                )
                for load in _loads(self._scale)
            ),
            note=(
                f"{_QUICK_RUNS if self._scale.is_quick else _NUM_RUNS} runs of the Hermes mix on "
                f"one A100, Poisson, exact estimates; {listed_seeds(self._scale)}. Measured load: "
                "work that arrives over the rate at which FCFS works where there is always a "
                "queue. ρ is against fluid sharing of the same play (rule R1)."
            ),
        )

    def figure(self) -> Figure:
        loads = _loads(self._scale)
        return Figure(
            name="steady-load",
            title="Mean JCT at a steady load",
            kind="lines",
            x=loads,
            series=tuple(
                Series(
                    label=policy,
                    values=tuple(self.spread(mean_jct_s, policy, load).median for load in loads),
                )
                for policy in _POLICIES
            ),
            x_label="load",
            y_label="mean JCT, s",
            is_log_y=True,
        )

    def paragraphs(self) -> Iterator[str]:
        top = _loads(self._scale)[-1]
        near, far = self.over("justitia", "srjf", top), self.over("justitia", "vtc", top)
        yield (
            f"At a load of {top:g} Justitia's mean JCT is {near} of SRJF's. In theory SRPT is "
            f"{_THEORY} below fair sojourn order there, on one resource without blocks and stages: "
            "the price of fairness."
        )
        mean_s = self.spread(mean_jct_s, "srjf", top).median
        yield (
            "No order makes a run faster than its longest chain of inferences alone in the engine: "
            f"{self._floor_s} s in the mean, {percent(self._floor_s.median / mean_s)} of SRJF's "
            "mean JCT. That part is the same under both."
        )
        tails = {
            policy: self.spread(lambda r: r.summarize().ratio_p99, policy, top).median
            for policy in ("justitia", "srjf")
        }
        yield (
            f"What is bought: a ρ P99 of {number(tails['justitia'])} against SRJF's "
            f"{number(tails['srjf'])}; VTC's mean is {number(1 / far.median)} times Justitia's."
        )
        low = _loads(self._scale)[0]
        yield (
            f"At a load of {low:g} Justitia's mean JCT is "
            f"{self.over('justitia', 'fcfs', low)} of FCFS's, at {top:g} it is "
            f"{self.over('justitia', 'fcfs', top)}."
        )


def _tell(scale: Scale, outcomes: Outcomes) -> Section:
    told = _Told(scale, outcomes)
    return Section(
        paragraphs=tuple(told.paragraphs()), tables=(told.table(),), figures=(told.figure(),)
    )


EXPERIMENT: Final = Experiment(
    name="steady-load",
    title="Steady load",
    source="",
    about="Below overload: what order is worth where the queue empties again and again.",
    jobs=_jobs,
    tell=_tell,
)
