"""Numbers over seeds, and how they are written."""

import pytest

from justitia.sim.reproduce.experiment import Case, Play, Scale
from justitia.sim.reproduce.telling import (
    Spread,
    listed_seeds,
    mean_jct_s,
    number,
    over_seeds,
    p90_jct_s,
    quotient,
    versus,
)
from justitia.testing.sim_jobs import small_scenario
from justitia.testing.sim_plays import with_jcts

SCALE = Scale(seeds=(1, 2, 3))


def play_of(policy):
    return lambda seed: Play(Case.of(small_scenario, seed=seed), policy)


def outcomes(**jcts_by_seed):
    return {
        play_of(policy)(seed): with_jcts(jcts)
        for policy, by_seed in jcts_by_seed.items()
        for seed, jcts in zip(SCALE.seeds, by_seed, strict=True)
    }


def test_a_spread_is_median_and_range():
    assert Spread.of([3.0, 1.0, 2.0]) == Spread(2.0, 1.0, 3.0)
    assert str(Spread.of([0.5, 0.25, 0.4])) == "0.400 (0.250 to 0.500)"
    assert str(Spread.of([0.4])) == "0.400"
    assert Spread.of([0.92, 1.0, 0.995]).as_percent == "99.5 % (92.0 % to 100.0 %)"


@pytest.mark.parametrize(
    ("value", "shown"),
    [(1234.5, "1,234"), (12.34, "12.3"), (1.0449, "1.045"), (0.0123, "0.0123"), (0.0, "0")],
)
def test_numbers_have_three_digits_that_count(value, shown):
    assert number(value) == shown


def test_quotients_are_taken_within_a_seed_before_the_median():
    found = outcomes(mine=[[1.0], [20.0], [300.0]], theirs=[[10.0], [10.0], [1000.0]])
    # The quotient of the medians would be 20 / 10.
    assert quotient(SCALE, found, play_of("mine"), play_of("theirs"), mean_jct_s) == Spread(
        0.3, 0.1, 2.0
    )
    assert over_seeds(SCALE, found, play_of("mine"), mean_jct_s) == Spread(20.0, 1.0, 300.0)


def test_a_play_is_compared_run_by_run():
    found = outcomes(mine=[[1.0, 30.0]] * 3, theirs=[[10.0, 10.0]] * 3)
    compared = versus(SCALE, found, play_of("mine"), play_of("theirs"))
    assert compared.cells() == ("1.550", "50.0 %", "3.000")


def test_p90_is_of_one_play():
    assert p90_jct_s(with_jcts([float(each) for each in range(1, 11)])) == 9.0


def test_seeds_are_named():
    assert listed_seeds(SCALE) == "median (range) over seeds 1, 2, 3"
    assert listed_seeds(Scale(seeds=(11,))) == "seed 11"
