"""Small scenarios on the step engine, each with what it is expected to come to."""

import pytest

from justitia.core.estimates import Estimate, Source
from justitia.core.policies import EVERY_POLICY, Inference, make_policy
from justitia.core.policies.drr import DeficitRoundRobin
from justitia.core.pool import Clock, Pool
from justitia.core.queue import InferenceQueue
from justitia.core.units import TICKS_PER_KVTT, UNIT_WEIGHT
from justitia.testing.builders import PoolDriver, make_report
from justitia.testing.delay_bound import delay_bound_steps, delays_steps
from justitia.testing.null_policies import Lifo, Shuffled
from justitia.testing.scenarios import EngineConfig, Job
from justitia.testing.step_pool import StepPool

CONFIG = EngineConfig(capacity_tokens=400)
RESERVING = EngineConfig(capacity_tokens=400, does_reserve_output=True)


def maker(policy):
    return policy if callable(policy) else lambda: make_policy(policy, among=EVERY_POLICY)


def play(policy, jobs, config=CONFIG, **options):
    return StepPool(maker(policy), config, has_oracle=False, **options).play(jobs)


def fan_out(name, count, prompt=20, output=20, **options):
    return Job(name, (((prompt, output),) * count,), **options)


# -- the paper's examples --------------------------------------------------------------------------


MERGE = ((60, 40),) * 80


def test_one_after_the_other_is_a_fifth_faster_than_sharing_and_nobody_is_later():
    """Two document-merging runs (paper: 210 s shared, 166 s one after the other: -21 %)."""
    jobs = [Job("merge-1", (MERGE,)), Job("merge-2", (MERGE,))]
    shared, serial = play("vtc", jobs, RESERVING), play("justitia", jobs, RESERVING)
    assert serial.mean_jct_steps <= 0.79 * shared.mean_jct_steps
    for name in ("merge-1", "merge-2"):
        assert serial.jct_steps[name] <= shared.jct_steps[name]


def test_with_a_last_stage_nobody_is_later_by_more_than_that_stage():
    """Shared, both last stages overlap; one after the other, the second one's has no company."""
    jobs = [Job(name, (MERGE, ((60, 40),))) for name in ("merge-1", "merge-2")]
    shared, serial = play("vtc", jobs, RESERVING), play("justitia", jobs, RESERVING)
    assert serial.mean_jct_steps <= 0.79 * shared.mean_jct_steps
    assert serial.jct_steps["merge-1"] < 0.55 * shared.jct_steps["merge-1"]
    assert serial.jct_steps["merge-2"] <= shared.jct_steps["merge-2"] + 40


class FigureSeven:
    """The paper's Fig. 7: M = 2 tokens; costs in quarters of its unit, so M does 8 a time unit."""

    ARRIVALS = (
        (0, "app-1", (10, 10)),
        (1, "app-2", (16, 10, 10, 10)),
        (4, "app-3", (10, 10, 10)),
    )

    def __init__(self, policy_name):
        self.driver = PoolDriver()
        self.policy = make_policy(policy_name)
        self.queue = InferenceQueue(self.policy)
        self.rest = {}
        self.marks = {}
        self.gps_order = []
        self.served = []
        self.end = 0.0

    def play(self):
        current = None
        coming = list(self.ARRIVALS)
        for quarter in range(8 * 20):
            if coming and quarter == 8 * coming[0][0]:
                self.arrive(*coming.pop(0), quarter)
            if current is None:
                if not self.queue:
                    return self
                current = self.queue.pop()
                self.served.append(current.inference_id)
            self.rest[current.inference_id] -= 1
            self.driver.serve(current.run_id, 1, now_s=(quarter + 1) / 8)
            self.note_gps()
            if self.rest[current.inference_id] == 0:
                current = None
                self.end = (quarter + 1) / 8
        raise AssertionError("no end")

    def arrive(self, at, name, costs, quarter):
        view = self.driver.start(name, sum(costs), now_s=at)
        self.marks[name] = view.finish / TICKS_PER_KVTT / 4
        self.policy.start_run(name, view.sequence)
        self.policy.set_cost(name, view.estimate.cost_kvtt)
        self.policy.set_finish(name, view.finish, view.sequence)
        for number, cost in enumerate(costs, start=1):
            inference = Inference(f"{name}.i{number}", name, 10 * quarter + number, cost)
            self.rest[inference.inference_id] = cost
            self.queue.add(inference)

    def note_gps(self):
        for view in self.driver.pool.runs():
            if not view.is_in_fluid and view.run_id not in self.gps_order:
                self.gps_order.append(view.run_id)


