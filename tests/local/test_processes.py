"""Child processes: ready or explained, and never left behind."""

import asyncio
import os
import socket
import subprocess
import sys
import time
from pathlib import Path

import pytest

from justitia.local.errors import LocalModeError
from justitia.local.listeners import who_listens
from justitia.local.processes import ChildProcess, free_port, require_free_port

SLEEPER = [sys.executable, "-c", "import time; print('up', flush=True); time.sleep(600)"]
#: A child whose own child ignores SIGTERM, as an engine core may.
PARENT_OF_STUBBORN = [
    sys.executable,
    "-c",
    """
import subprocess, sys, time
stubborn = (
    "import signal, time; signal.signal(signal.SIGTERM, signal.SIG_IGN); "
    "print('ready', flush=True); time.sleep(600)"
)
child = subprocess.Popen([sys.executable, "-c", stubborn], stdout=subprocess.PIPE)
child.stdout.readline()
print(child.pid, flush=True)
time.sleep(600)
""",
]


def is_alive(pid):
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    return Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()[0] != "Z"


def logged(child):
    async def probe():
        return child.log_path.read_text().endswith("\n")

    return probe


async def test_leaving_the_context_ends_the_child(tmp_path):
    async with ChildProcess("sleeper", SLEEPER, log_path=tmp_path / "log") as child:
        await child.wait_ready(logged(child), timeout_s=20)
        pid = child.pid
        assert is_alive(pid)
    assert not is_alive(pid)


async def test_grandchildren_that_ignore_sigterm_are_ended_too(tmp_path):
    command = PARENT_OF_STUBBORN
    async with ChildProcess("parent", command, log_path=tmp_path / "log", grace_s=0.2) as child:
        await child.wait_ready(logged(child), timeout_s=20)
        grandchild = int(child.log_path.read_text())
        assert is_alive(grandchild)
    assert not is_alive(grandchild)


async def test_cancelling_the_owner_ends_the_child(tmp_path):
    started = asyncio.Event()
    pids = []

    async def own():
        async with ChildProcess("sleeper", SLEEPER, log_path=tmp_path / "log") as child:
            pids.append(child.pid)
            started.set()
            await child.wait()

    task = asyncio.create_task(own())
    await started.wait()
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert not is_alive(pids[0])


async def test_a_child_that_dies_is_explained_with_the_end_of_its_log(tmp_path):
    command = [sys.executable, "-c", "print('no such model'); raise SystemExit(3)"]

    async def never():
        return False

    async with ChildProcess("vLLM", command, log_path=tmp_path / "log") as child:
        with pytest.raises(LocalModeError, match=r"(?s)vLLM ended with status 3.*no such model"):
            await child.wait_ready(never, timeout_s=20, period_s=0.01)


async def test_a_refused_setting_is_named_though_its_traceback_is_far_from_the_end(tmp_path):
    lines = [
        "(EngineCore pid=7) Traceback (most recent call last):",
        "(EngineCore pid=7) justitia.vllm_plugin.settings.SettingsError: JUSTITIA_MODE must be one",
        *["RuntimeError: Engine core initialization failed."] * 40,
    ]
    command = [sys.executable, "-c", f"print({chr(10).join(lines)!r}); raise SystemExit(1)"]
    async with ChildProcess("vLLM", command, log_path=tmp_path / "log") as child:
        await child.wait()
        with pytest.raises(LocalModeError) as error:
            await child.require_running()
    assert str(error.value) == (
        f"vLLM ended with status 1: JUSTITIA_MODE must be one (log: {tmp_path}/log)"
    )


async def test_a_log_that_cannot_be_written_is_one_clear_error(tmp_path):
    (tmp_path / "file").write_text("")
    for log_path in (tmp_path / "file" / "log", tmp_path):
        with pytest.raises(LocalModeError, match="choose another"):
            await ChildProcess("vLLM", ["true"], log_path=log_path).__aenter__()


def test_a_taken_port_is_refused_with_who_holds_it_and_the_flag_that_helps():
    with socket.socket() as other:
        other.bind(("127.0.0.1", 0))
        other.listen()
        port = other.getsockname()[1]
        with pytest.raises(LocalModeError) as error:
            require_free_port("127.0.0.1", port, flag="--port")
    message = str(error.value)
    assert f"port {port} on 127.0.0.1 is taken by " in message
    assert f"(pid {os.getpid()})" in message
    assert message.endswith("stop it, or choose another with --port")
    require_free_port("127.0.0.1", free_port(), flag="--port")


def test_a_port_of_an_address_that_is_not_ours_is_refused_without_a_culprit():
    with pytest.raises(LocalModeError, match=r"cannot be used: .*choose another with --port"):
        require_free_port("192.0.2.1", 8000, flag="--port")


def test_nobody_is_named_where_nobody_listens(tmp_path):
    assert who_listens(free_port()) == ""
    assert who_listens(1, proc=tmp_path) == ""


def test_a_child_ends_when_its_parent_is_killed(tmp_path):
    code = f"""
import asyncio
from pathlib import Path
from justitia.local.listeners import who_listens
from justitia.local.processes import ChildProcess

async def main():
    log_path = Path({str(tmp_path)!r}) / "log"
    async with ChildProcess("sleeper", {SLEEPER!r}, log_path=log_path) as child:
        print(child.pid, flush=True)
        await child.wait()

asyncio.run(main())
"""
    command = [sys.executable, "-c", code]
    with subprocess.Popen(command, stdout=subprocess.PIPE) as parent:
        child = int(parent.stdout.readline())
        parent.kill()
    assert wait_until(lambda: not is_alive(child))


async def test_a_child_starts_beside_open_grpc_channels(tmp_path):
    import grpc

    command = [sys.executable, "-c", "print('started')"]
    async with grpc.aio.insecure_channel("127.0.0.1:1") as channel:
        channel.get_state(try_to_connect=True)
        async with ChildProcess("child", command, log_path=tmp_path / "log") as child:
            assert await child.wait() == 0
    assert "started" in (tmp_path / "log").read_text()


def wait_until(condition, *, timeout_s=10.0):
    deadline_s = time.monotonic() + timeout_s
    while not condition():
        if time.monotonic() > deadline_s:
            return False
        time.sleep(0.01)
    return True
