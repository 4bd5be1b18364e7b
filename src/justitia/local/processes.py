"""Child processes of local mode: own group, own log, gone when we are gone."""

import asyncio
import contextlib
import errno
import os
import re
import signal
import socket
import sys
from collections.abc import Awaitable, Callable, Mapping, Sequence
from pathlib import Path
from types import TracebackType
from typing import BinaryIO, Final, Self

from justitia.local.errors import LocalModeError
from justitia.local.listeners import who_listens

_TETHER: Final = (sys.executable, "-m", "justitia.local.tethered")
_GROUP_POLL_S: Final = 0.01
_GROUP_POLLS: Final = 200
#: What our own parts say of a setting, wherever in a log of tracebacks it stands.
_SETTINGS_ERROR: Final = re.compile(r"\bSettingsError: (\S.*)")


def free_port(host: str = "127.0.0.1") -> int:
    """Return a port that was free a moment ago."""
    with socket.socket() as probe:
        probe.bind((host, 0))
        port: int = probe.getsockname()[1]
        return port


def require_free_port(host: str, port: int, *, flag: str) -> None:
    """Refuse a port that somebody listens on, saying which flag chooses another."""
    with socket.socket() as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind((host, port))
        except OSError as error:
            raise LocalModeError(_port_problem(host, port, flag, error)) from None


def _port_problem(host: str, port: int, flag: str, error: OSError) -> str:
    if error.errno != errno.EADDRINUSE:
        return f"port {port} on {host} cannot be used: {error.strerror}; choose another with {flag}"
    listener = who_listens(port) or "another process"
    return f"port {port} on {host} is taken by {listener}: stop it, or choose another with {flag}"


def make_parent(path: Path) -> None:
    """Make the folder that a file goes to.

    Raises:
        LocalModeError: it cannot be made.
    """
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise LocalModeError(
            f"{path.parent}: the folder cannot be made ({error.strerror}); choose another"
        ) from None


class ChildProcess:
    """One child. Leaving the context ends its group: SIGTERM, SIGKILL after ``grace_s``."""

    def __init__(
        self,
        name: str,
        command: Sequence[str],
        *,
        log_path: Path,
        env: Mapping[str, str] | None = None,
        grace_s: float = 5.0,
    ) -> None:
        self.name = name
        self.log_path = log_path
        self._command = list(command)
        self._env = dict(os.environ) | dict(env or {})
        self._grace_s = grace_s
        self._process: asyncio.subprocess.Process | None = None

    async def __aenter__(self) -> Self:
        """Start it.

        Raises:
            LocalModeError: its log cannot be written.
        """
        make_parent(self.log_path)
        with self._open_log() as log:
            self._process = await asyncio.create_subprocess_exec(
                *_TETHER,
                str(os.getpid()),
                *self._command,
                stdin=asyncio.subprocess.DEVNULL,
                stdout=log,
                stderr=asyncio.subprocess.STDOUT,
                env=self._env,
                start_new_session=True,  # Ctrl-C in the terminal reaches us alone; we end the group
            )
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        """End it and everything it started."""
        await self.stop()

    @property
    def pid(self) -> int:
        """Process id, which is also its group's."""
        return self._started().pid

    async def wait(self) -> int:
        """Wait for it to end by itself; returns the exit status."""
        return await self._started().wait()

    async def require_running(self) -> None:
        """Wait for as long as it runs.

        Raises:
            LocalModeError: it ended by itself; the message has the end of its log.
        """
        status = await self.wait()
        raise LocalModeError(self._failure(f"ended with status {status}"))

    async def wait_ready(
        self, probe: Callable[[], Awaitable[bool]], *, timeout_s: float, period_s: float = 0.2
    ) -> None:
        """Wait until ``probe`` says yes.

        Raises:
            LocalModeError: it ended before, or took longer than ``timeout_s``; the message has
                the end of its log.
        """
        loop = asyncio.get_running_loop()
        deadline_s = loop.time() + timeout_s
        while not await probe():
            if self._started().returncode is not None:
                raise LocalModeError(
                    self._failure(f"ended with status {self._started().returncode}")
                )
            if loop.time() > deadline_s:
                raise LocalModeError(self._failure(f"was not ready after {timeout_s:.0f} s"))
            await asyncio.sleep(period_s)

    async def start_ready(self, probe: Callable[[], Awaitable[bool]], *, timeout_s: float) -> None:
        """Start it and wait until ``probe`` says yes; one that does not get there is ended.

        Raises:
            LocalModeError: as ``wait_ready``.
        """
        await self.__aenter__()
        try:
            await self.wait_ready(probe, timeout_s=timeout_s)
        except BaseException:
            await self.stop()
            raise

    async def stop(self) -> None:
        """End the group; a group that is gone already is no error."""
        process = self._process
        if process is None:
            return
        if process.returncode is None:
            _signal_group(process.pid, signal.SIGTERM)
            with contextlib.suppress(TimeoutError):
                await asyncio.shield(asyncio.wait_for(process.wait(), self._grace_s))
        # Its own children may outlive it: the engine core of a server that was killed, for one.
        _signal_group(process.pid, signal.SIGKILL)
        await asyncio.shield(process.wait())
        self._process = None
        for _ in range(_GROUP_POLLS):
            if not _signal_group(process.pid, 0):
                return
            await asyncio.sleep(_GROUP_POLL_S)

    def _open_log(self) -> BinaryIO:
        try:
            return self.log_path.open("wb")
        except OSError as error:
            raise LocalModeError(
                f"{self.log_path}: the log of {self.name} cannot be written ({error.strerror}); "
                "choose another folder"
            ) from None

    def _started(self) -> asyncio.subprocess.Process:
        if self._process is None:
            raise RuntimeError(f"{self.name} is not running")
        return self._process

    def _failure(self, what: str) -> str:
        """Say what happened; a refused setting by its own sentence, all else by the log's end."""
        log = self.log_path.read_text(encoding="utf-8", errors="replace")
        refused = _SETTINGS_ERROR.search(log)
        if refused is not None:
            return f"{self.name} {what}: {refused[1].strip()} (log: {self.log_path})"
        lines = log.splitlines()
        tail = "\n".join(f"    {line}" for line in lines[-15:])
        return f"{self.name} {what}; the end of {self.log_path}:\n{tail}"


def _signal_group(pid: int, number: int) -> bool:
    """Signal a process group (0: only ask); False if nobody is left in it."""
    try:
        os.killpg(pid, number)
    except ProcessLookupError:
        return False
    return True
