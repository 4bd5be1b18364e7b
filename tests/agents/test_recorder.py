import asyncio
import sys
from collections import Counter
from dataclasses import replace

import pytest
from rich.progress import Progress

from justitia.cli.main import main
from justitia.core.cost import inference_cost_kvtt
from justitia.local.errors import LocalModeError
from justitia.local.recorder import RecorderSettings, num_missing, record
from justitia.predictor.recordings import read_recordings, write_recordings

# Two of the nine: one test records all.
FEW = ("code-checking", "kbqa-verification")


@pytest.fixture
def settings(server, tmp_path):
    def make(**changes):
        fields = {
            "base_url": server.base_url,
            "model": "m",
            "output_path": tmp_path / "out" / "runs.jsonl.gz",
            "runs_per_application": 1,
            "applications": FEW,
        }
        return RecorderSettings(**(fields | changes))

    return make


async def test_a_recording_goes_on_where_it_stopped(server, settings):
    first = await record(settings(), Progress(disable=True))
    assert len(first) == 2
    num_requests = len(server.requests)
    again = await record(settings(), Progress(disable=True))
    assert len(server.requests) == num_requests
    assert again == first
    more = await record(settings(runs_per_application=2), Progress(disable=True))
    assert len(more) == 4


async def test_one_application_is_recorded_and_the_others_are_kept(server, settings):
    await record(settings(), Progress(disable=True))
    num_requests = len(server.requests)
    progress = Progress(disable=True)
    more = settings(runs_per_application=3, applications=("code-checking",))
    runs = await record(more, progress)
    assert Counter(run.application for run in runs)["code-checking"] == 3
    assert {run.application for run in runs} == {*FEW}
    assert len(runs) == 2 + 2
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


@pytest.mark.parametrize("is_folder", [False, True])
async def test_a_page_that_is_no_datasheet_is_left_alone(settings, is_folder):
    page = settings().output_path.with_name("README.md")
    page.parent.mkdir()
    if is_folder:
        page.mkdir()
    else:
        page.write_text("# A project of somebody's\n")
    with pytest.raises(LocalModeError, match=r"README\.md is no datasheet of recorded runs"):
        num_missing(settings())
    with pytest.raises(LocalModeError, match=r"choose another folder with --output"):
        await record(settings(), Progress(disable=True))
    assert is_folder or page.read_text() == "# A project of somebody's\n"
    assert not settings().output_path.exists()


@pytest.mark.parametrize(
    ("added", "refusal"),
    [
        ({"model": "other"}, "holds 1 runs of model other; choose another file with --output"),
        ({"model": ""}, "holds 1 runs that name no model; choose"),
        (
            {"application": "elsewhere"},
            "holds 1 runs of elsewhere, which is no agent of .*; choose",
        ),
        ({}, "holds 1 runs of the same application and task seed; choose"),
    ],
    ids=["another model", "no model", "no agent", "twice the same"],
)
async def test_a_file_that_could_not_be_kept_whole_is_refused_and_left_as_it_is(
    server, settings, added, refusal
):
    runs = await record(settings(), Progress(disable=True))
    path = settings().output_path
    write_recordings(path, [*runs, replace(runs[0], **added)])
    before, num_requests = path.read_bytes(), len(server.requests)
    with pytest.raises(LocalModeError, match=refusal):
        await record(settings(runs_per_application=2), Progress(disable=True))
    assert path.read_bytes() == before
    assert len(server.requests) == num_requests


async def test_a_file_that_is_too_long_to_be_kept_whole_is_refused(settings, monkeypatch):
    await record(settings(), Progress(disable=True))
    path = settings().output_path
    before = path.read_bytes()
    monkeypatch.setattr("justitia.predictor.recordings.MAX_RUNS", 1)
    with pytest.raises(LocalModeError, match="holds 1 more runs than can be read at once; choose"):
        await record(settings(), Progress(disable=True))
    assert path.read_bytes() == before


async def test_a_run_whose_task_has_changed_stays_until_it_is_recorded_anew(server, settings):
    runs = await record(settings(runs_per_application=2), Progress(disable=True))
    path = settings().output_path
    old = [replace(run, prompt="once asked") for run in runs if run.application == "code-checking"]
    write_recordings(path, [*(run for run in runs if run.application != "code-checking"), *old])
    num_requests = len(server.requests)
    one = settings(applications=("code-checking",))
    assert num_missing(one) == 1
    again = await record(one, Progress(disable=True))
    assert len(server.requests) > num_requests
    assert len(again) == len(runs)
    prompts = {run.task_seed: run.prompt for run in again if run.application == "code-checking"}
    assert (prompts[0] != "once asked", prompts[1]) == (True, "once asked")
    assert list(read_recordings(path).runs) == again


async def test_what_is_recorded_anew_is_kept_on_the_way(settings, monkeypatch):
    one = settings(applications=("code-checking",), runs_per_application=4)
    runs = await record(one, Progress(disable=True))
    write_recordings(one.output_path, [replace(run, prompt="once asked") for run in runs])
    sizes = []

    def note(_path, runs):
        sizes.append(sum(run.prompt != "once asked" for run in runs))

    monkeypatch.setattr("justitia.local.recorder.write_recordings", note)
    monkeypatch.setattr("justitia.local.recorder._WRITE_EVERY_RUNS", 2)
    await record(one, Progress(disable=True))
    assert sizes == [2, 4, 4]  # and at the end


async def test_a_failed_run_is_one_clear_error_and_the_rest_is_kept(server, settings):
    await record(settings(), Progress(disable=True))
    server.status = 503
    with pytest.raises(LocalModeError, match=r"failed: .*503.* goes on where it stopped"):
        await record(settings(runs_per_application=2), Progress(disable=True))
    assert len(read_recordings(settings().output_path).runs) == 2


async def test_cancelling_keeps_what_was_recorded(server, settings):
    is_stuck = asyncio.Event()

    async def stop_after_forty():
        if len(server.requests) >= 40:
            is_stuck.set()
            await asyncio.Event().wait()

    server.gate = stop_after_forty
    all_nine = settings(applications=(), max_runs_at_once=2)
    recording = asyncio.create_task(record(all_nine, Progress(disable=True)))
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


async def test_the_command_refuses_the_runs_of_another_model_in_one_line(
    server, justitia, settings
):
    await record(settings(), Progress(disable=True))
    path = settings().output_path
    before = path.read_bytes()
    arguments = ("record", "--base-url", server.base_url, "--model", "qwen", "-o", path)
    status, printed = await justitia(*arguments)
    assert status == 1
    assert f"error: {path} holds 2 runs of model m; choose another file with --output" in printed
    assert "Traceback" not in printed
    assert path.read_bytes() == before


async def test_the_command_ends_with_one_line_when_no_server_answers(justitia, tmp_path):
    path = tmp_path / "r.jsonl.gz"
    status, printed = await justitia("record", "--base-url", "http://127.0.0.1:1/v1", "-o", path)
    assert status == 1
    assert "error: A run of" in printed
    assert "Traceback" not in printed
