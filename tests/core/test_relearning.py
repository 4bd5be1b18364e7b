"""How F moves for what a run shows of itself (rule K2), and what can't happen then."""

from fractions import Fraction

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule

from justitia.core.engines import EngineReport, RunReport
from justitia.core.estimates import Estimate, Source
from justitia.core.fairness import InferenceTimes
from justitia.core.learning import Learner, LearningRules, Mark
from justitia.core.pool import Pool
from justitia.core.units import FINE_PER_KVTT, UNIT_WEIGHT, Ticks, parse_weight, service_ticks

NAMES = [f"run-{n}" for n in range(5)]


def estimated(cost):
    return Estimate(cost, Source.MODEL, "v1")


class Engine:
    """One engine of a pool: totals of runs, what is in flight, what has finished."""

    def __init__(self, learner=None):
        self.pool = Pool()
        self.pool.join_engine("engine", "first", kv_capacity_tokens=1000)
        self.learner = learner or Learner()
        self.totals = {}
        self.sequence = 0

    def start(
        self, run_id, cost=1000, *, weight=UNIT_WEIGHT, application="app", source=Source.MODEL
    ):
        self.totals[run_id] = 0
        estimate = Estimate(cost, source, "v1" if source is Source.MODEL else "")
        return self.pool.start_run(run_id, application, weight=weight, estimate=estimate, now_s=0.0)

    def report(self, run_id, kvtt=0, *, finished=(), waiting=0, running=0, **limits):
        """Report, and look at the run anew; returns the views that moved."""
        self.totals[run_id] += kvtt
        self.sequence += 1
        times = tuple(InferenceTimes(0.0, 0.0, 1.0, 1.0, cost) for cost in finished)
        run = RunReport(run_id, self.totals[run_id], 0, waiting, running, times)
        report = EngineReport("engine", "first", self.sequence, self.sequence, (run,))
        self.pool.report(report, now_s=float(self.sequence))
        return self.pool.relearn([run_id, "nobody's"], self.learner, **limits)


def taught(num=50, **rules):
    """Runs of n inferences cost 100 n, whatever was estimated."""
    learner = Learner(LearningRules(**rules))
    for n in range(num):
        size = 2 + n % 19
        marks = [Mark(0, 0, 0, size), Mark(1, 1, 100, size)]
        learner.learn("app", estimate=estimated(500 + 50 * n), true_kvtt=100 * size, marks=marks)
    return learner


def f_kvtt(view):
    return Fraction((view.finish - view.start) * view.weight, FINE_PER_KVTT)


# -- examples --------------------------------------------------------------------------------------


def test_a_fan_out_moves_f_as_soon_as_it_is_seen():
    engine = Engine(taught())
    before = engine.start("run", 1000)
    (moved,) = engine.report("run", waiting=20)
    assert moved.learned_kvtt == pytest.approx(2000, rel=0.25)
    assert f_kvtt(moved) == moved.learned_kvtt
    assert (moved.start, moved.sequence) == (before.start, before.sequence)
    assert moved.estimate == before.estimate, "the first estimate keeps its source (rule K3)"
    assert engine.report("run", waiting=20) == [], "nothing new, nothing moves"
    assert f"taken to cost {moved.learned_kvtt:,} kvtt" in engine.pool.explain("run").reason


def test_what_the_first_inference_cost_moves_f_down_too():
    engine = Engine(taught())
    engine.start("run", 1400)
    engine.report("run", running=3)
    view = engine.pool.run("run")
    engine.report("run", 10, finished=[10], running=2)
    assert view.cost_kvtt < 700
    assert engine.pool.run("run").cost_kvtt < 700


def test_what_is_learned_is_at_most_what_a_run_can_cost():
    engine = Engine(taught())
    engine.start("run", 1000)
    most = {"max_cost_kvtt": 1100}
    (moved,) = engine.report("run", waiting=20, **most)
    assert moved.learned_kvtt == 1100
    (moved,) = engine.report("run", 4000, waiting=20, **most)
    assert moved.learned_kvtt == 4000, "a moved F is at least S + attained / w"


def test_a_small_change_does_not_move_f():
    engine = Engine(taught(min_change=0.5))
    engine.start("run", 1000)
    assert engine.report("run", waiting=12) == []
    assert engine.pool.run("run").learned_kvtt == 0


def test_late_in_a_run_f_stays():
    engine = Engine(taught())
    engine.start("run", 1000)
    engine.report("run", 400)
    assert engine.report("run", waiting=20) == []


