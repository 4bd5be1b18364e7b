"""The way from a workstation to a release's scheduler service: kubectl, as the user has it set up.

No Kubernetes client of our own: kubectl knows contexts, logins and proxies.
"""

import asyncio
import base64
import contextlib
import json
import subprocess
import tempfile
import threading
from collections.abc import Coroutine, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final, TypeVar

from justitia.client import TlsFiles
from justitia.local.errors import LocalModeError
from justitia.local.processes import ChildProcess, free_port

#: Annotation of the scheduler's Service: the Secret with its clients' files.
CLIENT_FILES: Final = "justitia.dev/client-secret"
_SELECTOR: Final = "app.kubernetes.io/part-of=justitia,app.kubernetes.io/component=scheduler"
_INSTANCE: Final = "app.kubernetes.io/instance"
_READY_TIMEOUT_S: Final = 30.0
_ANSWER_TIMEOUT_S: Final = 30.0

T = TypeVar("T")


class KubectlError(LocalModeError):
    """The cluster could not be asked; the message is one sentence, often kubectl's own."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Kubectl:
    """kubectl with the flags that choose a cluster and a namespace; empty: its own defaults."""

    namespace: str = ""
    context: str = ""
    kubeconfig: Path | None = None

    def command(self, *arguments: str) -> list[str]:
        """Build a command line."""
        flags = {
            "--namespace": self.namespace,
            "--context": self.context,
            "--kubeconfig": "" if self.kubeconfig is None else str(self.kubeconfig),
        }
        return ["kubectl", *arguments, *(f"{k}={v}" for k, v in flags.items() if v)]

    def get(self, *arguments: str) -> dict[str, Any]:
        """Run ``kubectl get`` and read its JSON; raises as ``run``."""
        answer: dict[str, Any] = json.loads(self.run("get", *arguments, "--output=json"))
        return answer

    def find(self, *arguments: str) -> dict[str, Any] | None:
        """Run ``kubectl get`` for one object; None where there is none. Raises as ``run``."""
        found = self.run("get", *arguments, "--ignore-not-found", "--output=json")
        return json.loads(found) if found.strip() else None

    def run(self, *arguments: str) -> str:
        """Run kubectl; returns what it prints.

        Raises:
            KubectlError: kubectl is missing or refuses.
        """
        command = self.command(*arguments)
        try:
            done = subprocess.run(  # noqa: S603  the user's own kubectl
                command, capture_output=True, text=True, check=False, timeout=_ANSWER_TIMEOUT_S
            )
        except FileNotFoundError:
            raise KubectlError("kubectl is not installed; use --address without it") from None
        except subprocess.TimeoutExpired:
            raise KubectlError(f"the cluster did not answer in {_ANSWER_TIMEOUT_S:.0f} s") from None
        if done.returncode != 0:
            raise KubectlError(done.stderr.strip().removeprefix("error: ") or "kubectl failed")
        return done.stdout


@dataclass(frozen=True, kw_only=True, slots=True)
class SchedulerRef:
    """The scheduler service of one release. ``client_secret`` empty: no encryption."""

    namespace: str
    name: str
    client_secret: str


def find_scheduler(kubectl: Kubectl, release: str = "") -> SchedulerRef:
    """Find the scheduler service of a release; without a name there must be one only.

    Raises:
        KubectlError: there is none, or several and no release was named.
    """
    listed = kubectl.get("services", f"--selector={_SELECTOR}").get("items", [])
    found = {
        item["metadata"]["labels"].get(_INSTANCE, ""): item
        for item in listed
        if item["spec"].get("clusterIP") != "None"  # headless, for the pod's own name
    }
    if release:
        found = {name: item for name, item in found.items() if name == release}
    where = f"namespace {kubectl.namespace}" if kubectl.namespace else "this namespace"
    if not found:
        what = f"release {release} of Justitia" if release else "Justitia"
        raise KubectlError(f"no {what} in {where}; name its namespace with --namespace")
    if len(found) > 1:
        names = ", ".join(sorted(found))
        raise KubectlError(f"several releases in {where}, {names}: choose one with --release")
    (item,) = found.values()
    metadata = item["metadata"]
    return SchedulerRef(
        namespace=metadata["namespace"],
        name=metadata["name"],
        client_secret=metadata.get("annotations", {}).get(CLIENT_FILES, ""),
    )


@contextlib.contextmanager
def forwarded(kubectl: Kubectl, scheduler: SchedulerRef) -> Iterator[tuple[str, TlsFiles | None]]:
    """Forward a local port for as long as the context lasts; gives its address and TLS files.

    Raises:
        KubectlError: the files cannot be had.
        LocalModeError: the port forward did not come up.
    """
    with tempfile.TemporaryDirectory(prefix="justitia-") as made:  # 0700
        folder, port = Path(made), free_port()
        tls = _client_files(kubectl, scheduler, folder)
        child = ChildProcess(
            "kubectl port-forward",
            kubectl.command("port-forward", f"service/{scheduler.name}", f"{port}:50051"),
            log_path=folder / "kubectl.log",
        )
        with _background_loop() as run:
            run(child.start_ready(lambda: _is_open(port), timeout_s=_READY_TIMEOUT_S))
            try:
                yield f"127.0.0.1:{port}", tls
            finally:
                run(child.stop())


def _client_files(kubectl: Kubectl, scheduler: SchedulerRef, folder: Path) -> TlsFiles | None:
    """Fetch the clients' certificate into a folder that nobody else can read."""
    if not scheduler.client_secret:
        return None
    secret = kubectl.get("secret", scheduler.client_secret)
    data = {name: base64.b64decode(text) for name, text in secret.get("data", {}).items()}
    if "ca.crt" not in data:
        raise KubectlError(f"Secret {scheduler.client_secret} has no ca.crt")
    paths = {name: folder / name for name in ("ca.crt", "tls.crt", "tls.key") if name in data}
    for name, path in paths.items():
        path.touch(mode=0o600)
        path.write_bytes(data[name])
    return TlsFiles(ca=paths["ca.crt"], cert=paths.get("tls.crt"), key=paths.get("tls.key"))


@contextlib.contextmanager
def _background_loop() -> "Iterator[_Run]":
    """Run an event loop beside the main thread, which stays free for commands and Ctrl-C."""
    loop = asyncio.new_event_loop()
    thread = threading.Thread(target=loop.run_forever, name="port-forward", daemon=True)
    thread.start()
    try:
        yield _Run(loop)
    finally:
        loop.call_soon_threadsafe(loop.stop)
        thread.join()
        loop.close()


class _Run:
    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self._loop = loop

    def __call__(self, work: Coroutine[Any, Any, T]) -> T:
        return asyncio.run_coroutine_threadsafe(work, self._loop).result()


async def _is_open(port: int) -> bool:
    try:
        _, writer = await asyncio.open_connection("127.0.0.1", port)
    except OSError:
        return False
    writer.close()
    with contextlib.suppress(OSError):
        await writer.wait_closed()
    return True
