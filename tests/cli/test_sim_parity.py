"""`justitia sim parity` and `--engine`; exact engines themselves are tested in tests/sim."""

import pytest

from justitia.core.errors import InvalidValueError
from justitia.sim.exact import make, parity
from justitia.sim.loop import PlaySettings, fast_engines
from justitia.sim.scenario_file import write_scenario
from justitia.testing.sim_scenarios import engine, inference, run, scenario


@pytest.fixture
def scenario_file(tmp_path):
    runs = [run("big", *(inference(10, 40) for _ in range(9))), run("small", inference(4, 2))]
    path = tmp_path / "two.jsonl"
    write_scenario(path, scenario(*runs, engines=(engine(blocks=20),)))
    return path


@pytest.fixture
def _without_vllm(monkeypatch):
    """Fast engines in the place of exact ones: to load vLLM takes longer than all of this."""
    monkeypatch.setattr(parity, "exact_engines", lambda **_: fast_engines(PlaySettings()))


@pytest.mark.usefixtures("_without_vllm")
def test_every_scenario_is_compared_under_every_policy(justitia, scenario_file):
    options = ("--policy", "fcfs", "--policy", "srjf")
    status, shown, _ = justitia("sim", "parity", scenario_file, scenario_file, *options)
    assert status == 0
    rows = [line for line in shown.splitlines() if "two.jsonl" in line]
    assert [row.split("│")[2].strip() for row in rows] == ["fcfs", "srjf"] * 2
    assert all("+0.00%" in row and "1.0000" in row for row in rows)


def test_what_is_missing_is_said_in_one_sentence(justitia, scenario_file, tmp_path, monkeypatch):
    def missing(**_):
        raise InvalidValueError("engine", "vLLM is not installed")

    monkeypatch.setattr(parity, "exact_engines", missing)
    status, _, error = justitia("sim", "parity", scenario_file)
    assert (status, error.count("\n")) == (1, 1)
    assert "engine: vLLM is not installed" in error
    status, _, error = justitia("sim", "parity", tmp_path / "none.jsonl")
    assert status == 1
    assert "cannot be read (No such file or directory)" in error


@pytest.mark.parametrize(("engine", "is_async"), [("exact", False), ("exact-async", True)])
def test_a_scenario_is_played_on_exact_engines(
    justitia, scenario_file, monkeypatch, engine, is_async
):
    asked = []

    def exact_engines(*, is_async):
        asked.append(is_async)
        return fast_engines(PlaySettings())

    monkeypatch.setattr(make, "exact_engines", exact_engines)
    options = ("--policy", "fcfs", "--engine", engine)
    status, shown, _ = justitia("sim", "run", scenario_file, *options)
    assert (status, asked) == (0, [is_async])
    assert "│ fcfs " in shown


def test_an_unknown_policy_is_refused(justitia, scenario_file):
    status, _, error = justitia("sim", "parity", scenario_file, "--policy", "lottery")
    assert status == 2
    assert "must be one of" in error
