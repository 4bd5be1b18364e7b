"""Weka's and TraceLab's sessions of coding agents."""

import json

import pytest

from justitia.core.errors import InvalidValueError
from justitia.sim.workloads.readers.options import IdScope, ReadOptions, RunIs
from justitia.sim.workloads.readers.registry import read_trace

DRAWN = ReadOptions(window_s=0.0)
SESSIONS = ReadOptions(window_s=0.0, run_is=RunIs.SESSION)


def call(t, num_blocks, out=50, **more):
    request = {"t": t, "type": "n", "model": "m", "in": 64 * num_blocks + 9, "out": out}
    return {**request, "hash_ids": list(range(num_blocks)), **more}


def trace(*requests, **more):
    return {"id": "s", "models": ["m"], "block_size": 64, "requests": list(requests), **more}


def read(write, *requests, options=SESSIONS, **more):
    return read_trace("weka", write("s.json", [trace(*requests, **more)]), options)


def shape(run):
    return [(each.after, each.pause_s) for each in run.inferences]


def test_pauses_are_the_clients_and_not_the_servers(write, shared_tokens):
    found = read(
        write,
        call(0.0, 10, api_time=5.0, think_time=0.0),
        call(12.0, 12, api_time=2.0, think_time=6.5),
        call(20.0, 13, api_time=1.0),
    )
    [run] = found.scenario.runs
    assert shape(run) == [((), 0.0), ((0,), 6.5), ((1,), 6.0)]
    first, second, third = (each.prompt for each in run.inferences)
    assert shared_tokens(first, second) == 640
    assert shared_tokens(second, third) == 12 * 64


def test_without_a_servers_time_the_whole_gap_is_a_pause_and_that_is_noted(write):
    found = read(write, call(0.0, 10), call(12.0, 12))
    assert shape(found.scenario.runs[0])[1] == ((0,), 12.0)
    assert any("lack the server's time" in note for note in found.notes)


def test_a_users_text_begins_a_turn_and_a_tools_result_does_not(write):
    found = read(
        write,
        call(0.0, 10, input_types=["text"], stop="tool_use"),
        call(10.0, 11, input_types=["tool_result"], stop="end_turn"),
        call(100.0, 12, input_types=["text"], stop="tool_use"),
        call(110.0, 13, input_types=["tool_result", "text"]),
        options=DRAWN,
    )
    runs = found.scenario.runs
    assert [(run.id, run.arrival_s, len(run.inferences)) for run in runs] == [
        ("s/0", 0.0, 2),
        ("s/1", 100.0, 2),
    ]


def test_where_inputs_are_not_told_the_reason_to_stop_decides(write):
    stops = ("tool_use", "end_turn", "", "tool_use")
    requests = [call(10.0 * n, 10 + n, stop=stop) for n, stop in enumerate(stops)]
    runs = read(write, *requests, options=DRAWN).scenario.runs
    assert [len(run.inferences) for run in runs] == [2, 2]


def sub_agent(t, *requests, status="completed"):
    return {"t": t, "type": "subagent", "agent_id": "a", "status": status, "requests": requests}


def test_the_main_thread_waits_for_its_sub_agents(write):
    found = read(
        write,
        call(0.0, 10, api_time=4.0),
        sub_agent(5.0, call(0.0, 3, api_time=2.0), call(4.0, 4, api_time=3.0, think_time=2.0)),
        sub_agent(5.5, call(0.5, 3, api_time=2.0)),
        call(20.0, 11, api_time=1.0, think_time=16.0),
    )
    [run] = found.scenario.runs
    assert shape(run) == [
        ((), 0.0),
        ((0,), 1.0),
        ((1,), 2.0),
        ((0,), 2.0),
        ((0, 2, 3), 8.0),  # the last of them ended at 12 s
    ]


def test_nobody_waits_for_a_sub_agent_that_was_only_launched(write):
    found = read(
        write,
        call(0.0, 10, api_time=4.0),
        sub_agent(5.0, call(0.0, 3), status="async_launched"),
        call(6.0, 11),
    )
    assert shape(found.scenario.runs[0])[2] == ((0,), 2.0)


def test_sub_agents_times_may_count_from_the_session(write):
    requests = [call(0.0, 10, api_time=4.0), sub_agent(5.0, call(7.0, 3))]
    relative = read(write, *requests).scenario.runs[0]
    told = ReadOptions(window_s=0.0, run_is=RunIs.SESSION, are_sub_agents_absolute=True)
    absolute = read(write, *requests, options=told).scenario.runs[0]
    assert (shape(relative)[1], shape(absolute)[1]) == (((0,), 8.0), ((0,), 3.0))


