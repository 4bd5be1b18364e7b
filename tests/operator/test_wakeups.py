"""The queue of looks, on fake time: exact instants."""

import asyncio
import itertools

import pytest

from justitia_operator.wakeups import Wakeups

pytestmark = pytest.mark.looptime


@pytest.fixture
def now():
    return lambda: asyncio.get_running_loop().time()


async def test_things_come_when_they_are_due_in_order(now):
    queue = Wakeups()
    queue.wake("late", in_s=5)
    queue.wake("soon", in_s=2)
    queue.wake("now")
    taken = []
    for _ in range(3):
        item = await queue.take()
        taken.append((item, now()))
        queue.done(item)
    assert taken == [("now", 0), ("soon", 2), ("late", 5)]


async def test_waking_twice_is_waking_once_and_the_earlier_time_stands(now):
    queue = Wakeups()
    queue.wake("a", in_s=5)
    queue.wake("a", in_s=2)
    queue.wake("a", in_s=9)
    item = await queue.take()
    assert now() == 2
    queue.done(item)
    assert len(queue) == 0


async def test_nothing_is_looked_at_by_two_at_a_time(now):
    queue = Wakeups()
    queue.wake("a")
    item = await queue.take()
    queue.wake("a")
    second = asyncio.create_task(queue.take())
    await asyncio.sleep(3)
    assert not second.done()
    queue.done(item)
    assert await second == "a"
    assert now() == 3


async def test_what_is_woken_meanwhile_waits_for_its_own_time(now):
    queue = Wakeups()
    queue.wake("a")
    await queue.take()
    queue.wake("a", in_s=10)
    queue.done("a")
    assert await queue.take() == "a"
    assert now() == 10


async def test_failures_are_repeated_more_and_more_rarely_up_to_a_minute(now):
    queue = Wakeups()
    queue.wake("a")
    instants = []
    for _ in range(10):
        await queue.take()
        instants.append(now())
        queue.failed("a")
    gaps = [b - a for a, b in itertools.pairwise(instants)]
    assert gaps == [1, 2, 4, 8, 16, 32, 60, 60, 60]


async def test_a_success_forgets_the_failures(now):
    queue = Wakeups()
    queue.wake("a")
    for _ in range(3):
        await queue.take()
        queue.failed("a")
    await queue.take()
    queue.done("a")
    queue.wake("a")
    await queue.take()
    before = now()
    queue.failed("a")
    await queue.take()
    assert now() - before == 1


async def test_a_failure_does_not_delay_news(now):
    queue = Wakeups()
    queue.wake("a")
    await queue.take()
    queue.failed("a")
    queue.wake("a")
    await queue.take()
    assert now() == 0


async def test_several_workers_share_the_work(now):
    queue = Wakeups()
    workers = [asyncio.create_task(queue.take()) for _ in range(3)]
    await asyncio.sleep(1)
    for name in "abc":
        queue.wake(name)
    assert sorted(await asyncio.gather(*workers)) == ["a", "b", "c"]
    assert now() == 1
