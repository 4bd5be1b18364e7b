"""The table at the end of a comparison, on the terminal and as an HTML page."""

import math
from collections.abc import Sequence
from pathlib import Path
from typing import Final

from jinja2 import Environment, PackageLoader, select_autoescape
from rich.table import Table

from justitia.local import plots
from justitia.local.results import REFERENCE_POLICY, PolicyOutcome, Summary, summarize_all

COLUMNS: Final = (
    "policy",
    "runs",
    "mean JCT, s",
    "P90 JCT, s",
    "ρ p50",
    "ρ p99",
    "ρ worst",
    "ρ known",
    "not later than VTC",
    "worst / VTC",
    "preemptions",
    "wasted",
)


#: Left to the page: a terminal of 80 columns has no room for them.
_PAGE_ONLY: Final = frozenset({"runs", "ρ known", "worst / VTC", "wasted"})


def table_rows(summaries: Sequence[Summary]) -> list[tuple[str, ...]]:
    """Format one row for each policy, in the order of ``COLUMNS``."""
    return [
        (
            s.policy,
            f"{s.num_runs - s.num_failed}" + (f" ({s.num_failed} failed)" if s.num_failed else ""),
            _number(s.jct_mean_s, ".1f"),
            _number(s.jct_p90_s, ".1f"),
            _number(s.ratio_p50, ".2f"),
            _number(s.ratio_p99, ".2f"),
            _number(s.ratio_worst, ".2f"),
            _known(s),
            _number(s.share_not_later_than_vtc, ".0%"),
            _number(s.worst_over_vtc, ".2f"),
            f"{s.preemptions}",
            f"{s.wasted_share:.1%}",
        )
        for s in summaries
    ]


def _known(summary: Summary) -> str:
    return f"{summary.num_ratios} of {summary.num_runs - summary.num_failed}"


def _number(value: float, form: str) -> str:
    return "–" if math.isnan(value) else format(value, form)


def terminal_table(summaries: Sequence[Summary]) -> Table:
    """Make the table for a terminal."""
    known = ", ".join(f"{s.policy} {_known(s)}" for s in summaries)
    table = Table(
        title="The same runs under each policy", caption=f"runs whose ρ is known: {known}"
    )
    shown = [n for n, name in enumerate(COLUMNS) if name not in _PAGE_ONLY]
    for n in shown:
        table.add_column(COLUMNS[n], justify="left" if n == 0 else "right")
    for row in table_rows(summaries):
        style = "bold green" if row[0] == "justitia" else None
        table.add_row(*(row[n] for n in shown), style=style)
    return table


def headline(summaries: Sequence[Summary]) -> str:
    """Say in one sentence how Justitia's mean JCT compares."""
    by_policy = {s.policy: s for s in summaries}
    ours = by_policy.get("justitia")
    if ours is None:
        return "Justitia was not among the policies."
    parts = [
        f"{ours.jct_mean_s / other.jct_mean_s - 1:+.0%} against {name.upper()}"
        for name, other in by_policy.items()
        if name != "justitia" and other.jct_mean_s > 0
    ]
    return f"Mean job completion time under Justitia: {', '.join(parts)}." if parts else ""


def write_report(
    path: Path, outcomes: Sequence[PolicyOutcome], *, title: str, conditions: str
) -> None:
    """Write the comparison as one self-contained HTML page."""
    summaries = summarize_all(outcomes)
    environment = Environment(
        loader=PackageLoader("justitia.local"), autoescape=select_autoescape(["html.j2"])
    )
    page = environment.get_template("comparison.html.j2").render(
        title=title,
        conditions=conditions,
        headline=headline(summaries),
        columns=COLUMNS,
        rows=table_rows(summaries),
        plots=_plots(outcomes),
    )
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(page, encoding="utf-8")


def _plots(outcomes: Sequence[PolicyOutcome]) -> list[tuple[str, str, str]]:
    reference = next((o for o in outcomes if o.policy == REFERENCE_POLICY), None)
    made = [
        (
            "When runs were done",
            "Further left is sooner.",
            plots.completion_plot(outcomes),
        ),
        ("By application", "Mean over the application's runs.", plots.application_plot(outcomes)),
        (
            "Every run",
            "The user of a run waits for the length of its bar.",
            plots.timeline_plot(outcomes),
        ),
    ]
    if reference is not None and len(outcomes) > 1:
        text = "Each run against itself under VTC. What lies right of the dashed line ended later."
        made.insert(1, ("Who was harmed", text, plots.ratio_plot(outcomes, reference)))
    return made
