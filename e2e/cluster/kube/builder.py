"""Builds container images with Debian's dockerd and BuildKit, with no image registry.

The base image of all comes from JUSTITIA_E2E_BASE_IMAGE, or is Debian 12 with its Python, made by
debootstrap. The layers stay in the cache folder: a second build of the same sources takes seconds.
"""

import contextlib
import os
import platform
import subprocess
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Final, Self

from kube.cache import cache_folder, exclusive, runs_folder
from kube.daemon import Daemon, wait_until
from kube.debian import IMAGE_PACKAGES, ensure_installed, find_program
from kube.errors import ClusterError, Progress
from kube.sandbox import Network, Sandbox, module_env

PYTHON_IMAGE: Final = "justitia-e2e/python:3.11-bookworm"

_RELEASE: Final = "bookworm"
_PACKAGES: Final = ("ca-certificates", "python3", "python3-venv")  # as in python:3.11-slim-bookworm
_LEFT_OUT: Final = (  # as slim images do
    *("var/cache/apt/*", "var/lib/apt/lists/*"),
    *("usr/share/doc/*", "usr/share/locale/*", "usr/share/man/*"),
)
_MIRROR: Final = "http://deb.debian.org/debian"
_AUTHORITIES: Final = Path("/etc/ssl/certs/ca-certificates.crt")
_READY_TIMEOUT_S: Final = 60.0
_BUILD_TIMEOUT_S: Final = 1800.0


class ImageBuilder:
    """A dockerd of the tests' own; a context manager that leaves nothing but its layer cache."""

    def __init__(self, *, log_folder: Path, progress: Progress) -> None:
        self._log_folder = log_folder
        self._progress = progress
        self._stack = contextlib.ExitStack()
        self._base_image = os.environ.get("JUSTITIA_E2E_BASE_IMAGE", "")

    def __enter__(self) -> Self:
        """Start it and see that the base image is there.

        Raises:
            NoClusterError: not root, or not Debian.
            ClusterError: dockerd did not start, or debootstrap failed.
        """
        ensure_installed(IMAGE_PACKAGES, progress=self._progress)
        try:
            self._start()
        except BaseException:
            self._stack.close()
            raise
        return self

    def __exit__(self, *_: object) -> None:
        """End it."""
        self._stack.close()

    def build(
        self,
        tag: str,
        *,
        dockerfile: Path,
        context: Path,
        arguments: Mapping[str, str] | None = None,
        target: str = "",
    ) -> None:
        """Build one image; its build argument BASE_IMAGE is the base.

        Raises:
            ClusterError: a step failed; the message has its output.
        """
        options = ["--network", "host", "--file", str(dockerfile), "--tag", tag]
        if _AUTHORITIES.exists():  # of proxies that this machine trusts; mounted, never copied
            options += ["--secret", f"id=ca,src={_AUTHORITIES}"]
        given = {"BASE_IMAGE": self._base_image, **(arguments or {})}
        options += [part for each in given.items() for part in ("--build-arg", "=".join(each))]
        options += ["--target", target] if target else []
        self._docker("build", "--progress", "plain", *options, str(context))

    def save(self, tags: Sequence[str], archive: Path) -> None:
        """Write images into one archive, layers that they share once."""
        self._docker("save", "--output", str(archive), *tags)

    def size_bytes(self, tag: str) -> int:
        """Size of an image, unpacked."""
        return int(self._docker("image", "inspect", "--format", "{{.Size}}", tag))

    def _start(self) -> None:
        state = cache_folder() / "docker"
        # Two dockerds must not share a folder.
        lock = exclusive(cache_folder() / "docker.lock", progress=self._progress)
        self._stack.enter_context(lock)
        self._sandbox = self._stack.enter_context(Sandbox(runs_folder(), network=Network.MACHINE))
        folder = self._sandbox.folder
        self._host = f"unix://{folder}/docker.sock"
        runtime = self._daemon(
            "docker-containerd",
            *(find_program("containerd"), "--address", f"{folder}/containerd.sock"),
            *("--root", f"{folder}/containerd", "--state", "/run/justitia-containerd"),
        )
        dockerd = self._daemon(
            "dockerd",
            *(find_program("dockerd"), "--host", self._host, "--data-root", str(state)),
            *("--exec-root", f"{folder}/docker", "--pidfile", f"{folder}/docker.pid"),
            *("--containerd", f"{folder}/containerd.sock", "--storage-driver", "overlay2"),
            *("--cgroup-parent", self._sandbox.cgroup),
            # Builds use the machine's network; its bridges and filters stay as they are.
            *("--bridge", "none", "--iptables=false", "--ip6tables=false", "--ip-forward=false"),
        )
        wait_until(
            "dockerd answers",
            self._answers,
            timeout_s=_READY_TIMEOUT_S,
            daemons=[runtime, dockerd],
        )
        self._ensure_base_image()

    def _daemon(self, name: str, *command: str) -> Daemon:
        log_path = self._log_folder / f"{name}.log"
        daemon = Daemon(name, command, sandbox=self._sandbox, log_path=log_path)
        daemon.start()
        return daemon

    def _answers(self) -> bool:
        try:
            self._docker("version")
        except ClusterError:
            return False
        return True

    def _ensure_base_image(self) -> None:
        if self._base_image:
            return
        self._base_image = PYTHON_IMAGE
        try:
            self._docker("image", "inspect", PYTHON_IMAGE)
        except ClusterError:
            self._docker("import", str(self._ensure_python()), PYTHON_IMAGE)

    def _ensure_python(self) -> Path:
        archive = cache_folder() / "base" / f"python-{_RELEASE}-{platform.machine()}.tar"
        if not archive.exists():
            self._progress("making a base image of Debian and Python (a minute)")
            root = self._sandbox.folder / "debian"
            include = f"--include={','.join(_PACKAGES)}"
            self._inside("debootstrap", "--variant=minbase", include, _RELEASE, str(root), _MIRROR)
            archive.parent.mkdir(parents=True, exist_ok=True)
            partial = archive.with_suffix(".partial")
            without = [f"--exclude=./{pattern}" for pattern in _LEFT_OUT]
            self._inside("tar", "-C", str(root), *without, "-cf", str(partial), ".")
            partial.rename(archive)
        return archive

    def _docker(self, *arguments: str) -> str:
        env = {
            **os.environ,
            "DOCKER_HOST": self._host,
            "DOCKER_BUILDKIT": "1",
            "DOCKER_CONFIG": str(self._sandbox.folder / "docker-client"),
        }
        # Debian's client: another one that comes first in PATH may lack BuildKit.
        return _run([find_program("docker"), *arguments], env)

    def _inside(self, *command: str) -> str:
        return _run(self._sandbox.inside(*command), module_env())


def _run(command: list[str], env: Mapping[str, str]) -> str:
    done = subprocess.run(
        command,
        env=env,
        capture_output=True,
        text=True,
        timeout=_BUILD_TIMEOUT_S,
        check=False,
        stdin=subprocess.DEVNULL,
    )
    if done.returncode != 0:
        end = (done.stdout + done.stderr)[-4000:]
        raise ClusterError(f"{' '.join(command)[:200]}: status {done.returncode}\n{end}")
    return done.stdout
