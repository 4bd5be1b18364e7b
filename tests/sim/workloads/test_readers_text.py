"""Data sets of text: ShareGPT, vLLM's custom prompts and AIPerf's inputs."""

import json

import pytest

from justitia.core.errors import InvalidValueError
from justitia.sim.workloads.readers import documents
from justitia.sim.workloads.readers.options import ReadOptions, RunIs
from justitia.sim.workloads.readers.registry import read_trace

TEXT = ReadOptions(window_s=10.0, chars_per_token=4, think_s=30.0, output_tokens=77)
SESSION = ReadOptions(
    window_s=10.0, chars_per_token=4, think_s=30.0, output_tokens=77, run_is=RunIs.SESSION
)


def chat(*messages):
    return {"id": "c", "conversations": [{"from": who, "value": text} for who, text in messages]}


TWO_TURNS = chat(("human", "a" * 40), ("gpt", "b" * 80), ("human", "c" * 20), ("gpt", "d" * 8))


@pytest.fixture(params=["array", "lines", "indented"])
def write_chats(request, tmp_path):
    def write_file(*rows):
        path = tmp_path / "chats.json"
        if request.param == "lines":
            path.write_text("\n".join(map(json.dumps, rows)))
        else:
            path.write_text(json.dumps(rows, indent=1 if request.param == "indented" else None))
        return path

    return write_file


def test_each_answer_is_a_turn_with_all_before_as_its_prompt(write_chats, shared_tokens):
    found = read_trace("sharegpt", write_chats(TWO_TURNS), TEXT)
    first, second = found.scenario.runs
    assert [first.inferences[0].prompt_tokens, first.inferences[0].output_tokens] == [10, 20]
    assert [second.inferences[0].prompt_tokens, second.inferences[0].output_tokens] == [35, 2]
    assert second.arrival_s - first.arrival_s == pytest.approx(30)
    assert (first.text, second.text) == ("a" * 40, "c" * 20)
    assert shared_tokens(first.inferences[0].prompt, second.inferences[0].prompt) == 10
    assert "4 characters a token" in found.lines()[0]
    [whole] = read_trace("sharegpt", write_chats(TWO_TURNS), SESSION).scenario.runs
    assert [(each.after, each.pause_s) for each in whole.inferences] == [((), 0), ((0,), 30)]


def test_a_tools_result_goes_on_with_the_turn(write):
    row = {
        "messages": [
            {"role": "system", "content": "s" * 40},
            {"role": "user", "content": [{"type": "text", "text": "u" * 40}, {"type": "image"}]},
            {"role": "assistant", "content": "a" * 40},
            {"role": "tool", "content": "t" * 40},
            {"role": "assistant", "content": "b" * 40},
            {"role": "assistant", "content": None},
        ]
    }
    [run] = read_trace("sharegpt", write("c.jsonl", [row]), TEXT).scenario.runs
    assert [each.prompt_tokens for each in run.inferences] == [20, 40]
    assert run.inferences[1].pause_s == 0


def test_bad_conversations_are_counted_by_place(write_chats):
    found = read_trace("sharegpt", write_chats(TWO_TURNS, {"id": 3}, chat(("human", 7))), TEXT)
    assert len(found.scenario.runs) == 2
    assert [each.place.line for each in found.bad_rows] == [2, 3]
    assert "conversations: must be given" in found.bad_rows[0].reason


@pytest.mark.parametrize("chunk_bytes", range(6, 14))
def test_an_array_is_read_bit_by_bit(monkeypatch, tmp_path, chunk_bytes):
    monkeypatch.setattr(documents, "_CHUNK_BYTES", chunk_bytes)
    path = tmp_path / "c.json"
    rows = [TWO_TURNS, *[12345] * 9, TWO_TURNS, chat(("human", "é" * 40), ("gpt", "ü" * 8))]
    path.write_bytes(b"\xef\xbb\xbf \n" + json.dumps(rows, ensure_ascii=False).encode())
    found = read_trace("sharegpt", path, TEXT)
    assert len(found.scenario.runs) == 5
    assert found.num_bad == 9


