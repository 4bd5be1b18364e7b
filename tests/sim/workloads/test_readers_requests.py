"""Mooncake, Azure and BurstGPT: a request a row."""

import pytest

from justitia.core.errors import InvalidValueError
from justitia.sim.workloads.readers.options import IdScope, ReadOptions, RunIs, TimeUnit
from justitia.sim.workloads.readers.registry import read_trace
from justitia.sim.workloads.summary import describe


def row(at_ms=0, inputs=1200, outputs=52, ids=(0, 1, 2), **more):
    return {
        "timestamp": at_ms,
        "input_length": inputs,
        "output_length": outputs,
        "hash_ids": list(ids),
        **more,
    }


def test_mooncakes_rows_are_runs_at_their_milliseconds(write, shared_tokens):
    path = write(
        "m.jsonl", [row(500), row(2500, 1800, 26, (0, 1, 4, 5)), row(1500, 900, 9, (7, 8))]
    )
    found = read_trace("mooncake", path)
    runs = found.scenario.runs
    assert [run.arrival_s for run in runs] == [0.0, 1.0, 2.0]
    assert [run.inferences[0].prompt_tokens for run in runs] == [1200, 900, 1800]
    assert [run.inferences[0].output_tokens for run in runs] == [52, 9, 26]
    assert shared_tokens(runs[0].inferences[0].prompt, runs[2].inferences[0].prompt) == 1024
    assert shared_tokens(runs[0].inferences[0].prompt, runs[1].inferences[0].prompt) == 0
    assert "a run is a request" in found.lines()[0]
    assert "times in ms" in found.lines()[0]
    assert "blocks of 512 tokens" in found.lines()[0]


def test_the_scope_of_ids_decides_whether_files_share(write, tmp_path, shared_tokens):
    write("d/a.jsonl", [row()])
    write("d/b.jsonl", [row()])
    for scope, shared in ((None, 1200), (IdScope.FILE, 0)):
        found = read_trace("mooncake", tmp_path / "d", ReadOptions(id_scope=scope))
        left, right = (run.inferences[0].prompt for run in found.scenario.runs)
        assert shared_tokens(left, right) == shared


def test_a_wrong_block_size_is_noticed_and_not_guessed(write):
    path = write("m.jsonl", [row(), row()])
    with pytest.raises(InvalidValueError, match="3 blocks of 16 tokens are not 1200 tokens"):
        read_trace("mooncake", path, ReadOptions(block_size_tokens=16))
    fine = write("n.jsonl", [row(ids=range(75))])
    assert read_trace("mooncake", fine, ReadOptions(block_size_tokens=16)).num_bad == 0


def test_bad_rows_are_counted_with_their_lines_and_the_rest_is_read(write):
    bad = [
        "{",
        "[1]",
        row(inputs=0),
        row(outputs=-1),
        row(outputs=1.5),
        row(outputs=True),
        row(at_ms="soon"),
        row(at_ms=float("nan")),
        row(ids=[0, {}, 2]),
        {"timestamp": 1, "output_length": 3},
        row(at_ms=None),
    ]
    path = write("m.jsonl", [row(), "", *bad, row(9000, extra={"x": [1]})])
    found = read_trace("mooncake", path)
    assert len(found.scenario.runs) == 2
    assert found.num_bad == len(bad)
    reasons = [str(each).removeprefix(f"{path}:") for each in found.bad_rows]
    assert [int(reason.partition(":")[0]) for reason in reasons] == list(range(3, 14))
    assert "input_length: must be a whole number from 1 to 10000000, got 0" in reasons[2]
    assert "got True" in reasons[5]
    assert "timestamp: must be a finite number, got 'soon'" in reasons[6]
    assert "input_length: must be a whole number from 1 to 10000000, got nothing" in reasons[9]
    assert any(line.startswith("left out       11 bad rows") for line in found.lines())


def test_a_strict_reading_ends_at_the_first_bad_row(write):
    path = write("m.jsonl", [row(), "nonsense"])
    with pytest.raises(InvalidValueError, match=r"m\.jsonl:2"):
        read_trace("mooncake", path, ReadOptions(is_strict=True))


