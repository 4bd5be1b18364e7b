"""The command line: help without heavy imports, errors that are one sentence with the next step."""

import subprocess
import sys
from pathlib import Path

import pytest

from justitia import __version__
from justitia.cli.main import main
from justitia.client import connect
from justitia.local.service import SchedulerService

APPLICATION = """
apiVersion: justitia.dev/v1alpha1
kind: LLMApplication
metadata: {name: summaries}
spec: {weight: 2, fallbackCost: {kvTokenTime: 5000}}
"""


@pytest.fixture
def justitia(monkeypatch, capsys):
    """Run the command in this process; returns (exit status, stdout, stderr)."""
    monkeypatch.setenv("COLUMNS", "200")
    monkeypatch.setenv("NO_COLOR", "1")

    def run(*arguments):
        monkeypatch.setattr(sys, "argv", ["justitia", *map(str, arguments)])
        with pytest.raises(SystemExit) as ended:
            main()
        printed = capsys.readouterr()
        return ended.value.code, printed.out, printed.err

    return run


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
        (("bench", "--policies", "lottery"), "must be one of fcfs, justitia, parrot, sjf, srjf"),
        (("frobnicate",), "No such command"),
    ],
)
def test_an_error_is_one_sentence_with_the_next_step(justitia, arguments, message):
    status, _, error = justitia(*arguments)
    assert status in {1, 2}
    assert message in error
    assert "Traceback" not in error


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
