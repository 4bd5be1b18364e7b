"""``python -m kube.keeper FOLDER NETWORK``: keeps one sandbox, and cleans up whatever ends it.

The test run holds the write end of the keeper's standard input and lets go of it when it is done,
when it is interrupted, and when it is killed: one way out for all three. Killing the first process
of the PID namespace makes the kernel kill all others in it; with the last of them go the mounts and
the network. If the keeper itself is killed the sandbox ends as well, and the next start of any
sandbox removes the empty control groups and the folder.

It prints one line of JSON: ``{"init_pid": N}``, or ``{"error": "..."}``.
"""

import json
import os
import signal
import subprocess
import sys
from pathlib import Path

from kube.leftovers import cgroup_name, hold_lock, make_cgroups, remove_cgroups, remove_folder

# PID 1 must not outlive unshare, nor unshare the keeper.
_TETHERED_UNSHARE = (
    *("setpriv", "--pdeathsig", "KILL"),
    *("unshare", "--fork", "--kill-child=KILL", "--propagation", "private"),
    *("--pid", "--mount", "--uts", "--ipc"),
)


def main() -> None:
    """Keep the sandbox until standard input ends or its first process dies."""
    folder, network = Path(sys.argv[1]), sys.argv[2]
    _ignore_terminal()
    lock = hold_lock(folder)
    try:
        make_cgroups(cgroup_name(folder))
        _run_sandbox(folder, network)
    finally:
        remove_cgroups(cgroup_name(folder))
        remove_folder(folder)
        os.close(lock)


def _run_sandbox(folder: Path, network: str) -> None:
    own_network = ["--net"] if network == "isolated" else []
    command = [*_TETHERED_UNSHARE, *own_network, sys.executable, "-S", "-m", "kube.init"]
    complaints = folder / "sandbox.log"
    with (
        complaints.open("wb") as log,
        subprocess.Popen(
            [*command, str(folder), network],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=log,
        ) as unshare,
    ):
        assert unshare.stdout is not None
        line = unshare.stdout.readline()
        told = line or json.dumps({"error": complaints.read_text().strip()})
        answer = json.loads(told)
        print(json.dumps(answer), flush=True)
        try:
            if "error" not in answer:
                sys.stdin.read()
        finally:
            if "init_pid" in answer:
                os.kill(answer["init_pid"], signal.SIGKILL)
            # unshare ends when the kernel has killed everybody in the namespace.


def _ignore_terminal() -> None:
    for number in (signal.SIGINT, signal.SIGHUP, signal.SIGTERM):
        signal.signal(number, signal.SIG_IGN)


if __name__ == "__main__":
    main()
