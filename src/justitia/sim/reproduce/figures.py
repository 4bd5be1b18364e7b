"""Figures of experiments, drawn by matplotlib. What the paper shows is grey, dashed or hatched."""

from collections.abc import Iterator, Mapping, Sequence
from itertools import cycle
from pathlib import Path
from types import MappingProxyType
from typing import Any, Final

import matplotlib as mpl
from matplotlib.axes import Axes
from matplotlib.axis import Axis
from matplotlib.figure import Figure as Drawing
from matplotlib.ticker import NullFormatter

from justitia.plots import POLICY_COLOURS, STYLE, cumulative, svg_of
from justitia.sim.reproduce.experiment import Figure, Series

_Style = Mapping[str, Any]
_WIDTH_IN: Final = 7.0
_HEIGHT_IN: Final = 3.6
_PNG_DPI: Final = 144
_MAX_TICKS: Final = 12
_LONG_LABELS: Final = 60
#: For what is not named after a policy: no policy has them; the later ones are Paul Tol's "muted".
_OTHER_COLOURS: Final = (
    "#56B4E9",
    "#332288",
    "#DDCC77",
    "#882255",
    "#999933",
    "#AA4499",
    "#000000",
)
_DASHES: Final = ("-", "--", "-.", ":")
_MARKERS: Final = "osD^vXP*"
_HATCHES: Final = ("", "..", "xx", "++")
_PAPER_GREYS: Final = ("#555555", "#888888", "#aaaaaa", "#333333")
_PAPER_HATCHES: Final = ("////", "\\\\\\\\", "||||", "----")


def check_figure(figure: Figure) -> None:
    """Refuse a figure that cannot be drawn.

    Raises:
        ValueError: its kind is unknown, or a series does not fit ``x``.
    """
    if figure.kind not in _DRAW:
        raise ValueError(f"figure {figure.name!r}: its kind {figure.kind!r} is none of {[*_DRAW]}")
    if figure.kind == "cdf":
        return
    for series in figure.series:
        if len(series.values) != len(figure.x):
            raise ValueError(
                f"figure {figure.name!r}: {series.label!r} has {len(series.values)} values for"
                f" {len(figure.x)} places"
            )


def svg_text(figure: Figure) -> str:
    """Draw a figure as an SVG element, without its title."""
    with mpl.rc_context(STYLE):
        return svg_of(_draw(figure))


def write_png(figure: Figure, path: Path) -> None:
    """Draw a figure into a file, with its title."""
    with mpl.rc_context(STYLE):
        drawing = _draw(figure)
        drawing.suptitle(figure.title, x=0.01, ha="left", fontsize=11)
        drawing.savefig(path, format="png", dpi=_PNG_DPI, metadata={"Software": None})


def _draw(figure: Figure) -> Drawing:
    check_figure(figure)
    drawing = Drawing(figsize=(_WIDTH_IN, _HEIGHT_IN), layout="constrained")
    axes = drawing.subplots()
    _DRAW[figure.kind](axes, figure)
    axes.set(xlabel=figure.x_label, ylabel=figure.y_label)
    if figure.is_log_x:
        axes.set_xscale("log")
        _label_log(axes.xaxis)
    if figure.is_log_y:
        axes.set_yscale("log")
        _label_log(axes.yaxis)
    if len(figure.series) > 1 or any(series.is_paper for series in figure.series):
        drawing.legend(loc="outside right upper", frameon=False)
    return drawing


def _label_log(axis: Axis) -> None:
    """Write 0.1 instead of a power of ten; within one decade the steps between have labels too."""
    least, most = axis.get_view_interval()
    axis.set_major_formatter("{x:g}")
    axis.set_minor_formatter("{x:g}" if most < 10 * least else NullFormatter())


def _lines(axes: Axes, figure: Figure) -> None:
    names = [str(x) for x in figure.x]
    is_named = any(isinstance(x, str) for x in figure.x)
    places: Sequence[Any] = range(len(names)) if is_named else figure.x
    marker_size = 5 if len(names) <= _MAX_TICKS else 0
    for series, style in _styled(figure.series):
        drawn = {k: v for k, v in style.items() if k != "hatch"}
        axes.plot(places, series.values, label=series.label, markersize=marker_size, **drawn)
    if is_named:
        axes.set_xticks(places, names)
    if not figure.is_log_y and all(v >= 0 for s in figure.series for v in s.values):
        axes.set_ylim(bottom=0)


def _bars(axes: Axes, figure: Figure) -> None:
    width = 0.84 / max(1, len(figure.series))
    middle = (len(figure.series) - 1) / 2
    for place, (series, style) in enumerate(_styled(figure.series)):
        at = [n + (place - middle) * width for n in range(len(figure.x))]
        look: dict[str, Any] = {"color": style["color"]}
        if len(figure.series) == 1:
            look = {"color": [POLICY_COLOURS.get(str(x), style["color"]) for x in figure.x]}
        elif series.is_paper:
            look = {"facecolor": "white", "edgecolor": style["color"]}
        elif style["hatch"]:
            look = {"facecolor": style["color"], "edgecolor": "white"}
        axes.bar(at, series.values, width, label=series.label, hatch=style["hatch"], **look)
    names = [str(x) for x in figure.x]
    is_long = sum(map(len, names)) > _LONG_LABELS
    turn: dict[str, Any] = {"rotation": 30, "ha": "right"} if is_long else {}
    axes.set_xticks(range(len(names)), names, **turn)
    axes.grid(visible=False, axis="x")


def _cdf(axes: Axes, figure: Figure) -> None:
    for series, style in _styled(figure.series):
        drawn = {k: v for k, v in style.items() if k not in {"hatch", "marker"}}
        if series.values:
            cumulative(axes, series.values, label=series.label, **drawn)
    axes.set_ylim(0, 1.02)


_DRAW: Final = MappingProxyType({"lines": _lines, "bars": _bars, "cdf": _cdf})


def _styled(all_series: Sequence[Series]) -> Iterator[tuple[Series, _Style]]:
    """Give each series its look: a policy's own colour, dashes where two have the same one."""
    others = cycle(_OTHER_COLOURS)
    num_by_colour: dict[str, int] = {}
    num_paper = 0
    for place, series in enumerate(all_series):
        marker = _MARKERS[place % len(_MARKERS)]
        if series.is_paper:
            turn, num_paper = num_paper, num_paper + 1
            yield series, _paper_style(turn, marker)
            continue
        colour = _policy_colour(series) or next(others)
        turn = num_by_colour[colour] = num_by_colour.get(colour, -1) + 1
        yield (
            series,
            {
                "color": colour,
                "linestyle": _DASHES[turn % len(_DASHES)],
                "linewidth": 2,
                "marker": marker,
                "hatch": _HATCHES[turn % len(_HATCHES)],
            },
        )


def _paper_style(turn: int, marker: str) -> _Style:
    return {
        "color": _PAPER_GREYS[turn % len(_PAPER_GREYS)],
        "linestyle": _DASHES[1 + turn % (len(_DASHES) - 1)],
        "linewidth": 1.4,
        "marker": marker,
        "hatch": _PAPER_HATCHES[turn % len(_PAPER_HATCHES)],
    }


def _policy_colour(series: Series) -> str | None:
    """Find the colour of the policy that a label begins with, as in ``justitia, exact costs``."""
    words = series.label.lower().replace(",", " ").split()
    return POLICY_COLOURS.get(words[0]) if words else None
