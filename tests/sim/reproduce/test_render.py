"""Sections as pages, pictures and tables."""

import csv
import math
import re

import pytest

from justitia.sim.reproduce.chapters import Chapter, Report
from justitia.sim.reproduce.experiment import Figure, Scale, Section, Series, Table
from justitia.sim.reproduce.figures import check_figure, svg_text, write_png
from justitia.sim.reproduce.files import check_section, write_report
from justitia.sim.reproduce.html_page import html_page
from justitia.sim.reproduce.markdown_page import markdown_page
from justitia.sim.reproduce.shown import cell_text, numeric_columns
from justitia.testing.sim_experiments import experiment

BARS = Figure(
    name="one-means",
    title="Means",
    kind="bars",
    x=("1x", "3x"),
    series=(
        Series(label="vtc", values=(2.0, 3.0)),
        Series(label="Justitia, exact", values=(1.0, 1.5)),
        Series(label="VTC in the paper", values=(2.5, 3.5), is_paper=True),
    ),
    y_label="mean JCT, s",
)
LINES = Figure(
    name="errors",
    title="Errors",
    kind="lines",
    x=(0.1, 1.0, 10.0),
    series=(
        Series(label="with K2", values=(1.0, 1.1, 1.2)),
        Series(label="without", values=(1.0, 1.5, math.nan)),
    ),
    is_log_x=True,
    is_log_y=True,
)
CDF = Figure(
    name="ratios",
    title="Ratios",
    kind="cdf",
    series=(Series(label="srjf", values=(3.0, 1.0, 2.0)), Series(label="none", values=())),
)
TABLE = Table(
    title="Ratios",
    columns=("policy", "load", "ours", "paper's", "range", "runs"),
    rows=(
        ("vtc", "1x", 1 / 3, None, "0.412 (0.398 to 0.431)", 1200),
        ("a | b", "3x", 12345.6, "about 0.7", None, 3),
    ),
    note="Seeds as *above*; <b>.",
)
SECTION = Section(
    paragraphs=("Worst is **1.26** where a < b.", "| a | b |\n|---|---|\n| 1 | 2 |"),
    tables=(TABLE,),
    figures=(BARS, LINES, CDF),
)


@pytest.fixture
def report():
    told = Chapter(experiment("one", title="First", source="Fig. 8", about="What it is."), SECTION)
    failed = Chapter(experiment("two"), Section(), "ValueError: <bad> luck")
    return Report(
        version="1.2", scale=Scale(), names=(), parts=(("Part A", (told,)), ("Part B", (failed,)))
    )


@pytest.mark.parametrize(
    ("cell", "text"),
    [
        (None, "–"),
        (math.nan, "–"),
        (math.inf, "∞"),
        (-math.inf, "−∞"),
        ("1.50", "1.50"),
        (True, "yes"),
        (1234567, "1,234,567"),
        (0.99666, "0.9967"),
        (1.0, "1"),
        (0.0, "0"),
        (1234.5678, "1,235"),
        (-0.00012345, "-1.23e-04"),
    ],
)
def test_a_cell_is_rounded_when_it_is_shown(cell, text):
    assert cell_text(cell) == text


def test_columns_of_numbers_stand_on_the_right():
    assert numeric_columns(TABLE) == [False, False, True, True, True, True]


def test_markdown_has_text_and_tables(report):
    page = markdown_page(report)
    assert page.startswith("# Evaluation\n\nMade by `justitia sim reproduce` (version 1.2, seeds 1")
    assert "### First\n\nPaper: Fig. 8. `justitia sim reproduce --only one`\n\nWhat it is." in page
    assert (
        "**Ratios**\n\n"
        "| policy | load | ours | paper's | range | runs |\n"
        "|---|---|---:|---:|---:|---:|\n"
        "| vtc | 1x | 0.3333 | – | 0.412 (0.398 to 0.431) | 1,200 |\n"
        "| a \\| b | 3x | 12,346 | about 0.7 | – | 3 |\n\n"
        "Seeds as *above*; <b>.\n"
    ) in page
    assert "**This experiment failed:** ValueError: <bad> luck" in page


@pytest.mark.parametrize(
    ("scale", "names", "command"),
    [
        (Scale(seeds=(11,), is_quick=True), ("one",), "justitia sim reproduce --quick --only one"),
        (Scale(seeds=(4, 5)), (), "justitia sim reproduce --seed 4 --seed 5"),
    ],
)
def test_a_report_says_the_command_that_makes_it_again(scale, names, command):
    assert Report(version="1", scale=scale, names=names, parts=()).command == command


