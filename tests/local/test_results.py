"""What the table at the end says, from records whose answer is known."""

import io
import math

import pytest
from rich.console import Console

from justitia.local.records import InferenceRecord, RunRecord
from justitia.local.report import COLUMNS, headline, table_rows, terminal_table, write_report
from justitia.local.results import (
    PolicyOutcome,
    ratios_over,
    share_not_later,
    summarize_all,
)


def record(seed, jct_s, *, application="a", error=None):
    inference = InferenceRecord(
        stage="only",
        prompt_tokens=10,
        cached_tokens=0,
        output_tokens=5,
        started_at_s=1.0,
        finished_at_s=1.0 + jct_s,
    )
    return RunRecord(
        run_id=f"{application}-{seed}",
        application=application,
        task_seed=seed,
        arrived_at_s=1.0,
        finished_at_s=1.0 + jct_s,
        inferences=(inference,),
        error=error,
    )


def outcome(policy, jcts_s, *, ratios=(), **changes):
    facts = {
        "policy": policy,
        "records": tuple(record(n, jct_s) for n, jct_s in enumerate(jcts_s)),
        "ratio_by_run": {("a", n): r for n, r in enumerate(ratios)},
        "preemptions": 2,
        "useful_kvtt": 900,
        "wasted_kvtt": 100,
        "duration_s": 30.0,
    }
    return PolicyOutcome(**facts | changes)


def test_each_policy_is_summed_up_against_vtc():
    vtc = outcome("vtc", [10, 20, 30, 40], ratios=[1, 1, 1, 1])
    ours = outcome("justitia", [5, 10, 33, 40], ratios=[0.5, 0.5, 1.1, 1])
    by_policy = {s.policy: s for s in summarize_all([vtc, ours])}
    summary = by_policy["justitia"]
    assert summary.jct_mean_s == 22
    assert summary.jct_p90_s == 40
    assert (summary.ratio_p50, summary.ratio_worst) == (0.5, 1.1)
    assert summary.share_not_later_than_vtc == 0.75
    assert summary.worst_over_vtc == pytest.approx(1.1)
    assert summary.wasted_share == pytest.approx(0.1)
    assert by_policy["vtc"].share_not_later_than_vtc == 1


def test_failed_runs_are_counted_and_leave_the_means_alone():
    failed = record(9, 1000.0, error="timeout")
    vtc = outcome("vtc", [10, 20])
    ours = outcome("justitia", [10], records=(record(0, 10.0), failed))
    summary = summarize_all([vtc, ours])[1]
    assert (summary.num_runs, summary.num_failed, summary.jct_mean_s) == (2, 1, 10)
    assert ratios_over(ours, vtc) == {("a", 0): 1.0}


def test_the_table_says_of_how_many_runs_rho_is_known():
    outcomes = [outcome("fcfs", [20, 30], ratios=[1]), outcome("vtc", [25, 35], ratios=[1, 1])]
    summaries = summarize_all(outcomes)
    assert [s.num_ratios for s in summaries] == [1, 2]
    known = [row[COLUMNS.index("ρ known")] for row in table_rows(summaries)]
    assert known == ["1 of 2", "2 of 2"]
    console = Console(width=100, record=True, file=io.StringIO())
    console.print(terminal_table(summaries))
    assert "runs whose ρ is known: fcfs 1 of 2, vtc 2 of 2" in console.export_text()


def test_without_vtc_the_comparison_with_it_is_unknown():
    (summary,) = summarize_all([outcome("justitia", [1, 2])])
    assert math.isnan(summary.share_not_later_than_vtc)


def test_not_later_means_at_most_equal():
    assert share_not_later([0.9, 1.0, 1.01]) == pytest.approx(2 / 3)
    assert share_not_later([0.9, 1.0, 1.01], tolerance=0.02) == 1


def test_the_headline_names_every_rival():
    rows = summarize_all([outcome("fcfs", [20]), outcome("vtc", [25]), outcome("justitia", [10])])
    assert headline(rows) == (
        "Mean job completion time under Justitia: -50% against FCFS, -60% against VTC."
    )


def test_the_report_is_one_page_with_its_plots_and_no_link_to_elsewhere(tmp_path):
    outcomes = [
        outcome("fcfs", [20, 30]),
        outcome("vtc", [25, 35], ratios=[1, 1]),
        outcome("justitia", [10, 36], ratios=[0.4, 1.0]),
    ]
    path = tmp_path / "sub" / "report.html"
    write_report(path, outcomes, title="Same <runs>", conditions="2 runs")
    page = path.read_text()
    assert page.count("<svg") == 4
    assert "Same &lt;runs&gt;" in page
    assert 'class="ours"' in page
    assert "src=" not in page
    assert "<link" not in page
