"""One suite over all policies: whatever is queued, cancelled, charged or ended, in any order."""

import re
from functools import partial
from pathlib import Path

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import (
    RuleBasedStateMachine,
    initialize,
    invariant,
    precondition,
    rule,
    run_state_machine_as_test,
)

from justitia.core.errors import InvalidValueError, InvariantError
from justitia.core.policies import EVERY_POLICY, POLICIES, RIVALS, Service, make_policy
from justitia.core.policies.dlpm import DeficitLongestPrefix
from justitia.core.policies.drr import DeficitRoundRobin
from justitia.core.policies.mlfq import MultiLevelFeedback
from justitia.core.policies.sliding_window import SlidingWindow
from justitia.core.queue import InferenceQueue
from justitia.testing.builders import make_inference
from justitia.testing.null_policies import Lifo, Shuffled
from justitia.testing.queue_model import SortedListQueue

MAKERS = {**EVERY_POLICY, "lifo": Lifo, "shuffled": Shuffled}
#: Their keys move when something is popped, so what is shown is what comes next, and no more.
MOVES_ON_POP = {"round-robin", "justitia-probe"}
#: With quanta, levels and windows that are used up within a few steps.
SMALL = {
    **MAKERS,
    "dlpm": partial(DeficitLongestPrefix, quantum_tokens=4),
    "drr": partial(DeficitRoundRobin, quantum_tokens=3, quanta_tokens={"x": 7}),
    "mlfq": partial(MultiLevelFeedback, quantum_tokens=2, max_level=3),
    "sliding-window": partial(SlidingWindow, window_tokens=64),
}
RUN_IDS = st.sampled_from([f"run-{n}" for n in range(6)])
OTHERS = st.fixed_dictionaries(
    {
        "prompt_tokens": st.integers(0, 9) | st.integers(0, 10**4),
        "cached_tokens": st.integers(0, 3),
        "priority": st.integers(-2, 2),
    }
)
HUGE = 10**46  # ticks of a run of 1e18 kvtt at a weight of 1e-9


@pytest.fixture(params=sorted(MAKERS))
def policy(request):
    return MAKERS[request.param]()


@pytest.fixture
def queue(policy):
    return InferenceQueue(policy)


def ids(queue):
    return [inference.inference_id for inference in queue]


def drain(queue):
    """Pop all; each is what was shown just before."""
    popped = []
    while queue:
        shown = queue.peek()
        assert shown == next(iter(queue))
        assert queue.pop() == shown
        popped.append(shown.inference_id)
    return popped


