"""The command line: help without heavy imports, errors that are one sentence with the next step."""

import json
import re
import subprocess
import sys
from pathlib import Path

import pytest

from justitia import __version__
from justitia.client import connect
from justitia.local.processes import free_port
from justitia.local.service import SchedulerService

ROOT = Path(__file__).parents[2]

APPLICATION = """
apiVersion: justitia.dev/v1alpha1
kind: LLMApplication
metadata: {name: summaries}
spec: {weight: 2, fallbackCost: {kvTokenTime: 5000}}
"""
UNHONOURED = """
---
apiVersion: justitia.dev/v1alpha1
kind: LLMApplication
metadata: {name: shadowed}
spec: {mode: Shadow}
---
apiVersion: justitia.dev/v1alpha1
kind: LLMApplication
metadata: {name: closed}
spec:
  mode: Shadow
  failureMode: FailClose
  identity: {credentials: [{secretRef: {name: keys, key: closed}}]}
---
apiVersion: justitia.dev/v1alpha1
kind: PredictorProfile
metadata: {name: default}
"""


def test_help_lists_every_command(justitia):
    status, shown, _ = justitia("--help")
    assert status == 0
    for name in ("up", "apply", "runs", "explain", "train", "bench", "record", "version"):
        assert name in shown


def test_help_does_not_wait_for_torch_or_vllm():
    code = (
        "import sys; from justitia.cli.main import app; "
        "print([m for m in ('torch', 'vllm', 'sklearn', 'matplotlib') if m in sys.modules])"
    )
    shown = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert shown.stdout.strip() == "[]"


def test_version_is_the_packages(justitia):
    assert justitia("version") == (0, f"justitia {__version__}\n", "")
    assert "python 3." in justitia("version", "--verbose")[1]


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("apply", "-f", "absent.yaml"), "error: absent.yaml: no such file"),
        (
            ("runs", "--address", "127.0.0.1:1"),
            "error: no scheduler service answers at 127.0.0.1:1",
        ),
        (("train", "--recordings", "absent.gz"), "`justitia record` makes it"),
        (
            ("train", "--kind", "tree"),
            "--kind: must be one of gaussian-process, network, got 'tree'",
        ),
        (("bench", "--policies", "lottery"), "must be one of fcfs, justitia, parrot, sjf, srjf"),
        (("bench", "--policies", " , "), "name at least one of fcfs, justitia, parrot"),
        (("bench", "--policies", "vtc,fcfs,vtc"), "names a policy twice"),
        (("up", "--policy", "lottery"), "must be one of fcfs, justitia, parrot, sjf, srjf"),
        (("up", "--port", "99999"), "'--port': Input should be less than or equal to 65535"),
        (("up", "--port", "-1"), "'--port': Input should be greater than or equal to 1"),
        (("up", "--scheduler-port", "0"), "'--scheduler-port': Input should be"),
        (("up", "--metrics-port", "65536"), "'--metrics-port': Input should be"),
        (("train", "--datasheet", "page.md"), "needs --recordings"),
        (("frobnicate",), "No such command"),
    ],
)
def test_an_error_is_one_sentence_with_the_next_step(justitia, arguments, message):
    status, _, error = justitia(*arguments)
    assert status in {1, 2}
    assert message in error
    assert "Traceback" not in error


def test_help_lists_the_policies(justitia):
    for command in ("up", "bench"):
        shown = " ".join(justitia(command, "--help")[1].split())
        assert "fcfs, justitia, parrot, sjf, srjf, vtc" in shown


def test_a_file_that_is_no_recording_is_one_sentence(justitia):
    status, _, error = justitia("train", "--recordings", ROOT / "README.md")
    assert status == 1
    assert error.count("\n") == 1
    assert "README.md holds no recorded run; line 1" in error


def test_of_many_bad_lines_three_are_shown_and_all_are_counted(justitia, tmp_path):
    path = tmp_path / "runs.jsonl"
    path.write_text(f"{'?' * 3}\n" * 50 + json.dumps(recorded_run(0)))
    status, _, error = justitia("train", "--recordings", path)
    assert status == 0
    assert error.count("warning") == 4
    assert f"warning: {path}: 50 lines are no recorded run" in error