def test_the_papers_figure_7():
    figure = FigureSeven("justitia").play()
    assert figure.marks == {"app-1": 5.0, "app-2": 13.5, "app-3": 12.5}
    assert figure.gps_order == ["app-1", "app-3", "app-2"]
    assert figure.served == [
        *("app-1.i1", "app-1.i2"),
        "app-2.i1",
        *("app-3.i1", "app-3.i2", "app-3.i3"),
        *("app-2.i2", "app-2.i3", "app-2.i4"),
    ]
    assert figure.end == 12.0


def test_figure_7_under_first_come_first_served_serves_app_3_last():
    figure = FigureSeven("fcfs").play()
    assert [name.split(".")[0] for name in figure.served[-3:]] == ["app-3"] * 3
    assert figure.end == 12.0, "the same work takes the same time in any order"


# -- fairness, and what it is not ------------------------------------------------------------------


def elephant_and_mice(num_mice):
    """Mice that the engine can just not keep up with, every 8 steps."""
    mice = [fan_out(f"mouse-{n}", 4, at_step=1 + 8 * n) for n in range(num_mice)]
    return [fan_out("elephant", 24), *mice]


def violations(policy, jobs, config=CONFIG):
    outcome = StepPool(maker(policy), config).play(jobs)
    bound = delay_bound_steps(jobs, config)
    return [name for name, delay in delays_steps(outcome).items() if delay > bound]


def mixed_sizes():
    """Overload by runs of 1 to 24 inferences."""
    return [fan_out(f"r{n}", (1, 2, 24, 3)[n % 4], at_step=7 * n) for n in range(40)]


def test_justitia_passes_the_fairness_check():
    assert violations("justitia", mixed_sizes()) == []


@pytest.mark.parametrize(
    "null_policy",
    [pytest.param(Lifo, id="lifo"), pytest.param(Shuffled, id="shuffled")],
)
def test_a_null_policy_fails_the_fairness_check(null_policy):
    assert len(violations(null_policy, mixed_sizes())) >= 2


def test_fcfs_makes_a_mouse_wait_behind_an_elephant_that_arrived_first():
    jobs = [fan_out("elephant", 300), fan_out("mouse", 2, at_step=5)]
    fcfs, fair = play("fcfs", jobs), play("justitia", jobs)
    assert fcfs.jct_steps["mouse"] >= 4 * fair.jct_steps["mouse"]
    assert fcfs.jct_steps["mouse"] >= 0.9 * fcfs.jct_steps["elephant"]
    assert fair.jct_steps["elephant"] <= fcfs.jct_steps["elephant"] + 20, "one mouse later at most"


def test_parrot_makes_a_mouse_wait_as_long_as_fcfs_does():
    jobs = [fan_out("elephant", 300), fan_out("mouse", 2, at_step=5)]
    assert play("parrot", jobs).jct_steps == play("fcfs", jobs).jct_steps


def test_fcfs_interleaves_the_stages_of_runs_and_parrot_does_not():
    staged = ((20, 20),) * 10, ((20, 20),)
    jobs = [Job("first", staged), fan_out("second", 40, at_step=1)]
    assert play("parrot", jobs).jct_steps["first"] < play("fcfs", jobs).jct_steps["first"] * 0.7


def test_vtc_ends_equal_runs_together_so_that_nobody_is_early():
    jobs = [fan_out(f"r{n}", 100) for n in range(3)]
    vtc, fair = play("vtc", jobs), play("justitia", jobs)
    assert min(vtc.jct_steps.values()) >= 0.85 * max(vtc.jct_steps.values())
    assert min(fair.jct_steps.values()) <= 0.4 * max(fair.jct_steps.values())
    assert max(fair.jct_steps.values()) <= max(vtc.jct_steps.values())


def test_vtc_serves_a_mouse_at_once_as_justitia_does():
    jobs = [fan_out("elephant", 300), fan_out("mouse", 2, at_step=5)]
    assert play("vtc", jobs).jct_steps["mouse"] <= play("justitia", jobs).jct_steps["mouse"] + 20


def test_inference_sjf_lets_a_run_of_long_inferences_wait():
    jobs = [
        fan_out("long", 4, output=60),
        *(fan_out(f"short-{n}", 12, output=10, at_step=n) for n in range(8)),
    ]
    sjf, fair = play("sjf", jobs), play("justitia", jobs)
    assert fair.jct_steps["short-0"] <= sjf.jct_steps["short-0"] + 60
    assert sjf.mean_jct_steps > 0


