"""The report as one HTML page that needs nothing else."""

from typing import Final

from jinja2 import Environment, PackageLoader, select_autoescape
from markdown_it import MarkdownIt
from markupsafe import Markup

from justitia.sim.reproduce.chapters import Chapter, Report
from justitia.sim.reproduce.experiment import Figure
from justitia.sim.reproduce.figures import svg_text
from justitia.sim.reproduce.shown import cell_text, numeric_columns

_MARKDOWN: Final = MarkdownIt("commonmark", {"html": False}).enable("table")


def html_page(report: Report) -> str:
    """Make the page."""
    environment = Environment(
        loader=PackageLoader("justitia.sim.reproduce"),
        autoescape=select_autoescape(["html.j2"]),
        trim_blocks=True,
    )

    def own_command(chapter: Chapter) -> str:
        return report.command_of(chapter)

    environment.filters |= {
        "cell": cell_text,
        "column_class": _column_class,
        "markdown": _markdown,
        "numeric_columns": numeric_columns,
        "own_command": own_command,
        "svg": _svg,
    }
    return environment.get_template("evaluation.html.j2").render(report=report)


def _column_class(name: str, is_numeric: bool) -> str:
    classes = ["number"] if is_numeric else []
    return " ".join([*classes, "paper"] if "paper" in name.lower() else classes)


def _markdown(text: str) -> Markup:
    return Markup(_MARKDOWN.render(text))  # noqa: S704 - HTML in the text is shown as text


def _svg(figure: Figure) -> Markup:
    return Markup(svg_text(figure))  # noqa: S704 - matplotlib escapes
