import gzip
import json
import math

import pytest

from justitia.core.cost import inference_cost_kvtt
from justitia.predictor import samples as samples_module
from justitia.predictor.samples import Sample, read_recorded_runs

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


def read(path):
    return read_recorded_runs(path, step_budget_tokens=BUDGET_TOKENS)


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
    recorded = read(write_lines(run(), packed=packed))
    expected = inference_cost_kvtt(700, 16, 20, step_budget_tokens=BUDGET_TOKENS)
    expected += inference_cost_kvtt(30, 0, 20, step_budget_tokens=BUDGET_TOKENS)
    assert recorded.samples == (
        Sample(application="summarise", prompt="a text", cost_kvtt=expected),
    )
    assert recorded.num_bad_lines == 0


def test_runs_are_grouped_by_application_in_the_order_of_the_file(write_lines):
    recorded = read(
        write_lines(run(), run(application="vote", prompt="b"), run(prompt="c"))
    ).by_application()
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
    pytest.param(
        run(inferences=[{"prompt_tokens": True, "cached_tokens": 0, "output_tokens": 1}]),
        "prompt_tokens",
        id="truth value",
    ),
]


@pytest.mark.parametrize(("line", "named"), BAD_LINES)
def test_a_bad_line_is_named_by_its_number_and_the_others_are_read(write_lines, line, named):
    recorded = read(write_lines(run(prompt="before"), b"", line, run(prompt="after")))
    assert [sample.prompt for sample in recorded.samples] == ["before", "after"]
    assert recorded.num_bad_lines == 1
    assert recorded.bad_lines[0].number == 3
    assert named in recorded.bad_lines[0].reason


def test_a_torn_gzip_file_gives_what_can_be_read_and_says_where_it_ends(write_lines):
    path = write_lines(*(run(prompt=f"text {index} " * 50) for index in range(2000)))
    content = path.read_bytes()
    path.write_bytes(content[: len(content) // 2])
    recorded = read(path)
    assert 0 < len(recorded.samples) < 2000
    assert recorded.num_bad_lines == 1
    assert recorded.bad_lines[0].number == len(recorded.samples) + 1


def test_a_line_beyond_the_limit_is_skipped(write_lines, monkeypatch):
    monkeypatch.setattr(samples_module, "MAX_LINE_BYTES", 2000)
    monkeypatch.setattr(samples_module, "_CHUNK_BYTES", 100)
    recorded = read(write_lines(run(prompt="x" * 5000), run(prompt="after")))
    assert [sample.prompt for sample in recorded.samples] == ["after"]
    assert [(bad.number, "2000" in bad.reason) for bad in recorded.bad_lines] == [(1, True)]


def test_of_many_bad_lines_the_first_are_named_and_all_are_counted(write_lines):
    recorded = read(write_lines(*[b"?"] * 150))
    assert recorded.num_bad_lines == 150
    assert [bad.number for bad in recorded.bad_lines] == list(range(1, 101))


def test_a_missing_file_is_an_error(tmp_path):
    with pytest.raises(FileNotFoundError):
        read(tmp_path / "none.jsonl.gz")


@pytest.mark.parametrize(
    "changes",
    [{"application": ""}, {"application": "a" * 513}, {"prompt": b"bytes"}, {"cost_kvtt": "7"}],
)
def test_a_sample_of_wrong_types_is_refused_by_field(changes):
    with pytest.raises(ValueError, match=next(iter(changes))):
        Sample(**{"application": "a", "prompt": "p", "cost_kvtt": 1.0} | changes)


def test_a_sample_may_hold_a_broken_cost():
    assert math.isnan(Sample(application="a", prompt="p", cost_kvtt=math.nan).cost_kvtt)
