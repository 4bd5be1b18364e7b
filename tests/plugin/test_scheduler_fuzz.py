"""The real vLLM scheduler under random load: order, victims and charges are checked in every step.

Sabotaged variants must fail the same checks; otherwise the checks would prove nothing.
"""

import random

import pytest
from vllm.v1.core.sched.request_queue import SchedulingPolicy

from justitia.core.policies import POLICIES
from justitia.testing.vllm_harness import Driver, EngineShape, abort, build, make_request
from justitia.vllm_plugin.directives import Directive, RunTag
from justitia.vllm_plugin.factory import make_scheduler
from justitia.vllm_plugin.settings import Settings


class Audit:
    """Watches a scheduler from outside, with books of its own from the KV manager's lists."""

    def __init__(self, scheduler):
        self.scheduler = scheduler
        self.controller = scheduler.justitia
        self.violations = []
        self.num_preemptions = 0
        self.charged = {}
        self.holders = {}
        self.before = {}
        begin = scheduler._justitia_begin_step

        def begin_and_look():
            begin()
            self.look()

        scheduler._justitia_begin_step = begin_and_look

    def rank(self, request_id):
        inference = self.controller.inference(request_id)
        return (*self.controller.policy.key(inference), inference.sequence)

    def look(self):
        self.running_before = [r.request_id for r in self.scheduler.running]
        self.before = {i: self.rank(i) for i in self.scheduler.requests}
        self.blocked = {
            i for i, r in self.scheduler.requests.items() if r.num_stale_output_tokens > 0
        }

    def blocks(self, request_id):
        groups = self.scheduler.kv_cache_manager.get_blocks(request_id).blocks
        return [[0 if b.is_null else b.block_id for b in blocks] for blocks in groups]

    def check_plan(self, planned):
        self.check_victims(planned)
        self.check_admissions()
        self.check_charges(planned)
        self.check_books()

    def check_victims(self, planned):
        victims = [i for i in planned.preempted_req_ids or () if i in self.running_before]
        self.num_preemptions += len(victims)
        kept = [self.before[i] for i in self.running_before if i not in victims]
        if victims and kept and min(self.before[i] for i in victims) < max(kept):
            self.violations.append("victim")

    def check_admissions(self):
        admitted = [
            self.before[r.request_id]
            for r in self.scheduler.running
            if r.request_id not in self.running_before
        ]
        running = {r.request_id for r in self.scheduler.running}
        waiting = [
            rank
            for i, rank in self.before.items()
            if i not in running and i not in self.blocked and i not in self.running_before
        ]
        if admitted and waiting and max(admitted) > min(waiting):
            self.violations.append("admission")

    def check_charges(self, planned):
        scheduler, layout = self.scheduler, self.controller.layout
        self.note_holders(planned)
        for i in planned.num_scheduled_tokens:
            computed = scheduler.requests[i].num_computed_tokens
            tokens = 0
            for group, ids in enumerate(self.blocks(i)):
                size = layout.block_tokens(group)
                given_back = sum(b == 0 for b in ids) * size
                foreign = sum(b != 0 and self.holders[b][0] != i for b in ids) * size
                tokens += max(0, min(computed, len(ids) * size) - given_back - foreign)
            self.charged[i] = self.charged.get(i, 0) + max(1, tokens)
            inference = self.controller.ledger.get(i)
            if inference.useful_shares + inference.wasted_shares != self.charged[i]:
                self.violations.append("charge")

    def note_holders(self, planned):
        running = [r.request_id for r in self.scheduler.running]
        now = {i: {b for g in self.blocks(i) for b in g if b} for i in running}
        for block, holders in list(self.holders.items()):
            holders[:] = [i for i in holders if block in now.get(i, ())]
            if not holders:
                del self.holders[block]
        for i in planned.num_scheduled_tokens:
            for block in now[i]:
                holders = self.holders.setdefault(block, [])
                if i not in holders:
                    holders.append(i)

    def check_books(self):
        ledger, scheduler = self.controller.ledger, self.scheduler
        for i in (r.request_id for r in scheduler.running):
            held = sum(b != 0 for ids in self.blocks(i) for b in ids)
            if ledger.get(i).holding.num_blocks != held:
                self.violations.append("blocks")
        pool = scheduler.kv_cache_manager.block_pool
        if ledger.blocks.num_paid != pool.num_gpu_blocks - 1 - pool.get_num_free_blocks():
            self.violations.append("paid")
        if len(ledger) != len(scheduler.requests) or ledger.num_running != len(scheduler.running):
            self.violations.append("counts")
        waiting = sum(run.num_waiting for run in self.controller.runs)
        if waiting != sum(map(len, self.controller.queues)):
            self.violations.append("waiting")


