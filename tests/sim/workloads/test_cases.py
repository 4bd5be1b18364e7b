from collections import Counter

import pytest

from justitia.core.errors import InvalidValueError
from justitia.sim.scenario import Scenario
from justitia.sim.workloads import cases
from justitia.sim.workloads.summary import total_cost_kvtt
from justitia.sim.workloads.tables import FULL_STEP_S, PAPER_ENGINE


def cost(scenario, *runs):
    return total_cost_kvtt(Scenario(engines=scenario.engines, runs=runs or scenario.runs))


def test_two_mergers_are_equal_and_take_the_figures_steps():
    scenario = cases.two_document_mergers()
    first, second = scenario.runs
    assert first.arrival_s == second.arrival_s == 0
    assert cost(scenario, first) == cost(scenario, second)
    assert 3300 < cost(scenario) / PAPER_ENGINE.kv_capacity_tokens < 4700


def test_the_three_applications_have_the_figures_costs_and_fluid_order():
    scenario = cases.three_applications()
    units = {run.id: cost(scenario, run) / 22_000 for run in scenario.runs}
    assert units == pytest.approx({"app-1": 5, "app-2": 11.5, "app-3": 7.5}, rel=0.02)
    ratio = [run.arrival_s / scenario.runs[1].arrival_s for run in scenario.runs]
    assert ratio == pytest.approx([0, 1, 4])
    assert scenario.engines[0].max_num_seqs == 2
    needed = max(i.prompt_tokens + i.output_tokens for run in scenario.runs for i in run.inferences)
    assert 2 * -(-needed // 16) <= scenario.engines[0].blocks


@pytest.mark.parametrize("num_mice", [0, 100, 500])
def test_an_elephant_comes_before_mice_that_take_half_of_the_cache(num_mice):
    scenario = cases.elephant_and_mice(num_mice=num_mice, seed=2)
    elephant, *mice = scenario.runs
    assert len(mice) == num_mice
    assert elephant.arrival_s == 0
    assert [mouse.arrival_s for mouse in mice] == [1.0 + n for n in range(num_mice)]
    if mice:
        rho = cost(scenario, *mice) / PAPER_ENGINE.kv_capacity_tokens * FULL_STEP_S / num_mice
        assert 0.35 < rho < 0.6
        assert cost(scenario, elephant) > 50 * cost(scenario, *mice) / num_mice


def test_more_mice_leave_the_first_ones_and_the_elephant_alone():
    few, many = (cases.elephant_and_mice(num_mice=num, seed=2).runs for num in (10, 30))
    assert many[: len(few)] == few


@pytest.mark.parametrize("rho", [0.5, 0.95])
def test_a_steady_load_offers_that_much(rho):
    scenario = cases.steady(rho, seed=1, num_runs=400)
    span_s = scenario.runs[-1].arrival_s
    work_s = cost(scenario) / PAPER_ENGINE.kv_capacity_tokens * FULL_STEP_S
    assert work_s / span_s == pytest.approx(rho, rel=0.03)


def test_weights_stand_one_two_four():
    scenario = cases.weighted(seed=1, num_runs=30)
    weights = {scenario.weight_of(run.application) for run in scenario.runs}
    assert weights == {1.0, 2.0, 4.0}


def test_a_skewed_ingress_pins_most_of_a_tenants_runs_to_its_engine():
    scenario = cases.skewed_ingress(seed=1, skew=0.8)
    pins = Counter(
        (run.application.partition("/")[0], scenario.engine_of_run[run.id]) for run in scenario.runs
    )
    assert pins["gold", 0] / 200 == pytest.approx(0.8, abs=0.08)
    assert pins["basic", 1] / 200 == pytest.approx(0.8, abs=0.08)
    assert cases.unpinned(scenario).engine_of_run == {}
    assert cases.unpinned(scenario).runs == scenario.runs


def test_a_crowd_has_the_same_load_at_every_size():
    spans = []
    for num in (20, 40):
        scenario = cases.crowd(seed=1, num_runs=10 * num, num_engines=num)
        work_s = cost(scenario) / scenario.engines[0].kv_capacity_tokens * FULL_STEP_S / num
        spans.append(work_s / scenario.runs[-1].arrival_s)
    assert spans == pytest.approx([1.5, 1.5], rel=0.05)


def test_waves_leave_silence_between_them():
    times = [run.arrival_s for run in cases.on_and_off(seed=1).runs]
    assert all(at % 360 <= 120 for at in times)


@pytest.mark.parametrize(
    "make",
    [
        lambda: cases.steady(0.0, seed=1),
        lambda: cases.steady(float("nan"), seed=1),
        lambda: cases.elephant_and_mice(num_mice=-1, seed=1),
        lambda: cases.elephant_and_mice(num_mice=1, seed=1, mice_per_s=0),
        lambda: cases.skewed_ingress(seed=1, skew=1.1),
        lambda: cases.skewed_ingress(seed=1, num_engines=1),
    ],
)
def test_impossible_cases_are_refused(make):
    with pytest.raises(InvalidValueError):
        make()
