"""Reference finish, fair ratio, critical path (rule R1)."""

import pytest

from justitia.core.fairness import FairnessTracker, FairRatio, InferenceTimes, critical_path_s
from justitia.core.units import TICKS_PER_KVTT, Ticks
from justitia.testing.builders import PoolDriver


@pytest.mark.parametrize(
    ("inferences", "path_s"),
    [
        pytest.param([], 0.0, id="none"),
        pytest.param([(0, 0, 5)], 5.0, id="one"),
        pytest.param([(0, 3, 5)], 2.0, id="queueing does not count"),
        pytest.param([(0, 0, 5), (0, 0, 7)], 7.0, id="parallel"),
        pytest.param([(0, 0, 5), (5, 5, 9)], 9.0, id="one after the other"),
        pytest.param([(0, 0, 5), (5, 7, 9)], 7.0, id="queueing in the second stage"),
        pytest.param([(0, 0, 5), (8, 8, 9)], 9.0, id="a tool between them counts"),
        pytest.param([(0, 0, 5), (0, 5, 10), (10, 10, 11)], 6.0, id="serialised by the engine"),
        pytest.param([(0, 0, 4), (0, 0, 2), (2, 2, 5)], 5.0, id="follows what had finished"),
        pytest.param([(5, 5, 9), (0, 0, 5)], 9.0, id="in any order"),
        pytest.param([(0, 0, 5), (1, 1, 2), (2, 2, 3)], 5.0, id="a chain inside a longer one"),
        pytest.param([(0, 9, 5)], 0.0, id="clocks that disagree"),
        pytest.param([(0, 0, 1), (1, 1, 2), (3, 4, 5), (5, 5, 6)], 5.0, id="chain with a pause"),
        pytest.param([(30, 30, 31)], 31.0, id="a tool before the first inference counts"),
        pytest.param([(30, 40, 41)], 31.0, id="queueing after that tool does not"),
        pytest.param([(9, 9, 10), (9, 9, 12)], 12.0, id="both of a stage follow the tool"),
        pytest.param([(0, 0, 1), (4, 4, 5), (4, 4, 9)], 9.0, id="both follow the tool between"),
        pytest.param([(0, 0, 62, 2)], 2.0, id="preempted and queued again for a minute"),
        pytest.param([(0, 0, 62, 2), (62, 62, 63, 1)], 3.0, id="a stage after a preemption"),
        pytest.param([(0, 0, 5, 99)], 5.0, id="never more than from start to end"),
    ],
)
def test_critical_path(inferences, path_s):
    assert critical_path_s((InferenceTimes(*t) for t in inferences), arrived_at_s=0.0) == path_s


def end(tracker, run_id="run", *, target, arrived=0.0, finished=1.0, path=0.0):
    tracker.end(
        run_id,
        "app",
        true_finish=Ticks(target),
        arrived_at_s=arrived,
        finished_at_s=finished,
        critical_path_s=path,
    )


def observe(tracker, now_s, value, *, empty=False):
    return tracker.observe(now_s, Ticks(value), is_fluid_empty=empty)


def test_the_reference_is_interpolated_inside_a_report():
    tracker = FairnessTracker()
    observe(tracker, 0.0, 0)
    observe(tracker, 10.0, 100)
    end(tracker, target=25, finished=5.0)
    assert observe(tracker, 11.0, 110) == [FairRatio("run", "app", 5.0, 2.5)]


def test_a_run_that_ended_before_the_fluid_waits_until_v_gets_there():
    tracker = FairnessTracker()
    observe(tracker, 0.0, 0)
    end(tracker, target=100, finished=4.0)
    assert observe(tracker, 5.0, 50) == []
    (ratio,) = observe(tracker, 9.0, 90 + 20)
    assert ratio.reference_jct_s == pytest.approx(5 + 4 * 50 / 60)
    assert observe(tracker, 10.0, 120) == []