def test_without_lessons_only_what_it_has_got_raises_a_run():
    engine = Engine()
    engine.start("run", 1000)
    assert engine.report("run", 2999, running=4) == []
    (moved,) = engine.report("run", 1, running=4)
    assert f_kvtt(moved) == 3000
    assert engine.report("run", 1000, running=4) == []


def test_a_run_that_outgrows_its_estimate_is_taken_for_what_such_runs_came_to():
    learner = taught(early_share=0.0)
    engine = Engine(learner)
    engine.start("run", 300)
    assert engine.report("run", 60, waiting=20) == [], "not early any more"
    (moved,) = engine.report("run", 900, waiting=20)
    assert 1500 < moved.learned_kvtt < 2500


def test_an_aborted_inference_moves_nothing():
    learner = Learner()
    for n in range(40):
        true = 100 + 100 * (n % 10)
        marks = [Mark(1, 1, true // 5, 5)]
        learner.learn("app", estimate=estimated(1000), true_kvtt=true, marks=marks)
    engine = Engine(learner)
    engine.start("run", 1000)
    assert engine.report("run", 5, finished=[None], running=4) == []
    assert engine.report("run", 5, finished=[40], running=4) != []


def test_another_estimate_is_judged_anew():
    engine = Engine(taught())
    engine.start("run", 1000)
    engine.report("run", waiting=20)
    view = engine.pool.re_estimate("run", estimated(5000))
    assert (view.learned_kvtt, f_kvtt(view)) == (0, 5000)
    (moved,) = engine.report("run", waiting=20)
    assert moved.learned_kvtt < 3000
    assert moved.estimate == estimated(5000)


def test_an_estimate_from_elsewhere_is_not_judged_by_the_models_lessons():
    engine = Engine(taught())
    engine.start("run", 1000)
    engine.report("run", waiting=20)
    engine.pool.re_estimate("run", Estimate(5000, Source.CLIENT))
    assert engine.report("run", waiting=20) == []
    assert engine.pool.run("run").cost_kvtt == 5000


def test_a_run_that_came_back_from_a_record_keeps_f_and_teaches_nothing():
    engine = Engine(taught())
    engine.start("run", 1000)
    (moved,) = engine.report("run", waiting=20)
    engine.pool = Pool.restore(engine.pool.snapshot(), now_s=5.0)
    engine.pool.join_engine("engine", "first", kv_capacity_tokens=1000)
    view = engine.pool.run("run")
    assert (view.finish, view.learned_kvtt) == (moved.finish, moved.learned_kvtt)
    assert engine.report("run", 50, finished=[50], waiting=40) == []
    assert engine.pool.end_run("run", now_s=9.0).marks == ()


def test_a_credited_run_teaches_nothing():
    engine = Engine(taught())
    engine.start("run", 1000)
    engine.pool.credit("run", useful_kvtt=10)
    assert engine.report("run", waiting=20) == []
    assert engine.pool.end_run("run", now_s=9.0).marks == ()


def trails_after(*calls):
    """Levels that runs teach once an engine with an account of theirs did these calls."""
    engine = Engine()
    for run_id in ("waits", "served", "elsewhere"):
        engine.start(run_id)
    engine.report("served", 5, finished=[5], running=1)
    engine.report("served", 5, finished=[5])
    engine.report("waits", waiting=3)
    pool = engine.pool
    pool.join_engine("other", "first", kv_capacity_tokens=1000)
    run = RunReport("elsewhere", 7, 0, 0, 1)
    pool.report(EngineReport("other", "first", 1, 1, (run,)), now_s=1.0)
    pool.relearn(["elsewhere"], engine.learner)
    for call in calls:
        call(pool)
    ended = {name: pool.end_run(name, now_s=9.0) for name in ("waits", "served", "elsewhere")}
    return {name: len(each.marks) for name, each in ended.items()}


def join_again(*runs):
    return lambda pool: pool.join_engine(
        "engine", "first", kv_capacity_tokens=1000, baseline=[RunReport(*run) for run in runs]
    )


@pytest.mark.parametrize(
    "call",
    [
        lambda pool: pool.leave_engine("engine"),
        join_again(("served", 10)),
        lambda pool: pool.note_lost(["waits", "served", "nobody's"]),
    ],
    ids=["its engine left", "its engine introduced itself anew", "an item was not understood"],
)
def test_runs_whose_finished_inferences_may_be_lost_teach_nothing(call):
    assert trails_after() == {"waits": 1, "served": 1, "elsewhere": 1}
    assert trails_after(call) == {"waits": 0, "served": 0, "elsewhere": 1}


def test_a_run_that_was_served_while_its_engine_was_out_of_touch_teaches_nothing():
    engine = Engine()
    pool = engine.pool
    pool.leave_engine("engine")
    engine.start("run")
    join_again(("run", 900, 0, 0, 4))(pool)
    pool.relearn(["run"], engine.learner)
    ended = pool.end_run("run", now_s=9.0)
    assert (ended.true_cost_kvtt, ended.marks) == (900, ())


def test_an_ended_run_hands_over_its_trail_and_both_errors():
    engine = Engine(taught())
    engine.start("run", 1000)
    engine.report("run", waiting=20)
    engine.report("run", 2000, finished=[100], running=19)
    ended = engine.pool.end_run("run", now_s=9.0)
    assert [mark.level for mark in ended.marks] == [0, 1]
    assert ended.relative_error == 0.5
    assert ended.learned_relative_error < 0.3


# -- what always holds -----------------------------------------------------------------------------


class Relearning(RuleBasedStateMachine):
    """Any reports of any runs, with lessons or without; see the invariants."""

    def __init__(self):
        super().__init__()
        self.engine = Engine(taught(patience=1.5, provisional_patience=1.5))
        self.in_flight = {}
        self.value = Ticks(0)
        self.delivered = 0

    @property
    def pool(self):
        return self.engine.pool

    @rule(
        name=st.sampled_from(NAMES),
        cost=st.integers(1, 5000),
        weight=st.sampled_from(["0.5", "1", "3"]),
        application=st.sampled_from(["app", "new"]),
        source=st.sampled_from(Source),
    )
    def start(self, name, cost, weight, application, source):
        if name not in self.pool:
            self.engine.totals.setdefault(name, 0)
            total = self.engine.totals[name]
            weight = parse_weight(weight)
            self.engine.start(name, cost, weight=weight, application=application, source=source)
            self.engine.totals[name] = total

    @rule(
        name=st.sampled_from(NAMES),
        kvtt=st.integers(0, 3000),
        in_flight=st.integers(0, 30),
        finished=st.lists(st.none() | st.integers(1, 500), max_size=6),
    )
    def report(self, name, kvtt, in_flight, finished):
        if name not in self.engine.totals:
            return
        before = {view.run_id: view for view in self.pool.runs()}
        self.delivered += kvtt
        moved = self.engine.report(name, kvtt, finished=finished, waiting=in_flight)
        for view in self.pool.runs():
            was = before[view.run_id]
            assert (view.start, view.estimate) == (was.start, was.estimate)
            if view.run_id not in {each.run_id for each in moved}:
                assert view.finish == was.finish
        for view in moved:
            assert view.run_id == name
            floor = view.start + service_ticks(view.useful_kvtt, view.weight)
            assert view.finish >= floor, "a moved F is at least S + attained / w"

    @rule(application=st.sampled_from(["app", "new"]), cost=st.integers(1, 5000))
    def learn_of_an_application(self, application, cost):
        before = {view.run_id: view for view in self.pool.runs()}
        estimate = Estimate(cost, Source.HISTORY)
        names = [*self.pool.runs_of(application), *NAMES]  # also those of others, and not open
        moved = [self.pool.estimate_anew(name, application, estimate) for name in names]
        changed = {view.run_id for view in moved if view is not None}
        for view in self.pool.runs():
            was = before[view.run_id]
            if view.run_id not in changed:
                assert view == was
                continue
            assert (was.application, was.learned_kvtt) == (application, 0)
            assert was.estimate.source not in (Source.CLIENT, Source.MODEL)
            assert abs(cost - was.estimate.cost_kvtt) > 0.05 * was.estimate.cost_kvtt
            believed = max(cost, view.useful_kvtt)
            assert view.finish == view.start + service_ticks(believed, view.weight)

    @rule(name=st.sampled_from(NAMES))
    def end(self, name):
        if name in self.pool:
            self.pool.end_run(name, now_s=float(self.engine.sequence))

    @invariant()
    def no_run_is_far_beyond_its_f(self):
        patience = Fraction(3, 2)
        for view in self.pool.runs():
            assert view.useful_kvtt <= patience * f_kvtt(view) + 1

    @invariant()
    def v_never_goes_back(self):
        assert self.pool.value >= self.value
        self.value = self.pool.value

    @invariant()
    def all_that_was_delivered_is_accounted_for(self):
        assert self.pool.useful_kvtt == self.delivered
        assert self.pool.total_weight >= 0


Relearning.TestCase.settings = settings(
    derandomize=True, max_examples=60, stateful_step_count=30, deadline=None
)
TestRelearning = Relearning.TestCase
