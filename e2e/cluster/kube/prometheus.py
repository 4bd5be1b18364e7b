"""A Prometheus in a pod that scrapes a release and evaluates the chart's rules.

What the Prometheus operator would make of the chart's ServiceMonitor and PrometheusRule stands here
in Prometheus' own words: the same labels, the same rules.
"""

import json
from typing import Any, Final
from urllib.parse import quote

from kube.archives import write_image
from kube.cache import cache_folder
from kube.cluster import Cluster
from kube.errors import Progress
from kube.go_modules import ensure_built
from kube.neighbours import PROMETHEUS, PROMETHEUS_VERSION
from kube.release import Release

#: What a cluster of the user's own pulls.
PUBLIC_IMAGE: Final = f"quay.io/prometheus/prometheus:v{PROMETHEUS_VERSION}"
#: What a cluster of the tests' own gets.
OWN_IMAGE: Final = f"docker.io/justitia-e2e/prometheus:{PROMETHEUS_VERSION}"

_NAME: Final = "prometheus"
_PORT: Final = 9090
_PERIOD: Final = "2s"
_FOLDER: Final = "/etc/prometheus"


def load_own_image(cluster: Cluster, *, progress: Progress) -> str:
    """Build Prometheus and put it onto the node as an image.

    Not Debian's, which lacks the discovery of targets in Kubernetes.
    """
    folder = ensure_built(PROMETHEUS, cache_folder(), progress=progress)
    archive = cluster.sandbox.folder / "prometheus.tar"
    programs = {"/bin/prometheus": folder / "prometheus"}
    write_image(archive, OWN_IMAGE, programs=programs, entrypoint=["/bin/prometheus"])
    cluster.load(archive)
    archive.unlink()
    return OWN_IMAGE


class Prometheus:
    """Scrapes one release every two seconds, and evaluates its rules as often."""

    def __init__(self, release: Release, image: str) -> None:
        self._release = release
        self._image = image

    @property
    def namespace(self) -> str:
        """The release's."""
        return self._release.namespace

    def start(self) -> None:
        """Start it and wait until it answers."""
        files = {
            "prometheus.json": json.dumps(self._settings()),  # JSON is YAML
            "rules.json": json.dumps({"groups": self._release.rule_groups()}),
        }
        metadata = {"name": _NAME, "namespace": self._release.namespace}
        config = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata, "data": files}
        self._release.commands.apply(*self._rights(metadata), config, self._pod(metadata))
        self._release.kubectl("wait", "--for=condition=Ready", f"pod/{_NAME}", "--timeout=60s")

    def targets(self) -> dict[str, str]:
        """Health of each target by the name of its pod."""
        found = self._get("targets")["activeTargets"]
        return {target["labels"]["pod"]: target["health"] for target in found}

    def rules(self) -> list[dict[str, Any]]:
        """All rules with their health."""
        return [rule for group in self._get("rules")["groups"] for rule in group["rules"]]

    def query(self, expression: str) -> list[dict[str, Any]]:
        """Evaluate now."""
        result: list[dict[str, Any]] = self._get(f"query?query={quote(expression)}")["result"]
        return result

    def firing(self, alert: str) -> list[dict[str, str]]:
        """Labels of an alert's firing instances."""
        return [
            each["labels"]
            for each in self._get("alerts")["alerts"]
            if each["state"] == "firing" and each["labels"]["alertname"] == alert
        ]

    @property
    def _proxy(self) -> str:
        """Path of the API server that leads to it."""
        return f"/api/v1/namespaces/{self._release.namespace}/pods/{_NAME}:{_PORT}/proxy"

    def _get(self, path: str) -> dict[str, Any]:
        raw = self._release.commands.kubectl("get", "--raw", f"{self._proxy}/api/v1/{path}")
        answer = json.loads(raw)
        data: dict[str, Any] = answer["data"]
        return data

    def _settings(self) -> dict[str, Any]:
        discovery = {
            "role": "endpointslice",
            "namespaces": {"names": [self._release.namespace]},
            "selectors": [
                {"role": role, "label": "app.kubernetes.io/name=justitia"}
                for role in ("service", "endpointslice")
            ],
        }
        source = "__meta_kubernetes_"
        keep = {"action": "keep", "regex": "metrics"}
        names = {
            "namespace": "namespace",
            "service": "service_name",
            "pod": "pod_name",
            "container": "pod_container_name",
        }
        scrape = {
            "job_name": "justitia",
            "honor_labels": True,  # as the ServiceMonitor says
            "kubernetes_sd_configs": [discovery],
            "relabel_configs": [
                {"source_labels": [f"{source}endpointslice_port_name"], **keep},
                *(
                    {"source_labels": [f"{source}{origin}"], "target_label": label}
                    for label, origin in names.items()
                ),
            ],
        }
        return {
            "global": {"scrape_interval": _PERIOD, "evaluation_interval": _PERIOD},
            "rule_files": [f"{_FOLDER}/rules.json"],
            "scrape_configs": [scrape],
        }

    def _rights(self, metadata: dict[str, str]) -> list[dict[str, Any]]:
        group = "rbac.authorization.k8s.io"
        role = {
            "apiVersion": f"{group}/v1",
            "kind": "Role",
            "metadata": metadata,
            "rules": [
                {
                    "apiGroups": ["", "discovery.k8s.io"],
                    "resources": ["services", "endpointslices", "pods"],
                    "verbs": ["get", "list", "watch"],
                }
            ],
        }
        binding = {
            "apiVersion": f"{group}/v1",
            "kind": "RoleBinding",
            "metadata": metadata,
            "roleRef": {"apiGroup": group, "kind": "Role", "name": _NAME},
            "subjects": [{"kind": "ServiceAccount", **metadata}],
        }
        return [{"apiVersion": "v1", "kind": "ServiceAccount", "metadata": metadata}, role, binding]

    def _pod(self, metadata: dict[str, str]) -> dict[str, Any]:
        container = {
            "name": _NAME,
            "image": self._image,
            "imagePullPolicy": "IfNotPresent",
            "args": [f"--config.file={_FOLDER}/prometheus.json", "--storage.tsdb.path=/data"],
            "ports": [{"containerPort": _PORT}],
            "readinessProbe": {"httpGet": {"path": "/-/ready", "port": _PORT}, "periodSeconds": 1},
            "volumeMounts": [
                {"name": "config", "mountPath": _FOLDER},
                {"name": "data", "mountPath": "/data"},
            ],
        }
        return {
            "apiVersion": "v1",
            "kind": "Pod",
            "metadata": metadata,
            "spec": {
                "serviceAccountName": _NAME,
                "terminationGracePeriodSeconds": 0,
                "securityContext": {"runAsNonRoot": True, "runAsUser": 65534},
                "containers": [container],
                "volumes": [
                    {"name": "config", "configMap": {"name": _NAME}},
                    {"name": "data", "emptyDir": {}},
                ],
            },
        }
