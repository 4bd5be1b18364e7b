"""Step-time models."""

import json

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from justitia.core.errors import InvalidValueError
from justitia.sim.step_models import STEP_MODELS, step_time_of
from justitia.step_time import Chunk, DecodePace, StepTime, Work

ROOFLINE = {
    "weights_bytes": 1e10,
    "kv_bytes_per_token": 1e5,
    "flops_per_token": 1e10,
    "flops_per_pair": 1e6,
    "bandwidth_bytes_s": 1e12,
    "flops_s": 1e14,
}


@pytest.mark.parametrize("name", sorted(STEP_MODELS))
def test_small_steps_are_bound_by_memory_and_large_ones_by_compute(name):
    model = STEP_MODELS[name]
    one = model.of_work(Work(1, 1, 100))
    assert model.of_work(Work(8, 8, 800)) < 2 * one
    assert model.of_work(Work(4096, 1, 0)) > 10 * model.of_work(Work(256, 1, 0))


def test_newer_gpus_are_faster():
    work = Work(64, 64, 64 * 500)
    a100, h100, h200 = (
        STEP_MODELS[name].of_work(work)
        for name in ("a100-llama2-7b", "h100-llama2-7b", "h200-llama2-7b")
    )
    assert a100 > h100 > h200


def test_a_roofline_of_the_users_own():
    model = step_time_of(json.dumps(ROOFLINE))
    assert model.floor_s == pytest.approx(32 * 36e-6 + 1e10 / 0.776e12)
    assert model.per_kv_token_s == pytest.approx(1e5 / 0.8e12)


def test_coefficients_of_the_users_own():
    assert step_time_of('{"scale": 0.5}') == StepTime(scale=0.5)


@pytest.mark.parametrize(
    ("name", "problem"),
    [
        ("tpu", "must be one of a100"),
        ("{", "no JSON object"),
        ('{"floor_s": "x"}', "floor_s: must be a number"),
        ('{"floor_s": -1}', "floor_s: must be a finite number"),
        (json.dumps(ROOFLINE | {"flops_s": 0}), "flops_s: must be a number > 0"),
        (json.dumps(ROOFLINE | {"racks": 2}), "racks"),
        ('{"flops_s": 1}', "missing"),
    ],
)
def test_what_is_no_model_is_refused(name, problem):
    with pytest.raises(InvalidValueError, match=problem):
        step_time_of(name)


@given(st.integers(1, 300), st.integers(0, 10**6), st.integers(1, 400))
@settings(derandomize=True, deadline=None, max_examples=100, database=None)
def test_steps_in_one_go_take_as_long_as_one_by_one(num, held, count):
    model = StepTime()
    pace = model.decoding(num, held)
    single = sum(model.of_work(Work(num, num, held + num * (step + 1))) for step in range(count))
    assert pace.of(count) == pytest.approx(single)
    chunks = [Chunk(1, held + 1)] + [Chunk(1, 1)] * (num - 1)
    assert pace.of(1) == pytest.approx(model.of(chunks))


@given(
    st.sampled_from([0.0, 2.0**-7, 1e-3]),
    st.sampled_from([0.0, 2.0**-20, 1e-5]),
    st.floats(0, 5),
    st.integers(1, 500),
)
@settings(derandomize=True, deadline=None, max_examples=300, database=None)
def test_the_step_under_way_is_the_first_that_has_not_ended_before(first, growth, seconds, most):
    pace = DecodePace(first, growth)
    found = pace.steps_by(seconds, most)
    assert 1 <= found <= most
    assert found == most or pace.of(found) >= seconds
    assert found == 1 or pace.of(found - 1) < seconds
