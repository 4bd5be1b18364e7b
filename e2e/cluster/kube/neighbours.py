"""Other projects' software that the chart works with: what is built or fetched of it.

cert-manager's programs can't be built from the module proxy, which lacks modules of theirs; its
resource definitions are there.
"""

import contextlib
from collections.abc import Iterator
from typing import Final

from kube.cache import cache_folder
from kube.commands import Commands
from kube.errors import Progress
from kube.go_modules import GoModule, ensure_sources

_OPERATOR: Final = "github.com/prometheus-operator/prometheus-operator"
_PROMETHEUS: Final = "github.com/prometheus/prometheus"
_VERSION: Final = "github.com/prometheus/common/version.Version"

PROMETHEUS_OPERATOR: Final = GoModule(
    name="prometheus-operator",
    path=_OPERATOR,
    version="v0.85.0",
    programs={
        "prometheus-operator": f"{_OPERATOR}/cmd/operator",
        "prometheus-config-reloader": f"{_OPERATOR}/cmd/prometheus-config-reloader",
    },
    variables={_VERSION: "0.85.0"},
)

PROMETHEUS_VERSION: Final = "3.16.0"
PROMETHEUS: Final = GoModule(  # as a module, Prometheus 3.16 is 0.316
    name="prometheus",
    path=_PROMETHEUS,
    version="v0.316.0",
    programs={"prometheus": f"{_PROMETHEUS}/cmd/prometheus"},
    variables={_VERSION: PROMETHEUS_VERSION},
    tags=("remove_all_sd", "enable_kubernetes_sd"),  # no clients of a dozen clouds
)

CERT_MANAGER: Final = GoModule(
    name="cert-manager",
    path="github.com/cert-manager/cert-manager",
    version="v1.21.2",
    programs={},
)

_DEFINITIONS: Final = {
    PROMETHEUS_OPERATOR.name: "example/prometheus-operator-crd",
    CERT_MANAGER.name: "deploy/crds",
}


@contextlib.contextmanager
def definitions(module: GoModule, commands: Commands, *, progress: Progress) -> Iterator[None]:
    """Keep a project's resource definitions on the cluster for a while."""
    folder = ensure_sources(module, _DEFINITIONS[module.name], cache_folder(), progress=progress)
    # <group>_<plural>.yaml, as controller-gen names them; a kustomization may lie beside them.
    files = [part for path in sorted(folder.glob("*.*_*.yaml")) for part in ("-f", str(path))]
    commands.kubectl("apply", "--server-side", *files)  # too long for a client's annotation
    try:
        commands.kubectl("wait", "--for=condition=Established", *files, "--timeout=60s")
        yield
    finally:
        commands.kubectl("delete", "--ignore-not-found", "--wait=false", *files)
