import bz2
import gzip
import json
import lzma
import sys
from types import SimpleNamespace

import pytest

from justitia.core.errors import InvalidValueError
from justitia.sim.workloads.readers import files
from justitia.sim.workloads.readers.options import ReadOptions
from justitia.sim.workloads.readers.registry import read_trace

ROWS = [{"timestamp": 1000 * n, "input_length": 100, "output_length": 10} for n in range(5)]
TEXT = "".join(f"{json.dumps(row)}\n" for row in ROWS).encode()
PACKERS = {"": bytes, ".gz": gzip.compress, ".bz2": bz2.compress, ".xz": lzma.compress}


@pytest.mark.parametrize("suffix", PACKERS)
def test_packed_files_read_as_plain_ones(tmp_path, suffix):
    path = tmp_path / f"trace.jsonl{suffix}"
    path.write_bytes(PACKERS[suffix](TEXT))
    assert len(read_trace("mooncake", path).scenario.runs) == 5


def test_zstandard_needs_its_package_and_says_so(tmp_path, monkeypatch):
    path = tmp_path / "trace.jsonl.zst"
    path.write_bytes(b"\x28\xb5\x2f\xfd" + TEXT)
    monkeypatch.setitem(sys.modules, "zstandard", None)
    with pytest.raises(InvalidValueError, match="install the Python package zstandard"):
        read_trace("mooncake", path)

    def open_packed(raw, mode):
        assert mode == "rb"
        raw.seek(4)
        return raw

    monkeypatch.setitem(sys.modules, "zstandard", SimpleNamespace(open=open_packed))
    assert len(read_trace("mooncake", path).scenario.runs) == 5


def test_a_folder_is_read_in_order_of_names_and_other_files_are_left(tmp_path, write):
    write("day/b.jsonl", ROWS[2:])
    (tmp_path / "day" / "a.jsonl.gz").write_bytes(gzip.compress(TEXT))
    write("day/notes.txt", ["nothing"])
    found = read_trace("mooncake", tmp_path / "day")
    assert (found.num_files, found.num_rows) == (2, 8)


def test_a_folder_without_such_files_and_a_file_that_is_missing_are_refused(tmp_path):
    with pytest.raises(InvalidValueError, match=r"holds no files that end with \.jsonl"):
        read_trace("mooncake", tmp_path)
    with pytest.raises(InvalidValueError, match="does not exist"):
        read_trace("mooncake", tmp_path / "none.jsonl")


def test_a_torn_file_gives_what_it_has(tmp_path):
    path = tmp_path / "torn.jsonl.gz"
    many = TEXT * 2000
    path.write_bytes(gzip.compress(many)[:-200])
    found = read_trace("mooncake", path)
    assert 0 < len(found.scenario.runs) < 10_000
    assert found.num_bad >= 1
    assert "cannot be read any further" in found.bad_rows[-1].reason


def test_a_line_that_is_too_long_costs_itself_alone(monkeypatch, write):
    monkeypatch.setattr(files, "MAX_LINE_BYTES", 200)
    path = write("long.jsonl", [*ROWS[:2], json.dumps({"text": "x" * 5000}), *ROWS[2:]])
    found = read_trace("mooncake", path)
    assert len(found.scenario.runs) == 5
    assert [str(each) for each in found.bad_rows] == [f"{path}:3: longer than 200 bytes"]


def test_lines_after_one_that_is_too_long_keep_their_numbers(monkeypatch, write):
    monkeypatch.setattr(files, "MAX_LINE_BYTES", 200)
    rows = ["Timestamp,Request tokens,Response tokens", "1,2,3", "x" * 5000, "2,3,4", "bad,3,4"]
    found = read_trace("burstgpt", write("b.csv", rows))
    assert [each.place.line for each in found.bad_rows] == [3, 5]


def test_a_document_that_is_too_large_is_refused(monkeypatch, write):
    monkeypatch.setattr(files, "MAX_DOCUMENT_BYTES", 10)
    path = write("trace.json", [{"requests": []}])
    with pytest.raises(InvalidValueError, match="larger than 10 bytes"):
        read_trace("weka", path, ReadOptions(window_s=1.0))


def test_files_are_read_line_by_line(write):
    """After some runs nothing more is read: the rest could be anything."""
    path = write("huge.jsonl", [*ROWS, "no row at all"])
    found = read_trace("mooncake", path, ReadOptions(max_runs=5, is_strict=True))
    assert found.num_rows == 5
