"""`justitia sim`."""

import pytest

from justitia.sim.scenario_file import write_scenario
from justitia.testing.sim_scenarios import engine, inference, run, scenario


@pytest.fixture
def scenario_file(tmp_path):
    runs = [
        run("big", *(inference(10, 40) for _ in range(20))),
        run("small", inference(4, 2), at_s=0.01),
    ]
    path = tmp_path / "two.jsonl"
    write_scenario(path, scenario(*runs, engines=(engine(blocks=20),), about="two runs", seed=3))
    return path


def test_a_scenario_is_played_under_each_policy(justitia, scenario_file):
    status, shown, _ = justitia("sim", "run", scenario_file, "--policy", "fcfs", "--policy", "srjf")
    assert status == 0
    assert (
        "two runs: 2 runs, 21 inferences within 0 s; 1 engines with 80 KV tokens; seed 3" in shown
    )
    assert "│ fcfs " in shown
    assert "│ srjf " in shown
    assert "not later: runs whose JCT is at most that under fcfs" in shown


def test_three_policies_are_compared_unless_others_are_wanted(justitia, scenario_file):
    _, shown, _ = justitia("sim", "run", scenario_file, "--estimator", "error:0.5")
    assert all(f"│ {name} " in shown for name in ("fcfs", "vtc", "justitia"))


def test_learning_can_have_seen_another_scenario(justitia, tmp_path):
    small_and_large = [
        run(
            f"{number}",
            *(inference(10, 8) for _ in range(1 + 9 * (number % 2))),
            at_s=number * 0.01,
        )
        for number in range(20)
    ]
    path = tmp_path / "before.jsonl"
    write_scenario(path, scenario(*small_and_large, engines=(engine(blocks=20),)))
    command = ("sim", "run", path, "--estimator", "error:1.0", "--policy", "justitia")
    _, fixed, _ = justitia(*command)
    _, cold, _ = justitia(*command, "--learning")
    status, warm, _ = justitia(*command, "--learning", "--warm-up", path)
    assert status == 0
    means = [shown.partition("│ justitia │")[2].split()[0] for shown in (fixed, cold, warm)]
    assert float(means[2]) < float(means[1]) <= float(means[0])


@pytest.mark.parametrize(
    ("options", "status", "problem"),
    [
        (("--warm-up", "before.jsonl"), 2, "needs --learning"),
        (("--policy", "lottery"), 2, "must be one of"),
        (("--routing", "nearest"), 2, "least-kv"),
        (("--estimator", "oracle"), 1, "error: estimator: must be one of exact"),
    ],
)
def test_a_wrong_option_is_refused(justitia, scenario_file, options, status, problem):
    found, _, error = justitia("sim", "run", scenario_file, *options)
    assert found == status
    assert problem in error


def test_a_wrong_file_is_refused_in_one_sentence(justitia, tmp_path):
    path = tmp_path / "none.jsonl"
    status, _, error = justitia("sim", "run", path)
    assert status == 1
    assert error.count("\n") == 1
    assert "cannot be read (No such file or directory)" in error
    path.write_text("{}\n")
    status, _, error = justitia("sim", "run", path)
    assert status == 1
    assert "line 1: justitia_scenario: is missing" in error
