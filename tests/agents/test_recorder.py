import asyncio
import sys
from collections import Counter

import pytest
from rich.progress import Progress

from justitia.cli.main import main
from justitia.core.cost import inference_cost_kvtt
from justitia.local.errors import LocalModeError
from justitia.local.recorder import RecorderSettings, record
from justitia.predictor.recordings import read_recordings


@pytest.fixture
def settings(server, tmp_path):
    def make(**changes):
        fields = {
            "base_url": server.base_url,
            "model": "m",
            "output_path": tmp_path / "out" / "runs.jsonl.gz",
            "runs_per_application": 1,
        }
        return RecorderSettings(**(fields | changes))

    return make


async def test_a_recording_goes_on_where_it_stopped(server, settings):
    first = await record(settings(), Progress(disable=True))
    assert len(first) == 9
    num_requests = len(server.requests)
    again = await record(settings(), Progress(disable=True))
    assert len(server.requests) == num_requests
    assert again == first
    more = await record(settings(runs_per_application=2), Progress(disable=True))
    assert len(more) == 18


async def test_one_application_is_recorded_and_the_others_are_kept(server, settings):
    await record(settings(), Progress(disable=True))
    num_requests = len(server.requests)
    progress = Progress(disable=True)
    more = settings(runs_per_application=3, applications=("code-checking",))
    runs = await record(more, progress)
    assert Counter(run.application for run in runs)["code-checking"] == 3
    assert len({run.application for run in runs}) == 9
    assert len(runs) == 9 + 2
    assert len(server.requests) > num_requests
    [bar] = progress.tasks
    assert (bar.completed, bar.total) == (3, 3)


async def test_an_application_that_is_no_agent_is_refused(settings):
    with pytest.raises(LocalModeError, match=r"no agent code-chekcing; it has .*code-checking"):
        await record(settings(applications=("code-chekcing",)), Progress(disable=True))


async def test_what_is_written_is_read_back_with_costs_by_rule_c1(settings):
    runs = await record(settings(), Progress(disable=True))
    path = settings().output_path
    assert runs == list(read_recordings(path).runs)
    run = runs[0]
    assert run.cost_kvtt(step_budget_tokens=64) == sum(
        inference_cost_kvtt(
            i.prompt_tokens, i.cached_tokens, i.output_tokens, step_budget_tokens=64
        )
        for i in run.inferences
    )
    sheet = path.with_name("README.md").read_text()
    assert all(run.application in sheet for run in runs)


async def test_a_recording_of_another_model_or_task_is_not_kept(server, settings):
    await record(settings(), Progress(disable=True))
    num_requests = len(server.requests)
    runs = await record(settings(model="other"), Progress(disable=True))
    assert len(server.requests) == 2 * num_requests
    assert {run.model for run in runs} == {"other"}


async def test_a_failed_run_is_one_clear_error_and_the_rest_is_kept(server, settings):
    await record(settings(), Progress(disable=True))
    server.status = 503
    with pytest.raises(LocalModeError, match=r"failed: .*503.* goes on where it stopped"):
        await record(settings(runs_per_application=2), Progress(disable=True))
    assert len(read_recordings(settings().output_path).runs) == 9


async def test_cancelling_keeps_what_was_recorded(server, settings):
    is_stuck = asyncio.Event()

    async def stop_after_forty():
        if len(server.requests) >= 40:
            is_stuck.set()
            await asyncio.Event().wait()

    server.gate = stop_after_forty
    recording = asyncio.create_task(record(settings(max_runs_at_once=2), Progress(disable=True)))
    await is_stuck.wait()
    recording.cancel()
    with pytest.raises(asyncio.CancelledError):
        await recording
    kept = read_recordings(settings().output_path).runs
    assert 1 <= len(kept) < 9


def test_the_benchmarks_task_seeds_are_refused(settings):
    with pytest.raises(LocalModeError, match="belong to the benchmarks"):
        settings(first_task_seed=9_990, runs_per_application=11)


@pytest.mark.parametrize("content", [b"no gzip", b"\x1f\x8b\x08\x00"])
async def test_a_damaged_file_is_one_clear_error_and_is_left_as_it_is(settings, content):
    path = settings().output_path
    path.parent.mkdir()
    path.write_bytes(content)
    with pytest.raises(LocalModeError, match=r"runs.jsonl.gz:1: no recorded run.*Restore the file"):
        await record(settings(), Progress(disable=True))
    assert path.read_bytes() == content


async def test_a_file_that_cannot_be_written_is_one_clear_error(settings, tmp_path):
    (tmp_path / "file").write_text("")
    with pytest.raises(LocalModeError, match="choose another with --output"):
        await record(settings(output_path=tmp_path / "file" / "r.gz"), Progress(disable=True))


@pytest.fixture
def justitia(monkeypatch, capsys):
    """Run the command on a thread, beside the server; returns (exit status, stderr)."""
    monkeypatch.setenv("COLUMNS", "200")

    async def run(*arguments):
        monkeypatch.setattr(sys, "argv", ["justitia", *map(str, arguments)])
        with pytest.raises(SystemExit) as ended:
            await asyncio.to_thread(main)
        return ended.value.code, capsys.readouterr().err

    return run


async def test_the_command_records_from_a_server_that_is_up(server, justitia, tmp_path):
    path = tmp_path / "r.jsonl.gz"
    arguments = ("record", "--base-url", server.base_url, "--model", "m", "--runs", 1, "-o", path)
    status, printed = await justitia(*arguments)
    assert status == 0
    assert f"9 runs in {path}" in printed
    assert {run.model for run in read_recordings(path).runs} == {"m"}
    assert "| plan-and-execute | 1 |" in (tmp_path / "README.md").read_text()


async def test_the_command_ends_with_one_line_when_no_server_answers(justitia, tmp_path):
    path = tmp_path / "r.jsonl.gz"
    status, printed = await justitia("record", "--base-url", "http://127.0.0.1:1/v1", "-o", path)
    assert status == 1
    assert "error: A run of" in printed
    assert "Traceback" not in printed
