"""What all our plots share: colours, style, and figures as SVG text."""

import io
from collections.abc import Sequence
from typing import Any, Final

from matplotlib.axes import Axes
from matplotlib.figure import Figure

#: One colour for each policy, told apart also without red and green (Okabe and Ito 2008).
POLICY_COLOURS: Final = {
    "fcfs": "#999999",
    "sjf": "#E69F00",
    "parrot": "#CC79A7",
    "vtc": "#0072B2",
    "srjf": "#D55E00",
    "justitia": "#009E73",
}
STYLE: Final = {
    "font.size": 10,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.grid": True,
    "axes.axisbelow": True,
    "grid.color": "#e5e5e5",
    "svg.fonttype": "none",
    "svg.hashsalt": "justitia",
}


def cumulative(axes: Axes, values: Sequence[float], **style: Any) -> None:
    """Draw the share of values that are at most as large as each of them."""
    shares = [(n + 1) / len(values) for n in range(len(values))]
    axes.step(sorted(values), shares, where="post", **style)


def svg_of(figure: Figure) -> str:
    """Return a figure as an SVG element, the same for the same figure."""
    text = io.StringIO()
    figure.savefig(text, format="svg", metadata={"Date": None})
    svg = text.getvalue()
    return svg[svg.index("<svg") :]
