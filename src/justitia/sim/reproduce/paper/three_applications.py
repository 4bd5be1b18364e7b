"""Fig. 7: the worked example, in the fluid system and for real."""

from collections.abc import Iterator, Mapping, Sequence
from types import MappingProxyType
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
from justitia.sim.reproduce.telling import number
from justitia.sim.results import RunResult
from justitia.sim.workloads.cases import FIGURE_SEVEN_UNIT_S, three_applications

_PLAY: Final = Play(Case.of(three_applications), "justitia")
#: Times of ``docs/algorithm.md``, which follow from the figure's costs.
_FLUID: Final[Mapping[str, float]] = MappingProxyType({"app-1": 4.0, "app-2": 12.0, "app-3": 11.5})
_TOLERATED: Final = 1.001
_REAL: Final[Mapping[str, float]] = MappingProxyType({"app-1": 2.5, "app-2": 12.0, "app-3": 8.25})


def _jobs(scale: Scale) -> Sequence[Play]:  # noqa: ARG001 - always the same one
    return [_PLAY]


def _tell(scale: Scale, outcomes: Outcomes) -> Section:  # noqa: ARG001 - nothing is drawn
    runs: dict[str, RunResult] = {run.run_id: run for run in outcomes[_PLAY].runs}
    return Section(
        paragraphs=tuple(_paragraphs(runs)), tables=(_table(runs),), figures=(_figure(runs),)
    )


def _real(run: RunResult) -> float:
    """When it ends, in the figure's unit of time."""
    return run.finished_at_s / FIGURE_SEVEN_UNIT_S


def _fluid(run: RunResult) -> float:
    return (run.arrival_s + run.reference_jct_s) / FIGURE_SEVEN_UNIT_S


def _table(runs: Mapping[str, RunResult]) -> Table:
    return Table(
        title="When the three applications end, in the figure's unit of time",
        columns=("application", "fluid, here", "fluid, by hand", "real, here", "real, by hand"),
        rows=tuple(
            (name, number(_fluid(run)), _FLUID[name], number(_real(run)), _REAL[name])
            for name, run in runs.items()
        ),
        note=(
            "By hand: docs/algorithm.md. Here, prefill takes time too, a step is longer the more "
            "tokens are held, and costs are rounded to whole tokens."
        ),
    )


def _figure(runs: Mapping[str, RunResult]) -> Figure:
    return Figure(
        name="three-applications",
        title="The worked example",
        kind="bars",
        x=tuple(runs),
        series=(
            Series(label="fluid", values=tuple(_fluid(run) for run in runs.values())),
            Series(label="real", values=tuple(_real(run) for run in runs.values())),
            Series(
                label="by hand, fluid", values=tuple(_FLUID[name] for name in runs), is_paper=True
            ),
        ),
        y_label="end",
    )


def _paragraphs(runs: Mapping[str, RunResult]) -> Iterator[str]:
    fluid = sorted(runs, key=lambda name: _fluid(runs[name]))
    real = sorted(runs, key=lambda name: _real(runs[name]))
    is_same = tuple(fluid) == paper.SEVEN_FLUID_ORDER
    yield (
        f"In the fluid system they end in the order {', '.join(fluid)}, "
        f"{'as' if is_same else '**not** as'} in the paper; really in the order {', '.join(real)}. "
        f"App-2 begins at {number(_begins(runs['app-2']))}, before app-3 is there (at "
        f"{number(runs['app-3'].arrival_s / FIGURE_SEVEN_UNIT_S)}), and ends after it."
    )
    late = [name for name, run in runs.items() if run.jct_s > run.reference_jct_s * _TOLERATED]
    yield (
        f"Later than in the fluid system: {', '.join(late) or 'nobody'}. The engine computes two "
        "inferences at a time and preempts nobody for the order's sake: when app-3 arrives, two of "
        "app-2's are under way. By hand the work is divided at will and only one is, so that app-3 "
        "ends earlier there."
    )


def _begins(run: RunResult) -> float:
    return (run.arrival_s + run.queue_wait_s) / FIGURE_SEVEN_UNIT_S


EXPERIMENT: Final = Experiment(
    name="three-applications",
    title="The worked example",
    source="Fig. 7",
    about="Three applications, in the fluid system and as they are really served.",
    jobs=_jobs,
    tell=_tell,
)
