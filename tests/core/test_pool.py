"""Pools: runs, engines, reports, restarts."""

import dataclasses

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from justitia.core.engines import EngineAccount, EngineReport, RunReport
from justitia.core.errors import InvalidValueError, RunExistsError, UnknownRunError
from justitia.core.estimates import Estimate, Source
from justitia.core.fairness import InferenceTimes
from justitia.core.pool import Clock, Pool
from justitia.core.runs import Run, RunState, RunView
from justitia.core.snapshot import RunRecord
from justitia.core.units import TICKS_PER_KVTT, UNIT_WEIGHT, NanoWeight, Ticks
from justitia.testing.builders import PoolDriver, make_estimate, make_report

K = TICKS_PER_KVTT


def account():
    return EngineAccount("engine", "first", 1000)


# -- an engine's account ---------------------------------------------------------------------------


def test_an_account_takes_differences_of_totals():
    engine = account()
    first = engine.accept(make_report({"a": 10, "b": 5}, sequence=0, steps=4))
    second = engine.accept(make_report({"a": 25}, sequence=1, steps=9))
    assert (first.useful_kvtt_by_run, first.steps) == ({"a": 10, "b": 5}, 4)
    assert (second.useful_kvtt_by_run, second.steps) == ({"a": 15}, 5)


def test_a_repeated_or_late_report_changes_nothing():
    engine = account()
    for sequence in (0, 2):
        assert engine.accept(make_report({"a": 10}, sequence=sequence)) is not None
    for sequence in (2, 1, 0, -1):
        assert engine.accept(make_report({"a": 99}, sequence=sequence)) is None
    assert engine.useful_kvtt_by_run == {"a": 10}


def test_a_lost_report_is_made_up_by_the_next():
    engine = account()
    engine.accept(make_report({"a": 10}, sequence=0, steps=1))
    delivery = engine.accept(make_report({"a": 30}, sequence=7, steps=3))
    assert delivery.useful_kvtt_by_run == {"a": 20}
    assert delivery.steps == 2


def test_a_counter_that_shrank_is_refused_and_counted():
    engine = account()
    engine.accept(make_report({"a": 10}, sequence=0, steps=5))
    shrunk = make_report(sequence=1, steps=2, runs=[RunReport("a", 3, -1), RunReport("b", 4)])
    delivery = engine.accept(shrunk)
    assert delivery.useful_kvtt_by_run == {"b": 4}
    assert (delivery.num_refused, delivery.steps) == (2, 0)
    assert engine.useful_kvtt_by_run == {"a": 10, "b": 4}


def test_another_incarnations_report_is_not_taken():
    engine = account()
    assert engine.accept(make_report({"a": 10}, incarnation="second")) is None
    assert engine.last_sequence == -1


def test_a_closed_run_counts_from_zero_if_it_comes_back():
    engine = account()
    engine.accept(make_report({"a": 10}, sequence=0, closed=("a", "never seen")))
    assert engine.useful_kvtt_by_run == {}
    delivery = engine.accept(make_report({"a": 4}, sequence=1))
    assert delivery.useful_kvtt_by_run == {"a": 4}


# -- runs ------------------------------------------------------------------------------------------


def test_a_run_starts_at_v_and_ends_c_over_w_later():
    driver = PoolDriver()
    driver.start("first", 1000)
    driver.serve("first", 300)
    view = driver.start("second", 50, weight="0.5", now_s=4.0)
    assert (view.start, view.finish) == (300 * K, 400 * K)
    assert (view.arrived_at_s, view.state, view.is_in_fluid) == (4.0, RunState.IDLE, True)


def test_an_open_id_cannot_be_started_again_and_nothing_changes():
    driver = PoolDriver()
    driver.start("run", 10)
    before = driver.pool.snapshot()
    with pytest.raises(RunExistsError, match="'run' is an open run of 'app'"):
        driver.start("run", 99, application="other")
    assert driver.pool.snapshot() == before


