"""Other systems that go by priority or in turns: cases by hand, and what each always promises."""

from hypothesis import given, settings
from hypothesis import strategies as st

from justitia.core.policies.dlpm import DeficitLongestPrefix
from justitia.core.policies.drr import DeficitRoundRobin
from justitia.testing.desk import Desk, desk_with

ANY_CASE = settings(derandomize=True, deadline=None, max_examples=60, database=None)


# -- vLLM's priority -------------------------------------------------------------------------------


def test_vllm_serves_the_smallest_priority_first_and_equals_by_arrival():
    desk = desk_with("vllm-priority", "r")
    for name, priority in (("late", 5), ("first", -1), ("a", 0), ("b", 0)):
        desk.wait("r", name, priority=priority)
    assert desk.drain() == ["first", "a", "b", "late"]


@ANY_CASE
@given(priorities=st.lists(st.integers(-3, 3), max_size=12))
def test_nothing_waits_under_vllms_priority_that_is_more_urgent_than_what_is_served(priorities):
    desk = desk_with("vllm-priority", "r")
    for number, priority in enumerate(priorities):
        desk.wait("r", str(number), priority=priority)
    served = [(priorities[int(name)], int(name)) for name in desk.drain()]
    assert served == sorted(served)


# -- round robin -----------------------------------------------------------------------------------


def test_round_robin_takes_turns_whatever_the_size():
    """llm-d's walk over the ids: a b c, a b c; who has nothing left is passed over."""
    desk = desk_with("round-robin", *"abc", each=2)
    desk.wait("a")
    assert desk.runs(7) == "abcabca"


def test_round_robin_takes_a_returning_run_into_the_round_under_way():
    """The walk stands at b: c, that waits again, is still to come in this round, a in the next."""
    desk = desk_with("round-robin", "a", "b", "c", each=1)
    assert desk.runs(3) == "abc"
    for run_id in "bb":
        desk.wait(run_id)
    assert desk.runs(1) == "b"
    for run_id in "ac":
        desk.wait(run_id)
    assert desk.runs(3) == "cab"


def test_round_robin_does_not_bank_turns():
    desk = desk_with("round-robin", "a", "b")
    for _ in range(20):
        desk.wait("a")
    assert desk.runs(10) == "a" * 10
    for _ in range(10):
        desk.wait("b")
    assert desk.runs(6) == "bababa"


@ANY_CASE
@given(
    waiting=st.lists(st.integers(1, 6), min_size=2, max_size=5),
    late=st.lists(st.tuples(st.integers(1, 12), st.integers(0, 4)), max_size=6),
)
def test_runs_that_wait_all_the_time_differ_by_one_turn(waiting, late):
    """Whoever has waited since both began: nobody has had two turns more."""
    desk = desk_with("round-robin", *(str(number) for number in range(5)))
    for number, count in enumerate(waiting):
        for _ in range(count):
            desk.wait(str(number))
    turns = dict.fromkeys((str(number) for number in range(len(waiting))), 0)
    for step in range(sum(waiting) + len(late)):
        for at_step, number in late:
            if at_step == step:
                desk.wait(str(number))
        if not desk.queue:
            break
        run_id = desk.pop().run_id
        if run_id in turns:
            turns[run_id] += 1
        turns = {each: n for each, n in turns.items() if desk.queue.num_waiting(each)}
        assert max(turns.values(), default=0) - min(turns.values(), default=0) <= 1


# -- deficit round robin ---------------------------------------------------------------------------


def test_drr_serves_a_quantum_of_uncached_tokens_of_each_application_in_turn():
    """Quantum 100. x: 60, 60 (20 over); y: 100; x has 80: 60, 20; y: 100; x: the rest."""
    desk = desk_with(DeficitRoundRobin(100), "x", "y")
    for name, run_id, prompt, cached in (
        ("x1", "x", 60, 0),
        ("x2", "x", 160, 100),
        ("x3", "x", 60, 0),
        ("x4", "x", 20, 0),
        ("x5", "x", 1, 0),
        ("y1", "y", 100, 0),
        ("y2", "y", 400, 300),
        ("y3", "y", 1, 1),
    ):
        desk.wait(run_id, name, prompt_tokens=prompt, cached_tokens=cached)
    assert desk.drain() == ["x1", "x2", "y1", "x3", "x4", "y2", "x5", "y3"]


def test_drr_with_quanta_of_4_and_1_serves_4_to_1():
    """Dynamo's classes premium and regular."""
    desk = desk_with(DeficitRoundRobin(512, {"p": 4 * 512}), "p", "r", each=100, prompt_tokens=512)
    assert desk.runs(100).count("p") == 80


def test_drr_serves_what_is_much_larger_than_the_quantum():
    desk = desk_with(DeficitRoundRobin(10), "x", "y", each=3, prompt_tokens=10**6)
    assert desk.runs(6) == "xyxyxy"


def test_drr_loses_credit_when_nothing_waits_and_keeps_a_debt():
    desk = desk_with(DeficitRoundRobin(100), "x", "y")
    desk.wait("x", prompt_tokens=10)
    desk.wait("y", prompt_tokens=350)
    assert desk.runs(2) == "xy"
    for _ in range(5):
        desk.wait("x", prompt_tokens=100)
        desk.wait("y", prompt_tokens=100)
    assert desk.runs(10) == "xxxyxyxyyy", "y pays for 3 quanta, x has none of its 90 tokens"


def test_drr_does_not_come_back_to_a_class_that_was_emptied_in_this_round():
    desk = desk_with(DeficitRoundRobin(100), "x", "y")
    desk.wait("x", prompt_tokens=10)
    desk.wait("y", prompt_tokens=10)
    assert desk.runs(1) == "x"
    desk.wait("x", prompt_tokens=10)
    assert desk.runs(2) == "yx"


