"""A Prometheus 3 that the real prometheus-operator runs, as most clusters have one.

The operator itself runs beside the node's daemons, with rights of its own; what it makes runs in
pods.
"""

from typing import Any, Final, Self

from kube.archives import write_image
from kube.cache import cache_folder
from kube.cluster import Cluster
from kube.errors import Progress
from kube.go_modules import ensure_built
from kube.neighbours import PROMETHEUS, PROMETHEUS_OPERATOR, PROMETHEUS_VERSION
from kube.prometheus import Prometheus
from kube.release import Release
from kube.settings import API_SERVER

#: Labels that monitors and rules must carry to be taken.
SELECTED_LABELS: Final = {"team": "e2e"}

_NAME: Final = "e2e"
_OPERATOR: Final = "prometheus-operator"
_RELOADER: Final = "prometheus-config-reloader"
_IMAGES: Final = {
    "prometheus": f"docker.io/justitia-e2e/prometheus:{PROMETHEUS_VERSION}",
    _RELOADER: f"docker.io/justitia-e2e/{_RELOADER}:{PROMETHEUS_OPERATOR.version}",
}
_READY_TIMEOUT: Final = "180s"


class OperatedPrometheus(Prometheus):
    """Watches one release from another ``namespace``; a context manager.

    The operator's resource definitions must be there (``neighbours.definitions``).
    """

    def __init__(
        self, cluster: Cluster, release: Release, namespace: str, *, progress: Progress
    ) -> None:
        super().__init__(release, _IMAGES["prometheus"])
        self._cluster = cluster
        self._home = namespace
        self._progress = progress

    def __enter__(self) -> Self:
        """Build or find the programs, start the operator and have it make a Prometheus.

        Raises:
            ClusterError: a build failed, or something did not start.
        """
        folders = {
            name: ensure_built(module, cache_folder(), progress=self._progress)
            for module in (PROMETHEUS, PROMETHEUS_OPERATOR)
            for name in module.programs
        }
        for name, image in _IMAGES.items():
            archive = self._cluster.sandbox.folder / f"{name}.tar"
            program = f"/bin/{name}"
            write_image(
                archive, image, programs={program: folders[name] / name}, entrypoint=[program]
            )
            self._cluster.load(archive)
            archive.unlink()
        self._cluster.add_daemon(_OPERATOR, self._command(str(folders[_OPERATOR] / _OPERATOR)))
        self.start()
        return self

    def __exit__(self, *_: object) -> None:
        """End the operator; what it made goes with its namespace."""
        self._cluster.daemons.pop(_OPERATOR).stop()

    def start(self) -> None:
        """Ask for a Prometheus, and wait until the operator says that it is available."""
        metadata = {"name": _NAME, "namespace": self._home}
        self._cluster.commands.apply(*self._rights(metadata), self._resource(metadata))
        available = ("--for=condition=Available", f"prometheus/{_NAME}", "-n", self._home)
        self._cluster.commands.kubectl("wait", *available, f"--timeout={_READY_TIMEOUT}")
        self._cluster.daemons[_OPERATOR].require_running()

    def scraped(self) -> list[dict[str, Any]]:
        """All targets as Prometheus tells of them."""
        found: list[dict[str, Any]] = self._get("targets?state=active")["activeTargets"]
        return found

    def alerts(self, name: str) -> list[dict[str, Any]]:
        """Instances of an alert that are pending or firing, with labels and annotations."""
        found = self._get("alerts")["alerts"]
        return [each for each in found if each["labels"]["alertname"] == name]

    @property
    def _proxy(self) -> str:
        return f"/api/v1/namespaces/{self._home}/services/prometheus-operated:web/proxy"

    def _command(self, program: str) -> list[str]:
        authority = self._cluster.files.authority
        certificate, key = authority.issue(_OPERATOR, common_name=_OPERATOR, group="system:masters")
        flags = {
            "apiserver": API_SERVER,
            "ca-file": authority.certificate_path,
            "cert-file": certificate,
            "key-file": key,
            "web.listen-address": "127.0.0.1:8081",
            "prometheus-config-reloader": _IMAGES[_RELOADER],
            "config-reloader-cpu-limit": "0",  # 10m would make it start in half a minute
            "config-reloader-memory-limit": "0",
            "namespaces": f"{self._home},{self.namespace}",
        }
        return [program, *(f"--{name}={value}" for name, value in flags.items())]

    def _rights(self, metadata: dict[str, str]) -> list[dict[str, Any]]:
        """Let it find targets in the release's namespace, as the operator's manual says."""
        account, role, binding = super()._rights(metadata)
        there = {**metadata, "namespace": self.namespace}
        role["rules"][0]["resources"] = ["services", "endpoints", "endpointslices", "pods"]
        binding["roleRef"]["name"] = metadata["name"]
        return [account, role | {"metadata": there}, binding | {"metadata": there}]

    def _resource(self, metadata: dict[str, str]) -> dict[str, Any]:
        labels = {"matchLabels": SELECTED_LABELS}
        where = {"matchLabels": {"kubernetes.io/metadata.name": self.namespace}}
        selectors: dict[str, Any] = {}
        for kind in ("serviceMonitor", "podMonitor", "rule"):
            selectors |= {f"{kind}Selector": labels, f"{kind}NamespaceSelector": where}
        return {
            "apiVersion": "monitoring.coreos.com/v1",
            "kind": "Prometheus",
            "metadata": metadata,
            "spec": {
                "image": _IMAGES["prometheus"],
                "version": f"v{PROMETHEUS_VERSION}",
                "replicas": 1,
                "serviceAccountName": metadata["name"],
                "securityContext": {"runAsNonRoot": True, "runAsUser": 65534, "fsGroup": 65534},
                **selectors,
            },
        }
