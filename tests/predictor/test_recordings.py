import gzip
import json

import pytest

from justitia import numbered_lines
from justitia.core.cost import inference_cost_kvtt
from justitia.predictor import recordings
from justitia.predictor.recordings import read_recordings, write_recordings
from justitia.predictor.samples import Sample

BUDGET_TOKENS = 512


def run(**changes):
    inference = {"stage": "map", "prompt_tokens": 700, "cached_tokens": 16, "output_tokens": 20}
    return {
        "application": "summarise",
        "prompt": "a text",
        "task_seed": 1,
        "inferences": [inference, {**inference, "prompt_tokens": 30, "cached_tokens": 0}],
        "model": "tiny",
    } | changes


@pytest.fixture
def write_lines(tmp_path):
    def write(*lines, packed=True):
        content = b"".join(
            (line if isinstance(line, bytes) else json.dumps(line).encode()) + b"\n"
            for line in lines
        )
        path = tmp_path / "runs.jsonl.gz"
        path.write_bytes(gzip.compress(content) if packed else content)
        return path

    return write


@pytest.mark.parametrize("packed", [True, False])
def test_a_run_costs_the_sum_of_its_inferences(write_lines, packed):
    recorded = read_recordings(write_lines(run(), packed=packed))
    expected = inference_cost_kvtt(700, 16, 20, step_budget_tokens=BUDGET_TOKENS)
    expected += inference_cost_kvtt(30, 0, 20, step_budget_tokens=BUDGET_TOKENS)
    assert recorded.samples(step_budget_tokens=BUDGET_TOKENS) == {
        "summarise": [Sample(application="summarise", prompt="a text", cost_kvtt=expected)]
    }
    assert recorded.num_bad_lines == 0


def test_runs_are_grouped_by_application_in_the_order_of_the_file(write_lines):
    recorded = read_recordings(
        write_lines(run(), run(application="vote", prompt="b"), run(prompt="c"))
    ).samples(step_budget_tokens=BUDGET_TOKENS)
    assert {name: [s.prompt for s in group] for name, group in recorded.items()} == {
        "summarise": ["a text", "c"],
        "vote": ["b"],
    }


BAD_LINES = [
    pytest.param(b"{", "", id="torn json"),
    pytest.param(b"\xff\xfe", "", id="not utf-8"),
    pytest.param(b"[" * 100_000, "", id="nested too deep"),
    pytest.param(b"9" * 5000, "", id="endless number"),
    pytest.param([1], "object", id="no object"),
    pytest.param({"prompt": "p"}, "application, inferences", id="fields missing"),
    pytest.param(run(application=""), "application", id="empty application"),
    pytest.param(run(application=7), "application", id="application of another type"),
    pytest.param(run(prompt=None), "prompt", id="no prompt"),
    pytest.param(run(prompt="\ud800"), "prompt holds half", id="half of a surrogate pair"),
    pytest.param(run(application="\ud800"), "application holds half", id="half a name"),
    pytest.param(run(inferences=[]), "inferences", id="no inference"),
    pytest.param(run(inferences={}), "inferences", id="inferences of another type"),
    pytest.param(run(inferences=[3]), "inferences[0]", id="inference of another type"),
    pytest.param(
        run(inferences=[{"prompt_tokens": 1, "cached_tokens": 0, "output_tokens": 1.5}]),
        "inferences[0].output_tokens",
        id="fraction of a token",
    ),
    pytest.param(
        run(inferences=[{"prompt_tokens": -1, "cached_tokens": 0, "output_tokens": 1}]),
        "prompt_tokens",
        id="negative",
    ),
    pytest.param(run(task_seed="1"), "task_seed", id="seed of another type"),
    pytest.param(run(model=None), "model", id="model of another type"),
    pytest.param(
        run(inferences=[{"prompt_tokens": True, "cached_tokens": 0, "output_tokens": 1}]),
        "prompt_tokens",
        id="truth value",
    ),
]


@pytest.mark.parametrize(("line", "named"), BAD_LINES)
def test_a_bad_line_is_named_by_its_number_and_the_others_are_read(write_lines, line, named):
    recorded = read_recordings(write_lines(run(prompt="before"), b"", line, run(prompt="after")))
    assert [run.prompt for run in recorded.runs] == ["before", "after"]
    assert recorded.num_bad_lines == 1
    assert recorded.bad_lines[0].number == 3
    assert named in recorded.bad_lines[0].reason


