"""The report as Markdown: text and tables. The figures are in the HTML page and beside it."""

from collections.abc import Iterator

from justitia.sim.reproduce.chapters import Chapter, Report
from justitia.sim.reproduce.experiment import Table
from justitia.sim.reproduce.shown import cell_text, numeric_columns


def markdown_page(report: Report) -> str:
    """Make the page."""
    return "\n\n".join(_blocks(report)) + "\n"


def _blocks(report: Report) -> Iterator[str]:
    seeds = ", ".join(map(str, report.scale.seeds))
    quick = "; quick: fewer runs and fewer points" if report.scale.is_quick else ""
    yield "# Evaluation"
    yield (
        f"Made by `{report.command}` (version {report.version}, seeds {seeds}{quick}); not edited"
        " by hand. Misses stand here too. The figures are in the HTML page that the same command"
        " writes. Every number is the same on any machine, but for what is said to be timed."
    )
    for title, chapters in report.parts:
        yield f"## {title}"
        for chapter in chapters:
            yield from _chapter(report, chapter)


def _chapter(report: Report, chapter: Chapter) -> Iterator[str]:
    experiment = chapter.experiment
    source = f"Paper: {experiment.source}. " if experiment.source else ""
    yield f"### {experiment.title}"
    yield f"{source}`{report.command_of(chapter)}`"
    if chapter.error:
        yield f"**This experiment failed:** {chapter.error}"
    if experiment.about:
        yield experiment.about
    yield from chapter.section.paragraphs
    for table in chapter.section.tables:
        yield f"**{table.title}**"
        yield _table(table)
        if table.note:
            yield table.note


def _table(table: Table) -> str:
    rules = ["---:" if is_numeric else "---" for is_numeric in numeric_columns(table)]
    rows = [table.columns, *([cell_text(cell) for cell in row] for row in table.rows)]
    lines = ["| " + " | ".join(_escaped(text) for text in row) + " |" for row in rows]
    return "\n".join([lines[0], "|" + "|".join(rules) + "|", *lines[1:]])


def _escaped(text: str) -> str:
    return text.replace("|", "\\|").replace("\n", " ")
