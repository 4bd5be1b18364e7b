"""``python -m kube.enter PID COMMAND ...``: run a command in the sandbox of first process PID.

Unlike nsenter it hands signals on, and the command dies with it.
"""

import ctypes
import os
import signal
import sys
from typing import Final

_PR_SET_PDEATHSIG: Final = 1
_LIBC: Final = ctypes.CDLL(None, use_errno=True)


def main() -> None:
    """Fork into the PID namespace, enter the others there, and become the command."""
    target, command = int(sys.argv[1]), sys.argv[2:]
    handle = {
        kind: os.open(f"/proc/{target}/ns/{kind}", os.O_RDONLY)
        for kind in ("pid", "uts", "ipc", "net", "mnt")
    }
    enter_namespace(handle.pop("pid"))  # holds for children only
    child = os.fork()
    if child == 0:
        _LIBC.prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
        for each in handle.values():
            enter_namespace(each)
        os.setsid()
        os.execvp(command[0], command)
    for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
        signal.signal(number, lambda received, _: os.kill(child, received))
    _, status = os.waitpid(child, 0)
    code = os.waitstatus_to_exitcode(status)
    sys.exit(code if code >= 0 else 128 - code)


def enter_namespace(handle: int) -> None:
    """Have this thread enter the namespace that a file under ``/proc/*/ns`` was opened for."""
    if _LIBC.setns(handle, 0) != 0:
        raise OSError(ctypes.get_errno(), "setns")


if __name__ == "__main__":
    main()