def test_an_ended_id_may_come_back_as_a_new_run():
    driver = PoolDriver()
    first = driver.start("run", 10)
    driver.serve("run", 10)
    driver.pool.end_run("run", now_s=1.0)
    again = driver.start("run", 10)
    assert again.start == 10 * K
    assert again.sequence > first.sequence
    assert again.useful_kvtt == 0


@pytest.mark.parametrize(
    "call",
    [
        pytest.param(lambda pool: pool.end_run("ghost", now_s=0.0), id="end"),
        pytest.param(lambda pool: pool.run("ghost"), id="look"),
        pytest.param(lambda pool: pool.re_estimate("ghost", make_estimate()), id="re-estimate"),
        pytest.param(lambda pool: pool.explain("ghost"), id="explain"),
    ],
)
def test_a_run_that_nobody_knows_is_named(call):
    with pytest.raises(UnknownRunError) as caught:
        call(Pool())
    assert str(caught.value) == "run_id: no open run 'ghost'"


@settings(derandomize=True, deadline=None, max_examples=60, database=None)
@given(st.integers(1, 500), st.integers(0, 500), st.integers(1, 500))
def test_a_new_estimate_never_puts_f_below_what_was_attained(first, attained, second):
    driver = PoolDriver()
    driver.start("other", 10**6)
    driver.start("run", first)
    driver.serve("run", attained)
    view = driver.pool.re_estimate("run", Estimate(second, Source.MODEL, "v2"))
    assert view.finish == view.start + max(second, attained) * K
    assert view.is_in_fluid == (view.finish > driver.pool.value)
    assert view.estimate.source is Source.MODEL


def test_the_true_cost_takes_the_place_of_the_estimate():
    """Rule K1: two runs of 10 really, one of them said 1000; the other must not wait for that."""
    driver = PoolDriver()
    driver.start("liar", 1000)
    driver.start("honest", 10)
    driver.serve("liar", 10)
    ended = driver.pool.end_run("liar", now_s=2.0)
    assert (ended.true_cost_kvtt, ended.relative_error) == (10, 99.0)
    driver.serve("honest", 10)
    assert driver.pool.value == 10 * K
    assert driver.pool.total_weight == 0


def test_a_run_that_left_the_fluid_does_not_come_back_when_it_ends():
    """Work that found the fluid empty would be asked for a second time, at others' expense."""
    driver = PoolDriver()
    driver.start("under-estimated", 1)
    driver.serve("under-estimated", 1000)
    driver.pool.end_run("under-estimated", now_s=1.0)
    assert driver.pool.total_weight == 0
    assert driver.pool.surplus_kvtt == 999.0


@pytest.mark.parametrize(
    ("estimate", "served", "others", "goes_on"),
    [
        pytest.param(100, 40, 0, True, id="alone: V follows it, the rest goes"),
        pytest.param(100, 40, 20, True, id="V is behind its true finish"),
        pytest.param(10, 40, 0, False, id="it left when its estimate was used up"),
        pytest.param(100, 1, 60, False, id="V is past its true finish"),
    ],
)
def test_an_end_says_what_the_fluid_system_goes_on_with(estimate, served, others, goes_on):
    driver = PoolDriver()
    driver.start("other", 10**6)
    view = driver.start("run", estimate)
    driver.serve("run", served)
    driver.serve("other", others)
    ended = driver.pool.end_run("run", now_s=1.0)
    kept = {n: (finish, weight) for n, finish, weight in driver.pool.snapshot().fluid.flows}
    assert (view.sequence in kept) is goes_on
    if goes_on:
        assert ended.flow == (served * K, view.sequence, UNIT_WEIGHT)
        assert kept[view.sequence] == (ended.flow.finish, ended.flow.weight)
    else:
        assert ended.flow is None


def test_what_an_engine_did_before_we_knew_a_run_is_part_of_its_cost_and_moves_no_v():
    driver = PoolDriver()
    driver.serve("run", 30)
    before = driver.pool.value
    driver.start("run", 10)
    view = driver.pool.credit("run", useful_kvtt=5000, wasted_kvtt=7)
    assert driver.pool.value == before
    assert (view.useful_kvtt, view.wasted_kvtt) == (5000, 7)
    assert view.finish == view.start + 5000 * K
    driver.serve("run", 100)
    assert driver.pool.end_run("run", now_s=1.0).true_cost_kvtt == 5100


