"""`justitia bench` shows what was played, whatever ends it."""

import asyncio
import os
import signal
from types import SimpleNamespace

import pytest

from justitia.local.errors import LocalModeError
from justitia.local.records import RunRecord
from justitia.local.results import PolicyOutcome


def outcome(policy):
    record = RunRecord(
        run_id="a-1",
        application="a",
        task_seed=1,
        arrived_at_s=0.0,
        finished_at_s=7.0,
        inferences=(),
    )
    return PolicyOutcome(
        policy=policy,
        records=(record,),
        ratio_by_run={},
        preemptions=0,
        useful_kvtt=10,
        wasted_kvtt=0,
        duration_s=7.0,
    )


@pytest.fixture
def play(monkeypatch):
    """Replace the engines: each policy's outcome is there at once, then ``ending`` happens."""

    def replace(*policies, ending=None):
        async def compare(_settings, _progress, on_outcome):
            for policy in policies:
                on_outcome(outcome(policy))
            if ending is not None:
                await ending()

        prepared = SimpleNamespace(policies=("fcfs", "vtc"), conditions="one run")
        monkeypatch.setattr("justitia.local.preparation.prepare", lambda **_: prepared)
        monkeypatch.setattr("justitia.local.comparison.compare", compare)

    return replace


async def interrupt():
    os.kill(os.getpid(), signal.SIGINT)
    await asyncio.Event().wait()


async def fail():
    raise LocalModeError("vLLM (vtc) ended with status 1")


def test_ctrl_c_keeps_the_policies_that_are_done(justitia, play, tmp_path):
    play("fcfs", ending=interrupt)
    report = tmp_path / "bench.html"
    status, shown, error = justitia("bench", "--policies", "fcfs,vtc", "--report", report)
    assert status == 130
    assert "interrupted" in error
    assert "│ fcfs " in shown
    assert "runs whose ρ is known: fcfs 0 of 1" in shown
    assert "one run; ended early, after 1 of 2" in report.read_text()


def test_a_failure_keeps_the_policies_that_are_done(justitia, play, tmp_path):
    play("fcfs", ending=fail)
    status, shown, error = justitia("bench", "--report", tmp_path / "bench.html")
    assert status == 1
    assert "│ fcfs " in shown
    assert "vLLM (vtc) ended with status 1" in error


def test_nothing_is_shown_where_nothing_was_played(justitia, play, tmp_path):
    play(ending=fail)
    report = tmp_path / "bench.html"
    assert justitia("bench", "--report", report)[:2] == (1, "")
    assert not report.exists()


def test_the_table_is_shown_before_the_report_can_fail(justitia, play, tmp_path):
    play("fcfs", "vtc")
    (tmp_path / "file").write_text("")
    status, shown, error = justitia("bench", "--report", tmp_path / "file" / "bench.html")
    assert status == 1
    assert "│ fcfs " in shown
    assert "the report cannot be written" in error
