"""How a measured quantity grows with size."""

import math
import statistics
from collections.abc import Sequence


def growth_exponent(points: Sequence[tuple[float, float]]) -> float:
    """Slope of log(y) over log(x) by least squares: y grows like x to that power.

    ``points`` are (x, y), all > 0, of two sizes x at least.
    """
    xs = [math.log(x) for x, _ in points]
    ys = [math.log(y) for _, y in points]
    return statistics.linear_regression(xs, ys).slope
