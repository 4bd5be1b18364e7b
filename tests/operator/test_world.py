"""What the watches told, and how a deaf one is noticed (FK5)."""

import pytest

from justitia_operator.facts import Key, Kind
from justitia_operator.world import DEAF_S, World

CHAT = Key("team-a", "chat")


@pytest.fixture
def world(make):
    world = World()
    world.put(Kind.APPLICATION, make.stored(make.application(), version="7"))
    return world


def missed(world, listed, now_s):
    return world.missed(Kind.APPLICATION, listed, now_s)


def test_an_object_is_known_until_it_is_dropped(world):
    assert world.application(CHAT).meta.uid == "uid-1"
    assert world.count(Kind.APPLICATION) == 1
    assert world.drop(Kind.APPLICATION, CHAT).meta.uid == "uid-1"
    assert world.application(CHAT) is None
    assert world.drop(Kind.APPLICATION, CHAT) is None


def test_equal_lists_miss_nothing(world):
    for now_s in (0, 100, 200):
        assert missed(world, {CHAT: ("uid-1", "7")}, now_s) == []
    assert not world.deaf


@pytest.mark.parametrize(
    "listed",
    [
        {CHAT: ("uid-1", "8")},
        {CHAT: ("uid-2", "7")},
        {},
        {CHAT: ("uid-1", "7"), Key("b", "x"): ("u", "1")},
    ],
    ids=["changed", "recreated", "deleted", "created"],
)
def test_fk5_what_a_watch_does_not_deliver_in_time_makes_it_deaf(world, listed):
    assert missed(world, listed, 0) == []
    assert missed(world, listed, DEAF_S - 1) == []
    assert not world.deaf
    assert len(missed(world, listed, DEAF_S)) == 1
    assert world.deaf == {Kind.APPLICATION}


def test_an_object_that_keeps_changing_is_a_busy_one_and_no_deaf_watch(world):
    for number in range(20):
        assert missed(world, {CHAT: ("uid-1", str(100 + number))}, number * DEAF_S) == []
    assert not world.deaf


def test_a_watch_that_delivers_late_is_not_deaf(world, make):
    listed = {CHAT: ("uid-1", "8")}
    missed(world, listed, 0)
    world.put(Kind.APPLICATION, make.stored(make.application(), version="8"))
    assert missed(world, listed, 2 * DEAF_S) == []


def test_a_deaf_watch_stays_deaf_though_its_gap_was_filled_until_it_speaks(world, make):
    listed = {CHAT: ("uid-1", "8")}
    missed(world, listed, 0)
    missed(world, listed, DEAF_S)
    world.put(Kind.APPLICATION, make.stored(make.application(), version="8"))  # from the listing
    missed(world, listed, 2 * DEAF_S)
    assert world.deaf
    world.heard(Kind.APPLICATION)
    assert not world.deaf