@pytest.mark.parametrize("tail", ["", ",", ", {", " 1]", "}"])
def test_an_array_that_breaks_off_gives_what_it_has(tmp_path, tail):
    path = tmp_path / "c.json"
    path.write_text(f"[{json.dumps(TWO_TURNS)}{tail}")
    found = read_trace("sharegpt", path, TEXT)
    assert len(found.scenario.runs) == 2
    assert "cannot be read any further" in found.bad_rows[-1].reason


@pytest.mark.parametrize("missing", ["window_s", "chars_per_token", "think_s"])
def test_what_the_file_does_not_tell_must_be_given(write_chats, missing):
    told = {"window_s": 10.0, "chars_per_token": 4.0, "think_s": 30.0} | {missing: None}
    with pytest.raises(InvalidValueError, match=f"{missing}: must be given"):
        read_trace("sharegpt", write_chats(TWO_TURNS), ReadOptions(**told))


def test_equal_prompts_of_vllms_bench_are_shared(write, shared_tokens):
    rows = [{"prompt": "x" * 40, "output_tokens": 5}, {"prompt": "x" * 40}, {"prompt": 3}]
    found = read_trace("vllm-bench", write("p.jsonl", rows), TEXT)
    left, right = sorted(found.scenario.runs, key=lambda run: run.id)
    assert [run.inferences[0].output_tokens for run in (left, right)] == [5, 77]
    assert shared_tokens(left.inferences[0].prompt, right.inferences[0].prompt) == 10
    assert "prompt: must be a text, got int" in found.bad_rows[0].reason


def test_an_output_that_nobody_tells_must_be_given(write):
    options = ReadOptions(window_s=10.0, chars_per_token=4)
    with pytest.raises(InvalidValueError, match="output_tokens: must be given"):
        read_trace("vllm-bench", write("p.jsonl", [{"prompt": "x"}]), options)


def test_aiperfs_single_turns_with_and_without_times(write):
    rows = [
        {"text": "x" * 40, "output_length": 5, "timestamp": 1000},
        {"text_input": "y" * 40, "timestamp": 3500},
        {"texts": ["a" * 20, "b" * 20], "timestamp": 2000},
        {"timestamp": 2500, "input_length": 600, "output_length": 9, "hash_ids": [1, 2]},
        {"messages": [{"role": "user", "content": "z" * 40}], "timestamp": 4000},
        {"image": "x.png"},
    ]
    options = ReadOptions(chars_per_token=4, output_tokens=77)
    found = read_trace("aiperf", write("a.jsonl", rows), options)
    runs = found.scenario.runs
    assert [run.arrival_s for run in runs] == [0.0, 1.0, 1.5, 2.5, 3.0]
    assert [run.inferences[0].prompt_tokens for run in runs] == [10, 10, 600, 10, 10]
    assert [run.inferences[0].output_tokens for run in runs] == [5, 77, 9, 77, 77]
    assert "text: must be given" in found.bad_rows[0].reason


def test_aiperfs_sessions_grow_by_turns_and_outputs(write, shared_tokens):
    turns = [
        {"role": "system", "text": "s" * 40},
        {"text": "a" * 40, "output_length": 30},
        {"text": "b" * 40, "output_length": 20, "delay": 1500},
    ]
    path = write("a.jsonl", [{"session_id": "chat", "turns": turns}])
    [run] = read_trace("aiperf", path, SESSION).scenario.runs
    assert [each.prompt_tokens for each in run.inferences] == [20, 60]
    assert run.inferences[1].pause_s == 1.5
    assert shared_tokens(run.inferences[0].prompt, run.inferences[1].prompt) == 20
    first, second = read_trace("aiperf", path, TEXT).scenario.runs
    assert second.arrival_s - first.arrival_s == pytest.approx(1.5)
