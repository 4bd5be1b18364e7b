"""FluidClock and Pool beside an oracle in exact fractions."""

from fractions import Fraction

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from justitia.core.errors import InvariantError
from justitia.core.estimates import Estimate, Source
from justitia.core.units import (
    MAX_WEIGHT,
    MIN_WEIGHT,
    NANO_PER_WEIGHT,
    TICKS_PER_KVTT,
    UNIT_WEIGHT,
    NanoWeight,
    Ticks,
    service_ticks,
)
from justitia.core.virtual_time import FluidClock
from justitia.testing.builders import PoolDriver
from justitia.testing.fluid_oracle import FluidOracle

DETERMINISTIC = settings(
    derandomize=True, deadline=None, max_examples=60, stateful_step_count=40, database=None
)
WEIGHT_SETS = (
    [1],
    [1, 2, 4],
    [Fraction(1, 3), 1, Fraction(22, 7)],
    [Fraction(1, 10**9), 1, 10**9],
)
COSTS = st.one_of(st.integers(1, 50), st.integers(1, 10**6), st.integers(1, 10**18))


def nano(weight: Fraction | int) -> NanoWeight:
    return NanoWeight(int(Fraction(weight) * NANO_PER_WEIGHT))


def as_ticks(value: Fraction) -> Fraction:
    return value * TICKS_PER_KVTT


