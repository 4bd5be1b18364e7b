"""``python -m kube.init FOLDER NETWORK``: first process of a sandbox; sets up what it sees.

The sandbox sees the machine's own file system. Folders that daemons write to at fixed paths are
overlaid, so that the writes land below FOLDER; the settings of the kernel that kubelet insists on
changing for the whole machine are covered by plain files.
"""

import json
import signal
import subprocess
import sys
from pathlib import Path
from typing import Final

NODE_NAME: Final = "node"
NODE_ADDRESS: Final = "10.78.0.1"

_OVERLAID: Final = ("/etc", "/run", "/var")
_KUBELET_STATE: Final = Path("/var/lib/kubelet")
_COVERED_SETTINGS: Final = (
    "kernel/keys/root_maxbytes",
    "kernel/keys/root_maxkeys",
    "kernel/panic",
    "kernel/panic_on_oops",
    "vm/overcommit_memory",
    "vm/panic_on_oom",
)


def main() -> None:
    """Set the sandbox up, say so, then do nothing but reap orphans until standard input ends."""
    folder, network = Path(sys.argv[1]), sys.argv[2]
    pid_outside = int(Path("/proc/self").readlink().name)  # /proc still is the machine's
    try:
        _set_up(folder)
        if network == "isolated":
            _set_up_network()
    except (OSError, subprocess.CalledProcessError) as error:
        print(json.dumps({"error": _explain(error)}), flush=True)
        return
    print(json.dumps({"init_pid": pid_outside}), flush=True)
    signal.signal(signal.SIGCHLD, signal.SIG_IGN)  # the kernel then reaps orphans for us
    sys.stdin.read()


def _set_up(folder: Path) -> None:
    for name in ("kubelet", "tmp"):
        (folder / name).mkdir(exist_ok=True)
    for target in _OVERLAID:
        _overlay(Path(target), folder / "overlay" / target.strip("/"))
    _KUBELET_STATE.mkdir(parents=True, exist_ok=True)
    _run("mount", "--bind", folder / "kubelet", _KUBELET_STATE)
    # The machine's own /proc shows its processes, not ours.
    _run("mount", "-t", "proc", "proc", "/proc")
    for setting in _COVERED_SETTINGS:
        _cover(Path("/proc/sys") / setting, folder / "settings" / setting)
    _run("hostname", NODE_NAME)


def _overlay(target: Path, at: Path) -> None:
    upper, work = at / "upper", at / "work"
    for path in (upper, work):
        path.mkdir(parents=True)
    options = f"lowerdir={target},upperdir={upper},workdir={work}"
    _run("mount", "-t", "overlay", "overlay", "-o", options, target)


def _cover(setting: Path, copy: Path) -> None:
    if setting.exists():
        copy.parent.mkdir(parents=True, exist_ok=True)
        copy.write_text(setting.read_text())
        _run("mount", "--bind", copy, setting)


def _set_up_network() -> None:
    """Give the node an address on a cable to itself: the only way out leads back in."""
    for command in (
        "link set lo up",
        "link add node0 type veth peer name node1",
        f"address add {NODE_ADDRESS}/24 dev node0",
        "link set node0 up",
        "link set node1 up",
        "route add default dev node0",
    ):
        _run("ip", *command.split())
    Path("/proc/sys/net/ipv4/ip_forward").write_text("1")


def _run(*command: str | Path) -> None:
    subprocess.run([str(part) for part in command], check=True, capture_output=True, text=True)


def _explain(error: OSError | subprocess.CalledProcessError) -> str:
    if isinstance(error, subprocess.CalledProcessError):
        return f"{' '.join(error.cmd)}: {error.stderr.strip()}"
    return str(error)


if __name__ == "__main__":
    main()
