"""A sandbox leaves nothing behind, however its test run ends."""

import contextlib
import os
import signal
import socket
import subprocess
import sys
import textwrap
import time
from pathlib import Path

import pytest
from kube.daemon import Daemon
from kube.errors import NoClusterError
from kube.leftovers import cgroup_name
from kube.sandbox import Network, Sandbox, module_env

LOCAL_ROUTE = "10.78.0.0/24 dev node0 proto kernel scope link src 10.78.0.1"
SETTING = Path("/proc/sys/kernel/panic")

RUN = textwrap.dedent("""
    import subprocess, sys, time
    from pathlib import Path
    from kube.sandbox import Network, Sandbox, module_env
    with Sandbox(Path(sys.argv[1]), network=Network.ISOLATED) as sandbox:
        command = sandbox.inside("sh", "-c", "mount -t tmpfs none /mnt; touch /var/up; sleep 999")
        subprocess.Popen(command, env=module_env())
        print(sandbox.folder, flush=True)
        time.sleep(60)
""")


@pytest.fixture
def runs(tmp_path):
    if os.geteuid() != 0:
        pytest.skip("namespaces need root")
    return tmp_path / "runs"


@pytest.fixture
def test_run(runs):
    """A test run in a process of its own, whose sandbox is busy; ended by the test."""
    command = [sys.executable, "-c", RUN, str(runs)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True, env=module_env()) as process:
        folder = process.stdout.readline().strip()
        if not folder:
            pytest.skip("this machine allows no sandbox")
        wait_for(lambda: processes_of(folder, "sleep 999"))
        try:
            yield process, Path(folder)
        finally:
            process.kill()


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGKILL])
def test_nothing_is_left_when_the_test_run_ends_by(number, test_run, runs):
    process, folder = test_run

    os.kill(process.pid, number)

    wait_for(lambda: not folder.exists() and leftovers(folder) == [])
    assert list(runs.iterdir()) == []


def test_processes_end_with_a_keeper_that_is_killed_and_the_next_start_removes_the_rest(
    test_run, runs
):
    _, folder = test_run
    (keeper,) = processes_of(folder, "kube.keeper")

    os.kill(keeper, signal.SIGKILL)

    wait_for(lambda: not processes_of(folder, ""))
    with Sandbox(runs, network=Network.ISOLATED):
        assert not folder.exists()
        assert leftovers(folder) == []


def test_two_sandboxes_live_side_by_side(runs):
    with sandbox(runs) as one, sandbox(runs) as other:
        assert output(one, "hostname") == output(other, "hostname") == "node"
        output(one, "touch", "/run/mine")
        assert "mine" not in output(other, "ls", "/run")


def test_writes_to_system_folders_and_kernel_settings_stay_inside(runs):
    before = SETTING.read_text()
    with sandbox(runs) as inside:
        output(inside, "sh", "-c", f"echo 77 > {SETTING}; touch /etc/x /var/lib/kubelet/x")
        assert output(inside, "cat", str(SETTING)) == "77"
        assert (inside.folder / "kubelet" / "x").exists()

    assert SETTING.read_text() == before
    assert not Path("/etc/x").exists()
    assert not Path("/var/lib/kubelet/x").exists()


def test_an_isolated_sandbox_reaches_nothing_outside(runs):
    with sandbox(runs) as inside:
        routes = output(inside, "ip", "route")
        interfaces = output(inside, "ip", "-brief", "link")

    assert routes.split("\n") == ["default dev node0 scope link ", LOCAL_ROUTE]
    assert sorted(line.split("@")[0].split()[0] for line in interfaces.splitlines()) == [
        "lo",
        "node0",
        "node1",
    ]


def test_a_killed_daemon_takes_its_program_with_it(runs, tmp_path):
    with sandbox(runs) as inside:
        daemon = Daemon("sleeper", ["sleep", "997"], sandbox=inside, log_path=tmp_path / "log")
        daemon.start()
        wait_for(lambda: "sleep 997" in output(inside, "ps", "ax"))
        assert command_of(daemon.pid) == "sleep 997 "

        daemon.kill()

        wait_for(lambda: "sleep 997" not in output(inside, "ps", "ax"))


def test_a_thread_is_on_the_network_that_it_joins_and_back_afterwards(runs):
    before = interfaces()
    with sandbox(runs) as inside:
        with inside.joined_network():
            assert interfaces() == {"lo", "node0", "node1"}
        assert interfaces() == before


def interfaces():
    return {name for _, name in socket.if_nameindex()}


@contextlib.contextmanager
def sandbox(runs):
    with contextlib.ExitStack() as stack:
        try:
            entered = stack.enter_context(Sandbox(runs, network=Network.ISOLATED))
        except NoClusterError as error:
            pytest.skip(str(error))
        yield entered


def output(inside, *command):
    done = subprocess.run(
        inside.inside(*command), env=module_env(), capture_output=True, text=True, check=True
    )
    return done.stdout.strip()


def processes_of(folder, words):
    """Ids of processes that name the sandbox's folder, or live in its PID namespace."""
    named = [pid for pid in all_pids() if str(folder) in command_of(pid)]
    inits = [pid for pid in named if "-m kube.init" in command_of(pid) and is_first(pid)]
    namespaces = {namespace_of(pid) for pid in inits}
    return [
        pid
        for pid in all_pids()
        if words in command_of(pid) and (pid in named or namespace_of(pid) in namespaces)
    ]


def is_first(pid):
    """Whether it is the first of a PID namespace; unshare, which names kube.init too, is not."""
    with contextlib.suppress(OSError):
        status = Path(f"/proc/{pid}/status").read_text()
        return "\nNSpid:" in status and status.split("NSpid:")[1].splitlines()[0].split()[-1] == "1"
    return False


def all_pids():
    return [int(entry.name) for entry in Path("/proc").iterdir() if entry.name.isdigit()]


def command_of(pid):
    try:
        return Path(f"/proc/{pid}/cmdline").read_text().replace("\0", " ")
    except OSError:
        return ""


def namespace_of(pid):
    try:
        return Path(f"/proc/{pid}/ns/pid").readlink()
    except OSError:
        return None


def leftovers(folder):
    """Processes, mounts and control groups of the sandbox in ``folder``."""
    mounts = [line for line in Path("/proc/mounts").read_text().splitlines() if str(folder) in line]
    groups = list(Path("/sys/fs/cgroup").glob(f"**/{cgroup_name(folder)}"))
    return [*processes_of(folder, ""), *mounts, *groups]


def wait_for(condition):
    deadline_s = time.monotonic() + 20
    while not condition():
        assert time.monotonic() < deadline_s, "not within 20 s"
        time.sleep(0.05)