class Beside(RuleBasedStateMachine):
    """What both machines check: the same V, the same flows, nothing lost."""

    def __init__(self):
        super().__init__()
        self.oracle = FluidOracle()
        self.delivered = 0
        self.num_events = 0
        self.last_value = 0

    @initialize(weights=st.sampled_from(WEIGHT_SETS), lead_ticks=st.sampled_from([0, 2**140]))
    def begin(self, weights, lead_ticks):
        self.weights = [nano(weight) for weight in weights]
        self.advance_to(Ticks(lead_ticks))
        self.oracle.value = Fraction(lead_ticks, TICKS_PER_KVTT)

    @property
    def tolerance(self) -> int:
        # Every event rounds once, by less than a tick of one flow; that is a work of one tick times
        # its weight, which moves V by up to w_max / w_min where only a light flow is left.
        return (self.num_events + 1) * -(-max(self.weights) // min(self.weights))

    @invariant()
    def values_agree(self):
        assert abs(self.clock.value - as_ticks(self.oracle.value)) <= self.tolerance
        assert self.clock.value >= self.last_value, "V went back"
        self.last_value = self.clock.value

    @invariant()
    def the_same_flows_are_active(self):
        for name in self.oracle.flows:
            distance = abs(as_ticks(self.oracle.finish(name) - self.oracle.value))
            if distance > self.tolerance:
                assert self.is_in(name) == self.oracle.is_active(name), name

    @invariant()
    def they_would_leave_in_the_same_order(self):
        for name, finish in self.finishes().items():
            if self.oracle.is_active(name):
                assert abs(finish - as_ticks(self.oracle.finish(name))) <= self.tolerance, name

    @invariant()
    def nothing_is_lost(self):
        # 1e-6 kvtt: surplus is shown as a float; a fluid of 1e18 kvtt has 1e3 of it.
        slack = 1 + self.delivered * 1e-12
        assert abs(self.clock.surplus_kvtt - float(self.oracle.surplus)) <= slack


class FluidClockBesideOracle(Beside):
    def __init__(self):
        super().__init__()
        self.clock = FluidClock()
        self.names: dict[str, int] = {}

    def advance_to(self, value):
        self.clock.advance_to(value)

    def is_in(self, name):
        return self.names[name] in self.clock

    def finishes(self):
        return {f"f{flow}": finish for flow, finish, _ in self.clock.state().flows}

    @rule(cost=COSTS, which=st.integers(0, 2))
    def arrive(self, cost, which):
        weight = self.weights[which % len(self.weights)]
        name = f"f{len(self.names)}"
        self.names[name] = len(self.names)
        before = self.clock.value
        start, finish = self.clock.arrive(self.names[name], cost, weight)
        assert start == before
        assert finish - start >= cost * TICKS_PER_KVTT * NANO_PER_WEIGHT / weight * (1 - 1e-12)
        self.oracle.arrive(name, Fraction(cost), Fraction(weight, NANO_PER_WEIGHT))
        self.num_events += 1

    @rule(work=st.one_of(st.integers(0, 60), st.integers(0, 10**6), st.integers(0, 10**18)))
    def deliver(self, work):
        self.clock.deliver(work)
        self.oracle.deliver(Fraction(work))
        self.delivered += work
        self.num_events += 1

    @precondition(lambda self: self.oracle.active())
    @rule()
    def deliver_exactly_to_the_next_departure(self):
        first = min(f.rest / f.weight for f in self.oracle.active()) * self.oracle.total_weight()
        self.deliver(int(first))

    @precondition(lambda self: self.names)
    @rule(choice=st.integers(0, 10**6), which=st.integers(0, 2))
    def reweigh(self, choice, which):
        name = f"f{choice % len(self.names)}"
        weight = self.weights[which % len(self.weights)]
        if self.clock.reweigh(self.names[name], weight) is not None and self.oracle.is_active(name):
            self.oracle.reweigh(name, Fraction(weight, NANO_PER_WEIGHT))
        self.num_events += 1

    @rule()
    def freeze_and_restore(self):
        state = self.clock.state()
        self.clock = FluidClock(state)
        assert self.clock.state() == state


class PoolBesideOracle(Beside):
    """Runs in a pool with two engines: reports, edits, corrections, ends."""

    def __init__(self):
        super().__init__()
        self.driver = PoolDriver(engine_ids=("a", "b"))
        self.pool = self.driver.pool
        self.clock = self.pool
        self.sequence: dict[str, int] = {}
        self.open: list[str] = []

    def advance_to(self, value):
        self.pool.advance_to(value, now_s=0.0)

    def is_in(self, name):
        return self.sequence[name] in self.pool._fluid

    def finishes(self):
        return {view.run_id: view.finish for view in self.pool.runs() if view.is_in_fluid}

    @rule(cost=COSTS, which=st.integers(0, 2))
    def start(self, cost, which):
        weight = self.weights[which % len(self.weights)]
        name = f"r{len(self.sequence)}"
        view = self.pool.start_run(
            name, name, weight=weight, estimate=Estimate(cost, Source.CLIENT), now_s=0.0
        )
        assert view.start == self.pool.value, "rules V2 and V6: S = V"
        self.sequence[name] = view.sequence
        self.open.append(name)
        self.oracle.arrive(name, Fraction(cost), Fraction(weight, NANO_PER_WEIGHT))
        self.num_events += 1

    @precondition(lambda self: self.open)
    @rule(choice=st.integers(0, 10**6), work=st.integers(0, 10**6), engine=st.sampled_from("ab"))
    def report(self, choice, work, engine):
        self.driver.serve(self.open[choice % len(self.open)], work, engine_id=engine)
        self.oracle.deliver(Fraction(work))
        self.delivered += work
        self.num_events += 1

    @precondition(lambda self: self.open)
    @rule(choice=st.integers(0, 10**6), which=st.integers(0, 2))
    def edit_weight(self, choice, which):
        name = self.open[choice % len(self.open)]
        weight = self.weights[which % len(self.weights)]
        self.pool.reweigh(name, weight)
        self.oracle.reweigh(name, Fraction(weight, NANO_PER_WEIGHT))
        self.num_events += 1

    @precondition(lambda self: self.open)
    @rule(choice=st.integers(0, 10**6), cost=COSTS)
    def re_estimate(self, choice, cost):
        name = self.open[choice % len(self.open)]
        attained = self.pool.run(name).useful_kvtt
        view = self.pool.re_estimate(name, Estimate(cost, Source.MODEL))
        assert view.finish >= view.start + service_ticks(attained, view.weight) or not attained
        self.oracle.correct(name, Fraction(max(cost, attained)))
        self.num_events += 1

    @precondition(lambda self: self.open)
    @rule(choice=st.integers(0, 10**6))
    def end(self, choice):
        name = self.open.pop(choice % len(self.open))
        was_in_fluid = self.pool.run(name).is_in_fluid
        ended = self.pool.end_run(name, now_s=0.0)
        if was_in_fluid:
            self.oracle.correct(name, Fraction(ended.true_cost_kvtt))
        if not self.open:
            self.oracle.rest()
            assert self.pool.total_weight == 0, "the busy period is over"
        self.num_events += 1

    @rule()
    def restart(self):
        snapshot = self.pool.snapshot()
        restored = type(self.pool).restore(snapshot, now_s=0.0)
        assert restored.snapshot() == snapshot
        assert restored.runs() == self.pool.runs()


FluidClockBesideOracle.TestCase.settings = DETERMINISTIC
PoolBesideOracle.TestCase.settings = DETERMINISTIC
TestFluidClockBesideOracle = FluidClockBesideOracle.TestCase
TestPoolBesideOracle = PoolBesideOracle.TestCase


@settings(DETERMINISTIC, max_examples=80)
@given(
    flows=st.lists(st.tuples(COSTS, st.integers(MIN_WEIGHT, MAX_WEIGHT)), min_size=1, max_size=12),
    works=st.lists(st.one_of(st.integers(0, 50), st.integers(0, 10**17)), max_size=12),
    cuts=st.lists(st.integers(0, 10**17), max_size=12),
)
def test_v_is_the_same_to_the_tick_however_work_is_cut(flows, works, cuts):
    """Arrivals come between the works; each work is delivered whole or in arbitrary pieces."""
    whole, cut = FluidClock(), FluidClock()
    for number, (cost, weight) in enumerate(flows):
        for clock in (whole, cut):
            clock.arrive(number, cost, NanoWeight(weight))
        work = works[number % len(works)] if works else 1
        whole.deliver(work)
        for piece in cuts:
            part = min(piece, work)
            cut.deliver(part)
            work -= part
        cut.deliver(work)
        cut.deliver(0)
        assert cut.state() == whole.state()


@settings(DETERMINISTIC, max_examples=80)
@given(
    flows=st.lists(st.tuples(COSTS, st.integers(MIN_WEIGHT, MAX_WEIGHT)), min_size=1, max_size=8),
    moves=st.lists(st.tuples(st.integers(0, 7), st.integers(0, 10**6)), max_size=20),
)
def test_an_empty_delivery_changes_nothing_whatever_left_before(flows, moves):
    clock = FluidClock()
    for number, (cost, weight) in enumerate(flows):
        clock.arrive(number, cost, NanoWeight(weight))
    for flow, work in moves:
        clock.deliver(work)
        clock.leave(flow)
        before = clock.state()
        clock.deliver(0)
        assert clock.state() == before


@settings(DETERMINISTIC, max_examples=60)
@given(
    costs=st.lists(st.integers(1, 10**6), min_size=1, max_size=6),
    works=st.lists(st.tuples(st.integers(0, 5), st.integers(0, 10**6)), max_size=12),
    seed=st.randoms(use_true_random=False),
)
def test_v_does_not_depend_on_which_engine_reports_first(costs, works, seed):
    states = []
    shuffled = works[:]
    seed.shuffle(shuffled)
    for order in (works, shuffled):
        engines = [f"e{n}" for n in range(6)]
        driver = PoolDriver(engine_ids=engines)
        for number, cost in enumerate(costs):
            driver.start(f"r{number}", cost, weight=number + 1)
        for engine, work in order:
            run_id = f"r{engine % len(costs)}"
            driver.serve(run_id, work, engine_id=engines[engine])
        states.append(driver.pool.snapshot())
    assert states[0] == states[1]


def test_v_still_moves_far_beyond_the_precision_of_a_float():
    clock = FluidClock()
    clock.arrive(0, 10**18, MIN_WEIGHT)
    clock.arrive(1, 10**18, UNIT_WEIGHT)
    clock.deliver(10**18)
    before = clock.value
    assert before > 2**53 * TICKS_PER_KVTT / 1e9
    clock.deliver(1)
    assert clock.value > before


def test_v_stands_still_without_runs_and_the_work_is_kept_as_surplus():
    clock = FluidClock()
    clock.deliver(1000)
    assert (clock.value, clock.surplus_kvtt) == (0, 1000.0)
    clock.arrive(0, 10, UNIT_WEIGHT)
    clock.deliver(25)
    assert clock.value == 10 * TICKS_PER_KVTT
    assert clock.surplus_kvtt == 1015.0
    assert len(clock) == clock.total_weight == 0


def test_negative_work_is_a_bug_and_changes_nothing():
    clock = FluidClock()
    clock.arrive(0, 10, UNIT_WEIGHT)
    before = clock.state()
    with pytest.raises(InvariantError, match="-1"):
        clock.deliver(-1)
    assert clock.state() == before


def test_w_shrinks_in_the_middle_of_a_report():
    """Two runs of 10 and 30: 20 kvtt of one report go to both, the rest to the second alone."""
    clock = FluidClock()
    clock.arrive(0, 10, UNIT_WEIGHT)
    clock.arrive(1, 30, UNIT_WEIGHT)
    clock.deliver(30)
    assert clock.value == 20 * TICKS_PER_KVTT
    assert 0 not in clock
    assert 1 in clock


@settings(DETERMINISTIC, max_examples=80)
@given(
    cost=COSTS,
    weights=st.lists(st.integers(MIN_WEIGHT, MAX_WEIGHT), min_size=1, max_size=20),
    progress=st.integers(0, 10**6),
)
def test_toggling_a_weight_back_and_forth_never_lowers_f(cost, weights, progress):
    driver = PoolDriver()
    driver.start("other", 10**18)
    first = driver.start("run", cost, application="edited")
    driver.serve("other", progress)
    if not driver.pool.run("run").is_in_fluid:
        return
    for weight in weights:
        driver.pool.reweigh("edited", NanoWeight(weight))
        driver.pool.reweigh("edited", first.weight)
        view = driver.pool.run("run")
        assert view.finish >= first.finish
        assert view.start >= first.start
        assert driver.pool.re_estimate("run", view.estimate).finish >= first.finish


@settings(DETERMINISTIC, max_examples=50)
@given(st.integers(1, 10**6), st.integers(1, 10**6), st.integers(0, 10**6))
def test_a_raised_weight_serves_the_same_rest_sooner(cost, weight, progress):
    driver = PoolDriver()
    driver.start("other", 10**12)
    driver.start("run", cost, application="edited")
    driver.serve("other", progress)
    before = driver.pool.run("run")
    driver.pool.reweigh("edited", NanoWeight(weight * NANO_PER_WEIGHT))
    after = driver.pool.run("run")
    if before.is_in_fluid:
        rest = (before.finish - driver.pool.value) * before.weight
        assert 0 <= (after.finish - driver.pool.value) * after.weight - rest < after.weight
    else:
        assert after.finish == before.finish


def test_a_weight_edit_of_a_run_whose_attained_service_raised_f_keeps_its_total():
    driver = PoolDriver()
    driver.start("other", 10**6)
    driver.start("run", 10, application="edited")
    driver.serve("run", 1000)
    driver.pool.re_estimate("run", Estimate(10, Source.MODEL))
    driver.pool.reweigh("edited", NanoWeight(2 * UNIT_WEIGHT))
    view = driver.pool.run("run")
    assert (view.finish - view.start) * 2 == 1000 * TICKS_PER_KVTT


def test_a_session_that_comes_back_starts_at_v():
    driver = PoolDriver()
    driver.start("elephant", 10**6)
    driver.start("turn-1", 10)
    driver.serve("turn-1", 10)
    driver.pool.end_run("turn-1", now_s=1.0)
    driver.serve("elephant", 5000)
    back = driver.start("turn-2", 10)
    assert back.start == driver.pool.value > 0


def test_a_run_that_pauses_between_its_inferences_keeps_s_and_f():
    driver = PoolDriver()
    driver.start("elephant", 10**6)
    before = driver.start("agent", 500)
    driver.serve("agent", 100)
    driver.serve("elephant", 300)
    after = driver.pool.run("agent")
    assert (after.start, after.finish) == (before.start, before.finish)


def test_advance_to_never_goes_back_and_lets_those_it_passes_leave():
    clock = FluidClock()
    clock.arrive(0, 10, UNIT_WEIGHT)
    clock.arrive(1, 100, UNIT_WEIGHT)
    clock.advance_to(Ticks(50 * TICKS_PER_KVTT))
    clock.advance_to(Ticks(3))
    assert clock.value == 50 * TICKS_PER_KVTT
    assert (0 in clock, 1 in clock, clock.total_weight) == (False, True, UNIT_WEIGHT)


def test_weights_1_2_4_share_the_fluid_1_2_4():
    clock, oracle = FluidClock(), FluidOracle()
    for flow, weight in enumerate((1, 2, 4)):
        clock.arrive(flow, 10**6, NanoWeight(weight * NANO_PER_WEIGHT))
        oracle.arrive(str(flow), Fraction(10**6), Fraction(weight))
    clock.deliver(70_000)
    oracle.deliver(Fraction(70_000))
    assert [flow.served for flow in oracle.flows.values()] == [10_000, 20_000, 40_000]
    assert clock.value == 10_000 * TICKS_PER_KVTT
    clock.deliver(10**9)
    assert clock.value == 10**6 * TICKS_PER_KVTT, "the lightest is the last: F = C / 1"