def test_a_run_that_was_cancelled_before_it_was_served_costs_1():
    driver = PoolDriver()
    driver.start("run", 1000, now_s=5.0)
    ended = driver.pool.end_run("run", now_s=3.0)
    assert (ended.true_cost_kvtt, ended.jct_s, ended.num_inferences) == (1, 0.0, 0)
    assert "run" not in driver.pool


def test_weights_are_edited_for_the_runs_of_one_application():
    driver = PoolDriver()
    driver.start("a", 100, application="x")
    driver.start("b", 100, application="y")
    driver.serve("a", 20)
    changed = driver.pool.reweigh("x", NanoWeight(2 * UNIT_WEIGHT))
    assert [view.run_id for view in changed] == ["a"]
    assert changed[0].finish == (10 + 45) * K, "90 left at twice the weight"
    assert driver.pool.run("b").finish == 100 * K
    assert driver.pool.reweigh("x", NanoWeight(2 * UNIT_WEIGHT)) == []
    assert driver.pool.total_weight == 3 * UNIT_WEIGHT


def test_wasted_service_moves_no_account_but_its_own():
    """Rule C4."""
    driver = PoolDriver()
    driver.start("run", 100)
    report = make_report(sequence=1, runs=[RunReport("run", 10, 500)])
    driver.pool.report(report, now_s=1.0)
    view = driver.pool.run("run")
    assert (view.useful_kvtt, view.wasted_kvtt, driver.pool.value) == (10, 500, 10 * K)
    assert driver.pool.end_run("run", now_s=2.0).true_cost_kvtt == 10


def test_service_of_runs_that_nobody_started_moves_v_and_is_counted():
    driver = PoolDriver()
    driver.start("run", 100)
    driver.serve("stranger", 30)
    assert driver.pool.value == 30 * K
    assert driver.pool.unowned_kvtt == 30


# -- engines ---------------------------------------------------------------------------------------


def flight(engine_id="engine", *, sequence=1, waiting=2, running=3, useful=0):
    runs = [RunReport("run", useful, 0, waiting, running)]
    return make_report(engine_id=engine_id, sequence=sequence, runs=runs)


def test_an_engine_that_leaves_takes_what_was_in_flight_with_it_at_once():
    driver = PoolDriver(engine_ids=("a", "b"))
    driver.start("run")
    for engine_id in ("a", "b"):
        driver.pool.report(flight(engine_id), now_s=1.0)
    assert driver.pool.run("run").num_running == 6
    driver.pool.leave_engine("a")
    view = driver.pool.run("run")
    assert (view.num_waiting, view.num_running, view.state) == (2, 3, RunState.RUNNING)
    driver.pool.leave_engine("b")
    driver.pool.leave_engine("b")
    assert driver.pool.run("run").state is RunState.IDLE
    assert driver.pool.engines() == []


def test_reports_of_engines_that_are_not_here_are_counted_and_change_nothing():
    driver = PoolDriver()
    driver.start("run")
    driver.pool.leave_engine("engine")
    before = driver.pool.snapshot()
    assert driver.pool.report(flight(useful=50), now_s=1.0) == []
    assert driver.pool.report(flight("never joined", useful=50), now_s=1.0) == []
    assert driver.pool.num_late_reports == 2
    assert driver.pool.snapshot() == before


def test_a_new_incarnation_takes_over_from_its_baseline():
    driver = PoolDriver()
    driver.start("run", 10**6)
    driver.serve("run", 100)
    baseline = [RunReport("run", 40, 5, num_running=1)]
    driver.pool.join_engine("engine", "second", kv_capacity_tokens=7, baseline=baseline)
    assert driver.pool.value == 100 * K, "what it counted before is known"
    assert driver.pool.run("run").num_running == 1
    ghost = make_report({"run": 900}, incarnation="first", sequence=99)
    driver.pool.report(ghost, now_s=1.0)
    report = make_report({"run": 45}, incarnation="second", sequence=0)
    driver.pool.report(report, now_s=1.0)
    assert driver.pool.value == 105 * K
    assert driver.pool.num_late_reports == 1


