import random
from collections import Counter
from itertools import pairwise
from statistics import fmean, pvariance

import pytest
from hypothesis import given
from hypothesis import strategies as st

from justitia.core.errors import InvalidValueError
from justitia.sim.workloads.arrivals import OnOff, Poisson, Recorded, Uniform, scaled

STAMPS = tuple(float(3 * (n // 10)) for n in range(500))  # ten in each bucket of 3 s
EVERY = [
    Poisson(),
    Uniform(),
    OnOff(on_s=7, off_s=20),
    Recorded(timestamps_s=STAMPS, bucket_s=3.0),
]


@pytest.mark.parametrize("arrivals", EVERY, ids=lambda each: type(each).__name__)
@given(st.integers(1, 400), st.floats(0, 1e5), st.integers(0, 2**40))
def test_times_are_in_order_and_in_the_window(arrivals, num_runs, window_s, seed):
    times = arrivals.times_s(random.Random(seed), num_runs, window_s)
    assert len(times) == num_runs
    assert times == sorted(times)
    assert times[0] >= 0
    assert times[-1] <= window_s * (1 + 1e-9)


@pytest.mark.parametrize("arrivals", EVERY, ids=lambda each: type(each).__name__)
def test_the_same_seed_gives_the_same_times(arrivals):
    once, again, other = (arrivals.times_s(random.Random(s), 100, 60.0) for s in (1, 1, 2))
    assert once == again
    assert (once == other) is isinstance(arrivals, Uniform)


def counts(times, window_s, num):
    found = Counter(min(int(num * at / window_s), num - 1) for at in times)
    return [found[n] for n in range(num)]


def test_a_poisson_process_has_as_much_variance_as_mean():
    found = counts(Poisson().times_s(random.Random(3), 20_000, 1000.0), 1000.0, 500)
    assert pvariance(found) / fmean(found) == pytest.approx(1, abs=0.25)


def test_nothing_comes_while_off():
    times = OnOff(on_s=10, off_s=30).times_s(random.Random(1), 300, 120.0)
    assert all(at % 40 <= 10 for at in times)
    assert {int(at // 40) for at in times} == {0, 1, 2}


def test_bursts_of_a_trace_stay_bursts():
    bursts = tuple(float(1000 * (n // 50)) for n in range(500))
    times = Recorded(timestamps_s=bursts, bucket_s=1.0).times_s(random.Random(1), 500, 100.0)
    found = counts(times, 100.0, 1000)
    assert sorted(found)[-10:] == [50] * 10


def test_times_of_one_bucket_are_spread_over_it():
    rng = random.Random(1)
    times = Recorded(timestamps_s=STAMPS, bucket_s=3.0).times_s(rng, 500, 150.0)
    assert len(set(times)) == 500
    assert max(b - a for a, b in pairwise(times)) < 3


def test_a_trace_that_is_too_short_is_refused():
    with pytest.raises(InvalidValueError, match="has 500, which are less than 501 runs"):
        Recorded(timestamps_s=STAMPS, bucket_s=0.0).times_s(random.Random(1), 501, 10.0)


@pytest.mark.parametrize(
    "make",
    [
        lambda: OnOff(on_s=0, off_s=1),
        lambda: OnOff(on_s=1, off_s=-1),
        lambda: OnOff(on_s=float("nan"), off_s=1),
        lambda: Recorded(timestamps_s=(), bucket_s=0),
        lambda: Recorded(timestamps_s=(2.0, 1.0), bucket_s=0),
        lambda: Recorded(timestamps_s=(1.0,), bucket_s=float("inf")),
    ],
)
def test_impossible_arrivals_are_refused(make):
    with pytest.raises(InvalidValueError):
        make()


def test_times_that_are_all_one_stay_together():
    assert scaled([5.0, 5.0], 10.0) == [0.0, 0.0]
    assert scaled([], 10.0) == []
    assert scaled([5.0, 6.0, 9.0], 8.0) == [0.0, 2.0, 8.0]
