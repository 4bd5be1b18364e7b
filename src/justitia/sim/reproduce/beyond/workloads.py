"""The same policies on other work: another mix, waves, and recorded runs of real agents."""

from collections.abc import Iterator, Sequence
from functools import partial
from pathlib import Path
from typing import Final

from justitia.sim.limits import peak_rate_kvtt_s, reached_rate_kvtt_s
from justitia.sim.loop import PlaySettings
from justitia.sim.reproduce.cases import PAPER_ERROR, mix, num_runs
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
    versus,
)
from justitia.sim.scenario import Scenario
from justitia.sim.workloads.cases import on_and_off, stretched
from justitia.sim.workloads.generate import PAPER_RUNS
from justitia.sim.workloads.recorded import recorded_scenario
from justitia.sim.workloads.summary import total_cost_kvtt
from justitia.sim.workloads.tables import FULL_STEP_S, PAPER_ENGINE

RECORDINGS: Final = Path("examples/recordings/runs.jsonl.gz")
"""Where a checkout has them; without, that work is left out."""
_PAPER: Final = "paper's mix, 3x"
_HERMES: Final = "Hermes mix, 3x"
_WAVES: Final = "three waves"
_RECORDED: Final = "recorded runs"
_RIVALS: Final = ("srjf", "vtc", "las", "fcfs")
#: How often more than the engine does in the time; the paper's 3x is about that.
_OVERLOAD: Final = 5.0
_WAVES_S: Final = 1080.0


def recorded(*, path: Path, seed: int, num_runs: int) -> Scenario:
    """Let recorded runs come again, faster than the engine can serve them."""
    drawn = recorded_scenario(path, seed=seed, num_runs=num_runs, window_s=1.0)
    capacity = sum(engine.kv_capacity_tokens for engine in drawn.engines)
    served_s = total_cost_kvtt(drawn) / capacity * FULL_STEP_S
    return stretched(drawn, served_s / _OVERLOAD)


def _case(work: str, seed: int, scale: Scale) -> Case:
    runs = num_runs(scale)
    if work == _WAVES:
        window_s = _WAVES_S * runs / PAPER_RUNS
        return Case.of(on_and_off, seed=seed, num_runs=runs, window_s=window_s)
    if work == _RECORDED:
        return Case.of(recorded, path=RECORDINGS, seed=seed, num_runs=runs)
    return mix(seed, "3x", mix="hermes" if work == _HERMES else "paper", num_runs=runs)


def _works(scale: Scale) -> tuple[str, ...]:
    known = (_PAPER, _HERMES, _WAVES, *((_RECORDED,) if RECORDINGS.is_file() else ()))
    return known[2:] if scale.is_quick else known


def _play(seed: int, *, scale: Scale, work: str, policy: str, estimator: str = "exact") -> Play:
    return Play(_case(work, seed, scale), policy, PlaySettings(estimator=estimator))


def _jobs(scale: Scale) -> Sequence[Play]:
    return [
        play
        for work in _works(scale)
        for seed in scale.seeds
        for play in (
            *(_play(seed, scale=scale, work=work, policy=name) for name in ("justitia", *_RIVALS)),
            _play(seed, scale=scale, work=work, policy="justitia", estimator=PAPER_ERROR),
        )
    ]