@pytest.mark.parametrize("did_leave", [False, True])
def test_what_an_engine_did_while_it_was_out_of_touch_is_delivered_when_it_is_back(did_leave):
    driver = PoolDriver(Clock.DELIVERED)
    driver.start("run", 10**6)
    driver.serve("run", 100)
    if did_leave:
        driver.pool.leave_engine("engine")
    baseline = [RunReport("run", 160, 0, num_waiting=4)]
    driver.pool.join_engine("engine", "first", kv_capacity_tokens=1000, baseline=baseline)
    assert driver.pool.value == 160 * K
    view = driver.pool.run("run")
    assert (view.useful_kvtt, view.num_waiting) == (160, 4)
    driver.pool.report(make_report({"run": 170}, sequence=0), now_s=1.0)
    assert driver.pool.value == 170 * K
    assert driver.pool.num_refused_counters == 0


def test_what_is_in_flight_after_a_reconnect_is_what_the_engine_lists():
    driver = PoolDriver()
    driver.start("run")
    driver.pool.report(flight(), now_s=1.0)
    driver.pool.join_engine("engine", "first", kv_capacity_tokens=1000)
    assert driver.pool.run("run").state is RunState.IDLE


def test_an_account_is_resumed_by_the_same_incarnation_only():
    driver = PoolDriver()
    for did_leave in (False, True):
        if did_leave:
            driver.pool.leave_engine("engine")
        assert driver.pool.has_account("engine", "first")
        assert not driver.pool.has_account("engine", "second")
        assert not driver.pool.has_account("other", "first")


def test_engines_that_left_are_not_remembered_for_ever():
    pool = Pool()
    for number in range(500):
        pool.join_engine(f"pod-{number}", "first", kv_capacity_tokens=1)
        pool.leave_engine(f"pod-{number}")
    assert len(pool._left) <= 16
    assert pool.engines() == []


def test_a_closed_run_has_nothing_in_flight():
    driver = PoolDriver()
    driver.start("run")
    driver.pool.report(flight(), now_s=1.0)
    driver.pool.report(make_report(sequence=2, closed=("run",)), now_s=1.0)
    assert driver.pool.run("run").state is RunState.IDLE


def test_an_engine_without_kv_is_refused():
    with pytest.raises(InvalidValueError, match="kv_capacity_tokens: must be at least 1, got 0"):
        Pool().join_engine("engine", "first", kv_capacity_tokens=0)


@settings(derandomize=True, deadline=None, max_examples=80, database=None)
@given(
    totals=st.lists(st.integers(0, 1000), min_size=1, max_size=8).map(sorted),
    arrivals=st.lists(st.integers(0, 7), max_size=20),
)
def test_lost_repeated_and_reordered_reports_end_at_the_same_v(totals, arrivals):
    """Whatever came on the way: once the last report is in, V is what the engine really did."""
    driver = PoolDriver()
    driver.start("run", 10**6)
    last = len(totals) - 1
    before = 0
    for number in [*(a for a in arrivals if a < last), last]:
        driver.pool.report(make_report({"run": totals[number]}, sequence=number), now_s=0.0)
        assert driver.pool.value >= before
        before = driver.pool.value
    assert driver.pool.value == totals[-1] * K
    assert driver.pool.run("run").useful_kvtt == totals[-1]


# -- restart ---------------------------------------------------------------------------------------


def busy_pool():
    driver = PoolDriver()
    driver.start("a", 100, weight="0.3")
    driver.serve("a", 7)
    driver.start("b", 10**18, weight="7", application="other")
    driver.serve("b", 11)
    driver.start("over", 500)
    driver.serve("over", 20)
    driver.pool.end_run("over", now_s=1.0)
    driver.pool.reweigh("app", NanoWeight(123_456_789))
    return driver


