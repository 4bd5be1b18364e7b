"""What a played workload says about a policy: pure sums over records."""

import statistics
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from justitia.core.quantiles import quantile
from justitia.local.records import RunRecord

REFERENCE_POLICY: Final = "vtc"


@dataclass(frozen=True, slots=True)
class PolicyOutcome:
    """One workload played under one policy.

    ``ratio_by_run`` holds the fair ratio rho of each finished run against ideal weighted fair
    sharing (rule R1), keyed like the records by (application, task seed).
    """

    policy: str
    records: tuple[RunRecord, ...]
    ratio_by_run: Mapping[tuple[str, int], float]
    preemptions: int
    useful_kvtt: int
    wasted_kvtt: int
    duration_s: float

    @property
    def jct_s_by_run(self) -> dict[tuple[str, int], float]:
        """JCT of each run that finished."""
        return {run_key(r): r.jct_s for r in self.records if r.error is None}

    @property
    def num_failed(self) -> int:
        """Runs that ended with an error."""
        return sum(r.error is not None for r in self.records)

    @property
    def output_tokens(self) -> int:
        """Tokens generated for all runs."""
        return sum(i.output_tokens for r in self.records for i in r.inferences)


@dataclass(frozen=True, slots=True)
class Summary:
    """One row of the table at the end; times in seconds, rho without unit.

    rho is known of ``num_ratios`` runs: one that had not settled at the end, or that the service
    had forgotten, has none.
    """

    policy: str
    num_runs: int
    num_failed: int
    jct_mean_s: float
    jct_p90_s: float
    num_ratios: int
    ratio_p50: float
    ratio_p99: float
    ratio_worst: float
    share_not_later_than_vtc: float
    worst_over_vtc: float
    preemptions: int
    wasted_share: float
    duration_s: float
    output_tokens: int


def run_key(record: RunRecord) -> tuple[str, int]:
    """Name a run across policies: the same task has the same application and seed."""
    return record.application, record.task_seed


def ratios_over(outcome: PolicyOutcome, reference: PolicyOutcome) -> dict[tuple[str, int], float]:
    """JCT of each run over its JCT under the reference, for runs that finished under both."""
    base = reference.jct_s_by_run
    return {
        key: jct_s / base[key]
        for key, jct_s in outcome.jct_s_by_run.items()
        if base.get(key, 0) > 0
    }


def share_not_later(ratios: Sequence[float], *, tolerance: float = 0.0) -> float:
    """Share of ratios that are at most 1 + ``tolerance``; NaN of nothing."""
    if not ratios:
        return float("nan")
    return sum(r <= 1 + tolerance for r in ratios) / len(ratios)


def summarize(outcome: PolicyOutcome, reference: PolicyOutcome | None) -> Summary:
    """Sum up one policy; ``reference`` is the outcome under VTC of the same workload."""
    jcts_s = list(outcome.jct_s_by_run.values())
    rhos = list(outcome.ratio_by_run.values())
    over = [] if reference is None else list(ratios_over(outcome, reference).values())
    total_kvtt = outcome.useful_kvtt + outcome.wasted_kvtt
    return Summary(
        policy=outcome.policy,
        num_runs=len(outcome.records),
        num_failed=outcome.num_failed,
        jct_mean_s=statistics.fmean(jcts_s) if jcts_s else float("nan"),
        jct_p90_s=quantile(jcts_s, 0.9),
        num_ratios=len(rhos),
        ratio_p50=quantile(rhos, 0.5),
        ratio_p99=quantile(rhos, 0.99),
        ratio_worst=max(rhos, default=float("nan")),
        share_not_later_than_vtc=share_not_later(over),
        worst_over_vtc=max(over, default=float("nan")),
        preemptions=outcome.preemptions,
        wasted_share=outcome.wasted_kvtt / total_kvtt if total_kvtt else 0.0,
        duration_s=outcome.duration_s,
        output_tokens=outcome.output_tokens,
    )


def summarize_all(outcomes: Sequence[PolicyOutcome]) -> list[Summary]:
    """Sum up every policy against VTC, if VTC is among them."""
    reference = next((o for o in outcomes if o.policy == REFERENCE_POLICY), None)
    return [summarize(outcome, reference) for outcome in outcomes]
