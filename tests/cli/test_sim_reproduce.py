"""`justitia sim reproduce`."""

import contextlib
import os
import re
import select
import signal
import subprocess
import sys

import pytest

from justitia.sim.reproduce import catalogue, runner
from justitia.testing.sim_experiments import PLANTED, run_here

PROGRAM = """
import sys
from pathlib import Path
from justitia.sim.reproduce import catalogue
from justitia.testing.sim_experiments import interrupted
catalogue.CATALOGUE = interrupted(Path(sys.argv.pop(1)))
from justitia.cli.main import main
main()
"""
LONGEST_S = 60


@pytest.fixture
def reproduce(justitia, tmp_path, monkeypatch):
    """Run the command on planted experiments, in this process alone."""
    monkeypatch.setattr(catalogue, "CATALOGUE", PLANTED)
    monkeypatch.setattr(runner, "run_jobs", run_here)
    places = ("--output", tmp_path / "report", "--cache-dir", tmp_path / "cache")

    def run(*arguments):
        return justitia("sim", "reproduce", *arguments, *places)

    return run


def test_experiments_are_listed_with_what_is_done(reproduce):
    assert reproduce("--only", "numbers", "--quick")[0] == 0
    status, shown, _ = reproduce("--list", "--quick")
    assert status == 0
    assert re.search(r"│ jct +│ Fig. 8 +│ Job completion time +│ +3 │ +0 │", shown)
    assert re.search(r"│ numbers +│ +│ About numbers +│ +1 │ +1 │", shown)
    assert re.search(r"│ broken +│ +│ About broken +│ +2 │ +0 │", shown)


def test_a_report_is_written(reproduce, tmp_path):
    page = tmp_path / "docs" / "evaluation.md"
    status, shown, error = reproduce("--only", "jct", "--seed", 3, "--seed", 4, "--markdown", page)
    assert status == 0
    assert "1 experiments told, 0 failed" in shown
    assert f"report: file://{tmp_path}/report/evaluation.html" in shown
    assert "3 of 6 jobs done\n" in error  # no terminal
    assert "6/6 jobs" in error
    assert "`justitia sim reproduce --only jct --seed 3 --seed 4`" in page.read_text()
    assert (tmp_path / "report/figures/jct-means.png").is_file()


def test_what_is_kept_is_not_run_again_unless_it_is_wanted_fresh(reproduce, monkeypatch):
    run = []

    def watched(jobs, *arguments, **options):
        run.append(len(jobs))
        return run_here(jobs, *arguments, **options)

    monkeypatch.setattr(runner, "run_jobs", watched)
    for more in ((), (), ("--fresh",), ("--seed", "11", "--seed", "14")):
        assert reproduce("--only", "numbers", *more)[0] == 0
    assert run == [3, 0, 3, 1]


def test_a_failure_is_shown_and_the_others_go_on(reproduce, tmp_path):
    status, shown, error = reproduce("--quick")
    assert status == 1
    assert "2 experiments told, 1 failed" in shown
    assert "failed: broken: 1 of 2 jobs failed" in error
    assert "in fail\n" in error  # where it happened
    page = (tmp_path / "report/evaluation.html").read_text()
    assert "This experiment failed: 1 of 2 jobs failed" in page
    assert "<svg" in page


def test_an_unknown_experiment_is_refused(reproduce):
    status, _, error = reproduce("--only", "jtc")
    assert status == 2
    assert "jtc: is no experiment; there are: jct" in error


def test_a_missing_library_is_named_before_anything_is_run(reproduce, monkeypatch):
    for name in ("files", "html_page"):
        monkeypatch.delitem(sys.modules, f"justitia.sim.reproduce.{name}", raising=False)
    monkeypatch.setitem(sys.modules, "markdown_it", None)
    monkeypatch.setattr(runner, "run_jobs", None)
    status, _, error = reproduce()
    assert status == 1
    assert error == (
        "error: markdown_it is not installed; this needs: pip install 'justitia[sim]'\n"
    )


def test_a_report_that_cannot_be_written_is_an_error(reproduce, tmp_path):
    (tmp_path / "report").write_text("a file")
    status, _, error = reproduce("--only", "jct", "--quick")
    assert status == 1
    assert "the report cannot be written" in error


@pytest.fixture
def slow(tmp_path):
    """Start the command as a process group; its last job hangs as long as there is a pipe."""
    started = []

    def start():
        arguments = ["sim", "reproduce", "--workers=1", f"--output={tmp_path}/report"]
        process = subprocess.Popen(
            [sys.executable, "-c", PROGRAM, tmp_path, *arguments, f"--cache-dir={tmp_path}"],
            start_new_session=True,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        started.append(process)
        return process

    yield start
    for process in started:
        with contextlib.suppress(ProcessLookupError):  # mostly nobody of the group is left
            os.killpg(process.pid, signal.SIGKILL)
        process.communicate()


def read_one(pipe):
    """Wait for what comes through a pipe; nothing: nobody holds its other end any more."""
    assert select.select([pipe], [], [], LONGEST_S)[0]
    return os.read(pipe, 1)


@pytest.mark.parametrize("sign", [signal.SIGINT, signal.SIGKILL])
def test_an_interrupted_evaluation_leaves_no_process_and_is_resumed(slow, tmp_path, sign):
    os.mkfifo(tmp_path / "pipe")
    pipe = os.open(tmp_path / "pipe", os.O_RDONLY | os.O_NONBLOCK)
    process = slow()
    assert read_one(pipe) == b"."  # the last job runs
    if sign == signal.SIGINT:
        os.killpg(process.pid, sign)  # as a terminal does
    else:
        process.send_signal(sign)
    _, error = process.communicate(timeout=LONGEST_S)
    assert read_one(pipe) == b""  # the worker is gone too
    os.close(pipe)
    if sign == signal.SIGKILL:
        return
    assert process.returncode == 130
    assert "2 of 3 jobs are done and kept; the same command goes on from there" in error
    assert "Traceback" not in error

    (tmp_path / "pipe").unlink()
    resumed = slow()
    shown, error = resumed.communicate(timeout=LONGEST_S)
    assert resumed.returncode == 0, error
    assert "1 experiments told, 0 failed" in shown
    assert (tmp_path / "notes").read_text() == "1\n2\n"  # each was run once