def test_srjf_starves_an_elephant_under_a_stream_of_mice_and_justitia_bounds_it():
    """The paper: SRJF's elephant doubles from 100 to 500 mice, Justitia's stays where it is."""
    jct = {
        (policy, num_mice): play(policy, elephant_and_mice(num_mice), RESERVING).jct_steps
        for policy in ("srjf", "justitia")
        for num_mice in (50, 150)
    }
    assert jct["srjf", 150]["elephant"] >= 2.5 * jct["srjf", 50]["elephant"]
    assert jct["justitia", 150]["elephant"] == jct["justitia", 50]["elephant"]
    assert jct["justitia", 150]["elephant"] <= 0.3 * jct["srjf", 150]["elephant"]


@pytest.mark.parametrize("policy", ["las", "mlfq"])
def test_attained_service_starves_an_elephant_and_taking_turns_does_not(policy):
    jct = {
        (name, num_mice): play(name, elephant_and_mice(num_mice), RESERVING).jct_steps["elephant"]
        for name in (policy, "round-robin", "justitia-probe")
        for num_mice in (50, 150)
    }
    assert jct[policy, 150] >= 2.5 * jct[policy, 50]
    assert jct["round-robin", 150] == jct["round-robin", 50]
    assert jct["justitia-probe", 150] == jct["justitia-probe", 50]


def test_the_classes_of_deficit_round_robin_protect_a_mouse_from_another_applications_elephant():
    def make():
        return DeficitRoundRobin(quantum_tokens=40)

    jobs = [
        fan_out("elephant", 300, application="batch"),
        fan_out("mouse", 2, at_step=5, application="chat"),
    ]
    one_class = [fan_out("elephant", 300), fan_out("mouse", 2, at_step=5)]
    assert 5 * play(make, jobs).jct_steps["mouse"] <= play(make, one_class).jct_steps["mouse"]


def test_justitia_is_close_to_srjf_in_mean():
    jobs = mixed_sizes()
    fair, srjf = play("justitia", jobs), play("srjf", jobs)
    vtc, fcfs = play("vtc", jobs), play("fcfs", jobs)
    assert fair.mean_jct_steps <= 1.15 * srjf.mean_jct_steps
    assert fair.mean_jct_steps < vtc.mean_jct_steps
    assert fair.mean_jct_steps < fcfs.mean_jct_steps


def test_weights_order_equal_runs_heaviest_first():
    jobs = [fan_out(f"w{weight}", 30, weight=weight) for weight in (1, 2, 4)]
    finish = play("justitia", jobs).finish_step
    assert finish["w4"] < finish["w2"] < finish["w1"]


def test_a_run_keeps_its_place_for_stages_that_come_later():
    """Rule O1: the reduce stage of an early run goes before a later run's inferences."""
    jobs = [Job("staged", (((20, 20),) * 10, ((20, 20),))), fan_out("later", 200, at_step=1)]
    outcome = play("justitia", jobs)
    order = [run for run, _ in outcome.admitted]
    assert order.index("later") < len(order) - 1 - order[::-1].index("staged")
    assert outcome.finish_step["staged"] < 0.5 * outcome.finish_step["later"]


# -- several engines -------------------------------------------------------------------------------


@pytest.mark.parametrize("report_every", [1, 7])
def test_v_and_order_are_the_same_whichever_engine_reports_first(report_every):
    outcomes = [
        play(
            "justitia",
            mixed_sizes(),
            num_engines=3,
            report_every=report_every,
            reverse_reports=is_reversed,
        )
        for is_reversed in (False, True)
    ]
    assert outcomes[0].virtual_time == outcomes[1].virtual_time
    assert outcomes[0].admitted == outcomes[1].admitted


def test_how_often_engines_report_does_not_change_what_they_serve():
    """Arrivals and ends settle V, so tags are the same however rare the reports between."""
    frequent = play("justitia", mixed_sizes(), report_every=1)
    rare = play("justitia", mixed_sizes(), report_every=50)
    assert frequent.admitted == rare.admitted
    assert frequent.virtual_time[-1] == rare.virtual_time[-1]