def test_a_sub_agent_belongs_to_the_turn_that_started_it(write):
    found = read(
        write,
        call(0.0, 10, stop="tool_use", api_time=1.0),
        sub_agent(2.0, call(0.0, 3, stop="end_turn", input_types=["text"], api_time=1.0)),
        call(5.0, 11, stop="end_turn", api_time=1.0),
        call(60.0, 12),
        options=DRAWN,
    )
    assert [len(run.inferences) for run in found.scenario.runs] == [3, 1]


def test_a_call_recorded_twice_is_read_once(write):
    found = read(
        write,
        call(0.0, 10, out=20, type="s", stop=""),
        call(6.0, 10, out=30, stop="tool_use", api_time=1.0),
        call(9.0, 11),
    )
    [run] = found.scenario.runs
    assert [each.output_tokens for each in run.inferences] == [30, 50]
    assert any("recorded twice" in note for note in found.notes)


def test_compaction_keeps_what_is_left_shared(write, shared_tokens):
    short = {**call(9.0, 6), "hash_ids": [0, 1, 2, 90, 91, 92]}
    run = read(write, call(0.0, 10), short, call(20.0, 10)).scenario.runs[0]
    first, second, third = (each.prompt for each in run.inferences)
    assert shared_tokens(first, second) == shared_tokens(second, third) == 192
    assert shared_tokens(first, third) == 640


def test_bad_requests_cost_themselves_and_are_named(write):
    found = read(
        write, call(0.0, 10), {**call(1.0, 3), "in": 5}, "no", call(2.0, 10, out=0), call(9.0, 11)
    )
    assert len(found.scenario.runs[0].inferences) == 2
    assert [each.reason for each in found.bad_rows] == [
        "requests[1].3 blocks of 64 tokens are not 5 tokens",
        "requests[2]: must be an object, got 'no'",
    ]
    assert found.num_failed == 1


@pytest.mark.parametrize(
    ("document", "reason"),
    [
        ("{", "Expecting"),
        ("[]", "must be an object"),
        (json.dumps({"requests": []}), "block_size"),
        (json.dumps(trace(hash_id_scope="galaxy")), "hash_id_scope"),
        (json.dumps({"block_size": 64}), "requests: must be an array"),
        ("[" * 100_000, "nested too deeply"),
    ],
)
def test_a_bad_document_is_one_bad_row(write, tmp_path, document, reason):
    write("d/bad.json", [document])
    write("d/good.json", [trace(call(0.0, 10))])
    found = read_trace("weka", tmp_path / "d", DRAWN)
    assert len(found.scenario.runs) == 1
    assert reason in found.bad_rows[0].reason


def test_block_sizes_and_scopes_are_the_files_and_checked(write, tmp_path, shared_tokens):
    write("d/a.json", [trace(call(0.0, 10))])
    write("d/b.json", [trace(call(0.0, 10))])
    left, right = read_trace("weka", tmp_path / "d", DRAWN).scenario.runs
    assert shared_tokens(left.inferences[0].prompt, right.inferences[0].prompt) == 0
    everywhere = ReadOptions(window_s=0.0, id_scope=IdScope.GLOBAL)
    left, right = read_trace("weka", tmp_path / "d", everywhere).scenario.runs
    assert shared_tokens(left.inferences[0].prompt, right.inferences[0].prompt) == 640
    with pytest.raises(InvalidValueError, match="block_size: is 64, not the 16"):
        read_trace("weka", tmp_path / "d", ReadOptions(window_s=0.0, block_size_tokens=16))


def test_sessions_without_a_date_need_a_window(write):
    with pytest.raises(InvalidValueError, match="window_s: must be given"):
        read(write, call(0.0, 10), options=ReadOptions())


def test_sessions_begin_within_the_window_and_are_not_squeezed_into_it(write, tmp_path):
    for n in range(30):
        write(
            f"d/{n:02}.json", [trace(call(0.0, 10, stop="end_turn"), call(500.0, 11), id=f"s{n}")]
        )
    runs = read_trace("weka", tmp_path / "d", ReadOptions(window_s=60.0, seed=1)).scenario.runs
    at = {run.id: run.arrival_s for run in runs}
    assert 40 < max(at[f"s{n}/0"] for n in range(30)) <= 60
    assert all(at[f"s{n}/1"] - at[f"s{n}/0"] == pytest.approx(500) for n in range(30))


def test_long_pauses_can_be_cut_and_what_follows_comes_earlier(write):
    options = ReadOptions(window_s=0.0, max_pause_s=30.0)
    runs = read(
        write,
        call(0.0, 10, api_time=0.0, stop="end_turn"),
        call(3600.0, 11, api_time=0.0, stop="tool_use"),
        call(7200.0, 12),
        options=options,
    ).scenario.runs
    assert [run.arrival_s for run in runs] == [0.0, 30.0]
    assert shape(runs[1]) == [((), 0.0), ((0,), 30.0)]