def test_an_empty_fluid_settles_everybody_now():
    tracker = FairnessTracker()
    observe(tracker, 0.0, 0)
    end(tracker, "a", target=100, finished=4.0)
    end(tracker, "b", target=30, finished=4.0)
    ratios = observe(tracker, 8.0, 50, empty=True)
    assert [(r.run_id, r.reference_jct_s) for r in ratios] == [
        ("b", pytest.approx(4.8)),
        ("a", 8.0),
    ]


def test_time_that_v_stood_still_is_not_smeared_over_its_growth():
    tracker = FairnessTracker()
    observe(tracker, 0.0, 100)
    for now in (10.0, 50.0, 90.0):
        observe(tracker, now, 100)
    observe(tracker, 100.0, 200)
    end(tracker, target=150, arrived=90.0, finished=99.0)
    (ratio,) = observe(tracker, 101.0, 200)
    assert ratio.reference_jct_s == 5.0


def test_the_critical_path_is_the_least_reference():
    tracker = FairnessTracker()
    observe(tracker, 0.0, 0)
    observe(tracker, 10.0, 100)
    end(tracker, target=10, finished=8.0, path=8.0)
    (ratio,) = observe(tracker, 10.0, 100)
    assert ratio.ratio == 1.0


def test_a_reference_of_no_time_counts_as_fair():
    assert FairRatio("run", "app", 0.0, 0.0).ratio == 1.0


def test_a_clock_that_goes_back_does_no_harm():
    tracker = FairnessTracker()
    observe(tracker, 10.0, 0)
    observe(tracker, 3.0, 100)
    end(tracker, target=50, arrived=10.0, finished=10.0)
    (ratio,) = observe(tracker, 2.0, 200)
    assert ratio.reference_jct_s == 0.0
    assert ratio.ratio == 1.0


def test_memory_is_bounded_and_old_references_stay_close():
    tracker = FairnessTracker()
    for second in range(200_000):
        observe(tracker, float(second), 10 * second)
    assert len(tracker._times_s) <= 65_536
    end(tracker, target=123_456, finished=1.0)
    (ratio,) = observe(tracker, 200_000.0, 2_000_000)
    assert ratio.reference_jct_s == pytest.approx(12_345.6)


def test_a_ratio_that_is_due_is_not_lost_when_another_run_starts_first():
    """V has passed the run's true finish by the time it ends; the next thing is an arrival."""
    driver = PoolDriver()
    driver.start("late", 10, now_s=0.0)
    driver.serve("late", 10, now_s=10.0)
    driver.pool.end_run("late", now_s=30.0)
    driver.start("next", 10, now_s=31.0)
    (ratio,) = driver.serve("next", 1, now_s=32.0)
    assert (ratio.run_id, ratio.jct_s, ratio.reference_jct_s) == ("late", 30.0, 10.0)


def test_with_the_last_run_the_busy_period_ends_and_every_ratio_is_known():
    """The fluid gave 50 of 100 to a run that was to cost 500 and cost 20."""
    driver = PoolDriver()
    driver.start("wrong", 500, now_s=0.0)
    driver.start("right", 80, now_s=0.0)
    driver.serve("wrong", 20, now_s=2.0)
    driver.serve("right", 80, now_s=10.0)
    driver.pool.end_run("wrong", now_s=10.0)
    driver.pool.end_run("right", now_s=10.0)
    pool = driver.pool
    settled = pool.advance_to(pool.value, now_s=10.0)
    assert {each.run_id: each.reference_jct_s for each in settled} == {"wrong": 4.0, "right": 10.0}
    assert pool.value == 80 * TICKS_PER_KVTT
    driver.start("next", 10, now_s=20.0)
    driver.serve("next", 5, now_s=21.0)
    assert pool.value == 85 * TICKS_PER_KVTT, "nobody shares with it"


def test_a_run_alone_is_served_as_in_the_fluid():
    driver = PoolDriver()
    driver.start("alone", 100, now_s=0.0)
    driver.serve("alone", 100, now_s=10.0)
    driver.pool.end_run("alone", now_s=10.0)
    driver.start("next", 1, now_s=11.0)
    (ratio,) = driver.serve("next", 1, now_s=12.0)
    assert ratio.ratio == 1.0
