"""Every policy in one table, between ideal sharing and the limits of any schedule."""

import statistics
from collections.abc import Iterator, Sequence
from functools import partial
from typing import Final

from justitia.core.learning import LearningRules
from justitia.core.policies import EVERY_POLICY
from justitia.core.quantiles import quantile
from justitia.sim.limits import fluid_runs, on_curve, played_gps_jcts_s, srpt_jcts_s
from justitia.sim.loop import PlaySettings
from justitia.sim.reproduce.cases import OWN_ERROR, PAPER_ERROR, mix, mix_scenario, num_runs
from justitia.sim.reproduce.experiment import (
    Cell,
    Experiment,
    Figure,
    Job,
    Measurement,
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
    versus,
)
from justitia.sim.results import PlayResult
from justitia.sim.service_curve import play_with_meter

#: (policy, estimates; empty where the policy reads none)
Row = tuple[str, str]
LOAD: Final = "3x"
_READ_ESTIMATES: Final = ("justitia", "justitia-probe", "srjf", "sjf")
#: Its clients say how large a run of their kind is: small, medium or large.
_TOLD_SIZES: Final = "vllm-priority"
#: Justitia that learns inside a run (rule K2), and has learned from the runs of another seed.
LEARNING: Final = "justitia, learning"
_TEACHER: Final = 1000
ROWS: Final[tuple[Row, ...]] = (
    *((name, estimator) for name in _READ_ESTIMATES for estimator in ("exact", PAPER_ERROR)),
    ("justitia", OWN_ERROR),
    *((LEARNING, estimator) for estimator in (OWN_ERROR, PAPER_ERROR)),
    *((name, "") for name in EVERY_POLICY if name not in _READ_ESTIMATES),
)
OWN: Final[Row] = ("justitia", "exact")
SRJF: Final[Row] = ("srjf", "exact")
VTC: Final[Row] = ("vtc", "")
_TOLERANCE: Final = 1e-3


def mixes(scale: Scale) -> tuple[str, ...]:
    """Mixes that are played."""
    return ("paper",) if scale.is_quick else ("paper", "hermes")


def play_of(seed: int, *, scale: Scale, mix_name: str, row: Row) -> Play:
    """Name a play of a policy at 3x."""
    policy, estimator = row
    runs = num_runs(scale)
    case = mix(seed, LOAD, mix=mix_name, num_runs=runs)
    if policy != LEARNING:
        return Play(case, policy, PlaySettings(estimator=estimator or "exact"))
    settings = PlaySettings(estimator=estimator, learning=LearningRules())
    teacher = mix(seed + _TEACHER, LOAD, mix=mix_name, num_runs=runs)
    return Play(case, OWN[0], settings, teacher)


def srpt_at_the_work_of_srjf(*, seed: int, load: str, mix: str, num_runs: int) -> list[float]:
    """JCTs of the fluid SRPT that does at every moment what a play of SRJF did, by run."""
    scenario = mix_scenario(seed=seed, load=load, testbed="a100", mix=mix, num_runs=num_runs)
    _, curves = play_with_meter(scenario, "srjf", group_of=lambda _: "all")
    return on_curve(srpt_jcts_s, fluid_runs(scenario), curves.total())


def srpt_of(seed: int, *, scale: Scale, mix_name: str) -> Measurement:
    """Name the fluid SRPT's JCTs."""
    runs = num_runs(scale)
    return Measurement.of(
        srpt_at_the_work_of_srjf, seed=seed, load=LOAD, mix=mix_name, num_runs=runs
    )


def jobs_of(rows: Sequence[Row], scale: Scale) -> Sequence[Job]:
    """List the plays of ``rows`` under every mix and seed, and the fluid SRPT beside them."""
    jobs: list[Job] = []
    for mix_name in mixes(scale):
        for seed in scale.seeds:
            jobs += [play_of(seed, scale=scale, mix_name=mix_name, row=row) for row in rows]
            jobs.append(srpt_of(seed, scale=scale, mix_name=mix_name))
    return jobs


def _tell(scale: Scale, outcomes: Outcomes) -> Section:
    told = [_Told(scale, outcomes, name) for name in mixes(scale)]
    return Section(
        paragraphs=tuple(paragraph for each in told for paragraph in each.paragraphs()),
        tables=tuple(each.table() for each in told),
        figures=tuple(each.figure() for each in told),
    )


def _shown(row: Row) -> Row:
    policy, estimates = row
    return policy, "size class" if policy == _TOLD_SIZES else estimates


