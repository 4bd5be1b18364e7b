"""Learning inside a run (rule K2): what wrong estimates cost, with and without it."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from justitia.core.learning import LearningRules
from justitia.sim.loop import PlaySettings
from justitia.sim.reproduce.cases import mix, num_runs
from justitia.sim.reproduce.experiment import (
    Cell,
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
    over_seeds,
    quotient,
    versus,
)

#: A scenario of this seed, beside the one that counts, teaches what there is to know beforehand.
_WARM_UP_SEED: Final = 1000
_ERRORS: Final = (0.0, 0.15, 0.25, 0.53, 1.0, 2.0, 4.52)
_QUICK_ERRORS: Final = (0.25, 0.53)
_RULES: Final = LearningRules()


@dataclass(frozen=True, slots=True)
class Way:
    """How estimates are used: ``rules`` None: the first one holds."""

    name: str
    rules: LearningRules | None = None
    is_warm: bool = True
    policy: str = "justitia"

    def play(self, scale: Scale, estimator: str, seed: int) -> Play:
        """Name its play."""
        runs = num_runs(scale)
        warm_up = mix(seed + _WARM_UP_SEED, num_runs=runs) if self.rules and self.is_warm else None
        settings = PlaySettings(estimator=estimator, learning=self.rules)
        return Play(mix(seed, num_runs=runs), self.policy, settings, warm_up)


FIXED: Final = Way("fixed F")
WARM: Final = Way("K2", _RULES)
COLD: Final = Way("K2, nothing learned before", _RULES, is_warm=False)
PROBE: Final = Way("K2 with probe", _RULES, policy="justitia-probe")
#: Where only the application is known, it must not be hasty.
HASTY: Final = Way(
    f"the same, all raised at {_RULES.patience:g} times",
    LearningRules(provisional_patience=_RULES.patience),
    is_warm=False,
)
#: What was not chosen, at the paper's error.
_VARIANTS: Final[Mapping[str, LearningRules]] = {
    "as chosen": _RULES,
    "F never below S + attained / w": LearningRules(patience=1.0),
    "raised at 2 times the cost": LearningRules(patience=2.0),
    "raised at 5 times": LearningRules(patience=5.0),
    "never raised for what it got": LearningRules(patience=1e9),
    "30 % quantile": LearningRules(quantile=0.3),
    "70 % quantile": LearningRules(quantile=0.7),
    "95 % quantile, never below S + attained / w": LearningRules(quantile=0.95, patience=1.0),
    "moves until 3 % are served": LearningRules(early_share=0.03),
    "moves until 30 % are served": LearningRules(early_share=0.3),
    "moves until the end": LearningRules(early_share=1e9),
}
#: What that costs while nothing is known yet.
_COLD_VARIANT: Final = Way(
    "the same, nothing learned before", LearningRules(quantile=0.95, patience=1.0), is_warm=False
)
_VARIANTS_ERROR: Final = "error:0.53"
_HISTORY: Final = "history"
_WITH_ALL_WAYS: Final = ("error:0.25", "error:0.53", "error:1.0", _HISTORY)


def _estimators(scale: Scale) -> list[str]:
    errors = _QUICK_ERRORS if scale.is_quick else _ERRORS
    return [*(f"error:{error}" for error in errors), _HISTORY]


def _ways(estimator: str) -> tuple[Way, ...]:
    if estimator == _HISTORY:
        return (FIXED, WARM, COLD, HASTY, PROBE)
    return (FIXED, WARM, COLD, PROBE) if estimator in _WITH_ALL_WAYS else (FIXED, WARM)


def _exact(scale: Scale, seed: int) -> Play:
    return Play(mix(seed, num_runs=num_runs(scale)), "srjf")


def _vtc(scale: Scale, seed: int) -> Play:
    return Play(mix(seed, num_runs=num_runs(scale)), "vtc")


def _variants(scale: Scale) -> dict[str, Way]:
    names = list(_VARIANTS)[:2] if scale.is_quick else list(_VARIANTS)
    ways: dict[str, Way] = {}
    for name in names:
        ways[name] = Way(name, _VARIANTS[name])
        if name.startswith("95 %"):
            ways[_COLD_VARIANT.name] = _COLD_VARIANT
    return ways


def _jobs(scale: Scale) -> Sequence[Play]:
    plays = []
    for seed in scale.seeds:
        plays += [_exact(scale, seed), _vtc(scale, seed)]
        for estimator in _estimators(scale):
            plays += [way.play(scale, estimator, seed) for way in _ways(estimator)]
        plays += [way.play(scale, _VARIANTS_ERROR, seed) for way in _variants(scale).values()]
    return plays


_COLUMNS: Final = (
    "mean JCT ÷ clairvoyant SRJF's",
    "not later than VTC",
    "worst ÷ VTC",
    "worst ρ",
)


def _cells(scale: Scale, outcomes: Outcomes, way: Way, estimator: str) -> tuple[Cell, ...]:
    def play(seed: int) -> Play:
        return way.play(scale, estimator, seed)

    against = versus(scale, outcomes, play, lambda seed: _vtc(scale, seed))
    worst = over_seeds(scale, outcomes, play, lambda result: result.summarize().worst_ratio)
    mean = _mean(scale, outcomes, way, estimator)
    return str(mean), against.share_not_later.as_percent, str(against.worst), str(worst)


def _mean(scale: Scale, outcomes: Outcomes, way: Way, estimator: str) -> Spread:
    return quotient(
        scale,
        outcomes,
        lambda seed: way.play(scale, estimator, seed),
        lambda seed: _exact(scale, seed),
        mean_jct_s,
    )


def _shown(estimator: str) -> str:
    error = estimator.removeprefix("error:")
    return f"{100 * float(error):g} %" if error != estimator else "history"


def _tell(scale: Scale, outcomes: Outcomes) -> Section:
    note = (
        f"{num_runs(scale)} runs of nine types at 3×, one A100; {listed_seeds(scale)}. Clairvoyant "
        "SRJF knows all costs. K2 has learned from another draw of the mix, unless it says "
        "otherwise."
    )
    rows = [
        (_shown(estimator), way.name, *_cells(scale, outcomes, way, estimator))
        for estimator in _estimators(scale)
        for way in _ways(estimator)
    ]
    variants = [
        (name, *_cells(scale, outcomes, way, _VARIANTS_ERROR))
        for name, way in _variants(scale).items()
    ]
    return Section(
        paragraphs=tuple(_paragraphs(scale, outcomes)),
        tables=(
            Table(
                title="Wrong estimates, with and without learning inside a run",
                columns=("mean relative error", "estimates", *_COLUMNS),
                rows=tuple(rows),
                note=note,
            ),
            Table(
                title=f"When and how far F moves, at an error of {_shown(_VARIANTS_ERROR)}",
                columns=("rule", *_COLUMNS),
                rows=tuple(variants),
                note=note,
            ),
        ),
        figures=(_figure(scale, outcomes),),
    )


def _paragraphs(scale: Scale, outcomes: Outcomes) -> Iterator[str]:
    yield (
        "Estimates err by a lognormal factor of median 1, whose mean relative error is given; "
        "*history* is the mean of the application's ended runs, those of the warm-up too, and with "
        "K2 open runs learn from ended ones (rule E2). *Fixed F*: the first estimate "
        "holds, as in the paper. *K2*: the fan-out that is to be seen, and what the first "
        "inferences cost, move F while little of the run is served; a run that has got "
        f"{_RULES.patience:g} times what it was taken to cost is raised, by *history* at "
        f"{_RULES.provisional_patience:g} times."
    )
    for estimator in _estimators(scale):
        if estimator not in _WITH_ALL_WAYS:
            continue
        fixed, warm, cold, probe = (
            _mean(scale, outcomes, way, estimator) for way in (FIXED, WARM, COLD, PROBE)
        )
        yield (
            f"{_shown(estimator)}: mean JCT is {fixed} of the clairvoyant's with a fixed F, {warm} "
            f"with K2, {cold} where K2 has learned nothing before; with a probe on top {probe}."
        )


def _figure(scale: Scale, outcomes: Outcomes) -> Figure:
    estimators = [each for each in _estimators(scale) if each != "history"]
    return Figure(
        name="learning-error-sweep",
        title="Mean JCT against the error of the estimates",
        kind="lines",
        x=tuple(float(each.removeprefix("error:")) for each in estimators),
        x_label="mean relative error",
        y_label="mean JCT ÷ clairvoyant SRJF's",
        series=tuple(
            Series(
                label=way.name,
                values=tuple(_mean(scale, outcomes, way, each).median for each in estimators),
            )
            for way in (FIXED, WARM)
        ),
    )


EXPERIMENT: Final = Experiment(
    name="learning-inside-a-run",
    title="Learning inside a run",
    source="",
    about="Errors of 0 to 452 %, with and without rule K2, with a probe, and K2's variants.",
    jobs=_jobs,
    tell=_tell,
)
