"""``justitia record``: what is there is not played again."""

from pathlib import Path

import pytest

from justitia.cli import record
from justitia.predictor.recordings import read_recordings, write_recordings

RECORDINGS = Path(__file__).resolve().parents[2] / "examples" / "recordings" / "runs.jsonl.gz"


@pytest.fixture
def recordings(tmp_path):
    """Two runs of each agent."""
    path = tmp_path / "runs.jsonl.gz"
    write_recordings(path, [run for run in read_recordings(RECORDINGS).runs if run.task_seed < 2])
    return path


@pytest.fixture
def server(monkeypatch):
    """Fails where a server would be started."""

    def refuse(*_):
        raise AssertionError("a server is started")

    monkeypatch.setattr(record, "_own_server", refuse)


@pytest.mark.usefixtures("server")
def test_where_nothing_is_missing_no_server_is_started(justitia, recordings):
    before = recordings.read_bytes()
    status, _, error = justitia("record", "--runs", "2", "-o", recordings)
    assert status == 0
    assert "18 runs in " in error
    assert read_recordings(recordings).runs
    assert recordings.read_bytes() == before


@pytest.mark.usefixtures("server")
def test_where_runs_are_missing_one_is(justitia, recordings):
    with pytest.raises(AssertionError, match="a server is started"):
        justitia("record", "--runs", "3", "-o", recordings)