class QueueBesideSortedList(RuleBasedStateMachine):
    """The queue and a naive list, each with a policy of its own that hears the same."""

    def __init__(self, make):
        super().__init__()
        self.policies = [make(), make()]
        self.queue = InferenceQueue(self.policies[0])
        self.model = SortedListQueue(self.policies[1])
        self.sequence = 0
        self.removed: list = []

    @initialize(applications=st.lists(st.sampled_from("xyz"), max_size=6))
    def begin(self, applications):
        """Some runs are there from the beginning, some of them wait."""
        for number, application in enumerate(applications):
            self.start_run(f"run-{number}")
            self.set_application(f"run-{number}", application)
            if number % 2:
                self.add(f"run-{number}", 1, 0, {})

    def teardown(self):
        """The heap's order to the end, not only its head."""
        while len(self.model):
            assert self.queue.pop() == self.model.pop()
        assert self.queue.peek() is None

    def tell(self, run_id, hook, *arguments):
        changed = [getattr(policy, hook)(run_id, *arguments) for policy in self.policies]
        assert changed[0] == changed[1]
        if changed[0] or hook in ("start_run", "end_run"):
            self.queue.refresh(run_id)

    @rule(run_id=RUN_IDS)
    def start_run(self, run_id):
        self.sequence += 1
        self.tell(run_id, "start_run", self.sequence)

    @rule(run_id=RUN_IDS, application=st.sampled_from("xyz"))
    def set_application(self, run_id, application):
        """No key of what waits changes, so nothing is refreshed."""
        for policy in self.policies:
            policy.set_application(run_id, application)

    @rule(run_id=RUN_IDS)
    def end_run(self, run_id):
        self.tell(run_id, "end_run")

    @rule(run_id=RUN_IDS, cost=st.integers(0, 5) | st.integers(0, 10**18))
    def set_cost(self, run_id, cost):
        self.tell(run_id, "set_cost", cost)

    @rule(run_id=RUN_IDS, finish=st.integers(0, 5) | st.integers(0, HUGE), place=st.integers(0, 3))
    def set_finish(self, run_id, finish, place):
        self.tell(run_id, "set_finish", finish, place)

    @rule(
        run_id=RUN_IDS, prompt=st.integers(0, 5) | st.integers(0, 10**5), output=st.integers(0, 3)
    )
    def charge(self, run_id, prompt, output):
        self.tell(run_id, "charge", Service(prompt, output, prompt * output))

    def enqueue(self, inference):
        self.queue.add(inference)
        self.model.add(inference)

    @rule(run_id=RUN_IDS, expected=st.integers(1, 4), jump=st.integers(-3, 3), others=OTHERS)
    def add(self, run_id, expected, jump, others):
        """Also with older sequences: preempted inferences come back."""
        self.sequence += 1
        place = (self.sequence + jump) * 10**6 + self.sequence
        self.enqueue(make_inference(f"i{self.sequence}", run_id, place, expected, **others))

    @precondition(lambda self: self.removed)
    @rule(choice=st.integers(0, 100), expected=st.integers(1, 4), run_id=RUN_IDS, others=OTHERS)
    def add_again_with_other_values(self, choice, expected, run_id, others):
        old = self.removed.pop(choice % len(self.removed))
        self.sequence += 1
        place = self.sequence * 10**6
        self.enqueue(make_inference(old.inference_id, run_id, place, expected, **others))

    @precondition(lambda self: self.removed)
    @rule(choice=st.integers(0, 100))
    def add_the_very_same_again(self, choice):
        self.enqueue(self.removed.pop(choice % len(self.removed)))

    @precondition(lambda self: len(self.model))
    @rule(choice=st.integers(0, 100))
    def remove(self, choice):
        inference = self.model.order()[choice % len(self.model)]
        assert self.queue.remove(inference.inference_id)
        assert not self.queue.remove(inference.inference_id)
        self.model.remove(inference.inference_id)
        self.removed.append(inference)

    @precondition(lambda self: len(self.model))
    @rule()
    def pop(self):
        popped = self.queue.pop()
        assert popped == self.model.pop()
        self.removed.append(popped)

    @invariant()
    def same_order(self):
        order = self.model.order()
        assert list(self.queue) == order
        assert self.queue.peek() == (order[0] if order else None)
        assert len(self.queue) == len(order)


@pytest.mark.parametrize("make", SMALL.values(), ids=SMALL)
def test_the_queue_does_what_a_list_that_is_sorted_each_time_does(make):
    run_state_machine_as_test(
        lambda: QueueBesideSortedList(make),
        settings=settings(
            derandomize=True,
            deadline=None,
            max_examples=30,
            stateful_step_count=30,
            database=None,
        ),
    )


def test_an_empty_queue_shows_nothing(queue):
    assert queue.peek() is None
    assert (len(queue), ids(queue), queue.remove("ghost"), "ghost" in queue) == (
        0,
        [],
        False,
        False,
    )
    with pytest.raises(IndexError):
        queue.pop()
    queue.refresh("ghost")


def test_one_inference_goes_in_and_out(policy, queue):
    policy.start_run("run", 0)
    queue.add(make_inference())
    assert "i" in queue
    assert queue.num_waiting("run") == 1
    assert queue.peek() == queue.pop() == make_inference()
    assert (len(queue), queue.num_waiting("run"), queue.peek()) == (0, 0, None)


def test_the_same_id_cannot_wait_twice(policy, queue):
    policy.start_run("run", 0)
    queue.add(make_inference())
    with pytest.raises(InvariantError, match="'i'"):
        queue.add(make_inference(sequence=5))
    assert drain(queue) == ["i"]


def test_many_come_out_in_the_order_that_is_shown(policy, queue):
    for number in range(200):
        run_id = f"run-{number % 7}"
        policy.start_run(run_id, number % 7)
        policy.set_cost(run_id, 1000 * (number % 5))
        policy.set_finish(run_id, 1000 * (number % 5), number % 7)
        queue.refresh(run_id)
        queue.add(make_inference(f"i{number}", run_id, number, expected_kvtt=number % 11))
    shown = ids(queue)
    assert len(shown) == 200
    popped = drain(queue)
    assert sorted(popped) == sorted(shown)
    if policy.name not in MOVES_ON_POP:
        assert popped == shown


