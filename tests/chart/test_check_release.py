"""The script of `helm test`, against a real scheduler service."""

import runpy
from pathlib import Path

import pytest

from justitia.local.service import SchedulerService

SCRIPT = Path(__file__).resolve().parents[2] / "charts/justitia/files/check_release.py"


@pytest.fixture
def check(monkeypatch, capsys):
    """Run it; returns (exit status, stdout, stderr)."""

    def run(**environment):
        for name, value in ({"CHECK_TIMEOUT_S": "0"} | environment).items():
            monkeypatch.setenv(name, value)
        with pytest.raises(SystemExit) as ended:
            runpy.run_path(str(SCRIPT), run_name="__main__")
        printed = capsys.readouterr()
        return ended.value.code, printed.out, printed.err

    return run


async def test_it_passes_where_the_service_answers_and_no_pool_is_asked_for(check, tmp_path):
    async with SchedulerService(log_path=tmp_path / "log") as service:
        status, out, _ = check(JUSTITIA_SCHEDULER_ADDRESS=service.address)
    assert (status, out) == (0, "ok: the scheduler service and 0 pools\n")


async def test_it_fails_for_a_pool_without_engines(check, tmp_path):
    async with SchedulerService(log_path=tmp_path / "log") as service:
        status, _, error = check(
            JUSTITIA_SCHEDULER_ADDRESS=service.address, CHECK_POOLS="default http://127.0.0.1:1\n"
        )
    assert status == 1
    assert "pool default: no engine is connected to the scheduler service" in error


def test_it_fails_in_one_sentence_where_nobody_answers(check):
    status, _, error = check(JUSTITIA_SCHEDULER_ADDRESS="127.0.0.1:1")
    assert status == 1
    assert error.startswith("no scheduler service answers at 127.0.0.1:1")
