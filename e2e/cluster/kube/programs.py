"""The programs that a cluster consists of, with their versions."""

import os
import platform
import shutil
import subprocess
from dataclasses import dataclass
from pathlib import Path
from typing import Final, Self

from kube.cache import cache_folder
from kube.errors import NoClusterError, Progress
from kube.go_modules import GoModule, ensure_built

KUBERNETES_VERSION: Final = os.environ.get("JUSTITIA_E2E_KUBERNETES", "v1.37.2")
_OWN_PROGRAMS: Final = os.environ.get("JUSTITIA_E2E_BIN", "")

_KUBERNETES_PROGRAMS: Final = (
    "kube-apiserver",
    "kube-controller-manager",
    "kube-scheduler",
    "kube-proxy",
    "kubelet",
    "kubectl",
)


def kubernetes(version: str = KUBERNETES_VERSION) -> GoModule:
    """Describe Kubernetes ``version`` (``v1.<minor>.<patch>``)."""
    _, minor, patch = version.split(".")
    about = "k8s.io/component-base/version"
    return GoModule(
        name="kubernetes",
        path="k8s.io/kubernetes",
        version=version,
        programs={name: f"k8s.io/kubernetes/cmd/{name}" for name in _KUBERNETES_PROGRAMS},
        variables={
            f"{about}.gitVersion": version,
            f"{about}.gitMajor": "1",
            f"{about}.gitMinor": minor,
        },
        staging_version=f"v0.{minor}.{patch}",
    )


_CONTAINERD: Final = "github.com/containerd/containerd/v2"

MODULES: Final = (
    kubernetes(),
    GoModule(  # kubelet asks for version 2 since Kubernetes 1.36
        name="containerd",
        path=_CONTAINERD,
        version="v2.4.2",
        programs={
            name: f"{_CONTAINERD}/cmd/{name}"
            for name in ("containerd", "containerd-shim-runc-v2", "ctr")
        },
    ),
    GoModule(
        name="etcd",
        path="go.etcd.io/etcd/server/v3",
        version="v3.6.16",
        programs={"etcd": "go.etcd.io/etcd/server/v3"},
    ),
    GoModule(
        name="coredns",
        path="github.com/coredns/coredns",
        version="v1.15.0",
        programs={"coredns": "github.com/coredns/coredns"},
    ),
    GoModule(
        name="helm",
        path="helm.sh/helm/v4",
        version="v4.3.1",
        programs={"helm": "helm.sh/helm/v4/cmd/helm"},
    ),
)


@dataclass(frozen=True, slots=True)
class Programs:
    """Where each program lies."""

    path_by_name: dict[str, Path]

    def __getitem__(self, name: str) -> str:
        """Path of a program."""
        return str(self.path_by_name[name])

    @property
    def search_path(self) -> str:
        """PATH with all of them first: containerd looks for its shim there."""
        folders = sorted({str(path.parent) for path in self.path_by_name.values()})
        return ":".join([*folders, os.environ["PATH"], "/usr/sbin", "/sbin"])

    @classmethod
    def ensure(cls, *, progress: Progress) -> Self:
        """Find or build them, and ``pause``, which holds each pod's namespaces.

        Raises:
            NoClusterError: there is neither Go nor a folder with programs.
            ClusterError: a build failed.
        """
        if _OWN_PROGRAMS:
            return cls(_find_all(Path(_OWN_PROGRAMS)) | {"pause": _ensure_pause()})
        path_by_name: dict[str, Path] = {}
        for module in MODULES:
            folder = ensure_built(module, cache_folder(), progress=progress)
            path_by_name |= {name: folder / name for name in module.programs}
        return cls(path_by_name | {"pause": _ensure_pause()})


def _find_all(folder: Path) -> dict[str, Path]:
    names = [name for module in MODULES for name in module.programs]
    missing = [name for name in names if not os.access(folder / name, os.X_OK)]
    if missing:
        raise NoClusterError(f"JUSTITIA_E2E_BIN={folder} lacks {', '.join(missing)}")
    return {name: folder / name for name in names}


def _ensure_pause() -> Path:
    source = Path(__file__).with_name("pause.go")
    target = cache_folder() / "bin" / f"pause-{platform.machine()}" / "pause"
    if target.exists() and target.stat().st_mtime >= source.stat().st_mtime:
        return target
    if shutil.which("go") is None:
        raise NoClusterError("no Go to build the pause program with: https://go.dev/dl")
    command = ["go", "build", "-trimpath", "-ldflags", "-s -w", "-o", str(target), str(source)]
    subprocess.run(command, check=True, env={**os.environ, "CGO_ENABLED": "0"})
    return target
