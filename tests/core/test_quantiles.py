import math

from justitia.core.quantiles import quantile, quantile_of_sorted


def test_quantiles_are_values_that_occurred():
    assert quantile([3, 1, 2], 0.5) == 2
    assert quantile(range(1, 101), 0.9) == 90
    assert quantile([7], 0.99) == 7
    assert math.isnan(quantile([], 0.5))


def test_a_rank_is_exact_where_floats_are_not():
    assert quantile(range(1, 101), 0.55) == 55
    assert quantile(range(1, 101), 0.07) == 7


def test_of_sorted_values_the_same_is_found():
    ordered = [1.0, 2.0, 5.0, 9.0]
    for share in (0, 0.25, 0.26, 0.5, 0.99, 1):
        assert quantile_of_sorted(ordered, share) == quantile(reversed(ordered), share)
