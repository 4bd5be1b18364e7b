"""What came of a scenario under a policy, and how two plays of it compare."""

import math
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass

from justitia.core.errors import InvalidValueError
from justitia.core.quantiles import quantile
from justitia.sim.engine import EngineTotals


@dataclass(frozen=True, slots=True, kw_only=True)
class RunResult:
    """What became of one run. ``reference_jct_s`` is that of rule R1.

    ``queue_wait_s``: from its arrival to its first admission; ``waiting_s``: of all its inferences
    together, before and between their spells of computing.
    """

    run_id: str
    application: str
    size_class: str
    arrival_s: float
    finished_at_s: float
    reference_jct_s: float
    predicted_kvtt: int
    true_kvtt: int
    wasted_kvtt: int
    queue_wait_s: float
    waiting_s: float
    num_inferences: int
    num_preemptions: int
    cached_tokens: int

    @property
    def jct_s(self) -> float:
        """Job completion time."""
        return self.finished_at_s - self.arrival_s

    @property
    def ratio(self) -> float:
        """Finish-time fair ratio rho; 1 where neither took any time."""
        return self.jct_s / self.reference_jct_s if self.reference_jct_s > 0 else 1.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Summary:
    """One row of a table; times in seconds, NaN of no runs."""

    num_runs: int
    mean_jct_s: float
    p50_jct_s: float
    p90_jct_s: float
    p99_jct_s: float
    ratio_p50: float
    ratio_p99: float
    worst_ratio: float
    num_preemptions: int
    wasted_share: float
    cached_share: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Comparison:
    """A play against another one of the same scenario, run by run.

    ``share_not_later``: runs whose JCT is at most the other's (and a thousandth of it on top, so
    that rounding decides nothing). ``worst``: the largest quotient of the two.
    """

    mean_jct_quotient: float
    share_not_later: float
    worst: float


_TOLERANCE = 1e-3


@dataclass(frozen=True, slots=True, kw_only=True)
class PlayResult:
    """Runs in order of arrival, and what the engines did.

    ``surplus_kvtt``: service for which V stood still (estimates were too low).
    """

    policy: str
    runs: tuple[RunResult, ...]
    engines: tuple[EngineTotals, ...]
    duration_s: float
    useful_kvtt: int
    wasted_kvtt: int
    surplus_kvtt: float

    @property
    def finish_order(self) -> list[str]:
        """Ids in order of completion; of those that end together the earlier arrival is first."""
        return [run.run_id for run in sorted(self.runs, key=lambda run: run.finished_at_s)]

    def summarize(self, chosen: Callable[[RunResult], bool] = lambda _: True) -> Summary:
        """Summarize the runs, or those chosen; engines' numbers are of all."""
        runs = [run for run in self.runs if chosen(run)]
        jcts = [run.jct_s for run in runs]
        ratios = [run.ratio for run in runs]
        served = self.useful_kvtt + self.wasted_kvtt
        prompts = sum(engine.prompt_tokens for engine in self.engines)
        cached = sum(engine.cached_tokens for engine in self.engines)
        return Summary(
            num_runs=len(runs),
            mean_jct_s=_mean(jcts),
            p50_jct_s=quantile(jcts, 0.5),
            p90_jct_s=quantile(jcts, 0.9),
            p99_jct_s=quantile(jcts, 0.99),
            ratio_p50=quantile(ratios, 0.5),
            ratio_p99=quantile(ratios, 0.99),
            worst_ratio=max(ratios, default=math.nan),
            num_preemptions=sum(engine.preemptions for engine in self.engines),
            wasted_share=self.wasted_kvtt / served if served else 0.0,
            cached_share=cached / prompts if prompts else 0.0,
        )

    def against(self, other: "PlayResult") -> Comparison:
        """Compare with another play of the same scenario.

        Raises:
            InvalidValueError: it is not of the same runs.
        """
        theirs = {run.run_id: run.jct_s for run in other.runs}
        if theirs.keys() != {run.run_id for run in self.runs}:
            raise InvalidValueError("other", "must be a play of the same runs")
        pairs = [(run.jct_s, theirs[run.run_id]) for run in self.runs]
        quotients = [mine / other if other > 0 else 1.0 for mine, other in pairs]
        return Comparison(
            mean_jct_quotient=_mean([a for a, _ in pairs]) / _mean([b for _, b in pairs]),
            share_not_later=_mean([float(q <= 1 + _TOLERANCE) for q in quotients]),
            worst=max(quotients, default=math.nan),
        )


def rank_correlation(one: Sequence[str], other: Sequence[str]) -> float:
    """Spearman's rank correlation of two orders of the same names; 1 of fewer than two."""
    size = len(one)
    if size < 2:  # noqa: PLR2004 - one name has one order
        return 1.0
    place = {name: rank for rank, name in enumerate(other)}
    squares = sum((rank - place[name]) ** 2 for rank, name in enumerate(one))
    return 1 - 6 * squares / (size * (size * size - 1))


def _mean(values: Iterable[float]) -> float:
    listed = list(values)
    return math.fsum(listed) / len(listed) if listed else math.nan
