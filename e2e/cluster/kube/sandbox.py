"""One set of namespaces in which a node, or an image builder, runs as on a machine of its own."""

import contextlib
import json
import os
import secrets
import subprocess
import sys
from collections.abc import Iterator, Mapping
from enum import StrEnum
from pathlib import Path
from typing import BinaryIO, Final, Self

from kube.enter import enter_namespace
from kube.errors import ClusterError, NoClusterError
from kube.leftovers import cgroup_name, remove_stale

_PACKAGE_ROOT: Final = Path(__file__).resolve().parents[1]
_STOP_TIMEOUT_S: Final = 120.0


class Network(StrEnum):
    """What a sandbox can reach."""

    ISOLATED = "isolated"  # itself
    MACHINE = "machine"  # whatever the machine can: image builds fetch packages


class Sandbox:
    """Namespaces, control groups and a folder; a context manager that leaves none of them.

    ``folder`` is the same path inside and outside; sockets and files in it serve both sides.
    """

    def __init__(self, runs: Path, *, network: Network) -> None:
        self.folder = runs / secrets.token_hex(4)
        self.network = network
        self._keeper: subprocess.Popen[str] | None = None
        self._init_pid = 0
        self._entered: list[subprocess.Popen[bytes]] = []

    @property
    def cgroup(self) -> str:
        """Path of the control groups, from the root of each hierarchy."""
        return f"/{cgroup_name(self.folder)}"

    def __enter__(self) -> Self:
        """Start it, after removing what killed keepers left.

        Raises:
            NoClusterError: the kernel refuses namespaces or overlays.
        """
        remove_stale(self.folder.parent)
        self.folder.mkdir(parents=True)
        self._keeper = subprocess.Popen(
            [*module_command("kube.keeper"), str(self.folder), self.network],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            env=module_env(),
            start_new_session=True,
        )
        assert self._keeper.stdout is not None
        answer = json.loads(self._keeper.stdout.readline() or '{"error": "its keeper died"}')
        if "error" in answer:
            self.__exit__()
            raise NoClusterError(f"this machine allows no sandbox: {answer['error']}")
        self._init_pid = answer["init_pid"]
        return self

    def __exit__(self, *_: object) -> None:
        """End everything inside; returns when nothing is left.

        Raises:
            ClusterError: something is left after two minutes.
        """
        keeper, self._keeper = self._keeper, None
        if keeper is None:
            return
        assert keeper.stdin is not None
        assert keeper.stdout is not None
        with contextlib.suppress(BrokenPipeError):
            keeper.stdin.close()
        try:
            status = keeper.wait(_STOP_TIMEOUT_S)
        except subprocess.TimeoutExpired:
            raise ClusterError(f"the sandbox in {self.folder} does not end") from None
        finally:
            keeper.stdout.close()
        for process in self._entered:
            process.wait()  # its command is dead
        if status != 0:
            raise ClusterError(f"the sandbox in {self.folder} left something behind")

    def start(
        self, *command: str, log: BinaryIO, env: Mapping[str, str]
    ) -> subprocess.Popen[bytes]:
        """Start ``command`` inside; it ends with the sandbox at the latest."""
        process = subprocess.Popen(
            self.inside(*command),
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=log,
            env=module_env() | dict(env),
            start_new_session=True,  # Ctrl-C is the test run's
        )
        self._entered.append(process)
        return process

    def inside(self, *command: str) -> list[str]:
        """Give the command line that runs ``command`` inside, with ``module_env``."""
        return [*module_command("kube.enter"), str(self._running()), *command]

    def on_network(self, *command: str) -> list[str]:
        """Give the command line that runs ``command`` outside but on the sandbox's network."""
        return ["nsenter", f"--net=/proc/{self._running()}/ns/net", "--", *command]

    @contextlib.contextmanager
    def joined_network(self) -> Iterator[None]:
        """Have this thread, and those that it starts, on the sandbox's network meanwhile."""
        with (
            Path("/proc/thread-self/ns/net").open("rb") as own,
            Path(f"/proc/{self._running()}/ns/net").open("rb") as joined,
        ):
            enter_namespace(joined.fileno())
            try:
                yield
            finally:
                enter_namespace(own.fileno())

    def _running(self) -> int:
        if self._keeper is None:
            raise ClusterError("the sandbox is not running")
        return self._init_pid


def module_command(module: str) -> list[str]:
    """Start of a command line that runs one of this package's modules, which need no library."""
    return [sys.executable, "-S", "-m", module]


def module_env() -> dict[str, str]:
    """Environment in which ``module_command`` finds the package."""
    return {**os.environ, "PYTHONPATH": str(_PACKAGE_ROOT)}