def test_train_makes_its_folder_and_writes_the_recordings_page(justitia, tmp_path):
    path, folder, page = tmp_path / "r.jsonl", tmp_path / "new" / "models", tmp_path / "page.md"
    path.write_text("\n".join(json.dumps(recorded_run(n)) for n in range(30)))
    arguments = ("--recordings", path, "-o", folder, "--datasheet", page)
    status, shown, _ = justitia("train", *arguments)
    assert status == 0
    assert [model.name for model in folder.iterdir()] == ["count.safetensors"]
    [row] = [line for line in page.read_text().splitlines() if line.startswith("| count ")]
    cells = [cell.strip() for cell in row.strip("|").split("|")]
    assert (cells[1], cells[5]) == ("30", "6")
    median, mean = re.fullmatch(r"(\d+)% \((\d+)%\)", cells[6]).groups()
    [printed] = [line for line in shown.splitlines() if "│ count " in line]
    assert f"{median}%" in printed
    assert f"{mean}%" in printed
    assert cells[7] in printed
    assert re.search(r"count +│ +30 │ +6 │", printed)  # judged on the fifth that it has not seen


def recorded_run(number):
    inference = {"prompt_tokens": 10 + number, "cached_tokens": 0, "output_tokens": 5 + number % 7}
    prompt = f"count to {number} " * (1 + number % 7)
    return {"application": "count", "prompt": prompt, "inferences": [inference]}


def test_a_folder_for_models_that_cannot_be_made_is_one_sentence(justitia, tmp_path):
    path = tmp_path / "r.jsonl"
    path.write_text(json.dumps(recorded_run(0)))
    status, _, error = justitia("train", "--recordings", path, "-o", path / "models")
    assert status == 1
    assert "models cannot be written there" in error


@pytest.mark.parametrize("flag", ["--data-dir", "--log-dir"])
def test_up_refuses_a_folder_that_cannot_be_made(justitia, monkeypatch, tmp_path, flag):
    monkeypatch.setattr("justitia.local.models.ensure_model", lambda *_: tmp_path)
    (tmp_path / "file").write_text("")
    ports = [f for name in ("port", "scheduler-port", "metrics-port") for f in port_flag(name)]
    status, _, error = justitia("up", *ports, flag, tmp_path / "file" / "sub")
    assert status == 1
    assert f"{tmp_path}/file/sub" in error
    assert "the folder cannot be made" in error
    assert "Traceback" not in error


def port_flag(name):
    return (f"--{name}", free_port())


async def test_apply_warns_in_one_line_of_what_has_no_effect(justitia, monkeypatch, tmp_path):
    manifest = tmp_path / "application.yaml"
    manifest.write_text(APPLICATION + UNHONOURED)
    async with SchedulerService(log_path=tmp_path / "log") as service:
        monkeypatch.setenv("JUSTITIA_SCHEDULER_ADDRESS", service.address)
        status, shown, warned = justitia("apply", "-f", manifest)
    assert status == 0
    assert shown.splitlines() == [
        "llmapplication/summaries applied",
        "llmapplication/shadowed applied",
        "llmapplication/closed applied",
    ]
    assert warned == (
        "warning: without a cluster these have no effect: mode Shadow (shadowed, closed); "
        "failureMode FailClose (closed); identity.credentials (closed); "
        "PredictorProfile, for justitia up and justitia train --profile (default)\n"
    )


async def test_apply_runs_and_explain_against_a_real_service(justitia, monkeypatch, tmp_path):
    manifest = tmp_path / "application.yaml"
    manifest.write_text(APPLICATION)
    async with SchedulerService(log_path=tmp_path / "log") as service:
        monkeypatch.setenv("JUSTITIA_SCHEDULER_ADDRESS", service.address)
        assert "llmapplication/summaries applied" in justitia("apply", "-f", manifest)[1]
        assert "no open runs" in justitia("runs")[1]
        start_run(service.address, "r-1")
        listed = justitia("runs")[1]
        assert "r-1" in listed
        assert "5,000" in listed
        explained = justitia("explain", "r-1")[1]
        assert "estimate C         5,000 kvtt, from default" in explained
        assert "virtual finish F   2,500" in explained
        assert "no engine of this pool is connected" in explained
        status, _, error = justitia("explain", "r-2")
        assert status == 1
        assert "r-2" in error


def start_run(address, run_id):
    with connect(address) as client:
        client.start_run(run_id=run_id, application="summaries")


def test_the_console_script_is_installed():
    assert (Path(sys.executable).parent / "justitia").exists()