def test_a_file_without_anything_usable_names_its_first_bad_row(write):
    path = write("m.jsonl", ["x", "y"])
    with pytest.raises(InvalidValueError, match=r"holds nothing usable in 2 rows.*m\.jsonl:1"):
        read_trace("mooncake", path)


def test_an_output_of_zero_is_a_failure(write):
    path = write("m.jsonl", [row(), row(outputs=0)])
    found = read_trace("mooncake", path)
    assert (len(found.scenario.runs), found.num_failed, found.num_bad) == (1, 1, 0)
    kept = read_trace("mooncake", path, ReadOptions(does_keep_failed=True))
    assert (len(kept.scenario.runs), kept.num_failed) == (2, 0)
    assert "1 inferences have no output" in describe(kept.scenario).warnings[0]


def test_other_tools_names_of_fields_and_missing_ids_are_understood(write):
    path = write("m.jsonl", [{"created_time": 5, "input_tokens": 7, "output_tokens": 3}])
    inference = read_trace("mooncake", path).scenario.runs[0].inferences[0]
    assert (inference.prompt_tokens, inference.output_tokens) == (7, 3)


def test_sessions_must_be_told_what_a_run_is(write):
    rows = [row(0, session_id="s"), row(100, session_id="t"), row(4000, session_id="s")]
    path = write("m.jsonl", rows)
    with pytest.raises(InvalidValueError, match=r"m\.jsonl:1: session_id: is given: say whether"):
        read_trace("mooncake", path)
    turns = read_trace("mooncake", path, ReadOptions(run_is=RunIs.TURN)).scenario.runs
    assert [(run.id, run.arrival_s) for run in turns] == [("s/0", 0.0), ("t", 0.1), ("s/1", 4.0)]
    whole = read_trace("mooncake", path, ReadOptions(run_is=RunIs.SESSION)).scenario.runs
    assert [len(run.inferences) for run in whole] == [2, 1]
    assert whole[0].inferences[1].after == (0,)
    assert whole[0].inferences[1].pause_s == 4.0


def test_a_delay_is_the_pause_after_the_turn_before(write):
    rows = [row(1000, session_id="s"), {**row(session_id="s", delay=2500), "timestamp": None}]
    path = write("m.jsonl", rows)
    run = read_trace("mooncake", path, ReadOptions(run_is=RunIs.SESSION)).scenario.runs[0]
    assert run.inferences[1].pause_s == 2.5
    turns = read_trace("mooncake", path, ReadOptions(run_is=RunIs.TURN)).scenario.runs
    assert [turn.arrival_s for turn in turns] == [0.0, 2.5]


