"""Preemption: how much of the cache admission should keep free."""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from functools import partial
from typing import Final

from justitia.sim.reproduce.cases import mix_scenario, num_runs
from justitia.sim.reproduce.experiment import (
    Case,
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
    mean_jct_s,
    number,
    over_seeds,
    p90_jct_s,
    percent,
    quotient,
)
from justitia.sim.results import PlayResult
from justitia.sim.scenario import Scenario

_WATERMARKS: Final = (0.0, 0.01, 0.05, 0.1)
_POLICIES: Final = ("justitia", "fcfs")
_MIXES: Final = ("paper", "hermes")


def with_watermark(*, seed: int, mix: str, num_runs: int, watermark: float) -> Scenario:
    """Draw a mix at 3x for an engine that keeps a share of its blocks free."""
    scenario = mix_scenario(seed=seed, load="3x", testbed="a100", mix=mix, num_runs=num_runs)
    engines = tuple(replace(engine, watermark=watermark) for engine in scenario.engines)
    return replace(scenario, engines=engines)


def _play(seed: int, *, scale: Scale, mix: str, policy: str, watermark: float) -> Play:
    runs = num_runs(scale)
    return Play(
        Case.of(with_watermark, seed=seed, mix=mix, num_runs=runs, watermark=watermark), policy
    )


def _mixes(scale: Scale) -> tuple[str, ...]:
    return _MIXES[:1] if scale.is_quick else _MIXES


def _policies(mix: str) -> tuple[str, ...]:
    return _POLICIES if mix == _MIXES[0] else _POLICIES[:1]


def _jobs(scale: Scale) -> Sequence[Play]:
    return [
        _play(seed, scale=scale, mix=mix, policy=policy, watermark=watermark)
        for mix in _mixes(scale)
        for policy in _policies(mix)
        for watermark in _WATERMARKS
        for seed in scale.seeds
    ]


def recomputed_share(result: PlayResult) -> float:
    """Tokens that were computed again after a preemption, over the tokens of all prompts."""
    prompts = sum(engine.prompt_tokens for engine in result.engines)
    return sum(engine.recomputed_tokens for engine in result.engines) / prompts if prompts else 0.0


class _Told:
    def __init__(self, scale: Scale, outcomes: Outcomes) -> None:
        self._scale = scale
        self._outcomes = outcomes

    def _spread(
        self, measure: Callable[[PlayResult], float], mix: str, policy: str, watermark: float
    ) -> Spread:
        play = partial(_play, scale=self._scale, mix=mix, policy=policy, watermark=watermark)
        return over_seeds(self._scale, self._outcomes, play, measure)

    def over_none(self, mix: str, policy: str, watermark: float) -> Spread:
        """Mean JCT over that without a watermark."""
        play, other = (
            partial(_play, scale=self._scale, mix=mix, policy=policy, watermark=each)
            for each in (watermark, _WATERMARKS[0])
        )
        return quotient(self._scale, self._outcomes, play, other, mean_jct_s)

    def table(self, mix: str) -> Table:
        rows = []
        for policy in _policies(mix):
            for watermark in _WATERMARKS:
                at = (mix, policy, watermark)
                rows.append(
                    (
                        policy,
                        f"{watermark:g}",
                        str(self._spread(mean_jct_s, *at)),
                        str(self.over_none(*at)),
                        number(self._spread(p90_jct_s, *at).median),
                        str(self._spread(lambda r: r.summarize().num_preemptions, *at)),
                        percent(self._spread(recomputed_share, *at).median),
                        percent(self._spread(lambda r: r.summarize().wasted_share, *at).median),
                        number(self._spread(lambda r: r.summarize().ratio_p99, *at).median),
                    )
                )
        return Table(
            title=f"Share of the blocks that admission keeps free, mix {mix} at 3x",
            columns=(
                "policy",
                "watermark",
                "mean JCT, s",
                "÷ that without",
                "P90, s",
                "preemptions",
                "computed again",
                "wasted service",
                "ρ P99",
            ),
            rows=tuple(rows),
            note=(
                f"{num_runs(self._scale)} runs, one A100, exact estimates; "
                f"{listed_seeds(self._scale)}. Computed again: tokens, over those of all prompts. "
                "Wasted service (rule C4) is nearly nothing in spite of that: a prompt that fits "
                "into one step is computed again in the very step that goes on with the answer, "
                "which is useful."
            ),
        )

    def best(self, mix: str) -> float:
        """Watermark with the smallest mean JCT under Justitia; of equal ones the smaller."""
        return min(_WATERMARKS, key=lambda each: self.over_none(mix, "justitia", each).median)

    def paragraphs(self) -> Iterator[str]:
        best = {mix: self.best(mix) for mix in _mixes(self._scale)}
        for mix, watermark in best.items():
            yield (
                f"Mix {mix}: the smallest mean JCT under Justitia is at a watermark of "
                f"{watermark:g}, {self.over_none(mix, 'justitia', watermark)} of that without one; "
                f"at {_WATERMARKS[-1]:g} it is "
                f"{self.over_none(mix, 'justitia', _WATERMARKS[-1])} of that."
            )
        yield (
            f"Recommended: a watermark of {min(best.values()):g}. It trades preemptions for cache "
            "that stands empty, which the head of the queue could have used (rule O2)."
        )


def _tell(scale: Scale, outcomes: Outcomes) -> Section:
    told = _Told(scale, outcomes)
    return Section(
        paragraphs=tuple(told.paragraphs()),
        tables=tuple(told.table(mix) for mix in _mixes(scale)),
    )


EXPERIMENT: Final = Experiment(
    name="preemption",
    title="Preemption and the watermark",
    source="",
    about="How much of the cache admission keeps free, against preemptions.",
    jobs=_jobs,
    tell=_tell,
)