def test_runs_of_an_application_share_its_turns_in_order_of_arrival():
    desk = Desk(DeficitRoundRobin(10))
    for run_id, application in (("a", "x"), ("b", "x"), ("c", "y")):
        desk.start(run_id, application)
    for run_id in "abacc":
        desk.wait(run_id, prompt_tokens=10)
    assert desk.runs(5) == "acbca"


@ANY_CASE
@given(
    costs=st.lists(st.tuples(st.integers(1, 90), st.integers(1, 90)), min_size=1, max_size=40),
    quantum=st.integers(1, 100),
    ratio=st.integers(1, 4),
)
def test_two_backlogged_applications_differ_by_a_quantum_and_an_inference(costs, quantum, ratio):
    """Each in its own quanta, as long as both wait."""
    quanta = {"x": quantum * ratio, "y": quantum}
    desk = desk_with(DeficitRoundRobin(1, quanta), "x", "y")
    for pair in costs:
        for run_id, cost in zip("xy", pair, strict=True):
            desk.wait(run_id, prompt_tokens=cost)
    served = {"x": 0, "y": 0}
    longest = max(max(pair) for pair in costs)
    while all(desk.queue.num_waiting(run_id) for run_id in served):
        popped = desk.pop()
        served[popped.run_id] += popped.prompt_tokens
        rounds = [served[run_id] / quanta[run_id] for run_id in served]
        assert abs(rounds[0] - rounds[1]) <= 1 + longest / quantum


# -- longest prefix match within deficit credits ---------------------------------------------------


def test_dlpm_serves_the_longest_match_of_those_with_credit():
    """Quantum 100: a's two go first, by match; then it owes 20, and b goes in spite of its miss."""
    desk = desk_with(DeficitLongestPrefix(100), "a", "b")
    desk.wait("a", "a-cold", prompt_tokens=500, cached_tokens=440)
    desk.wait("a", "a-hot", prompt_tokens=560, cached_tokens=500)
    desk.wait("a", "a-again", prompt_tokens=560, cached_tokens=400)
    desk.wait("b", "b-cold", prompt_tokens=70, cached_tokens=0)
    desk.wait("b", "b-warm", prompt_tokens=70, cached_tokens=10)
    assert desk.drain() == ["a-hot", "a-cold", "b-warm", "b-cold", "a-again"]


def test_dlpm_charges_what_is_generated():
    desk = desk_with(DeficitLongestPrefix(100), "a", "b")
    desk.wait("a", "a1", prompt_tokens=50, cached_tokens=40)
    desk.wait("a", "a2", prompt_tokens=50, cached_tokens=40)
    desk.wait("b", "b1", prompt_tokens=50)
    assert desk.pop().inference_id == "a1"
    desk.charge("a", 50, 44)
    assert desk.queue.peek().inference_id == "a2", "10 + 88 of 100"
    desk.charge("a", 0, 1)
    assert desk.drain() == ["b1", "a2"]


def test_dlpm_gives_a_newcomer_credit_with_the_next_refill():
    desk = desk_with(DeficitLongestPrefix(100), "a", each=3, prompt_tokens=60)
    assert desk.runs(1) == "a"
    desk.start("new")
    desk.wait("new", prompt_tokens=60, cached_tokens=60)
    assert [desk.pop().run_id for _ in range(3)] == ["a", "new", "a"]


def test_dlpm_keeps_the_rest_of_the_credit_of_who_was_away_and_no_more():
    desk = desk_with(DeficitLongestPrefix(100), "a", "b")
    desk.wait("b", prompt_tokens=60)
    assert desk.runs(1) == "b"
    for _ in range(10):
        desk.wait("a", prompt_tokens=100)
    assert desk.runs(5) == "a" * 5
    for _ in range(3):
        desk.wait("b", prompt_tokens=40)
    assert desk.runs(4) == "babb", "40 of b's 100 are left after 5 refills for a; then both refill"


@ANY_CASE
@given(
    calls=st.lists(
        st.tuples(st.sampled_from("abc"), st.integers(1, 90), st.integers(0, 90)), max_size=40
    ),
    quantum=st.integers(1, 100),
)
def test_dlpm_passes_over_a_longer_match_only_for_want_of_credit(calls, quantum):
    """And two that wait all the time differ by a quantum and an inference."""
    desk = desk_with(DeficitLongestPrefix(quantum), *"abc")
    for number, (run_id, new, cached) in enumerate(calls):
        name = f"{number}"
        desk.wait(run_id, name, prompt_tokens=new + cached, cached_tokens=cached)
    credit = dict.fromkeys({run_id for run_id, _, _ in calls}, 0)
    served = dict.fromkeys(credit, 0)
    waiting = dict(enumerate(calls))
    longest = max((new for _, new, _ in calls), default=0)
    while waiting:
        while all(credit[run_id] <= 0 for run_id, _, _ in waiting.values()):
            for run_id in credit:
                credit[run_id] += quantum if credit[run_id] <= 0 else 0
        able = {n: call for n, call in waiting.items() if credit[call[0]] > 0}
        popped = desk.pop()
        run_id, new, cached = waiting.pop(int(popped.inference_id))
        assert credit[run_id] > 0
        assert cached == max(call[2] for call in able.values())
        credit[run_id] -= new
        served[run_id] += new
        amounts = [served[each] for each in credit if desk.queue.num_waiting(each)]
        assert max(amounts, default=0) - min(amounts, default=0) <= quantum + longest
