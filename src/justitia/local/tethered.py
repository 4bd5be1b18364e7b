"""``python -m justitia.local.tethered PARENT COMMAND ...``: a command that ends with its parent.

A process of its own between fork and exec, since code in ``preexec_fn`` runs gRPC's fork handlers,
which abort a child of a process that has open channels.
"""

import ctypes
import os
import signal
import sys
from typing import Final

_PR_SET_PDEATHSIG: Final = 1


def main() -> None:
    """Ask the kernel for SIGTERM at the parent's death, then become the command."""
    parent, command = int(sys.argv[1]), sys.argv[2:]
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGTERM)
    if os.getppid() != parent:  # it died before we asked
        sys.exit(1)
    os.execvp(command[0], command)  # noqa: S606 - no shell is wanted


if __name__ == "__main__":
    main()
