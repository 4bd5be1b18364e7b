"""What the simulator's benchmarks make of what they measure; nothing is timed here."""

import json
import re
from pathlib import Path

import pytest

from justitia.sim.scenario import Scenario

FOLDER = Path(__file__).resolve().parents[2] / "bench"


@pytest.fixture(scope="module")
def evidence(load):
    return load("evidence")


@pytest.fixture(scope="module")
def scale(load):
    return load("simulator_scale")


@pytest.fixture(scope="module")
def simulator(load):
    return load("simulator")


# -- evidence ----------------------------------------------------------------


def test_the_error_is_the_mean_of_the_mean_errors_of_the_datasheet(evidence):
    page = "| a | 25 | 4 | 14% (17%) | 0.30 |\n| b | 25 | 5 | 29% (30%) | 0.80 |\n| 10% to 90% |\n"
    assert evidence.predictor_error(page) == pytest.approx(0.235)
    real = evidence.DATASHEET.read_text(encoding="utf-8")
    assert len(re.findall(r"^\| [a-z-]+ \| \d+ \|", real, re.MULTILINE)) == 9
    assert 0.1 < evidence.predictor_error(real) < 0.4


def test_a_datasheet_without_errors_is_refused(evidence):
    with pytest.raises(SystemExit, match="no errors"):
        evidence.predictor_error("| a | 25 | – |")


def test_figures_are_medians_and_violations_are_added_up(evidence):
    rows = [
        {"worst_over_vtc": worst, "bound_violations": count, "bound_violations_vtc": 7}
        for worst, count in ((1.0, 1), (9.0, 0), (1.2, 2))
    ]
    figures = evidence.over_seeds(rows)
    assert figures["worst_over_vtc"] == 1.2
    assert figures["bound_violations"] == 3
    assert figures["bound_violations_vtc"] == 21
    assert figures["worst_over_vtc_by_seed"] == [1.0, 9.0, 1.2]


@pytest.fixture(scope="module")
def one_seed(evidence):
    learner = evidence.taught(4, evidence.settings_of(0.2), 40)
    return evidence.figures_of_seed(4, 0.2, learner, num_runs=40, num_mice=(2, 4))


def test_a_seed_has_every_figure_that_there_is_a_goal_for(one_seed):
    goals = json.loads((FOLDER / "goals.json").read_text())["evidence"]
    assert goals.keys() <= one_seed.keys()


def test_the_bound_is_hard_fcfs_breaks_it_and_justitia_does_not(one_seed):
    assert one_seed["bound_violations"] == 0
    assert one_seed["bound_violations_fcfs"] > 0
    assert one_seed["largest_delay_over_bound"] < 1 < one_seed["largest_delay_over_bound_fcfs"]


def test_nobody_beats_the_limit(one_seed):
    limits = [value for name, value in one_seed.items() if "srpt_limit" in name]
    assert len(limits) == 3
    assert min(limits) >= 1


# -- simulator ----------------------------------------------------------------


def test_every_run_of_the_timed_workload_has_twenty_inferences(simulator):
    scenario = simulator.twenty(3, num_runs=21)
    assert isinstance(scenario, Scenario)
    assert {len(run.inferences) for run in scenario.runs} == {20}
    assert {run.application for run in scenario.runs} == set(simulator.WIDENED)
    assert scenario == simulator.twenty(3, num_runs=21)


class Pair:
    def __init__(self, jct_difference, order_correlation):
        self.jct_difference = jct_difference
        self.order_correlation = order_correlation


def test_the_worst_pair_counts_whichever_side_it_errs_to(simulator):
    assert simulator.worst_of([Pair(0.01, 0.99), Pair(-0.02, 1.0)]) == (0.02, 0.99)


def test_parity_covers_every_policy_of_the_plugin_and_every_engine(simulator):
    cases = list(simulator.parity_cases((1, 2), 3))
    assert {policy for _, _, policy in cases} == set(simulator.POLICIES)
    assert {name for name, _, _ in cases} == {
        f"{name}, seed {seed}" for name in ("paper's mix", *simulator.ENGINES) for seed in (1, 2)
    }


# -- scale ----------------------------------------------------------------


def measured(size, seconds, memory_mib):
    return {
        "size": size,
        "wall_s": 2 * seconds,
        "cpu_s": 1.5 * seconds,
        "play_cpu_s": seconds,
        "peak_memory_mib": memory_mib,
        "inferences": 10 * int(size.partition("/")[0]),
        "plans": 20 * int(size.partition("/")[0]),
    }


def test_growth_is_the_slope_of_the_logarithms(scale):
    assert scale.growth_exponent([(10, 3.0), (100, 30.0), (1000, 300.0)]) == pytest.approx(1.0)
    assert scale.growth_exponent([(10, 1.0), (1000, 10_000.0)]) == pytest.approx(2.0)


def test_minutes_and_memory_are_those_of_the_largest_size(scale):
    sizes = [measured("100/1", 1.0, 50.0), measured("1000/10", 30.0, 200.0)]
    figures = scale.figures_of(sizes)
    assert figures["minutes"] == 1.0
    assert figures["cpu_minutes"] == 0.75
    assert figures["growth_exponent"] == pytest.approx(1.4771, abs=1e-4)
    assert figures["peak_memory_mib"] == 200.0
    assert figures["cpu_us_per_inference_at_1000"] == 3000.0
    assert figures["plans_per_inference_at_1000"] == 2.0


def test_smaller_sizes_are_played_around_the_largest_and_count_with_their_median(
    scale, monkeypatch
):
    order = []
    seconds = {"100/1": iter([9.0, 1.0, 2.0]), "1000/10": iter([30.0])}

    def found(size, _seed):
        order.append(size)
        return measured(size, next(seconds[size]), 1.0)

    monkeypatch.setattr(scale, "measure_apart", found)
    kept = scale.measure_all(["100/1", "1000/10"], 1)
    assert order == ["100/1", "1000/10", "100/1", "100/1"]
    assert [each["play_cpu_s"] for each in kept] == [2.0, 30.0]


def test_a_size_is_played_and_measured(scale):
    found = scale.measure("60/2", 1)
    assert found["inferences"] > 60
    assert found["play_cpu_s"] > 0
    assert found["peak_memory_mib"] > 1
    assert found["wall_s"] >= 0
