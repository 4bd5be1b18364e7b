"""Who listens on a port, which `Address already in use` leaves out. Known on Linux alone."""

import contextlib
from collections.abc import Iterator
from pathlib import Path
from typing import Final

_LISTENING: Final = "0A"
_MAX_COMMAND_CHARS: Final = 80


def who_listens(port: int, *, proc: Path = Path("/proc")) -> str:
    """Name the process that listens on a TCP port of any address, as ``COMMAND (pid N)``.

    Empty where nobody does, or where it belongs to another user.
    """
    sockets = {f"socket:[{inode}]" for inode in _listening_inodes(port, proc)}
    for process in _processes(proc) if sockets else ():
        # It may end meanwhile, or be another user's.
        with contextlib.suppress(OSError):
            if any(str(file.readlink()) in sockets for file in (process / "fd").iterdir()):
                return f"{_command(process)} (pid {process.name})"
    return ""


def _listening_inodes(port: int, proc: Path) -> Iterator[str]:
    for name in ("tcp", "tcp6"):
        with contextlib.suppress(OSError):
            for line in (proc / "net" / name).read_text(encoding="ascii").splitlines()[1:]:
                fields = line.split()
                if fields[3] == _LISTENING and int(fields[1].rpartition(":")[2], 16) == port:
                    yield fields[9]


def _processes(proc: Path) -> Iterator[Path]:
    return (entry for entry in proc.iterdir() if entry.name.isdigit())


def _command(process: Path) -> str:
    words = (process / "cmdline").read_bytes().decode("utf-8", "replace").split("\0")
    return " ".join(words).strip()[:_MAX_COMMAND_CHARS]
