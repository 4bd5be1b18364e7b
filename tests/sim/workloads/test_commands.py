import json

import pytest
from typer.testing import CliRunner

from justitia.cli.sim_workloads import Case, app


@pytest.fixture
def run():
    return lambda *words: CliRunner().invoke(app, [str(word) for word in words])


def test_generate_tells_what_it_drew(run):
    result = run("generate", "--mix", "paper", "--load", "3x", "--seed", 1)
    assert result.exit_code == 0, result.output
    assert "300 runs within 360 s, Poisson, seed 1" in result.output
    assert "large 67, medium 66, small 167" in result.output


@pytest.mark.parametrize("case", [case for case in Case if case not in (Case.MIX, Case.CROWD)])
def test_every_case_can_be_generated(run, case):
    result = run("generate", "--case", case.value, "--seed", 2)
    assert result.exit_code == 0, result.output
    assert "runs           " in result.output


def test_bursts_come_from_a_trace(run, write):
    rows = [
        {"timestamp": 3000 * (n // 5), "input_length": 9, "output_length": 9} for n in range(50)
    ]
    path = write("m.jsonl", rows)
    result = run("generate", "--runs", 20, "--arrivals", "trace", "--trace", path)
    assert "bursts of m.jsonl" in result.output
    assert run("generate", "--arrivals", "trace").exit_code == 2


def test_import_tells_what_it_assumed_and_left_out(run, write):
    row = {"timestamp": 0, "input_length": 9, "output_length": 9}
    path = write("m.jsonl", [row, "x", {**row, "output_length": 0}])
    result = run("import", path, "--format", "mooncake", "--blocks", 1000)
    assert result.exit_code == 0, result.output
    assert "times in ms" in result.output
    assert "1 bad rows, 1 failed requests" in result.output
    assert f"bad row: {path}:2: " in result.output


@pytest.mark.parametrize(
    "words",
    [
        ("generate", "--mix", "nonsense"),
        ("generate", "--case", "steady", "--rho", "0"),
        ("import", "/nowhere", "--format", "mooncake"),
        ("import", "/nowhere", "--format", "nonsense"),
        ("recorded", "--recordings", "/nowhere"),
        ("generate", "--runs", "3", "--output", "/nowhere/s.jsonl"),
    ],
)
def test_wrong_options_are_usage_errors(run, words):
    result = run(*words)
    assert result.exit_code == 2
    assert "Traceback" not in result.output


def test_a_scenario_is_written_and_reads_back(run, tmp_path):
    from justitia.sim.scenario_file import read_scenario
    from justitia.sim.workloads.generate import generate

    path = tmp_path / "s.jsonl"
    result = run("generate", "--runs", 12, "--seed", 5, "--output", path)
    assert result.exit_code == 0, result.output
    assert json.loads(path.read_text().splitlines()[0])["justitia_scenario"] == 1
    assert read_scenario(path) == generate(seed=5, num_runs=12)
