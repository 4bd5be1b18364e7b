"""Writes a report: the pages, every figure as PNG and every table as CSV."""

import csv
import re
import shutil
from pathlib import Path
from typing import Final

from justitia.sim.reproduce.chapters import Chapter, Report
from justitia.sim.reproduce.experiment import Section, Table
from justitia.sim.reproduce.figures import check_figure, write_png
from justitia.sim.reproduce.html_page import html_page
from justitia.sim.reproduce.markdown_page import markdown_page
from justitia.sim.reproduce.shown import check_table

HTML_NAME: Final = "evaluation.html"
MARKDOWN_NAME: Final = "evaluation.md"
_FIGURES: Final = "figures"
_TABLES: Final = "tables"
_FILE_NAME: Final = re.compile(r"[\w-]+")


def check_section(section: Section) -> None:
    """Refuse a section that cannot be shown.

    Raises:
        ValueError: a table or figure is not in order.
    """
    for table in section.tables:
        check_table(table)
    for figure in section.figures:
        check_figure(figure)
    names = [figure.name for figure in section.figures]
    for name in names:
        if names.count(name) > 1 or not _FILE_NAME.fullmatch(name):
            raise ValueError(f"figure {name!r}: its name is no file name, or another one's too")


def write_report(report: Report, folder: Path, *, markdown: Path | None = None) -> None:
    """Write all files; figures and tables of an earlier report go. ``markdown``: one more copy.

    Raises:
        OSError: something cannot be written.
    """
    for name in (_FIGURES, _TABLES):
        shutil.rmtree(folder / name, ignore_errors=True)
        (folder / name).mkdir(parents=True)
    for chapter in report.chapters:
        _write_parts(chapter, folder)
    page = markdown_page(report)
    (folder / HTML_NAME).write_text(html_page(report), encoding="utf-8")
    (folder / MARKDOWN_NAME).write_text(page, encoding="utf-8")
    if markdown is not None:
        markdown.parent.mkdir(parents=True, exist_ok=True)
        markdown.write_text(page, encoding="utf-8")


def _write_parts(chapter: Chapter, folder: Path) -> None:
    name = chapter.experiment.name
    for figure in chapter.section.figures:
        # Some begin with the experiment's name themselves.
        place = f"{name}-{figure.name.removeprefix(name).lstrip('-')}".rstrip("-")
        write_png(figure, folder / _FIGURES / f"{place}.png")
    for number, table in enumerate(chapter.section.tables, start=1):
        _write_csv(table, folder / _TABLES / f"{name}-{number}.csv")


def _write_csv(table: Table, path: Path) -> None:
    with path.open("w", encoding="utf-8", newline="") as file:
        writer = csv.writer(file, lineterminator="\n")
        writer.writerow(table.columns)
        writer.writerows(table.rows)
