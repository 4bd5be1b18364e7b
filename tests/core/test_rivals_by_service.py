"""Other systems that go by what was served: cases by hand, and what each always promises."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from justitia.core.policies.fairserve import TYPICAL, WeightedServiceCounter
from justitia.core.policies.mlfq import MultiLevelFeedback
from justitia.core.policies.sliding_window import SlidingWindow
from justitia.core.units import parse_weight
from justitia.testing.builders import make_inference
from justitia.testing.desk import Desk, desk_with

ANY_CASE = settings(derandomize=True, deadline=None, max_examples=60, database=None)


# -- multi-level feedback --------------------------------------------------------------------------


def test_mlfq_demotes_a_run_that_has_used_up_its_level():
    """Levels of 100, 200, 400: attained 0 and 99 are level 0, 100 is level 1, 200 is level 2."""
    desk = desk_with(MultiLevelFeedback(100, 3), *"abc", each=1)
    desk.charge("a", 200)
    desk.charge("b", 100)
    desk.charge("c", 99)
    assert desk.runs(3) == "cba"


def test_mlfq_lets_a_long_prompt_skip_levels_and_serves_a_level_by_arrival():
    desk = desk_with(MultiLevelFeedback(100, 3), *"abc")
    desk.charge("b", 150)
    desk.wait("a", "a-long", prompt_tokens=150)
    desk.wait("b", "b-short", prompt_tokens=10)
    desk.wait("c", "c-short", prompt_tokens=10)
    desk.wait("a", "a-short", prompt_tokens=10)
    assert desk.drain() == ["a-short", "c-short", "a-long", "b-short"]


def test_mlfqs_last_level_takes_all_the_rest():
    desk = desk_with(MultiLevelFeedback(100, 3), "a", "b", each=1)
    desk.charge("a", 10**9)
    desk.charge("b", 400)
    assert desk.runs(2) == "ab"


@ANY_CASE
@given(
    attained=st.lists(st.integers(0, 3000), min_size=1, max_size=6),
    prompts=st.lists(st.tuples(st.integers(0, 5), st.integers(0, 3000)), max_size=12),
)
def test_mlfq_never_serves_a_level_while_a_higher_one_waits(attained, prompts):
    def level(tokens):
        return sum(tokens >= 100 * 2**k for k in range(3))

    desk = desk_with(MultiLevelFeedback(100, 3), *(str(n) for n in range(len(attained))))
    calls = [(number % len(attained), prompt) for number, prompt in prompts]
    for place, (number, prompt) in enumerate(calls):
        desk.wait(str(number), str(place), prompt_tokens=prompt)
    for number, tokens in enumerate(attained):
        desk.charge(str(number), tokens)
    places = [calls[int(name)] for name in desk.drain()]
    levels = [max(level(attained[number]), level(prompt)) for number, prompt in places]
    assert levels == sorted(levels)


# -- least attained service ------------------------------------------------------------------------


def test_las_serves_who_has_got_least_and_lifts_nobody():
    desk = desk_with("las", "old", each=2)
    desk.charge("old", 10, 45)
    desk.start("new")
    desk.wait("new")
    desk.charge("new", 99)
    assert desk.pop().run_id == "new"
    desk.wait("new")
    desk.charge("new", 1)
    assert desk.queue.peek().run_id == "old", "100 both, and it came first"
    desk.charge("old", 1)
    assert desk.pop().run_id == "new"


@ANY_CASE
@given(
    events=st.lists(
        st.tuples(st.sampled_from("abcd"), st.integers(0, 50), st.integers(0, 50)), max_size=40
    )
)
def test_las_never_serves_a_run_while_one_that_has_got_less_waits(events):
    desk = desk_with("las", *"abcd", each=1)
    attained = dict.fromkeys("abcd", 0)
    for run_id, prompt, output in events:
        desk.charge(run_id, prompt, output)
        attained[run_id] += prompt + 2 * output
        waiting = [each for each in attained if desk.queue.num_waiting(each)]
        popped = desk.pop().run_id
        assert attained[popped] == min(attained[each] for each in waiting)
        desk.wait(run_id)


# -- weighted service counter ----------------------------------------------------------------------


def test_fairserve_counts_in_typical_inferences_of_the_application():
    """A long prompt that is usual there weighs as much as a short one elsewhere."""
    policy = WeightedServiceCounter({"long": 1000, "chat": 100})
    desk = desk_with(policy, "long", "chat", each=2)
    desk.charge("long", 900, 50)
    desk.charge("chat", 50, 25)
    assert desk.queue.peek().run_id == "long", "one typical inference each"
    desk.charge("long", 20)
    assert desk.queue.peek().run_id == "chat"
    desk.charge("chat", 3)
    assert desk.queue.peek().run_id == "long", "1.02 against 1.03"
    assert desk.key_of("chat")[0] == TYPICAL * 103 // 100


def test_fairserve_learns_what_is_typical_where_it_is_not_told():
    desk = desk_with(WeightedServiceCounter(), "long", "chat", each=3)
    for run_id, tokens in (("long", 1000), ("chat", 100), ("long", 1000), ("chat", 100)):
        assert desk.pop().run_id == run_id
        desk.charge(run_id, tokens)
    keys = [desk.key_of(run_id)[0] for run_id in ("long", "chat")]
    assert keys == [2 * TYPICAL, 2 * TYPICAL]


@pytest.mark.parametrize(("weight", "share"), [(1, 30), (2, 40), (5, 50)])
def test_fairserve_serves_equal_runs_by_weight(weight, share):
    policy = WeightedServiceCounter({"x": 10, "y": 10}, {"x": parse_weight(weight)})
    desk = desk_with(policy, "x", "y", each=60)
    num_x = 0
    for _ in range(60):
        run_id = desk.pop().run_id
        num_x += run_id == "x"
        desk.charge(run_id, 10)
    assert num_x == share


@ANY_CASE
@given(num_before=st.integers(1, 30), tokens=st.integers(1, 50), is_idle=st.booleans())
def test_fairserve_lifts_who_comes_back(num_before, tokens, is_idle):
    """No more than one inference's worth ahead of who was served meanwhile."""
    desk = desk_with(WeightedServiceCounter({"busy": 10, "back": 10}), "busy", "back")
    for _ in range(num_before):
        desk.wait("busy")
        assert desk.pop().run_id == "busy"
        desk.charge("busy", tokens)
    if not is_idle:
        desk.wait("busy")
    desk.wait("back")
    lead = [desk.key_of(run_id)[0] for run_id in ("busy", "back")]
    assert 0 <= lead[0] - lead[1] <= (tokens * TYPICAL // 10 + 1) * is_idle


# -- tokens in a sliding window --------------------------------------------------------------------


def test_kthena_serves_who_has_got_least_lately():
    """A window of 640 in slices of 10: y's 300 leave it when 640 more have been served."""
    desk = desk_with(SlidingWindow(640), "x", "y", each=3)
    desk.charge("y", 100, 100)
    desk.charge("x", 200)
    assert desk.queue.peek().run_id == "x", "200 against 300"
    desk.charge("x", 150)
    assert desk.queue.peek().run_id == "y", "350 against 300"
    desk.charge("y", 280)
    assert desk.queue.peek().run_id == "x", "350 against 580"
    desk.charge("y", 10)
    assert desk.queue.peek().run_id == "y", "350 against 290: the first 300 of y are gone"
    desk.charge("y", 200)
    assert desk.queue.peek().run_id == "x", "150 against 490: so are 200 of x"


def test_kthena_serves_users_that_have_got_the_same_in_order_of_arrival():
    desk = desk_with(SlidingWindow(), "x", "y")
    for run_id in "xyyx":
        desk.wait(run_id)
    assert desk.runs(4) == "xyyx"


@ANY_CASE
@given(
    charges=st.lists(st.tuples(st.sampled_from("abc"), st.integers(1, 200)), max_size=60),
)
def test_kthena_never_serves_a_user_while_one_that_has_got_less_lately_waits(charges):
    desk = desk_with(SlidingWindow(640), *"abc", each=1)
    entries, total = [], 0
    for run_id, tokens in charges:
        desk.charge(run_id, tokens)
        total += tokens
        entries.append((total // 10, run_id, tokens))
        lately = [entry for entry in entries if entry[0] > total // 10 - 64]
        got = {each: sum(n for _, who, n in lately if who == each) for each in "abc"}
        popped = desk.pop().run_id
        assert got[popped] == min(got.values())
        desk.wait(popped)


def test_an_applications_key_moves_at_the_cost_of_one_entry_however_many_wait():
    desk = desk_with(SlidingWindow(640), "x", "y", each=1000)
    before = desk.queue._num_pushed
    desk.charge("x", 10)
    assert desk.queue._num_pushed == before + 1
    desk.charge("y", 640)
    assert desk.queue._num_pushed == before + 3, "x's tokens have left the window: both move"


# -- Justitia with a probe -------------------------------------------------------------------------


def shown(desk):
    return "".join(inference.run_id for inference in desk.queue)


def test_the_first_tenth_of_each_run_goes_first_then_the_order_of_f():
    """a: 100 of 1000 are its probe, b and c: 10 of 100."""
    desk = Desk("justitia-probe")
    for run_id, cost_kvtt, finish in (("a", 1000, 5), ("b", 100, 9), ("c", 100, 1)):
        desk.start(run_id, cost_kvtt=cost_kvtt, finish=finish)
    for run_id, expected_kvtt in (("a", 99), ("a", 1), ("a", 1), ("b", 9), ("b", 9), ("b", 1)):
        desk.wait(run_id, expected_kvtt=expected_kvtt)
    for _ in range(2):
        desk.wait("c", expected_kvtt=90)
    assert shown(desk) == "aaabbbcc"
    assert desk.runs(2) == "aa"
    assert shown(desk) == "bbbcca"
    assert desk.runs(3) == "bbc"
    assert shown(desk) == "cab"
    if desk.policy.set_cost("a", 10_000):
        desk.queue.refresh("a")
    assert shown(desk) == "acb", "a tenth of it is more now"


@ANY_CASE
@given(
    runs=st.lists(st.tuples(st.integers(1, 100), st.integers(0, 9), st.integers(1, 20)), max_size=8)
)
def test_probed_runs_go_before_all_others_and_these_in_justitias_order(runs):
    desk, plain = Desk("justitia-probe"), Desk("justitia")
    for number, (cost_kvtt, finish, begun) in enumerate(runs):
        for each in (desk, plain):
            each.start(str(number), cost_kvtt=cost_kvtt, finish=finish)
            each.wait(str(number))
        desk.policy.take(make_inference(run_id=str(number), expected_kvtt=begun))
        desk.queue.refresh(str(number))
    probed = [n for n, (cost, _, begun) in enumerate(runs) if 10 * begun < cost]
    rest = [int(i.run_id) for i in plain.queue if int(i.run_id) not in probed]
    assert [int(i.run_id) for i in desk.queue] == probed + rest