def test_buckets_are_spread_and_windows_scaled(write):
    path = write("m.jsonl", [row(3000 * (n // 10)) for n in range(100)])
    plain = read_trace("mooncake", path).scenario
    assert len({run.arrival_s for run in plain.runs}) == 10
    spread = read_trace("mooncake", path, ReadOptions(bucket_s=3.0, window_s=60.0, seed=4)).scenario
    times = [run.arrival_s for run in spread.runs]
    assert len(set(times)) == 100
    assert (times[0], times[-1]) == (0.0, 60.0)
    again = read_trace("mooncake", path, ReadOptions(bucket_s=3.0, window_s=60.0, seed=4)).scenario
    assert again == spread


def test_a_wrong_unit_of_time_warns(write):
    path = write("m.jsonl", [row(300 * n) for n in range(150)])
    assert describe(read_trace("mooncake", path).scenario).warnings == ()
    wrong = read_trace("mooncake", path, ReadOptions(time_unit=TimeUnit.SECONDS))
    assert "is the unit of time right?" in describe(wrong.scenario).warnings[0]


AZURE = "TIMESTAMP,ContextTokens,GeneratedTokens"


def test_azures_dates_of_both_years_are_read(write):
    path = write(
        "a.csv",
        [
            f"\ufeff{AZURE},Extra\r",
            "2023-11-16 18:15:46.6805900,374,44,x\r",
            "2023-11-16 18:15:50.9951690,396,109\r",
            "\r",
            "2023-11-16 18:15:52,91.0,16\r",
        ],
    )
    found = read_trace("azure", path)
    runs = found.scenario.runs
    assert [run.arrival_s for run in runs] == pytest.approx([0, 4.314579, 5.31941])
    assert [run.inferences[0].prompt_tokens for run in runs] == [374, 396, 91]
    assert "times: dates" in found.lines()[0]
    newer = write(
        "b.csv", [AZURE, "2024-05-10 00:00:00.009930+00:00,2162,5", "2024-05-10 02:00:01+02:00,7,5"]
    )
    times = [run.arrival_s for run in read_trace("azure", newer).scenario.runs]
    assert times == pytest.approx([0, 0.99007])


def test_azures_times_as_numbers_need_a_unit(write):
    path = write("a.csv", [AZURE, "1000,5,5", "3000,5,5"])
    with pytest.raises(InvalidValueError, match="time_unit: must be given"):
        read_trace("azure", path)
    found = read_trace("azure", path, ReadOptions(time_unit=TimeUnit.MILLISECONDS))
    assert [run.arrival_s for run in found.scenario.runs] == [0.0, 2.0]


def test_a_missing_column_is_named_and_bad_cells_are_counted(write):
    with pytest.raises(InvalidValueError, match=r"a\.csv:1: has no column GeneratedTokens"):
        read_trace("azure", write("a.csv", ["TIMESTAMP,ContextTokens", "x,1"]))
    rows = [
        AZURE,
        "yesterday,5,5",
        "2024-05-10 00:00:00,5",
        "2024-05-10 00:00:01,5,5",
        "2024-05-10 00:00:02,\x80,5",
    ]
    found = read_trace("azure", write("b.csv", rows))
    assert [each.place.line for each in found.bad_rows] == [2, 3, 5]
    assert "TIMESTAMP: must be a date and time, got 'yesterday'" in found.bad_rows[0].reason
    assert "GeneratedTokens: must be a whole number" in found.bad_rows[1].reason


BURST = "Timestamp,Model,Request tokens,Response tokens,Total tokens,Log Type"


def test_burstgpts_seconds_and_failures(write):
    rows = [
        BURST,
        "5,ChatGPT,472,18,490,Conversation log",
        "45.5,GPT-4,1087,0,1087,API log",
        "118,GPT-4,9,7,16,API log",
    ]
    found = read_trace("burstgpt", write("b.csv", rows))
    assert [run.arrival_s for run in found.scenario.runs] == [0.0, 113.0]
    assert found.num_failed == 1
    assert "times in s" in found.lines()[0]


def test_burstgpts_sessions_must_be_told_what_a_run_is(write):
    rows = [
        "Timestamp,Session ID,Elapsed time,Model,Request tokens,Response tokens",
        "0,s1,2.5,GPT-4,10,5",
        "9,s1,2.5,GPT-4,30,5",
        "4,,2.5,GPT-4,7,5",
    ]
    path = write("b.csv", rows)
    with pytest.raises(InvalidValueError, match=r"b\.csv:2: session_id"):
        read_trace("burstgpt", path)
    found = read_trace("burstgpt", path, ReadOptions(run_is=RunIs.SESSION, application="chat"))
    assert [len(run.inferences) for run in found.scenario.runs] == [2, 1]
    assert {run.application for run in found.scenario.runs} == {"chat"}


def test_a_column_is_never_taken_for_python(write):
    found = read_trace(
        "burstgpt", write("b.csv", [BURST, "__import__('os'),x,1,1,2,x", "1,x,1,1,2,x"])
    )
    assert found.num_bad == 1


def test_an_unknown_format_lists_the_known_ones(tmp_path):
    with pytest.raises(InvalidValueError, match="must be one of mooncake, azure, burstgpt"):
        read_trace("csv", tmp_path)


@pytest.mark.parametrize(
    "wrong",
    [
        {"window_s": -1.0},
        {"bucket_s": float("nan")},
        {"max_pause_s": -0.1},
        {"block_size_tokens": 0},
        {"max_runs": 0},
        {"chars_per_token": 0.0},
    ],
)
def test_options_out_of_range_are_refused_by_name(wrong):
    with pytest.raises(InvalidValueError, match=next(iter(wrong))):
        ReadOptions(**wrong)