class _Told:
    """What came out on one mix."""

    def __init__(self, scale: Scale, outcomes: Outcomes, mix_name: str) -> None:
        self._scale = scale
        self._outcomes = outcomes
        self._mix = mix_name
        self._order = sorted(ROWS, key=lambda row: self._mean_s(row).median)

    def _play(self, row: Row) -> partial[Play]:
        return partial(play_of, scale=self._scale, mix_name=self._mix, row=row)

    def _results(self, row: Row) -> list[PlayResult]:
        return [self._outcomes[self._play(row)(seed)] for seed in self._scale.seeds]

    def _mean_s(self, row: Row) -> Spread:
        return over_seeds(self._scale, self._outcomes, self._play(row), mean_jct_s)

    def table(self) -> Table:
        gps_s = [played_gps_jcts_s(each) for each in self._results(OWN)]
        srpt_s = [
            self._outcomes[srpt_of(seed, scale=self._scale, mix_name=self._mix)]
            for seed in self._scale.seeds
        ]
        return Table(
            title=f"Every policy at {LOAD}, mix {self._mix}",
            columns=(
                "policy",
                "estimates",
                "mean JCT, s",
                "P90, s",
                "P99, s",
                "not later than VTC",
                "worst ÷ VTC",
                "ρ P99",
                "worst ρ",
                "preemptions",
            ),
            rows=(
                self._limit("clairvoyant SRPT, fluid", srpt_s),
                *(self._row(row) for row in self._order),
                self._limit("ideal GPS, fluid", gps_s),
            ),
            note=(
                f"{num_runs(self._scale)} runs, one A100; {listed_seeds(self._scale)}. "
                f"{PAPER_ERROR}: estimates with a mean relative error of 53 %, the paper's; "
                f"{OWN_ERROR} is about that of our own predictor; size class: the client's "
                "priority is the true size class of its run. Learning: rule K2, after the runs of "
                "another seed. ρ is against the fluid sharing of the same play (rule R1), so it "
                "moves with what a play delivers when, and with estimates. SRPT does at every "
                "moment as much work as SRJF's play with exact estimates did, ideal GPS as "
                "Justitia's."
            ),
        )

    def _row(self, row: Row) -> tuple[Cell, ...]:
        against = versus(self._scale, self._outcomes, self._play(row), self._play(VTC))
        summaries = [result.summarize() for result in self._results(row)]
        return (
            *_shown(row),
            str(self._mean_s(row)),
            number(statistics.median(each.p90_jct_s for each in summaries)),
            number(statistics.median(each.p99_jct_s for each in summaries)),
            against.share_not_later.as_percent,
            str(against.worst),
            number(statistics.median(each.ratio_p99 for each in summaries)),
            number(statistics.median(each.worst_ratio for each in summaries)),
            number(statistics.median(each.num_preemptions for each in summaries)),
        )

    def _limit(self, title: str, jcts_s: list[list[float]]) -> tuple[Cell, ...]:
        quotients = [
            [mine_s / run.jct_s for mine_s, run in zip(mine, under_vtc.runs, strict=True)]
            for mine, under_vtc in zip(jcts_s, self._results(VTC), strict=True)
        ]
        shares = (sum(q <= 1 + _TOLERANCE for q in each) / len(each) for each in quotients)
        return (
            title,
            "exact",
            str(Spread.of(statistics.fmean(each) for each in jcts_s)),
            number(statistics.median(quantile(each, 0.9) for each in jcts_s)),
            number(statistics.median(quantile(each, 0.99) for each in jcts_s)),
            Spread.of(shares).as_percent,
            str(Spread.of(max(each) for each in quotients)),
            None,
            None,
            None,
        )

    def paragraphs(self) -> Iterator[str]:
        own, srjf, vtc = (self._play(row) for row in (OWN, SRJF, VTC))
        over_srjf, over_vtc = (
            quotient(self._scale, self._outcomes, own, other, mean_jct_s) for other in (srjf, vtc)
        )
        fair = versus(self._scale, self._outcomes, own, vtc)
        yield (
            f"Mix {self._mix}: with exact estimates Justitia's mean JCT is {over_vtc} of VTC's "
            f"and {over_srjf} of SRJF's; {fair.share_not_later.as_percent} of the runs are not "
            f"later than under VTC, the worst takes {fair.worst} times as long."
        )
        ideal = self._limit("", [played_gps_jcts_s(each) for each in self._results(OWN)])
        yield (
            f"Mix {self._mix}: VTC shares tokens, not the cache, so it favours some runs above "
            f"ideal sharing: under that itself {ideal[5]} of the runs are not later than under "
            f"VTC, the worst takes {ideal[6]} times as long."
        )
        ahead = [" ".join(row).strip() for row in self._order[: self._order.index(OWN)]]
        if ahead:
            yield f"Mix {self._mix}: a smaller mean JCT than that have {', '.join(ahead)}."
        best = next(row for row in self._order if not _shown(row)[1])
        share = versus(self._scale, self._outcomes, self._play(best), vtc).share_not_later
        yield (
            f"Mix {self._mix}: of the policies that are told nothing of a run's size {best[0]} has "
            f"the best mean, {number(self._mean_s(best).median / self._mean_s(OWN).median)} times "
            f"Justitia's; {percent(share.median)} of its runs are not later than under VTC."
        )

    def figure(self) -> Figure:
        return Figure(
            name=f"rivals-{self._mix}",
            title=f"Mean JCT of every policy at {LOAD}, mix {self._mix}",
            kind="bars",
            x=tuple(" ".join(row).strip() for row in self._order),
            series=(
                Series(
                    label="mean JCT",
                    values=tuple(self._mean_s(row).median for row in self._order),
                ),
            ),
            y_label="mean JCT, s",
        )


EXPERIMENT: Final = Experiment(
    name="rivals",
    title="Every policy, between ideal sharing and the limits",
    source="",
    about="The product's policies and those of other systems on the same runs.",
    jobs=partial(jobs_of, ROWS),
    tell=_tell,
)
