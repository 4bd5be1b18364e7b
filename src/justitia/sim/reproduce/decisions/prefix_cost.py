"""Whether a run should be charged less for what the prefix cache will hold of its prompts.

On sessions of coding agents, where nearly all of a prompt has been there before. They are drawn
from statistics of Weka's trace; where the environment variable ``JUSTITIA_WEKA_CSV`` names the
trace itself (format ``weka-csv``), they are read from it.
"""

import os
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Final

from justitia.core.learning import LearningRules
from justitia.sim.loop import PlaySettings
from justitia.sim.reproduce.cases import mix_scenario, num_runs
from justitia.sim.reproduce.decisions.clock import late_ratio
from justitia.sim.reproduce.experiment import (
    Case,
    Cell,
    Experiment,
    Outcomes,
    Play,
    Scale,
    Section,
    Table,
)
from justitia.sim.reproduce.telling import (
    Spread,
    listed_seeds,
    number,
    over_seeds,
    percent,
    quotient,
    versus,
)
from justitia.sim.reproduce.telling import mean_jct_s as mean_s
from justitia.sim.results import PlayResult
from justitia.sim.scenario import Scenario
from justitia.sim.workloads.coding_sessions import coding_sessions, recorded_sessions

TRACE_VARIABLE: Final = "JUSTITIA_WEKA_CSV"
_SESSIONS: Final = "coding sessions"
_MIX: Final = "mix at 3x, prefix cache"
_QUICK_SESSIONS: Final = 20


@dataclass(frozen=True, slots=True)
class Order:
    """A policy, and what is known of runs where it asks."""

    shown: str
    policy: str
    estimator: str = "exact"
    learns: bool = False

    def settings(self) -> PlaySettings:
        """As the play has them."""
        learning = LearningRules() if self.learns else None
        return PlaySettings(estimator=self.estimator, learning=learning)


VTC: Final = Order("VTC", "vtc")
EXACT: Final = Order("Justitia, nothing cached", "justitia")
CACHED: Final = Order("Justitia, prefix-aware", "justitia", "cached")
SECONDS: Final = Order("Justitia, seconds", "justitia", "seconds")
CACHED_SECONDS: Final = Order("Justitia, seconds, prefix-aware", "justitia", "cached:seconds")
HISTORY: Final = Order("Justitia, history's mean", "justitia", "history")
LEARNED: Final = Order("Justitia, history's mean and K2", "justitia", "history", learns=True)
ORDERS: Final = (
    Order("FCFS", "fcfs"),
    VTC,
    Order("DLPM", "dlpm"),
    Order("SRJF, nothing cached", "srjf"),
    EXACT,
    CACHED,
    SECONDS,
    CACHED_SECONDS,
    HISTORY,
    LEARNED,
)
_OF_MIX: Final = (VTC, EXACT, CACHED)


def mix_with_cache(*, seed: int, num_runs: int) -> Scenario:
    """Draw the paper's mix at 3x for its engine with a prefix cache."""
    drawn = mix_scenario(seed=seed, load="3x", testbed="a100", mix="paper", num_runs=num_runs)
    return replace(drawn, engines=tuple(replace(e, has_prefix_cache=True) for e in drawn.engines))


def _case(scale: Scale, seed: int, workload: str) -> Case:
    if workload == _MIX:
        return Case.of(mix_with_cache, seed=seed, num_runs=num_runs(scale))
    if path := os.environ.get(TRACE_VARIABLE):
        return Case.of(recorded_sessions, path=path, seed=seed)
    if scale.is_quick:
        return Case.of(coding_sessions, seed=seed, num_sessions=_QUICK_SESSIONS, window_s=60.0)
    return Case.of(coding_sessions, seed=seed)


def _play(seed: int, *, scale: Scale, workload: str, order: Order) -> Play:
    return Play(_case(scale, seed, workload), order.policy, order.settings())


def _workloads(scale: Scale) -> Iterator[tuple[str, Sequence[Order]]]:
    yield _SESSIONS, ORDERS
    if not scale.is_quick:
        yield _MIX, _OF_MIX


def _jobs(scale: Scale) -> Sequence[Play]:
    return [
        _play(seed, scale=scale, workload=workload, order=order)
        for workload, orders in _workloads(scale)
        for order in orders
        for seed in scale.seeds
    ]


def estimation_error(result: PlayResult) -> float:
    """Mean of |estimate / true cost - 1| over the runs."""
    errors = [abs(run.predicted_kvtt / run.true_kvtt - 1) for run in result.runs]
    return sum(errors) / len(errors)


def _estimated_kvtt(result: PlayResult) -> float:
    return float(sum(run.predicted_kvtt for run in result.runs))


