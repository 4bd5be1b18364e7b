"""Fig. 3: two equal runs of document merging, at once and one after the other."""

from collections.abc import Callable, Iterator, Sequence
from typing import Final

from justitia.sim.reproduce import paper_numbers as paper
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
from justitia.sim.workloads.cases import two_document_mergers
from justitia.sim.workloads.tables import PAPER_ENGINE

_SHARED: Final = "vtc"
_IN_TURN: Final = "justitia"
_POLICIES: Final = (_SHARED, "fcfs", _IN_TURN)
_TOLERANCE: Final = 1e-3


def _play(seed: int, policy: str) -> Play:
    return Play(Case.of(two_document_mergers, seed=seed), policy)


def _jobs(scale: Scale) -> Sequence[Play]:
    return [_play(seed, policy) for policy in _POLICIES for seed in scale.seeds]


def _tell(scale: Scale, outcomes: Outcomes) -> Section:
    told = _Told(scale, outcomes)
    return Section(
        paragraphs=tuple(_paragraphs(told)), tables=(_table(told),), figures=(_figure(told),)
    )


class _Told:
    """The plays' numbers, over the seeds."""

    def __init__(self, scale: Scale, outcomes: Outcomes) -> None:
        self.note = f"One A100; exact estimates; {listed_seeds(scale)}."
        self._scale = scale
        self._outcomes = outcomes

    def over_seeds(self, policy: str, measure: Callable[[PlayResult], float]) -> Spread:
        return over_seeds(self._scale, self._outcomes, lambda seed: _play(seed, policy), measure)

    def over_shared(self, measure: Callable[[PlayResult], float]) -> Spread:
        """What it is in turn over what it is shared."""
        return quotient(
            self._scale,
            self._outcomes,
            lambda seed: _play(seed, _IN_TURN),
            lambda seed: _play(seed, _SHARED),
            measure,
        )


def _first_s(played: PlayResult) -> float:
    return min(run.jct_s for run in played.runs)


def _last_s(played: PlayResult) -> float:
    return max(run.jct_s for run in played.runs)


def _filled(played: PlayResult) -> float:
    """Share of the cache that was held, over the steps."""
    return played.useful_kvtt / (played.engines[0].steps * PAPER_ENGINE.kv_capacity_tokens)


def _table(told: _Told) -> Table:
    papers = {_SHARED: paper.MERGERS_SHARED_S, _IN_TURN: paper.MERGERS_IN_TURN_S}
    rows = tuple(
        (
            policy,
            str(told.over_seeds(policy, _first_s)),
            str(told.over_seeds(policy, _last_s)),
            str(told.over_seeds(policy, mean_jct_s)),
            str(papers[policy]) if policy in papers else None,
            told.over_seeds(policy, _filled).as_percent,
        )
        for policy in _POLICIES
    )
    return Table(
        title="Two runs of document merging that arrive together",
        columns=(
            "policy",
            "first to end, s",
            "other, s",
            "mean JCT, s",
            "paper's mean, s",
            "cache held",
        ),
        rows=rows,
        note=told.note,
    )


def _figure(told: _Told) -> Figure:
    shown = (_SHARED, _IN_TURN)
    return Figure(
        name="two-mergers",
        title="Two runs of document merging, shared and in turn",
        kind="bars",
        x=("shared (vtc)", "in turn (justitia)"),
        series=(
            Series(
                label="first to end",
                values=tuple(told.over_seeds(policy, _first_s).median for policy in shown),
            ),
            Series(
                label="other",
                values=tuple(told.over_seeds(policy, _last_s).median for policy in shown),
            ),
            Series(
                label="mean",
                values=tuple(told.over_seeds(policy, mean_jct_s).median for policy in shown),
            ),
            Series(
                label="paper's mean",
                values=(paper.MERGERS_SHARED_S.value, paper.MERGERS_IN_TURN_S.value),
                is_paper=True,
            ),
        ),
        y_label="JCT, s",
    )


def _paragraphs(told: _Told) -> Iterator[str]:
    mean = told.over_shared(mean_jct_s).median
    papers = paper.MERGERS_IN_TURN_S.value / paper.MERGERS_SHARED_S.value
    yield (
        f"One after the other, the mean JCT is {percent(1 - mean)} below that of sharing (paper: "
        f"{percent(1 - papers)})."
    )
    last = told.over_shared(_last_s).median
    if last > 1 + _TOLERANCE:
        in_turn, shared = (
            told.over_seeds(policy, _filled).median for policy in (_IN_TURN, _SHARED)
        )
        yield (
            "Not reproduced: in the paper nobody is later; here the second run takes "
            f"{number(last)} times as long as when shared. A merger ends with a single inference, "
            "during which little of the cache is held; shared, the two ends overlap. In turn "
            f"{percent(in_turn)} of the cache is held over the steps, shared {percent(shared)}. A "
            "run of more inferences loses less at its end. How many the paper's runs have, and how "
            "long they are, is not known."
        )
    steps = told.over_seeds(_IN_TURN, lambda played: float(played.engines[0].steps)).median
    total_s = told.over_seeds(_IN_TURN, lambda played: played.duration_s).median
    yield (
        f"The two together take {number(steps)} steps (the paper's axis ends a little above 4,000) "
        f"of {number(1000 * total_s / steps)} ms. For the paper's seconds, steps would have to be "
        f"{number(paper.MERGERS_SHARED_S.value / total_s)} times as long; only quotients compare."
    )


EXPERIMENT: Final = Experiment(
    name="two-mergers",
    title="Two document mergers",
    source="Fig. 3",
    about="What is won by serving one after the other.",
    jobs=_jobs,
    tell=_tell,
)