SECRET = "xylophonist"
LEAKS = [
    run(prompt=[SECRET]),
    run(prompt={SECRET: 1}),
    run(model=[SECRET]),
    run(task_seed=SECRET),
    run(application=[SECRET]),
    run(application=SECRET * 100),
    run(inferences=SECRET),
    run(inferences=[SECRET]),
    run(inferences=[{"stage": [SECRET]}]),
    *(
        run(inferences=[dict.fromkeys(names, 1) | {names[place]: SECRET}])
        for names in [("prompt_tokens", "cached_tokens", "output_tokens")]
        for place in range(3)
    ),
    [SECRET],
    SECRET,
    {SECRET: SECRET},
    b'{"prompt": "' + SECRET.encode(),
    b'{"prompt": "' + SECRET.encode() + b'\\x"}',
    b'{"prompt": "' + SECRET.encode() + b'\x01"}',
    SECRET.encode(),
    b'{"prompt": 1 "' + SECRET.encode() + b'"}',
]


@pytest.mark.parametrize("line", LEAKS)
def test_what_is_wrong_with_a_line_is_said_without_a_word_of_it(write_lines, line):
    (bad,) = read_recordings(write_lines(line)).bad_lines
    assert bad.reason
    assert "xylo" not in bad.reason


def test_of_a_line_that_is_no_text_not_even_a_byte_is_quoted(write_lines):
    (bad,) = read_recordings(write_lines(b'{"prompt": "\xe9t\xe9"}')).bad_lines
    assert bad.reason == "no text in utf-8: invalid continuation byte at byte 12"


def test_a_torn_gzip_file_gives_what_can_be_read_and_says_where_it_ends(write_lines):
    path = write_lines(*(run(prompt=f"text {index} " * 50) for index in range(2000)))
    content = path.read_bytes()
    path.write_bytes(content[: len(content) // 2])
    recorded = read_recordings(path)
    assert 0 < len(recorded.runs) < 2000
    assert recorded.num_bad_lines == 1
    assert recorded.bad_lines[0].number == len(recorded.runs) + 1


def test_a_line_beyond_the_limit_is_skipped(write_lines, monkeypatch):
    monkeypatch.setattr(recordings, "MAX_LINE_BYTES", 2000)
    monkeypatch.setattr(numbered_lines, "_CHUNK_BYTES", 100)
    recorded = read_recordings(write_lines(run(prompt="x" * 5000), run(prompt="after")))
    assert [run.prompt for run in recorded.runs] == ["after"]
    assert [(bad.number, "2000" in bad.reason) for bad in recorded.bad_lines] == [(1, True)]


@pytest.mark.parametrize(
    ("limit", "value"), [("MAX_RUNS", 2), ("MAX_KEPT_BYTES", 2 * len(json.dumps(run())) + 5)]
)
def test_of_more_than_can_be_kept_the_last_runs_are(write_lines, monkeypatch, limit, value):
    monkeypatch.setattr(recordings, limit, value)
    recorded = read_recordings(write_lines(*(run(task_seed=n) for n in range(5))))
    assert [run.task_seed for run in recorded.runs] == [3, 4]
    assert recorded.num_left_out == 3


def test_of_many_bad_lines_the_first_are_named_and_all_are_counted(write_lines):
    recorded = read_recordings(write_lines(*[b"?"] * 150))
    assert recorded.num_bad_lines == 150
    assert [bad.number for bad in recorded.bad_lines] == list(range(1, 101))


def test_a_missing_file_is_an_error(tmp_path):
    with pytest.raises(FileNotFoundError):
        read_recordings(tmp_path / "none.jsonl.gz")


def test_what_is_written_is_read_back_and_equal_runs_give_equal_bytes(write_lines, tmp_path):
    runs = read_recordings(write_lines(run(task_seed=2), run(application="a"), run())).runs
    first, second = tmp_path / "sub" / "first.gz", tmp_path / "second.gz"
    write_recordings(first, runs)
    write_recordings(second, reversed(runs))
    assert first.read_bytes() == second.read_bytes()
    assert sorted(read_recordings(first).runs, key=repr) == sorted(runs, key=repr)
    assert [path.name for path in first.parent.iterdir()] == ["first.gz"]


def test_where_a_run_comes_from_need_not_be_said(write_lines):
    bare = run(inferences=[{"prompt_tokens": 3, "cached_tokens": 0, "output_tokens": 1}])
    del bare["task_seed"], bare["model"]
    [read] = read_recordings(write_lines(bare)).runs
    assert (read.task_seed, read.model, read.inferences[0].stage) == (0, "", "")


def test_text_behind_the_end_of_a_packed_file_is_not_quoted(write_lines):
    path = write_lines(run(), packed=True)
    path.write_bytes(path.read_bytes() + b"secret")
    [bad] = read_recordings(path).bad_lines
    assert bad.reason == "the file cannot be read any further: no gzip"