def test_cancelling_a_run_leaves_the_rest_in_order(policy, queue):
    for number in range(30):
        policy.start_run(f"run-{number % 3}", number % 3)
        queue.add(make_inference(f"i{number}", f"run-{number % 3}", number))
    kept = [i.inference_id for i in queue if i.run_id != "run-1"]
    for number in range(1, 30, 3):
        assert queue.remove(f"i{number}")
    policy.end_run("run-1")
    assert queue.num_waiting("run-1") == 0
    assert ids(queue) == kept
    assert sorted(drain(queue)) == sorted(kept)


def test_equal_tags_go_by_arrival(policy, queue):
    for number in range(5):
        policy.start_run(f"run-{number}", number)
        policy.set_cost(f"run-{number}", 100)
        policy.set_finish(f"run-{number}", 100, number)
    for number in range(5):
        queue.add(make_inference(f"i{number}", f"run-{number}", number))
    if policy.name not in ("lifo", "shuffled"):
        assert drain(queue) == [f"i{number}" for number in range(5)]


def test_extreme_costs_and_tags_keep_their_order(policy, queue):
    for number, cost in enumerate((10**18, 1, 10**18 - 1)):
        policy.start_run(f"run-{number}", number)
        policy.set_cost(f"run-{number}", cost)
        policy.set_finish(f"run-{number}", cost * HUGE, number)
        queue.add(make_inference(f"i{number}", f"run-{number}", number, cost))
    if policy.name in ("sjf", "srjf", "justitia"):
        assert drain(queue) == ["i1", "i2", "i0"]


def test_hooks_for_runs_that_nobody_knows_change_nothing(policy, queue):
    assert not policy.set_cost("ghost", 5)
    assert not policy.set_finish("ghost", 5, 0)
    assert not policy.charge("ghost", Service(1, 1, 1))
    assert not policy.activate("ghost", None)
    policy.deactivate("ghost")
    policy.end_run("ghost")
    policy.end_run("ghost")
    assert len(queue) == 0


def test_an_inference_of_an_unknown_run_is_served_and_ahead_of_those_by_run(policy, queue):
    policy.start_run("known", 0)
    policy.set_finish("known", 10, 0)
    policy.set_cost("known", 10)
    queue.add(make_inference("i0", "known", 0))
    queue.add(make_inference("i1", "ghost", 1))
    if policy.name not in ("lifo", "shuffled") and not policy.is_per_inference:
        assert ids(queue) == ["i1", "i0"]
    assert sorted(drain(queue)) == ["i0", "i1"]


def test_a_run_that_ends_while_something_of_it_waits_does_not_break_the_queue(policy, queue):
    for number in range(3):
        policy.start_run(f"run-{number}", number)
        queue.add(make_inference(f"i{number}", f"run-{number}", number))
    policy.end_run("run-2")
    queue.refresh("run-2")
    assert queue.peek() is not None
    assert sorted(drain(queue)) == ["i0", "i1", "i2"]


def test_starting_a_run_twice_keeps_its_place(policy, queue):
    for number in range(2):
        policy.start_run(f"run-{number}", number)
        policy.set_finish(f"run-{number}", 10 + number, number)
        policy.set_cost(f"run-{number}", 10 + number)
        queue.add(make_inference(f"i{number}", f"run-{number}", number))
    before = ids(queue)
    policy.start_run("run-0", 99)
    queue.refresh("run-0")
    assert ids(queue) == before


def test_nothing_is_remembered_of_runs_that_ended(policy):
    queue = InferenceQueue(policy)
    for number in range(3000):
        run_id = f"run-{number}"
        policy.start_run(run_id, number)
        policy.set_application(run_id, "application")
        policy.set_cost(run_id, 5)
        policy.set_finish(run_id, number, number)
        queue.add(make_inference(f"i{number}", run_id, number))
        policy.charge(run_id, Service(1, 1, 1))
        queue.refresh(run_id)
        queue.pop()
        policy.end_run(run_id)
    if policy.name not in ("lifo", "shuffled"):
        tables = [table for table in vars(policy).values() if isinstance(table, dict)]
        assert all(set(table) <= {"application"} for table in tables), "of applications it may be"
    assert len(queue._order) < 200
    assert not queue._buckets
    assert not queue._num_by_run


