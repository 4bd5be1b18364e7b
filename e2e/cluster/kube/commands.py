"""kubectl and helm as functions, for a cluster of our own and for any other alike."""

import json
import subprocess
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final

from kube.errors import CommandError

_TIMEOUT_S: Final = 300.0


class Commands:
    """Runs ``kubectl`` and ``helm`` against one cluster.

    ``wrap`` turns a command line into one that reaches the cluster's network.
    """

    def __init__(
        self,
        *,
        kubectl: str,
        helm: str,
        env: Mapping[str, str],
        wrap: Callable[..., list[str]] = lambda *command: list(command),
    ) -> None:
        self._kubectl = kubectl
        self._helm = helm
        self._env = dict(env)
        self._wrap = wrap

    def kubectl(
        self,
        *arguments: str,
        text: str | None = None,
        timeout_s: float = _TIMEOUT_S,
        with_warnings: bool = False,
    ) -> str:
        """Run kubectl with ``text`` as standard input; returns what it prints.

        ``with_warnings`` adds what it prints on standard error.

        Raises:
            CommandError: it failed; ``output`` has its message.
        """
        command = (self._kubectl, *arguments)
        return self.run(*command, text=text, timeout_s=timeout_s, with_warnings=with_warnings)

    def helm(self, *arguments: str, timeout_s: float = _TIMEOUT_S) -> str:
        """Run helm; as ``kubectl``."""
        return self.run(self._helm, *arguments, timeout_s=timeout_s)

    def apply(self, *objects: Mapping[str, Any]) -> str:
        """Apply objects server-side."""
        listed = {"apiVersion": "v1", "kind": "List", "items": list(objects)}
        return self.kubectl("apply", "--server-side", "-f", "-", text=json.dumps(listed))

    def get(self, *arguments: str) -> dict[str, Any]:
        """Read an object or a list."""
        found: dict[str, Any] = json.loads(self.kubectl("get", *arguments, "-o", "json"))
        return found

    def run(
        self,
        *command: str,
        text: str | None = None,
        timeout_s: float = _TIMEOUT_S,
        with_warnings: bool = False,
    ) -> str:
        """Run any command on the cluster's network, with KUBECONFIG set; as ``kubectl``."""
        try:
            done = subprocess.run(
                self.line(command),
                input=text or "",
                capture_output=True,
                text=True,
                env=self._env,
                timeout=timeout_s,
                check=False,
            )
        except subprocess.TimeoutExpired:
            raise CommandError(_short(command), -1, f"no end after {timeout_s:g} s") from None
        if done.returncode != 0:
            raise CommandError(_short(command), done.returncode, done.stderr + done.stdout)
        return done.stderr + done.stdout if with_warnings else done.stdout

    def line(self, command: Sequence[str]) -> list[str]:
        """Give the command line that reaches the cluster."""
        return self._wrap(*command)

    @property
    def env(self) -> dict[str, str]:
        """Environment with KUBECONFIG and a PATH that has kubectl and helm."""
        return dict(self._env)


def _short(command: Sequence[str]) -> str:
    return " ".join(command)[:300]
