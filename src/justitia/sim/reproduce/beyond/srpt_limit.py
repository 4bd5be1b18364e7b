"""How much better than Justitia any order of service could be."""

import statistics
from collections.abc import Iterator, Mapping
from functools import partial
from typing import Final

from justitia.sim.engine_time import least_mean_of_any_order_s
from justitia.sim.limits import (
    fluid_runs,
    reached_rate_kvtt_s,
    srpt_jcts_s,
)
from justitia.sim.reproduce.beyond.rivals import (
    LEARNING,
    LOAD,
    OWN,
    SRJF,
    Row,
    jobs_of,
    mixes,
    play_of,
    srpt_of,
)
from justitia.sim.reproduce.cases import OWN_ERROR, PAPER_ERROR, num_runs
from justitia.sim.reproduce.experiment import (
    Experiment,
    Outcomes,
    Scale,
    Section,
    Table,
)
from justitia.sim.reproduce.telling import Spread, listed_seeds, mean_jct_s, number
from justitia.sim.results import PlayResult

_OWN_ROWS: Final[tuple[Row, ...]] = (
    OWN,
    *((name, estimator) for estimator in (OWN_ERROR, PAPER_ERROR) for name in (OWN[0], LEARNING)),
)
_RATED: Final[tuple[Row, ...]] = (*_OWN_ROWS, SRJF, ("vtc", ""), ("fcfs", ""))
"""Plays among which the best mean rate is looked for."""
_TARGET: Final = 1.05

_AT_SRJF: Final = "fluid SRPT at the work of SRJF's play"
_REAL: Final = "SRJF with exact estimates, a real play"
_AT_BEST: Final = "fluid SRPT at the best mean rate of any play"
_BOUND: Final = "proven: no order of service whatsoever"


def _tell(scale: Scale, outcomes: Outcomes) -> Section:
    told = [_Told(scale, outcomes, mix_name) for mix_name in mixes(scale)]
    return Section(
        paragraphs=(
            *(paragraph for each in told for paragraph in each.paragraphs()),
            (
                "A limit is not a policy: the fluid SRPT divides the engine at will and knows no "
                "blocks, stages or steps. The first one may do at every moment as much as SRJF's "
                "play did then. The third is all the time as fast as the fastest play was on "
                "average. No play can be: small runs go first, prompts are a larger part of them, "
                "and steps that compute prompts are long, so the rate is below its mean while "
                "most runs are served. The last one is proven for every order of service on these "
                "engines (justitia.sim.engine_time): it counts the seconds of an engine that an "
                "inference takes at least, and takes the cache to be full at every step."
            ),
        ),
        tables=tuple(each.table() for each in told),
    )


class _Told:
    def __init__(self, scale: Scale, outcomes: Outcomes, mix_name: str) -> None:
        self._scale = scale
        self._outcomes = outcomes
        self._mix = mix_name
        self._limits_s = self._find_limits_s()

    def _results(self, row: Row) -> list[PlayResult]:
        return [
            self._outcomes[play_of(seed, scale=self._scale, mix_name=self._mix, row=row)]
            for seed in self._scale.seeds
        ]

    def _find_limits_s(self) -> Mapping[str, list[float]]:
        """Mean JCTs, by seed."""
        limits: dict[str, list[float]] = {_AT_SRJF: [], _REAL: [], _AT_BEST: [], _BOUND: []}
        rated = [self._results(row) for row in _RATED]
        limits[_REAL] = [mean_jct_s(each) for each in self._results(SRJF)]
        for place, seed in enumerate(self._scale.seeds):
            own = play_of(seed, scale=self._scale, mix_name=self._mix, row=OWN)
            scenario = own.case.scenario()
            runs = fluid_runs(scenario)
            best = max(reached_rate_kvtt_s(each[place]) for each in rated)
            at_srjf = self._outcomes[srpt_of(seed, scale=self._scale, mix_name=self._mix)]
            limits[_AT_SRJF].append(statistics.fmean(at_srjf))
            limits[_AT_BEST].append(statistics.fmean(srpt_jcts_s(runs, best)))
            limits[_BOUND].append(least_mean_of_any_order_s(scenario))
        return limits

    def _over(self, row: Row, limit: str) -> Spread:
        means = (mean_jct_s(each) for each in self._results(row))
        return Spread.of(a / b for a, b in zip(means, self._limits_s[limit], strict=True))

    def table(self) -> Table:
        return Table(
            title=f"Justitia's mean JCT over the limits at {LOAD}, mix {self._mix}",
            columns=(
                "limit",
                "its mean JCT, s",
                *(" ".join(row) for row in _OWN_ROWS),
            ),
            rows=tuple(
                (limit, str(Spread.of(means)), *(str(self._over(row, limit)) for row in _OWN_ROWS))
                for limit, means in self._limits_s.items()
            ),
            note=(
                f"{num_runs(self._scale)} runs, one A100; {listed_seeds(self._scale)}. All limits "
                "know the true costs and no run ends before its own longest chain of inferences "
                "could."
            ),
        )

    def paragraphs(self) -> Iterator[str]:
        fluid, real = (self._over(OWN, limit) for limit in (_AT_SRJF, _REAL))
        yield (
            f"Mix {self._mix}: with exact estimates Justitia's mean JCT is {fluid} of the fluid "
            f"SRPT's at SRJF's work and {real} of SRJF's own. The difference between the two, "
            f"{number(fluid.median / real.median)}, is what an engine of blocks and stages costs "
            "SRJF itself."
        )
        missed = [
            f"{' '.join(row)} {value}"
            for row, value in ((row, self._over(row, _REAL)) for row in _OWN_ROWS)
            if value.median > _TARGET
        ]
        if missed:
            yield (
                f"Mix {self._mix}: more than {_TARGET} times the mean of SRJF with exact estimates "
                f"take: {', '.join(missed)}."
            )


EXPERIMENT: Final = Experiment(
    name="srpt-limit",
    title="How much better any order could be",
    source="",
    about="Justitia against clairvoyant shortest-remaining-first, real and ideal.",
    jobs=partial(jobs_of, _RATED),
    tell=_tell,
)
