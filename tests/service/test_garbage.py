"""The garbage collector never looks at everything while many runs are open."""

import pytest

from justitia_scheduler.garbage import (
    FEW_RUNS,
    FULL_PERIOD_S,
    LATEST_FULL_PERIOD_S,
    GarbageCare,
)


class Collector:
    def __init__(self):
        self.calls = []

    def collect(self, generation=2):
        self.calls.append(generation)
        return 0

    def freeze(self):
        self.calls.append("freeze")

    def unfreeze(self):
        self.calls.append("unfreeze")


@pytest.fixture
def collector():
    return Collector()


@pytest.fixture
def care(collector):
    return GarbageCare(0.0, collector)


def test_survivors_are_set_aside_once_young_cycles_are_gone(care, collector):
    care.tick(100_000, 1.0)

    assert collector.calls == [1, "freeze"]


@pytest.mark.parametrize(
    ("num_runs", "after_s"),
    [(FEW_RUNS - 1, FULL_PERIOD_S), (FEW_RUNS, LATEST_FULL_PERIOD_S)],
    ids=["few-runs", "many-runs"],
)
def test_everything_is_looked_at_when_that_is_quick_or_overdue(care, collector, num_runs, after_s):
    care.tick(num_runs, after_s - 1)
    assert 2 not in collector.calls
    care.tick(num_runs, after_s)
    assert collector.calls[-3:] == ["unfreeze", 2, "freeze"]
    care.tick(num_runs, after_s + 1)
    assert collector.calls[-2:] == [1, "freeze"]