@pytest.mark.parametrize("clock", Clock)
def test_a_restored_pool_has_the_same_v_f_and_order_and_goes_on_the_same(clock):
    old = busy_pool().pool
    old.clock = clock
    new = Pool.restore(old.snapshot(), now_s=9.0)
    assert new.snapshot() == old.snapshot()
    assert (new.value, new.total_weight, new.clock) == (old.value, old.total_weight, clock)
    for pool in (old, new):
        pool.join_engine("fresh", "first", kv_capacity_tokens=10)
        for number in range(50):
            report = make_report(
                {"a": 3 * number}, engine_id="fresh", sequence=number, steps=number
            )
            pool.report(report, now_s=10.0)
        pool.start_run("c", "app", weight=UNIT_WEIGHT, estimate=make_estimate(40), now_s=11.0)
    assert new.snapshot().fluid == old.snapshot().fluid
    assert [v.finish for v in new.runs()] == [v.finish for v in old.runs()]


def test_a_restored_run_is_idle_until_an_engine_lists_it():
    driver = PoolDriver()
    driver.start("run")
    driver.pool.report(flight(), now_s=1.0)
    restored = Pool.restore(driver.pool.snapshot(), now_s=50.0)
    assert restored.run("run").state is RunState.IDLE
    assert restored.run("run").last_seen_s == 50.0
    assert restored.run("run").arrived_at_s == 0.0
    restored.join_engine(
        "engine", "first", kv_capacity_tokens=9, baseline=[RunReport("run", 0, num_running=1)]
    )
    assert restored.run("run").state is RunState.RUNNING


def test_v_goes_to_what_an_engine_has_seen_and_never_back():
    pool = busy_pool().pool
    seen = Ticks(pool.value + 5)
    pool.advance_to(seen, now_s=2.0)
    pool.advance_to(Ticks(3), now_s=2.0)
    assert pool.value == seen


def test_a_run_that_the_journal_lost_keeps_its_s_and_f():
    pool = busy_pool().pool
    record = RunRecord(
        *("lost", "app", 77, UNIT_WEIGHT, Ticks(3), Ticks(pool.value + K)),
        *(make_estimate(), 1.0, None, 4, 5),
    )
    view = pool.adopt_run(record, now_s=2.0)
    assert (view.start, view.finish, view.useful_kvtt) == (record.start, record.finish, 4)
    assert view.is_in_fluid
    assert view.sequence == 77
    assert pool.snapshot().next_sequence == 78
    with pytest.raises(RunExistsError, match="'lost' is open"):
        pool.adopt_run(record, now_s=2.0)


def lost(run_id, sequence, finish):
    fields = (UNIT_WEIGHT, Ticks(0), Ticks(finish), make_estimate(), 0.0)
    return RunRecord(run_id, "app", sequence, *fields)


def test_adopted_runs_keep_their_order_of_arrival_whatever_the_order_of_the_hello():
    pool = Pool()
    for sequence in (30, 10, 20, 0):
        pool.adopt_run(lost(f"r{sequence}", sequence, K), now_s=1.0)
    new = pool.start_run("new", "app", weight=UNIT_WEIGHT, estimate=make_estimate(), now_s=1.0)
    assert [pool.run(f"r{n}").sequence for n in (0, 10, 20, 30)] == [0, 10, 20, 30]
    assert new.sequence == 31


@pytest.mark.parametrize("is_restored", [False, True])
def test_an_adopted_run_never_takes_anothers_place(is_restored):
    driver = PoolDriver()
    driver.start("open", 100)
    driver.start("over", 100)
    driver.serve("over", 50)
    driver.pool.end_run("over", now_s=1.0)  # its flow goes on in the fluid system
    pool = Pool.restore(driver.pool.snapshot(), now_s=1.0) if is_restored else driver.pool
    places = [pool.adopt_run(lost(f"r{n}", n, 10**30), now_s=2.0).sequence for n in (0, 1)]
    assert places == [2, 3]
    assert len(pool.snapshot().fluid.flows) == 4


def test_an_adopted_run_that_v_has_passed_is_not_served_in_the_fluid_again():
    pool = busy_pool().pool
    before = pool.total_weight
    record = RunRecord("done", "app", 0, UNIT_WEIGHT, Ticks(0), Ticks(1), make_estimate(), 0.0)
    assert not pool.adopt_run(record, now_s=2.0).is_in_fluid
    assert pool.total_weight == before