class _Told:
    def __init__(self, scale: Scale, outcomes: Outcomes) -> None:
        self._scale = scale
        self._outcomes = outcomes

    def _play(self, work: str, policy: str, estimator: str = "exact") -> partial[Play]:
        return partial(_play, scale=self._scale, work=work, policy=policy, estimator=estimator)

    def over(self, work: str, rival: str) -> Spread:
        """Justitia's mean JCT over a rival's, with exact estimates."""
        mine, theirs = self._play(work, "justitia"), self._play(work, rival)
        return quotient(self._scale, self._outcomes, mine, theirs, mean_jct_s)

    def _ratio_p99(self, work: str) -> Spread:
        play = self._play(work, "justitia")
        return over_seeds(
            self._scale, self._outcomes, play, lambda result: result.summarize().ratio_p99
        )

    def share_of_peak(self, work: str) -> Spread:
        """Rate of Justitia's play over the one that no engine can exceed."""
        return over_seeds(
            self._scale,
            self._outcomes,
            self._play(work, "justitia"),
            lambda result: reached_rate_kvtt_s(result) / peak_rate_kvtt_s([PAPER_ENGINE]),
        )

    def table(self) -> Table:
        rows = []
        for work in _works(self._scale):
            vtc = self._play(work, "vtc")
            fair, erring = (
                versus(self._scale, self._outcomes, self._play(work, "justitia", known), vtc)
                for known in ("exact", PAPER_ERROR)
            )
            mean_s = over_seeds(
                self._scale, self._outcomes, self._play(work, "justitia"), mean_jct_s
            )
            rows.append(
                (
                    work,
                    str(mean_s),
                    *(str(self.over(work, rival)) for rival in _RIVALS),
                    fair.share_not_later.as_percent,
                    str(fair.worst),
                    number(self._ratio_p99(work).median),
                    str(erring.mean_jct),
                    erring.share_not_later.as_percent,
                    str(erring.worst),
                    percent(self.share_of_peak(work).median),
                )
            )
        return Table(
            title="Justitia's mean JCT over its rivals'",
            columns=(
                "work",
                "mean JCT, s",
                *(f"÷ {rival}" for rival in _RIVALS),
                "not later than VTC",
                "worst ÷ VTC",
                "ρ P99",
                f"{PAPER_ERROR}: ÷ vtc",
                f"{PAPER_ERROR}: not later",
                f"{PAPER_ERROR}: worst",
                "of the peak rate",
            ),
            rows=tuple(rows),
            note=(
                f"{num_runs(self._scale)} runs, one A100, exact estimates where nothing "
                f"else is said; {listed_seeds(self._scale)}. Waves: the paper's mix, a third of "
                "the runs at a time with silence between. Recorded runs: nine agents on a small "
                f"real model (examples/recordings), come {_OVERLOAD:g} times as fast as a full "
                "engine does them; srjf and justitia know their true lengths. "
                "Of the peak rate: kvtt that Justitia's play delivered in a second, over what an "
                "engine does whose cache is full and that computes no prompts."
            ),
        )

    def figure(self) -> Figure:
        works = _works(self._scale)
        return Figure(
            name="workloads",
            title="Justitia's mean JCT over its rivals'",
            kind="bars",
            x=works,
            series=tuple(
                Series(
                    label=f"÷ {rival}",
                    values=tuple(self.over(work, rival).median for work in works),
                )
                for rival in _RIVALS
            ),
            y_label="quotient of mean JCTs",
        )

    def paragraphs(self) -> Iterator[str]:
        works = _works(self._scale)
        over_vtc = {work: self.over(work, "vtc").median for work in works}
        over_srjf = {work: self.over(work, "srjf").median for work in works}
        least, most = (pick(over_vtc, key=over_vtc.__getitem__) for pick in (min, max))
        yield (
            f"Justitia's mean JCT is from {number(over_vtc[least])} ({least}) to "
            f"{number(over_vtc[most])} ({most}) of VTC's, and at most "
            f"{number(max(over_srjf.values()))} of SRJF's."
        )
        slow = min(works, key=lambda work: self.share_of_peak(work).median)
        yield (
            f"{slow}: the engine works at {percent(self.share_of_peak(slow).median)} of the peak "
            "rate. The lower that is, the less is the cache what is short, and the less does a "
            "cost in kvtt say of the time that a run takes: a prompt whose answer is short takes "
            "the engine's time, and hardly any kvtt."
        )
        if not RECORDINGS.is_file():
            yield f"Recorded runs are left out: there is no {RECORDINGS} here."


def _tell(scale: Scale, outcomes: Outcomes) -> Section:
    told = _Told(scale, outcomes)
    return Section(
        paragraphs=tuple(told.paragraphs()), tables=(told.table(),), figures=(told.figure(),)
    )


EXPERIMENT: Final = Experiment(
    name="workloads",
    title="Other work",
    source="",
    about="Another mix, waves, and recorded runs of real agents.",
    jobs=_jobs,
    tell=_tell,
)