def test_an_inference_that_is_taken_out_and_put_back_for_ever_leaves_no_trace(policy, queue):
    """Engines pass over a blocked inference at every step."""
    policy.start_run("run", 0)
    queue.add(make_inference("head", "run", 0))
    queue.add(make_inference("blocked", "run", 1))
    for _ in range(2000):
        queue.remove("blocked")
        queue.add(make_inference("blocked", "run", 1))
    assert sum(len(bucket.heap) for bucket in queue._buckets.values()) < 200
    assert len(queue._order) < 200
    assert drain(queue) == ["head", "blocked"]


def test_refresh_moves_a_run_not_its_inferences():
    """A change of key costs one entry however many wait."""
    policy = make_policy("justitia")
    queue = InferenceQueue(policy)
    for run in range(2):
        policy.start_run(f"run-{run}", run)
        policy.set_finish(f"run-{run}", 10 + run, run)
        for number in range(1000):
            queue.add(make_inference(f"{run}/{number}", f"run-{run}", 1000 * run + number))
    pushed = queue._num_pushed
    assert policy.set_finish("run-1", 5, 1)
    queue.refresh("run-1")
    assert queue._num_pushed == pushed + 1
    assert drain(queue)[:1000] == [f"1/{number}" for number in range(1000)]


def test_a_returning_run_does_not_bank_credit_under_vtc():
    policy = make_policy("vtc")
    queue = InferenceQueue(policy)
    for number, run_id in enumerate(("busy", "back")):
        policy.start_run(run_id, number)
    queue.add(make_inference("busy-1", "busy", 0))
    policy.charge("busy", Service(output_tokens=500))
    queue.refresh("busy")
    queue.add(make_inference("back-1", "back", 1))
    assert policy.key(make_inference(run_id="back"))[0] == 1000
    drain(queue)
    policy.start_run("new", 2)
    queue.add(make_inference("new-1", "new", 2))
    assert policy.key(make_inference(run_id="new"))[0] == 1000, "that of the last to leave"


def test_justitia_serves_a_run_without_a_tag_at_once():
    """Rule E2."""
    policy = make_policy("justitia")
    queue = InferenceQueue(policy)
    policy.start_run("tagged", 0)
    policy.set_finish("tagged", 1, 0)
    policy.start_run("fresh", 1)
    queue.add(make_inference("t", "tagged", 0))
    queue.add(make_inference("f", "fresh", 1))
    assert ids(queue) == ["f", "t"]
    assert policy.set_finish("fresh", 7, 1)
    queue.refresh("fresh")
    assert ids(queue) == ["t", "f"]
    assert not policy.set_finish("fresh", 7, 1), "a repeat changes nothing"


def test_srjf_orders_by_what_is_left():
    policy = make_policy("srjf")
    queue = InferenceQueue(policy)
    for number, (run_id, cost) in enumerate((("big", 100), ("small", 60))):
        policy.start_run(run_id, number)
        policy.set_cost(run_id, cost)
        queue.add(make_inference(run_id, run_id, number))
    assert ids(queue) == ["small", "big"]
    assert policy.charge("big", Service(useful_kvtt=50))
    queue.refresh("big")
    assert ids(queue) == ["big", "small"]


def test_an_unknown_policy_is_refused_with_those_that_exist():
    with pytest.raises(InvalidValueError, match="fcfs, justitia, parrot, sjf, srjf, vtc") as caught:
        make_policy("lottery")
    assert caught.value.field == "policy"


def test_rivals_are_made_only_where_they_are_asked_for():
    assert not set(POLICIES) & set(RIVALS)
    for name in RIVALS:
        assert make_policy(name, among=EVERY_POLICY).name == name
        with pytest.raises(InvalidValueError, match="must be one of fcfs, justitia"):
            make_policy(name)


def test_the_documents_table_has_each_policy():
    page = Path(__file__).parents[2] / "docs" / "policies.md"
    rows = re.findall(r"^\| `([a-z-]+)` \|", page.read_text(encoding="utf-8"), re.MULTILINE)
    assert sorted(rows) == sorted(EVERY_POLICY)