# -- explain ---------------------------------------------------------------------------------------


def explained(waiting, running, *, ahead=0, has_engine=True):
    driver = PoolDriver(engine_ids=("engine",) if has_engine else ())
    for number in range(ahead):
        driver.start(f"ahead-{number}", 10)
    driver.start("run", 100)
    driver.start("idle", 1)
    if has_engine:
        runs = [RunReport(f"ahead-{number}", 0, 0, 1) for number in range(ahead)]
        runs.append(RunReport("run", 0, 0, waiting, running))
        driver.pool.report(make_report(sequence=1, runs=runs), now_s=1.0)
    return driver.pool.explain("run")


@pytest.mark.parametrize(
    ("explanation", "reason"),
    [
        (explained(0, 0, has_engine=False), "no engine"),
        (explained(0, 0), "nothing of this run is in flight"),
        (explained(0, 2), "2 of its inferences are computed"),
        (explained(3, 2), "2 of its inferences are computed, 3 wait for KV cache"),
        (explained(1, 0, ahead=25), "25 runs have a smaller virtual finish"),
        (explained(1, 0), "it is next"),
    ],
)
def test_explain_says_why_a_run_waits(explanation, reason):
    assert explanation.reason.startswith(reason)


def test_explain_lists_the_nearest_first_and_counts_all():
    explanation = explained(1, 0, ahead=25)
    assert explanation.num_ahead == 25
    assert [view.run_id for view in explanation.ahead] == [f"ahead-{n}" for n in range(20)]
    assert explanation.num_open == 27, "the idle run is open, and not ahead"
    assert explanation.rest_in_fluid_kvtt == 100.0


def test_a_run_its_record_and_its_view_have_the_same_facts():
    names = [field.name for field in dataclasses.fields(RunRecord)]
    assert [field.name for field in dataclasses.fields(Run)][: len(names)] == names
    values = ("run", "app", 3, UNIT_WEIGHT, Ticks(1), Ticks(2), make_estimate(), 4.0, 5, 6, 7, 8)
    record = RunRecord(*values)
    run = record.to_run(now_s=9.0)
    view = RunView.look(run, is_in_fluid=True)
    assert RunRecord.of(run) == record
    assert [getattr(view, name) for name in names] == list(values)
    assert (view.last_seen_s, view.state, view.num_finished) == (9.0, RunState.IDLE, 0)


def test_views_tell_what_is_open_in_order_of_arrival():
    pool = busy_pool().pool
    assert [view.run_id for view in pool.runs()] == ["a", "b"]
    assert len(pool) == 2
    assert "a" in pool


def test_finished_inferences_are_kept_up_to_a_bound():
    driver = PoolDriver()
    driver.start("run")
    times = tuple(InferenceTimes(n, n, n + 1) for n in range(6000))
    for sequence in (1, 2):
        report = make_report(sequence=sequence, runs=[RunReport("run", 0, finished=times)])
        driver.pool.report(report, now_s=float(sequence))
    assert driver.pool.run("run").num_finished == 10_000
    assert driver.pool.run("run").last_seen_s == 2.0


def test_a_report_for_nobody_is_harmless():
    driver = PoolDriver()
    assert driver.pool.report(EngineReport("engine", "first", 1, 5), now_s=0.0) == []
    assert driver.pool.value == 0


def test_a_single_report_moves_v_in_time_that_grows_with_departures_not_with_runs():
    """FIELD FS1: count what the clock touches, not seconds."""
    driver = PoolDriver()
    for number in range(5000):
        driver.start(f"r{number}", 10**6 + number)
    fluid = driver.pool._fluid
    touched = 0
    pop = type(fluid)._drop

    class Counting(type(fluid)):
        def _drop(self, flow):
            nonlocal touched
            touched += 1
            pop(self, flow)

    fluid.__class__ = Counting
    driver.serve("r0", 1000)
    assert touched == 0
    driver.serve("r0", 5000 * 10**6 + 10)
    assert 1 <= touched <= 3