CSV = "trace_id,subagent,t_s,type,model,in_tok,out_tok,n_blocks64,lcp_blocks64,api_s,think_s,stop"


def test_the_csv_has_the_same_structure(write, shared_tokens):
    rows = [
        CSV,
        "0001,0,0.0,n,0,640,169,10,0,7.0,0.0,t",
        "0001,1,0.0,n,1,300,20,4,0,2.0,0.0,t",
        "0001,1,5.0,n,1,400,20,6,4,2.0,3.0,e",
        "0001,0,19.0,n,0,700,296,10,10,9.0,12.0,e",
        "0001,0,90.0,n,0,900,296,14,3,9.0,62.0,t",
        "0002,0,0.0,n,0,640,0,10,0,,,",
    ]
    path = write("w.csv", rows)
    found = read_trace("weka-csv", path, SESSIONS)
    [run] = found.scenario.runs
    assert found.num_failed == 1
    assert shape(run) == [((), 0.0), ((0,), 0.0), ((1,), 3.0), ((0, 2), 5.0), ((3,), 62.0)]
    prompts = [each.prompt for each in run.inferences]
    assert shared_tokens(prompts[0], prompts[3]) == 640
    assert shared_tokens(prompts[3], prompts[4]) == 192
    assert shared_tokens(prompts[1], prompts[2]) == 300
    assert shared_tokens(prompts[0], prompts[1]) == 0
    turns = read_trace("weka-csv", path, DRAWN).scenario.runs
    assert [len(turn.inferences) for turn in turns] == [4, 1]


def event(kind, at):
    return {"event_type": kind, "timestamp": f"2026-01-02T03:04:{at:06.3f}Z"}


def round_row(index, at, total, prefix, *, session="claude:1", first="tool_result", took=2.0):
    return {
        "session_id": session,
        "round_index": index,
        "input_tokens_total": total,
        "prefix_tokens": prefix,
        "newly_append_tokens": total - prefix,
        "output_tokens": 40,
        "first_input_event_type": first,
        "timing_events": [event(first, at), event("text", at + took), event("other", 59)],
        "tools": [],
    }


def test_tracelabs_rounds_become_sessions_in_order_of_time(write, shared_tokens):
    rows = [
        round_row(0, 1.0, 1000, 0, first="user_message"),
        round_row(0, 2.0, 500, 0, session="codex:2", first="user_message"),
        round_row(2, 30.0, 1500, 1200, first="user_message"),
        round_row(1, 8.0, 1200, 1000),
    ]
    path = write("t.jsonl", rows)
    turns = read_trace("tracelab", path).scenario.runs
    assert [(run.id, run.arrival_s, len(run.inferences)) for run in turns] == [
        ("claude:1/0", 0.0, 2),
        ("codex:2", 1.0, 1),
        ("claude:1/1", 29.0, 1),
    ]
    assert shape(turns[0]) == [((), 0.0), ((0,), pytest.approx(5.0))]
    [whole, _] = read_trace("tracelab", path, ReadOptions(run_is=RunIs.SESSION)).scenario.runs
    prompts = [each.prompt for each in whole.inferences]
    assert shared_tokens(prompts[0], prompts[1]) == 1000
    assert shared_tokens(prompts[1], prompts[2]) == 1200


def test_tracelabs_bad_rows_are_counted(write):
    good = round_row(0, 1.0, 1000, 0)
    rows = [
        good,
        {**good, "session_id": ""},
        {**good, "timing_events": []},
        {**good, "timing_events": None},
    ]
    found = read_trace("tracelab", write("t.jsonl", [*rows, {**good, "output_tokens": 0}]))
    assert (found.num_bad, found.num_failed) == (3, 1)
    assert "timing_events: tell no time" in found.bad_rows[1].reason


def test_sessions_of_one_name_stay_apart(write, tmp_path, shared_tokens):
    """Also where folders hold files of one name."""
    for folder in ("a", "b"):
        write(f"d/{folder}/s.json", [trace({**call(0.0, 10), "hash_ids": []})])
    left, right = read_trace("weka", tmp_path / "d", DRAWN).scenario.runs
    assert {left.id, right.id} == {"s", "s#2"}
    assert shared_tokens(left.inferences[0].prompt, right.inferences[0].prompt) == 0


def test_a_twice_recorded_question_begins_its_turn_once(write):
    runs = read(
        write,
        call(0.0, 10, type="s", input_types=["text"]),
        call(4.0, 10, input_types=[], stop="end_turn"),
        call(50.0, 11, type="s", input_types=["text"]),
        call(55.0, 11, input_types=[], stop="end_turn"),
        options=DRAWN,
    ).scenario.runs
    assert [(run.arrival_s, len(run.inferences)) for run in runs] == [(0.0, 1), (50.0, 1)]
