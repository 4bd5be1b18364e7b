"""Routers: whom they choose, and what they keep."""

import random

import pytest

from justitia.sim.router import Routing, make_router


class Loaded:
    def __init__(self, load_blocks):
        self.load_blocks = load_blocks


def test_round_robin_takes_one_after_the_other():
    router = make_router(Routing.ROUND_ROBIN, [Loaded(9), Loaded(0), Loaded(5)])
    assert [router.choose() for _ in range(4)] == [0, 1, 2, 0]


def test_of_equal_loads_the_first_is_chosen():
    router = make_router(Routing.LEAST_KV, [Loaded(3), Loaded(2), Loaded(2)])
    assert router.choose() == router.choose() == 1


@pytest.mark.parametrize("seed", range(3))
def test_the_smallest_load_is_chosen_however_loads_have_moved(seed):
    rng = random.Random(seed)
    engines = [Loaded(0) for _ in range(7)]
    router = make_router(Routing.LEAST_KV, engines)
    for _ in range(2000):
        place = rng.randrange(7)
        engines[place].load_blocks = rng.randrange(20)
        router.changed(place)
        loads = [engine.load_blocks for engine in engines]
        assert router.choose() == loads.index(min(loads))


def test_loads_of_the_past_do_not_pile_up():
    """They lie above the present ones, so nobody comes across them when choosing."""
    engines = [Loaded(10_000) for _ in range(5)]
    router = make_router(Routing.LEAST_KV, engines)
    for load in range(10_000, 0, -1):
        for place, engine in enumerate(engines):
            engine.load_blocks = load
            router.changed(place)
        assert router.choose() == 0
    assert len(router._heap) <= 100
