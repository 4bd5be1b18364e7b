"""Step times: what a step takes, and coefficients that are refused."""

import pytest

from justitia.core.errors import InvalidValueError
from justitia.step_time import Chunk, StepTime, parse_step_time


def test_a_small_step_of_the_emulated_gpu_takes_the_time_to_read_the_weights():
    one = StepTime().of([Chunk(1, 100)])

    assert one == pytest.approx(9.76e-3 + 5e-6 + 100 * 0.32e-6)


def test_a_large_step_is_bound_by_compute():
    step_time = StepTime(per_prefill_pair_s=0, per_sequence_s=0)

    assert step_time.of([Chunk(2048, 2048)]) == pytest.approx(4.16e-3 + 2048 * 63.5e-6)


def test_the_scale_multiplies_everything():
    chunks = [Chunk(512, 512), Chunk(1, 900)]

    assert StepTime(scale=0.1).of(chunks) == pytest.approx(0.1 * StepTime().of(chunks))


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("[]", "JSON object"),
        ("{", "JSON object"),
        ('{"base": 1}', "unknown"),
        ('{"scale": "x"}', "must be a number"),
        ('{"scale": -1}', ">= 0"),
        ('{"floor_s": NaN}', "finite"),
    ],
)
def test_bad_coefficients_are_refused(text, words):
    with pytest.raises(InvalidValueError, match=words):
        parse_step_time(text)