def test_skewed_ingress_keeps_the_order_global():
    """Each run comes in through one engine only; on every engine F decides, not local arrival."""
    jobs = mixed_sizes()
    pool = StepPool(
        lambda: make_policy("justitia"),
        CONFIG,
        num_engines=2,
        has_oracle=False,
        place=lambda _, run: int(run[1:]) % 8 // 7,  # one run in eight goes to the second engine
    )
    seen = []

    def watch(engine):
        waiting = [i.run_id for i in engine.queue]
        finish = {view.run_id: (view.finish, view.sequence) for view in pool.pool.runs()}
        places = [finish[run_id] for run_id in waiting]
        assert places == sorted(places)
        seen.append(len(waiting))

    pool.watch = watch
    pool.play(jobs)
    assert max(seen) > 5


# -- conservation ----------------------------------------------------------------------------------

TIGHT = EngineConfig(capacity_tokens=150, max_sequences=6, step_budget_tokens=16)
CHUNKED = [
    Job("a", (((40, 60),) * 5, ((30, 20),) * 2)),
    Job("b", (((5, 90),) * 6,), at_step=3),
    Job("c", (((70, 1),) * 4, ((1, 50),)), at_step=30),
    Job("d", (((20, 0),) * 3,), at_step=31),
]


@pytest.mark.parametrize("policy", [*EVERY_POLICY, Lifo, Shuffled])
def test_useful_service_is_the_closed_form_cost_whatever_was_preempted(policy):
    outcome = play(policy, CHUNKED, TIGHT)
    assert outcome.num_preemptions > 0
    assert outcome.wasted_kvtt > 0
    for job in CHUNKED:
        assert outcome.ended[job.name].true_cost_kvtt == job.cost_kvtt(TIGHT.step_budget_tokens)


@pytest.mark.parametrize("policy", [*EVERY_POLICY, Lifo])
@pytest.mark.parametrize("config", [CONFIG, TIGHT], ids=["roomy", "tight"])
def test_nothing_waits_that_fits(policy, config):
    pool = StepPool(maker(policy), config, has_oracle=False)
    num_blocked = 0

    def watch(engine):
        nonlocal num_blocked
        head = engine.head()
        if head is not None:
            num_blocked += 1
            assert not engine.can_admit(head)
            assert engine.running, "something could run and nothing runs"

    pool.watch = watch
    pool.play(CHUNKED + mixed_sizes()[:8])
    assert num_blocked > 0


def test_the_fluid_system_does_all_the_work_and_no_more():
    outcome = StepPool(lambda: make_policy("justitia"), TIGHT)
    done = outcome.play(CHUNKED)
    assert outcome.pool.surplus_kvtt <= 1e-6 * done.useful_kvtt
    assert outcome.pool.total_weight == 0
    assert outcome.pool.useful_kvtt == done.useful_kvtt
    assert sorted(done.ratio) == [job.name for job in CHUNKED]


def test_wrong_estimates_leave_nothing_behind_in_the_fluid_system():
    jobs = [
        fan_out("too-low", 20, estimate_kvtt=1),
        fan_out("too-high", 5, estimate_kvtt=10**15, at_step=3),
        fan_out("exact", 10, at_step=5),
    ]
    pool = StepPool(lambda: make_policy("justitia"), CONFIG, has_oracle=False)
    outcome = pool.play(jobs)
    assert len(outcome.finish_step) == 3
    exact = play("justitia", [Job(j.name, j.stages, j.at_step) for j in jobs])
    assert outcome.useful_kvtt == exact.useful_kvtt
    assert pool.pool.total_weight == 0


def test_the_capacity_clock_counts_idle_kv_and_the_delivered_one_does_not():
    job = [fan_out("r", 1)]
    delivered = StepPool(lambda: make_policy("justitia"), CONFIG, has_oracle=False)
    capacity = StepPool(
        lambda: make_policy("justitia"), CONFIG, has_oracle=False, clock=Clock.CAPACITY
    )
    delivered.play(job)
    capacity.play(job)
    assert delivered.pool.surplus_kvtt == 0
    assert capacity.pool.surplus_kvtt > 0
    assert capacity.pool.value == delivered.pool.value


def test_the_capacity_clock_grows_by_m_per_step():
    pool = Pool(clock=Clock.CAPACITY)
    pool.join_engine("engine", "first", kv_capacity_tokens=100)
    pool.start_run(
        "r", "app", weight=UNIT_WEIGHT, estimate=Estimate(10**6, Source.CLIENT), now_s=0.0
    )
    pool.report(make_report({"r": 7}, sequence=1, steps=5), now_s=1.0)
    assert pool.value == 500 * TICKS_PER_KVTT
