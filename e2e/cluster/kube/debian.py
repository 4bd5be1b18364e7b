"""What a cluster takes from Debian: programs that need C, or of which any version will do."""

import contextlib
import os
import shutil
import subprocess
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Final

from kube.errors import ClusterError, NoClusterError, Progress

#: Program, or path of a file, that must exist -> the package that brings it.
NODE_PACKAGES: Final = {
    "runc": "runc",
    "/usr/lib/cni/bridge": "containernetworking-plugins",
    "iptables": "iptables",
    "ip": "iproute2",
    "busybox": "busybox-static",
}
IMAGE_PACKAGES: Final = {
    "dockerd": "docker.io",
    "containerd": "containerd",
    "debootstrap": "debootstrap",
}

_SEARCH_PATH: Final = ":".join(["/usr/sbin:/usr/bin:/sbin:/bin", os.environ["PATH"]])
# Without it, a package that brings a service starts it.
_NO_SERVICES: Final = Path("/usr/sbin/policy-rc.d")


def ensure_installed(packages: Mapping[str, str], *, progress: Progress) -> None:
    """Install what is missing; starts no service.

    Raises:
        NoClusterError: not root, or not Debian.
        ClusterError: apt-get failed.
    """
    if os.geteuid() != 0:
        raise NoClusterError(
            "a cluster of the tests' own needs root (or make e2e-cluster KUBECONFIG=FILE)"
        )
    missing = sorted({name for file, name in packages.items() if not _exists(file)})
    if not missing:
        return
    if shutil.which("apt-get") is None:
        raise NoClusterError(
            f"not Debian, and without {', '.join(missing)} (or make e2e-cluster KUBECONFIG=FILE)"
        )
    progress(f"installing {', '.join(missing)}")
    with _services_held():
        _apt_get("update", "-qq")
        _apt_get("install", "-y", "-qq", "--no-install-recommends", *missing)


def find_program(name: str) -> str:
    """Return the path of an installed program, Debian's own first."""
    path = shutil.which(name, path=_SEARCH_PATH)
    if path is None:
        raise ClusterError(f"{name} is not installed")
    return path


def _exists(file: str) -> bool:
    if file.startswith("/"):
        return Path(file).exists()
    return shutil.which(file, path=_SEARCH_PATH) is not None


@contextlib.contextmanager
def _services_held() -> Iterator[None]:
    if _NO_SERVICES.exists():  # the machine has a rule of its own
        yield
        return
    _NO_SERVICES.write_text("#!/bin/sh\nexit 101\n")
    _NO_SERVICES.chmod(0o755)
    try:
        yield
    finally:
        _NO_SERVICES.unlink()


def _apt_get(*arguments: str) -> None:
    done = subprocess.run(
        ["apt-get", *arguments],
        env={**os.environ, "DEBIAN_FRONTEND": "noninteractive"},
        capture_output=True,
        text=True,
        check=False,
    )
    if done.returncode != 0:
        raise ClusterError(f"apt-get {' '.join(arguments)}: {done.stderr.strip()[-2000:]}")