class _Told:
    def __init__(self, scale: Scale, outcomes: Outcomes) -> None:
        self._scale = scale
        self._outcomes = outcomes

    def _of(self, workload: str, order: Order) -> "partial[Play]":
        return partial(_play, scale=self._scale, workload=workload, order=order)

    def over(self, workload: str, order: Order, other: Order) -> Spread:
        """Mean JCT over that of another order."""
        return quotient(
            self._scale,
            self._outcomes,
            self._of(workload, order),
            self._of(workload, other),
            mean_s,
        )

    def saved_share(self, workload: str) -> Spread:
        """Share of the estimated cost that is the prefill of what the cache will hold."""
        play, other = self._of(workload, CACHED), self._of(workload, EXACT)
        left = quotient(self._scale, self._outcomes, play, other, _estimated_kvtt)
        return Spread(1 - left.median, 1 - left.most, 1 - left.least)

    def row(self, workload: str, order: Order) -> tuple[Cell, ...]:
        play, exact = self._of(workload, order), self._of(workload, EXACT)
        scale, outcomes = self._scale, self._outcomes
        against = versus(scale, outcomes, play, self._of(workload, VTC))
        late = Spread.of(late_ratio(outcomes[play(s)], outcomes[exact(s)]) for s in scale.seeds)
        is_estimated = order.policy in ("justitia", "srjf")
        error = over_seeds(scale, outcomes, play, estimation_error)
        cached = over_seeds(scale, outcomes, play, lambda r: r.summarize().cached_share)
        return (
            workload,
            order.shown,
            str(over_seeds(scale, outcomes, play, mean_s)),
            *against.cells(),
            str(late),
            percent(cached.median),
            percent(error.median) if is_estimated else None,
        )

    def table(self) -> Table:
        return Table(
            title="Estimates that know the prefix cache, and estimates that do not",
            columns=(
                "workload",
                "order",
                "mean JCT, s",
                "÷ VTC's",
                "not later than VTC",
                "worst ÷ VTC",
                "ρ P99",
                "prompt tokens cached",
                "estimates' mean error",
            ),
            rows=tuple(
                self.row(workload, order)
                for workload, orders in _workloads(self._scale)
                for order in orders
            ),
            note=(
                f"{listed_seeds(self._scale)}. ρ has one reference, that of the play with exact "
                "costs and nothing cached. The error is against what the run held in the end "
                "(rule C3): blocks that several hold are paid by one of them, and what the cache "
                "has lost is computed again."
            ),
        )

    def paragraphs(self) -> Iterator[str]:
        yield (
            "Justitia with costs of the true lengths: as if nothing were cached, and "
            "prefix-aware, where prompts are charged no prefill for what earlier runs or "
            "earlier inferences of the run have brought (in a cache that forgets nothing)."
        )
        for workload, _ in _workloads(self._scale):
            yield (
                f"{workload[0].upper()}{workload[1:]}: what the cache will hold is "
                f"{self.saved_share(workload).as_percent} of the estimated cost. A cached token is "
                "held while the answer is generated all the same; only its prefill is saved, and "
                "that takes few steps. Prefix-aware estimates have "
                f"{self.over(workload, CACHED, EXACT)} of the mean JCT."
            )
        seconds = self.over(_SESSIONS, SECONDS, EXACT)
        both = self.over(_SESSIONS, CACHED_SECONDS, EXACT)
        history, learned = (self.over(_SESSIONS, each, EXACT) for each in (HISTORY, LEARNED))
        yield (
            f"Charged in seconds the sessions have {seconds} of it, {both} if that is "
            "prefix-aware (a step that computes a long prompt takes long). With the application's "
            f"mean in place of the lengths it is {history}, {learned} where K2 learns inside the "
            "run."
        )
        exact, aware = (
            over_seeds(self._scale, self._outcomes, self._of(_SESSIONS, each), estimation_error)
            for each in (EXACT, CACHED)
        )
        yield (
            "What the cache changes is who pays. Of the blocks that several inferences hold at "
            "a time one of them pays all (rule C3): the estimates of the sessions, although of "
            f"the true lengths, are off by {percent(exact.median)} in the mean, prefix-aware ones "
            f"by {percent(aware.median)}."
        )
        vtc = self.over(_SESSIONS, EXACT, VTC)
        yield f"With nothing taken for cached the mean JCT is {number(vtc.median)} of VTC's."


def _tell(scale: Scale, outcomes: Outcomes) -> Section:
    told = _Told(scale, outcomes)
    return Section(paragraphs=tuple(told.paragraphs()), tables=(told.table(),))


EXPERIMENT: Final = Experiment(
    name="prefix-aware-cost",
    title="Prefix-aware cost",
    source="",
    about=(
        "Sessions of coding agents drawn from statistics of Weka's trace (docs/workloads.md); "
        f"the trace itself where {TRACE_VARIABLE} names its CSV."
    ),
    jobs=_jobs,
    tell=_tell,
)
