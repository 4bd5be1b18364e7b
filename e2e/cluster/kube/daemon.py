"""Long-running programs inside a sandbox, each with a log; and waiting for them."""

import contextlib
import os
import signal
import subprocess
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Final

from kube.errors import ClusterError
from kube.sandbox import Sandbox

_POLL_S: Final = 0.1
_LOG_TAIL_LINES: Final = 20


class Daemon:
    """A program that can be started, stopped and killed again and again; ends with its sandbox."""

    def __init__(
        self,
        name: str,
        command: Sequence[str],
        *,
        sandbox: Sandbox,
        log_path: Path,
        env: Mapping[str, str] | None = None,
        grace_s: float = 10.0,
    ) -> None:
        self.name = name
        self.log_path = log_path
        self._command = list(command)
        self._sandbox = sandbox
        self._env = dict(env or {})
        self._grace_s = grace_s
        self._process: subprocess.Popen[bytes] | None = None

    @property
    def is_running(self) -> bool:
        """Whether it was started and has not ended."""
        return self._process is not None and self._process.poll() is None

    @property
    def pid(self) -> int:
        """Its process id on the machine, for ``/proc``.

        Raises:
            ClusterError: it does not run.
        """
        if self._process is None or not self.is_running:
            raise ClusterError(f"{self.name} does not run")
        return _program_of(self._process)

    def start(self) -> None:
        """Start it; its output is appended to the log."""
        if self.is_running:
            raise ClusterError(f"{self.name} runs already")
        temporary = {"TMPDIR": str(self._sandbox.folder / "tmp")}
        with self.log_path.open("ab") as log:
            self._process = self._sandbox.start(*self._command, log=log, env=temporary | self._env)

    def stop(self) -> None:
        """Ask it to end, and insist after a while."""
        self._end(signal.SIGTERM)

    def kill(self) -> None:
        """End it as a crash does; it is dead when this returns."""
        self._end(signal.SIGKILL)

    def failure(self, what: str) -> ClusterError:
        """Build an error about it that quotes the end of its log."""
        lines = self.log_path.read_text(encoding="utf-8", errors="replace").splitlines()
        tail = "\n".join(f"    {line[:300]}" for line in lines[-_LOG_TAIL_LINES:])
        return ClusterError(f"{self.name} {what}; the end of {self.log_path}:\n{tail}")

    def require_running(self) -> None:
        """Refuse to go on with one that ended by itself."""
        if self._process is not None and self._process.poll() is not None:
            raise self.failure(f"ended with status {self._process.returncode}")

    def _end(self, number: signal.Signals) -> None:
        process, self._process = self._process, None
        if process is None:
            return
        if process.poll() is None:
            _signal(process, number)
            try:
                process.wait(self._grace_s)
            except subprocess.TimeoutExpired:
                _signal(process, signal.SIGKILL)
                process.wait()


def _signal(process: subprocess.Popen[bytes], number: signal.Signals) -> None:
    """Signal the program itself: who entered the sandbox for it then ends after it, not before."""
    with contextlib.suppress(ProcessLookupError):
        os.kill(_program_of(process), number)


def _program_of(process: subprocess.Popen[bytes]) -> int:
    """Id of the program that ``kube.enter`` runs; until it does, of that itself."""
    entered = process.pid
    children = Path(f"/proc/{entered}/task/{entered}/children").read_text().split()
    return int(children[0]) if children else entered


def wait_until(
    what: str,
    probe: Callable[[], bool],
    *,
    timeout_s: float,
    daemons: Iterable[Daemon] = (),
    period_s: float = _POLL_S,
) -> None:
    """Wait until ``probe`` says yes.

    Raises:
        ClusterError: it took longer than ``timeout_s``, or one of ``daemons`` ended meanwhile.
    """
    daemons = list(daemons)
    deadline_s = time.monotonic() + timeout_s
    while not probe():
        for daemon in daemons:
            daemon.require_running()
        if time.monotonic() > deadline_s:
            if daemons:
                raise daemons[-1].failure(f"runs, but {what}: not within {timeout_s:g} s")
            raise ClusterError(f"{what}: not within {timeout_s:g} s")
        time.sleep(period_s)