def drive(scheduler, seed, *, num_steps=600, rate=0.15):
    """Random arrivals of seven runs of three applications, aborts, and changing tags."""
    rng = random.Random(seed)
    audit = Audit(scheduler)
    driver = Driver(scheduler, audit.check_plan)
    shared = [rng.randrange(3, 500) for _ in range(64)]
    num_arrived = 0
    for step in range(num_steps):
        if rng.random() < rate:
            num_arrived += 1
            own = [rng.randrange(3, 500) for _ in range(rng.randrange(20, 300))]
            request = make_request(
                f"q{num_arrived}",
                (shared if rng.random() < 0.5 else []) + own,
                rng.randrange(1, 120),
                run_id=f"run{rng.randrange(7)}" if rng.random() < 0.9 else "",
                application=rng.choice(["", "a", "b"]),
                arrival_time=step * 0.01,
                priority=rng.randrange(-5, 5),
            )
            scheduler.add_request(request)
        if rng.random() < 0.1:
            run_id = f"run{rng.randrange(7)}"
            tag = RunTag(run_id, rng.randrange(2**80), 0, rng.randrange(1000), 1.0)
            scheduler.justitia.inbox.put(Directive(0.0, tags={run_id: tag}))
        if scheduler.requests and rng.random() < 0.02:
            abort(scheduler, rng.choice(sorted(scheduler.requests)))
        if driver.is_busy:
            driver.step()
    driver.run()
    return audit


def assert_all_closed(scheduler):
    controller = scheduler.justitia
    pool = scheduler.kv_cache_manager.block_pool
    assert len(controller.ledger) == 0
    assert controller.ledger.num_running == 0
    assert controller.ledger.blocks.num_paid == 0
    assert controller.ledger.blocks._others == {}
    assert pool.get_num_free_blocks() == pool.num_gpu_blocks - 1
    assert all(run.is_idle for run in controller.runs)
    assert controller.gauges.internal_errors == 0


ENGINES = [
    pytest.param(EngineShape(is_async=a, has_prefix_cache=c), id=f"async={a} prefix={c}")
    for a in (False, True)
    for c in (False, True)
]


@pytest.mark.parametrize("seed", range(2))
@pytest.mark.parametrize("shape", ENGINES)
def test_order_victims_and_charges_hold_in_every_step(tiny_model, shape, seed):
    scheduler = build(shape, tiny_model, Settings())

    audit = drive(scheduler, seed)

    assert audit.violations == []
    assert audit.num_preemptions > 10
    assert_all_closed(scheduler)


@pytest.mark.parametrize("is_async", [False, True])
def test_charges_hold_with_a_sliding_window_group(tiny_model, is_async):
    shape = EngineShape(blocks=100, is_async=is_async, window_tokens=48)
    scheduler = build(shape, tiny_model, Settings())

    audit = drive(scheduler, 0, num_steps=400, rate=0.2)

    assert audit.violations == []
    assert audit.num_preemptions > 5
    assert_all_closed(scheduler)


@pytest.mark.parametrize("policy", sorted(set(POLICIES) - {"fcfs", "justitia"}))
def test_every_policy_keeps_its_order(tiny_model, policy):
    scheduler = build(EngineShape(), tiny_model, Settings(policy=policy))

    audit = drive(scheduler, 5)

    assert audit.violations == []
    assert audit.num_preemptions > 10
    assert_all_closed(scheduler)


# -- sabotage --------------------------------------------------------------------------------------


def without_victim_rule(**arguments):
    scheduler = make_scheduler(**arguments)
    scheduler._justitia_set_victim_rule = lambda: None
    scheduler.policy = SchedulingPolicy.FCFS
    return scheduler


def without_retagging(**arguments):
    scheduler = make_scheduler(**arguments)
    scheduler._justitia_rank = lambda _running: None
    return scheduler


def with_blocks_counted_wrong(**arguments):
    scheduler = make_scheduler(**arguments)
    ledger = scheduler.justitia.ledger
    ledger.blocks = _Proxy(ledger.blocks, extend=lambda *_: None)
    return scheduler


def with_shared_blocks_charged_twice(**arguments):
    scheduler = make_scheduler(**arguments)
    table = scheduler.justitia.ledger.blocks

    def match(holding, ids):
        table.match(holding, ids)
        holding.num_foreign = [0] * len(holding.num_foreign)

    scheduler.justitia.ledger.blocks = _Proxy(table, match=match)
    return scheduler


class _Proxy:
    def __init__(self, target, **replaced):
        self._target = target
        self.__dict__.update(replaced)

    def __getattr__(self, name):
        return getattr(self._target, name)


@pytest.mark.parametrize(
    ("make", "kind"),
    [
        pytest.param(without_victim_rule, "victim", id="policy left at fcfs"),
        pytest.param(without_retagging, "victim", id="running inferences not retagged"),
        pytest.param(with_blocks_counted_wrong, "blocks", id="new blocks not counted"),
        pytest.param(with_shared_blocks_charged_twice, "charge", id="shared blocks charged twice"),
    ],
)
def test_a_planted_bug_is_found(tiny_model, make, kind):
    scheduler = build(EngineShape(), tiny_model, Settings(), make=make)

    audit = drive(scheduler, 1, rate=0.3)

    assert audit.violations.count(kind) > 5
