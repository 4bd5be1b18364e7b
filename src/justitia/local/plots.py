"""Plots of a comparison, as SVG text for the report."""

from collections.abc import Sequence

import matplotlib as mpl
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from justitia.local.results import PolicyOutcome, ratios_over
from justitia.plots import POLICY_COLOURS, STYLE, cumulative, svg_of


def completion_plot(outcomes: Sequence[PolicyOutcome]) -> str:
    """Share of runs that were done within a time."""
    with mpl.rc_context(STYLE):
        figure = Figure(figsize=(7, 3.4), layout="constrained")
        axes = figure.subplots()
        for outcome in outcomes:
            _cumulative(axes, list(outcome.jct_s_by_run.values()), outcome.policy)
        axes.set(xlabel="job completion time, s", ylabel="share of runs", xlim=0, ylim=(0, 1.02))
        axes.legend(frameon=False, loc="lower right")
        return svg_of(figure)


def ratio_plot(outcomes: Sequence[PolicyOutcome], reference: PolicyOutcome) -> str:
    """Share of runs whose JCT over their JCT under the reference is at most a ratio."""
    with mpl.rc_context(STYLE):
        figure = Figure(figsize=(7, 3.4), layout="constrained")
        axes = figure.subplots()
        for outcome in outcomes:
            if outcome is not reference:
                ratios = list(ratios_over(outcome, reference).values())
                _cumulative(axes, ratios, outcome.policy)
        axes.axvline(1, color="#444444", linewidth=1, linestyle="--")
        axes.set(
            xlabel=f"JCT / JCT under {reference.policy} (left of 1: sooner)",
            ylabel="share of runs",
            ylim=(0, 1.02),
        )
        axes.set_xscale("log")
        axes.minorticks_off()
        axes.set_xticks([0.1, 0.2, 0.5, 1, 2, 5], ["0.1", "0.2", "0.5", "1", "2", "5"])
        axes.legend(frameon=False, loc="lower right")
        return svg_of(figure)


def application_plot(outcomes: Sequence[PolicyOutcome]) -> str:
    """Mean JCT of each application under each policy."""
    names = sorted({r.application for outcome in outcomes for r in outcome.records})
    with mpl.rc_context(STYLE):
        figure = Figure(figsize=(7, 0.42 * len(names) + 1.2), layout="constrained")
        axes = figure.subplots()
        height = 0.8 / max(1, len(outcomes))
        for place, outcome in enumerate(outcomes):
            means = [_mean_jct_s(outcome, name) for name in names]
            offsets = [n + (place - (len(outcomes) - 1) / 2) * height for n in range(len(names))]
            axes.barh(offsets, means, height, label=outcome.policy, color=_colour(outcome.policy))
        axes.set_yticks(range(len(names)), names)
        axes.invert_yaxis()
        axes.set_xlabel("mean job completion time, s")
        axes.legend(frameon=False)
        return svg_of(figure)


def timeline_plot(outcomes: Sequence[PolicyOutcome]) -> str:
    """Every run from arrival to end, one panel for each policy, runs in order of arrival."""
    with mpl.rc_context(STYLE):
        figure = Figure(figsize=(7, 2.3 * len(outcomes)), layout="constrained")
        panels = figure.subplots(len(outcomes), 1, sharex=True, squeeze=False)[:, 0]
        for axes, outcome in zip(panels, outcomes, strict=True):
            records = sorted(outcome.records, key=lambda r: r.arrived_at_s)
            rows = range(len(records))
            arrivals = [r.arrived_at_s for r in records]
            axes.barh(
                rows, [r.jct_s for r in records], 0.8, arrivals, color=_colour(outcome.policy)
            )
            axes.set_title(outcome.policy, loc="left", fontsize=10)
            axes.set_yticks([])
            axes.invert_yaxis()
        panels[-1].set_xlabel("seconds since the start; one bar is one run, from arrival to end")
        return svg_of(figure)


def _mean_jct_s(outcome: PolicyOutcome, application: str) -> float:
    jcts = [s for (name, _), s in outcome.jct_s_by_run.items() if name == application]
    return sum(jcts) / len(jcts) if jcts else 0.0


def _cumulative(axes: Axes, values: Sequence[float], policy: str) -> None:
    cumulative(axes, values, label=policy, color=_colour(policy), linewidth=2)


def _colour(policy: str) -> str:
    return POLICY_COLOURS.get(policy, "#000000")
