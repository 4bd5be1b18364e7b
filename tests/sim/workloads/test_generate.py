from collections import Counter

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from justitia.core.errors import InvalidValueError
from justitia.sim.workloads.arrivals import Uniform
from justitia.sim.workloads.generate import generate
from justitia.sim.workloads.mixes import MIXES
from justitia.sim.workloads.tables import KINDS, PAPER_ENGINE


def work(scenario):
    return [(run.id, run.inferences) for run in scenario.runs]


def test_the_papers_load_is_the_default():
    scenario = generate(seed=1)
    assert len(scenario.runs) == 300
    assert scenario.engines == (PAPER_ENGINE,)
    assert scenario.engines[0].kv_capacity_tokens == 7344
    assert 340 < scenario.runs[-1].arrival_s <= 360
    assert set(Counter(run.application for run in scenario.runs).values()) == {33, 34}


def test_the_seed_decides_everything_and_is_kept():
    assert generate(seed=7) == generate(seed=7)
    assert generate(seed=7).seed == 7
    assert "seed 7" in generate(seed=7).about
    assert work(generate(seed=7)) != work(generate(seed=8))


def test_other_arrivals_windows_engines_and_weights_leave_the_work_alone():
    usual = work(generate(seed=3))
    assert work(generate(seed=3, window_s=1080.0)) == usual
    assert work(generate(seed=3, arrivals=Uniform())) == usual
    assert work(generate(seed=3, engines=(PAPER_ENGINE,) * 4)) == usual
    assert work(generate(seed=3, tenants={"a": 1.0, "b": 2.0})) == usual


@settings(max_examples=25)
@given(st.integers(1, 60), st.integers(0, 2**40), st.sampled_from(sorted(MIXES)))
def test_runs_come_in_order_with_names_of_their_own(num_runs, seed, mix):
    scenario = generate(MIXES[mix], seed=seed, num_runs=num_runs, window_s=10.0)
    times = [run.arrival_s for run in scenario.runs]
    assert times == sorted(times)
    assert len({run.id for run in scenario.runs}) == num_runs
    listed = {each.name for each in scenario.applications}
    assert {run.application for run in scenario.runs} <= listed == set(KINDS)


def test_tenants_take_turns_and_their_applications_have_their_weights():
    scenario = generate(seed=1, num_runs=30, tenants={"gold": 4.0, "basic": 1.0})
    owners = Counter(run.application.partition("/")[0] for run in scenario.runs)
    assert owners == {"gold": 15, "basic": 15}
    assert {scenario.weight_of(run.application) for run in scenario.runs} == {4.0, 1.0}


@pytest.mark.parametrize("wrong", [{"num_runs": 0}, {"window_s": -1.0}, {"window_s": float("nan")}])
def test_an_impossible_size_is_refused(wrong):
    with pytest.raises(InvalidValueError, match="num_runs and window_s"):
        generate(seed=1, **wrong)
