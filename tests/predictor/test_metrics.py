import math

import numpy as np
import pytest

from justitia.predictor.metrics import measure, rank_correlation


def test_errors_of_a_worked_example():
    metrics = measure([100, 50, 400], [100, 100, 100])
    assert metrics.num_held_out == 3
    assert metrics.mean_relative_error == pytest.approx((0 + 0.5 + 3) / 3)
    assert metrics.median_relative_error == pytest.approx(0.5)
    assert metrics.mean_log_error == pytest.approx((0 + math.log(2) + math.log(4)) / 3)


def test_nothing_to_compare_gives_no_errors():
    metrics = measure([], [])
    assert (metrics.num_held_out, metrics.mean_relative_error, metrics.rank_correlation) == (
        0,
        None,
        None,
    )


@pytest.mark.parametrize(
    ("left", "right", "expected"),
    [
        pytest.param([1, 2, 3], [10, 20, 90], 1.0, id="same order"),
        pytest.param([1, 2, 3], [9, 4, 1], -1.0, id="opposite order"),
        pytest.param([1, 1, 2, 3], [1, 2, 3, 4], 0.948683, id="a tie shares its mean rank"),
        pytest.param([5, 5, 5], [1, 2, 3], None, id="constant"),
        pytest.param([], [], None, id="empty"),
    ],
)
def test_rank_correlation(left, right, expected):
    result = rank_correlation(np.array(left, dtype=float), np.array(right, dtype=float))
    assert result == (None if expected is None else pytest.approx(expected, abs=1e-6))