def test_the_page_needs_nothing_else_and_shows_everything(report):
    page = html_page(report)
    assert not re.search(r"<(script|link|img|iframe)\b|(?:src|href)=\"(?!#)|url\((?!#)", page)
    assert page.count("<svg ") == 3
    assert '<a href="#one">First</a>' in page
    assert '<a href="#two">About two</a> <b>(failed)</b>' in page
    assert "ValueError: &lt;bad&gt; luck" in page
    assert "Worst is <strong>1.26</strong> where a &lt; b." in page
    assert "<td>1</td>" in page
    assert "Seeds as <em>above</em>; &lt;b&gt;." in page
    assert '<td class="number">0.3333</td><td class="number paper">–</td>' in page
    assert '<td class="">a | b</td>' in page


def test_policies_have_their_colours_and_the_paper_is_grey_and_hatched():
    svg = svg_text(BARS).lower()
    assert "#0072b2" in svg
    assert "#009e73" in svg
    assert "#555555" in svg
    assert svg.count("<pattern ") == 1
    assert all(text in svg for text in ("vtc in the paper", "justitia, exact", "mean jct, s"))


def test_series_without_a_policy_get_colours_of_their_own():
    svg = svg_text(LINES).lower()
    assert "#56b4e9" in svg
    assert "#332288" in svg


def test_bars_of_one_series_have_the_colours_of_the_policies_below_them():
    alone = Series(label="mean", values=(1.0, 2.0))
    svg = svg_text(Figure(name="n", title="t", kind="bars", x=("srjf", "lottery"), series=(alone,)))
    assert {"#d55e00", "#56b4e9"} <= set(re.findall(r"#\w{6}", svg.lower()))


def test_a_logarithmic_axis_has_plain_numbers():
    svg = svg_text(LINES)
    assert all(f">{number}</text>" in svg for number in ("0.1", "10", "1.2"))
    assert "10^" not in svg


def test_two_series_of_a_policy_differ_by_their_dashes():
    two = (Series(label="vtc, a", values=(1.0,)), Series(label="vtc, b", values=(2.0,)))
    svg = svg_text(Figure(name="n", title="t", kind="cdf", series=two))
    assert svg.count("stroke-dasharray: ") == 2  # in the plot and in its legend


def test_a_figure_is_drawn_the_same_each_time(tmp_path):
    assert svg_text(BARS) == svg_text(BARS)
    write_png(CDF, tmp_path / "a.png")
    write_png(CDF, tmp_path / "b.png")
    assert (tmp_path / "a.png").read_bytes() == (tmp_path / "b.png").read_bytes()


def test_what_cannot_be_shown_is_refused():
    with pytest.raises(ValueError, match=r"'pie' is none of \['lines', 'bars', 'cdf'\]"):
        check_figure(Figure(name="n", title="t", kind="pie", series=()))
    short = Figure(name="n", title="t", kind="lines", series=BARS.series, x=(1.0,))
    with pytest.raises(ValueError, match="'vtc' has 2 values for 1 places"):
        check_section(Section(figures=(short,)))
    for names in (("a", "a"), ("../a",)):
        figures = tuple(Figure(name=name, title="t", kind="cdf", series=()) for name in names)
        with pytest.raises(ValueError, match="its name is no file name, or another one's too"):
            check_section(Section(figures=figures))
    ragged = Table(title="T", columns=("a", "b"), rows=((1, 2), (1,)))
    with pytest.raises(ValueError, match=r"table 'T': 1 cells in a row: \(1,\)"):
        check_section(Section(tables=(ragged,)))


def test_all_files_are_written_and_those_of_before_go(report, tmp_path):
    (tmp_path / "figures").mkdir()
    (tmp_path / "figures" / "old.png").touch()
    write_report(report, tmp_path, markdown=tmp_path / "docs" / "page.md")
    files = sorted(str(p.relative_to(tmp_path)) for p in tmp_path.rglob("*") if p.is_file())
    assert files == [
        "docs/page.md",
        "evaluation.html",
        "evaluation.md",
        "figures/one-errors.png",
        "figures/one-means.png",
        "figures/one-ratios.png",
        "tables/one-1.csv",
    ]
    assert (tmp_path / "docs/page.md").read_text() == (tmp_path / "evaluation.md").read_text()
    with (tmp_path / "tables/one-1.csv").open(newline="") as file:
        rows = list(csv.reader(file))
    assert rows[0] == list(TABLE.columns)
    assert rows[1] == ["vtc", "1x", "0.3333333333333333", "", "0.412 (0.398 to 0.431)", "1200"]
