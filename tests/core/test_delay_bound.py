"""Rule D1: nobody ends much later than in the fluid system."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from justitia.core.policies import make_policy
from justitia.testing.delay_bound import delay_bound_steps, delays_steps
from justitia.testing.scenarios import EngineConfig, Job
from justitia.testing.step_pool import StepPool

INFERENCE = st.tuples(st.integers(1, 20), st.integers(0, 24))
STAGE = st.lists(INFERENCE, min_size=1, max_size=6).map(tuple)
CONFIGS = st.builds(
    EngineConfig,
    capacity_tokens=st.sampled_from([50, 90]),
    max_sequences=st.sampled_from([2, 5, 10**6]),
    step_budget_tokens=st.sampled_from([6, 10**6]),
    does_reserve_output=st.booleans(),
)


def jobs_of(max_stages):
    job = st.tuples(
        st.lists(STAGE, min_size=1, max_size=max_stages).map(tuple),
        st.integers(0, 60),
        st.sampled_from([1, 1, 2, "0.25"]),
    )
    return st.lists(job, min_size=2, max_size=6).map(
        lambda drawn: [
            Job(f"j{n}", stages, at, weight) for n, (stages, at, weight) in enumerate(drawn)
        ]
    )


def delays(jobs, config, policy="justitia"):
    return delays_steps(StepPool(lambda: make_policy(policy), config).play(jobs))


@settings(derandomize=True, deadline=None, max_examples=60, database=None)
@given(jobs=jobs_of(max_stages=1), config=CONFIGS)
def test_runs_of_one_stage_end_within_the_bound_of_d1(jobs, config):
    assert max(delays(jobs, config).values()) <= delay_bound_steps(jobs, config)


@settings(derandomize=True, deadline=None, max_examples=40, database=None)
@given(jobs=jobs_of(max_stages=4), config=CONFIGS)
def test_each_further_stage_adds_at_most_one_longest_inference(jobs, config):
    bound = delay_bound_steps(jobs, config)
    longest = max(job.longest_inference_steps(config.step_budget_tokens) for job in jobs)
    delay = delays(jobs, config)
    for job in jobs:
        assert delay[job.name] <= bound + (len(job.stages) - 1) * longest


def staged_mouse(num_stages, output=40):
    """A run whose stages are narrow and wide in turn: a long inference fills what a narrow one
    leaves, and the wide one that comes next waits for it."""
    config = EngineConfig(capacity_tokens=62, does_reserve_output=True)
    mouse = Job("mouse", (((1, 1),), ((58, 1),)) * (num_stages // 2), weight=1000)
    fillers = [Job(f"filler-{n}", (((20, output),),)) for n in range(num_stages)]
    return [mouse, *fillers], config, output


@pytest.mark.parametrize("num_stages", [8, 16])
def test_a_staged_run_can_break_d1_but_not_by_more_than_its_further_stages(num_stages):
    """Nothing is preempted for a stage that did not exist: it waits for what runs by then."""
    jobs, config, longest = staged_mouse(num_stages)
    delay = delays(jobs, config)["mouse"]
    bound = delay_bound_steps(jobs, config)
    assert delay > bound, "D1 as it stands does not hold for runs of several stages"
    assert delay <= bound + (num_stages - 1) * longest
    assert delay >= num_stages // 2 * (longest - 2), "each wide stage waits for a longest one"


def test_fcfs_breaks_the_bound_that_justitia_keeps():
    config = EngineConfig(capacity_tokens=60)
    crowd = [Job(f"crowd-{n}", (((10, 20),) * 20,)) for n in range(8)]
    jobs = [*crowd, Job("late", (((10, 20),),), at_step=1)]
    bound = delay_bound_steps(jobs, config)
    assert delays(jobs, config, "fcfs")["late"] > bound
    assert delays(jobs, config, "justitia")["late"] <= bound
