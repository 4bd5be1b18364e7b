"""A real single-node Kubernetes that lives for one test run."""

import contextlib
import json
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from types import TracebackType
from typing import Final, Self

from kube.archives import write_image
from kube.cache import runs_folder
from kube.commands import Commands
from kube.daemon import Daemon, wait_until
from kube.debian import NODE_PACKAGES, ensure_installed, find_program
from kube.errors import CommandError, Progress
from kube.init import NODE_NAME
from kube.objects import base_objects, make_volume_folders
from kube.parts import commands
from kube.programs import Programs
from kube.sandbox import Network, Sandbox
from kube.settings import PAUSE_IMAGE, Files

BUSYBOX_IMAGE: Final = "docker.io/justitia-e2e/busybox:1"

_BUSYBOX_APPLETS: Final = (
    *("sh", "cat", "chmod", "cp", "date", "echo", "env", "false", "grep", "head", "hostname"),
    *(
        "httpd",
        "id",
        "ls",
        "mkdir",
        "nslookup",
        "ps",
        "rm",
        "sleep",
        "stat",
        "test",
        "touch",
        "true",
        "wget",
    ),
)
_READY_TIMEOUT_S: Final = 120.0
_FIRST_PARTS: Final = ("etcd", "containerd", "kube-apiserver")


class Cluster:
    """The cluster; a context manager. ``daemons`` by name can be stopped, killed and restarted."""

    def __init__(self, *, log_folder: Path, progress: Progress) -> None:
        self.log_folder = log_folder
        self.seconds_by_phase: dict[str, float] = {}
        self.daemons: dict[str, Daemon] = {}
        self._progress = progress
        self._stack = contextlib.ExitStack()
        #: A small image with a shell that is there from the start.
        self.tool_image = BUSYBOX_IMAGE

    def __enter__(self) -> Self:
        """Build or find the programs, start everything, wait until pods can run.

        Raises:
            NoClusterError: this machine cannot have one.
            ClusterError: something did not start.
        """
        with self.phase("programs"):
            ensure_installed(NODE_PACKAGES, progress=self._progress)
            self.programs = Programs.ensure(progress=self._progress)
        try:
            with self.phase("start"):
                self._start()
        except BaseException:
            self._stack.close()
            raise
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        """End it; nothing is left."""
        with self.phase("stop"):
            self._stack.close()

    def load(self, archive: Path) -> None:
        """Put the images of a ``docker save`` archive onto the node."""
        with self.phase(f"load {archive.name}"):
            self._ctr("images", "import", str(archive))

    def wait_for_api_server(self) -> None:
        """Wait until the API server answers, at the start or after it was restarted."""
        self._wait_for("API server answers", "kube-apiserver", "get", "--raw", "/readyz")

    def add_daemon(self, name: str, command: list[str]) -> Daemon:
        """Start another program beside the node's own."""
        daemon = Daemon(
            name,
            command,
            sandbox=self.sandbox,
            log_path=self.log_folder / f"{name}.log",
            env={"PATH": self.programs.search_path},
        )
        daemon.start()
        self.daemons[name] = daemon
        return daemon

    @contextlib.contextmanager
    def phase(self, name: str) -> Iterator[None]:
        """Measure a phase for ``seconds_by_phase`` and tell of it."""
        started_at_s = time.monotonic()
        yield
        self.seconds_by_phase[name] = time.monotonic() - started_at_s
        self._progress(f"{name}: {self.seconds_by_phase[name]:.1f} s")

    @property
    def kubelet_folder(self) -> Path:
        """Folder that is /var/lib/kubelet on the node."""
        return self.sandbox.folder / "kubelet"

    @property
    def kubeconfig(self) -> Path:
        """The administrator's; its server is reachable on the cluster's network only."""
        return self.files.kubeconfig["admin"]

    def _start(self) -> None:
        self.log_folder.mkdir(parents=True, exist_ok=True)
        self.sandbox = self._stack.enter_context(Sandbox(runs_folder(), network=Network.ISOLATED))
        self.files = Files.write(self.sandbox.folder, cgroup=self.sandbox.cgroup)
        make_volume_folders(self.sandbox.folder / "volumes")
        self.commands = Commands(
            kubectl=self.programs["kubectl"],
            helm=self.programs["helm"],
            env=self._env(),
            wrap=self.sandbox.on_network,
        )
        lines = commands(self.programs, self.files)
        for name in _FIRST_PARTS:
            self.add_daemon(name, lines.pop(name))
        self._wait("containerd answers", lambda: self._answers(self._ctr, "version"), "containerd")
        self._load_small_images()
        self.wait_for_api_server()
        for name, line in lines.items():
            self.add_daemon(name, line)
        with self.phase("names and volumes"):
            objects = base_objects(self.sandbox.folder / "volumes")
            listed = json.dumps({"apiVersion": "v1", "kind": "List", "items": objects})
            # Unvalidated: reading the whole schema takes seconds while the API server warms up.
            self.commands.kubectl("create", "--validate=false", "-f", "-", text=listed)
        ready = f"--for=condition=Ready node/{NODE_NAME} --timeout=0".split()
        self._wait_for("node is Ready", "kubelet", "wait", *ready)
        account = ("get", "serviceaccount", "default")
        self._wait_for("pods may be made", "kube-controller-manager", *account)

    def _load_small_images(self) -> None:
        folder = self.sandbox.folder
        pause = folder / "pause.tar"
        programs = {"/pause": Path(self.programs["pause"])}
        write_image(pause, PAUSE_IMAGE, programs=programs, entrypoint=["/pause"])
        busybox = folder / "busybox.tar"
        write_image(
            busybox,
            BUSYBOX_IMAGE,
            programs={"/bin/busybox": Path(find_program("busybox"))},
            links={f"/bin/{applet}": "busybox" for applet in _BUSYBOX_APPLETS},
            entrypoint=[],
        )
        for archive in (pause, busybox):
            self._ctr("images", "import", str(archive))
            archive.unlink()

    def _ctr(self, *arguments: str) -> str:
        address = ("--address", str(self.files.containerd_socket), "--namespace", "k8s.io")
        return self.commands.run(self.programs["ctr"], *address, *arguments)

    def _wait_for(self, what: str, part: str, *kubectl: str) -> None:
        self._wait(what, lambda: self._answers(self.commands.kubectl, *kubectl), part)

    def _wait(self, what: str, probe: Callable[[], bool], part: str) -> None:
        others = [daemon for name, daemon in self.daemons.items() if name != part]
        watched = [*others, self.daemons[part]]  # its log is the one to quote
        with self.phase(what):
            wait_until(what, probe, timeout_s=_READY_TIMEOUT_S, daemons=watched)

    @staticmethod
    def _answers(command: Callable[..., str], *arguments: str) -> bool:
        try:
            command(*arguments)
        except CommandError:
            return False
        return True

    def _env(self) -> dict[str, str]:
        home = self.sandbox.folder / "home"  # Helm's and kubectl's caches are the run's own
        home.mkdir()
        return {
            "PATH": self.programs.search_path,
            "HOME": str(home),
            "KUBECONFIG": str(self.kubeconfig),
        }
