"""Sessions of coding agents look like those that their table was taken from."""

import statistics
from itertools import pairwise

import pytest

from justitia.core.errors import InvalidValueError
from justitia.sim.checks import check_scenario
from justitia.sim.workloads.coding_sessions import (
    ENGINE,
    coding_sessions,
    recorded_sessions,
)

DRAWN = coding_sessions(seed=4, num_sessions=150)
HEADER = "trace_id,subagent,t_s,in_tok,out_tok,lcp_blocks64,api_s,think_s,stop"


def sessions(scenario):
    """Calls of each session in their order."""
    found = {}
    for run in sorted(scenario.runs, key=lambda run: (run.arrival_s, run.id)):
        found.setdefault(run.id.partition("/")[0], []).extend(run.inferences)
    return found.values()


def test_nearly_all_of_a_prompt_was_there_in_the_one_before(shared_tokens):
    """96.3 % of the trace's blocks."""
    shared = total = 0
    for calls in sessions(DRAWN):
        for before, call in pairwise(calls):
            shared += shared_tokens(before.prompt, call.prompt)
            total += call.prompt_tokens
    assert 0.95 < shared / total < 0.98


def test_lengths_turns_and_pauses_are_those_of_the_table():
    calls = [call for run in DRAWN.runs for call in run.inferences]
    firsts = [session[0].prompt_tokens for session in sessions(DRAWN)]
    tools_s = [call.pause_s for call in calls if call.after]
    assert statistics.median(call.output_tokens for call in calls) == pytest.approx(216, rel=0.15)
    assert statistics.median(firsts) == pytest.approx(24_386, rel=0.1)
    assert statistics.median(len(run.inferences) for run in DRAWN.runs) == 2
    assert statistics.median(tools_s) == pytest.approx(9, rel=0.3)
    assert 60_000 < statistics.mean(call.prompt_tokens for call in calls) < 125_000


def test_a_prompt_goes_on_from_the_answer_before_it_and_fits():
    check_scenario(DRAWN)
    for calls in sessions(DRAWN):
        for before, call in pairwise(calls):
            assert call.prompt[: len(before.prompt)] == before.prompt
            assert call.prompt[len(before.prompt)].stream == before.output_stream
    assert all(run.inferences[0].pause_s == 0 for run in DRAWN.runs)


def test_sessions_depend_on_the_seed_and_not_on_their_number():
    few = coding_sessions(seed=4, num_sessions=5)
    assert set(few.runs) <= set(DRAWN.runs)
    assert coding_sessions(seed=5, num_sessions=5) != few


@pytest.mark.parametrize(("num", "window_s"), [(0, 1.0), (1, -1.0), (1, float("inf"))])
def test_no_session_and_no_window_are_refused(num, window_s):
    with pytest.raises(InvalidValueError, match="num_sessions and window_s"):
        coding_sessions(seed=1, num_sessions=num, window_s=window_s)


def test_of_the_trace_turns_that_fit_are_kept(write):
    rows = [
        HEADER,
        "one,0,0,20000,200,0,5,0,t",
        "one,0,300,21000,100,312,5,290,e",
        "two,0,0,300000,50,0,5,0,e",
    ]
    path = str(write("weka.csv", rows))
    scenario = recorded_sessions(path=path, seed=1)
    assert [len(run.inferences) for run in scenario.runs] == [2]
    assert scenario.runs[0].inferences[1].pause_s == 120, "of 290 s"
    assert scenario.engines == (ENGINE,)
    with pytest.raises(InvalidValueError, match="no turn of"):
        recorded_sessions(path=str(write("long.csv", [HEADER, rows[-1]])), seed=1)
