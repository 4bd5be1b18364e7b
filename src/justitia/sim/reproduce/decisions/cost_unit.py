"""In which unit runs are charged: KV token-steps, the paper's formula, seconds, shares, tokens."""

from collections.abc import Iterator, Sequence
from functools import partial
from typing import Final

from justitia.sim.loop import PlaySettings
from justitia.sim.reproduce.cases import PAPER_ERROR, mix, num_runs
from justitia.sim.reproduce.decisions.bounds import bound_scenario
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
from justitia.sim.reproduce.telling import Spread, listed_seeds, quotient, versus
from justitia.sim.reproduce.telling import mean_jct_s as mean_s

UNITS: Final = ("exact", "paper", "seconds", "dominant", "tokens")
_SHOWN: Final = {
    "exact": "kvtt (rule C1)",
    "paper": "paper's p d + d²/2",
    "seconds": "KV token-seconds",
    "dominant": "dominant share",
    "tokens": "p + 2d",
    "raw:tokens": "p + 2d, not scaled",
}
_BOUNDS: Final = {
    "kv": "the KV cache binds (mix at 3x)",
    "places": "6 sequences at a time",
    "budget": "48 tokens a step",
}


def _case(scale: Scale, seed: int, bound: str) -> Case:
    if bound == "kv":
        return mix(seed, "3x", num_runs=num_runs(scale))
    return Case.of(
        bound_scenario, bound=bound, seed=seed, num_runs=num_runs(scale), has_weights=False
    )


def _play(seed: int, *, scale: Scale, bound: str, estimator: str) -> Play:
    return Play(_case(scale, seed, bound), "justitia", PlaySettings(estimator=estimator))


def _vtc(seed: int, *, scale: Scale, bound: str) -> Play:
    return Play(_case(scale, seed, bound), "vtc")


def _rows(scale: Scale) -> Iterator[tuple[str, str, str]]:
    """What is played: what binds, the unit, and the error on top."""
    for bound in ("kv", "budget") if scale.is_quick else _BOUNDS:
        for unit in UNITS:
            yield bound, unit, ""
        if bound == "kv":
            yield bound, "raw:tokens", ""
            for unit in UNITS:
                yield bound, unit, PAPER_ERROR


def _named(unit: str, error: str) -> str:
    if not error:
        return unit
    return error if unit == "exact" else f"{unit}+{error}"


def _jobs(scale: Scale) -> Sequence[Play]:
    plays = [
        make(seed)
        for bound, unit, error in _rows(scale)
        for seed in scale.seeds
        for make in (
            partial(_vtc, scale=scale, bound=bound),
            partial(_play, scale=scale, bound=bound, estimator=_named(unit, error)),
        )
    ]
    return list(dict.fromkeys(plays))


def _over_exact(scale: Scale, outcomes: Outcomes, bound: str, unit: str, error: str = "") -> Spread:
    of = partial(_play, scale=scale, bound=bound)
    return quotient(
        scale,
        outcomes,
        partial(of, estimator=_named(unit, error)),
        partial(of, estimator=_named("exact", error)),
        mean_s,
    )


def _tell(scale: Scale, outcomes: Outcomes) -> Section:
    rows = tuple(_row(scale, outcomes, *each) for each in _rows(scale))
    return Section(
        paragraphs=tuple(_paragraphs(scale, outcomes)),
        tables=(
            Table(
                title="Justitia with costs in several units",
                columns=(
                    "what binds",
                    "unit",
                    "error, %",
                    "mean JCT ÷ that in kvtt",
                    "mean JCT ÷ VTC's",
                    "not later than VTC",
                    "worst ÷ VTC",
                    "ρ P99",
                ),
                rows=rows,
                note=f"{listed_seeds(scale)}. ρ has one reference for all units, that of the play "
                "with exact costs in kvtt (rule R1): fairness is in KV token-time whatever the "
                "order was made from.",
            ),
        ),
    )


def _row(scale: Scale, outcomes: Outcomes, bound: str, unit: str, error: str) -> tuple[Cell, ...]:
    play = partial(_play, scale=scale, bound=bound, estimator=_named(unit, error))
    exact = partial(_play, scale=scale, bound=bound, estimator="exact")
    against = versus(scale, outcomes, play, partial(_vtc, scale=scale, bound=bound))
    late = Spread.of(late_ratio(outcomes[play(s)], outcomes[exact(s)]) for s in scale.seeds)
    return (
        _BOUNDS[bound],
        _SHOWN[unit],
        round(100 * float(error.removeprefix("error:"))) if error else 0,
        str(_over_exact(scale, outcomes, bound, unit, error)),
        *against.cells(),
        str(late),
    )


def _paragraphs(scale: Scale, outcomes: Outcomes) -> Iterator[str]:
    yield (
        "The same true lengths, charged in different units. Each is scaled so that all runs of a "
        "scenario together cost what they cost in kvtt: V counts kvtt, and without that the "
        "comparison would be one of scales (the last unit shows it)."
    )
    units = [unit for unit in UNITS if unit != "exact"]
    for bound in ("kv", "budget") if scale.is_quick else _BOUNDS:
        over = {unit: _over_exact(scale, outcomes, bound, unit) for unit in units}
        told = ", ".join(f"{_SHOWN[unit]} {over[unit]}" for unit in units)
        yield f"Mean JCT against kvtt where {_WHERE[bound]}: {told}."
    tokens = _over_exact(scale, outcomes, "kv", "tokens", PAPER_ERROR)
    raw = _over_exact(scale, outcomes, "kv", "raw:tokens")
    yield (
        f"With estimates that err by 53 % p + 2d has {tokens} of the mean JCT in kvtt with the "
        f"same errors. Unscaled p + 2d has {raw}: it is about the order of arrival."
    )


_WHERE: Final = {
    "kv": "the KV cache binds",
    "places": "6 sequences at a time bind",
    "budget": "48 tokens a step bind",
}

EXPERIMENT: Final = Experiment(
    name="cost-unit",
    title="The unit of cost: kvtt, or another",
    source="",
    about="Rule C1 against other formulas of the same lengths, scaled to the same total.",
    jobs=_jobs,
    tell=_tell,
)
