"""Objects that a cluster needs before anybody can use it: DNS and storage."""

from pathlib import Path
from typing import Any, Final

from kube.init import NODE_ADDRESS, NODE_NAME
from kube.settings import DNS_ADDRESS

NUM_VOLUMES: Final = 8
_CLASS: Final = "standard"


def base_objects(volumes: Path) -> list[dict[str, Any]]:
    """Build a Service for the node's CoreDNS, a default storage class, and volumes for it."""
    return [*_dns(), _storage_class(), *(_volume(volumes, number) for number in range(NUM_VOLUMES))]


def make_volume_folders(volumes: Path) -> None:
    """Make the folders behind the volumes: `local` ones must exist, and take fsGroup."""
    for number in range(NUM_VOLUMES):
        (volumes / str(number)).mkdir(parents=True, exist_ok=True)


def _dns() -> list[dict[str, Any]]:
    ports = [("dns", "UDP"), ("dns-tcp", "TCP")]
    service = {
        "apiVersion": "v1",
        "kind": "Service",
        "metadata": {"name": "kube-dns", "namespace": "kube-system"},
        "spec": {
            "clusterIP": DNS_ADDRESS,  # no selector: CoreDNS runs beside the pods
            "ports": [{"name": name, "port": 53, "protocol": kind} for name, kind in ports],
        },
    }
    endpoints = {
        "apiVersion": "discovery.k8s.io/v1",
        "kind": "EndpointSlice",
        "metadata": {
            "name": "kube-dns-node",
            "namespace": "kube-system",
            "labels": {"kubernetes.io/service-name": "kube-dns"},
        },
        "addressType": "IPv4",
        "ports": [{"name": name, "port": 53, "protocol": kind} for name, kind in ports],
        "endpoints": [{"addresses": [NODE_ADDRESS], "conditions": {"ready": True}}],
    }
    return [service, endpoints]


def _storage_class() -> dict[str, Any]:
    return {
        "apiVersion": "storage.k8s.io/v1",
        "kind": "StorageClass",
        "metadata": {
            "name": _CLASS,
            "annotations": {"storageclass.kubernetes.io/is-default-class": "true"},
        },
        "provisioner": "kubernetes.io/no-provisioner",
        "volumeBindingMode": "WaitForFirstConsumer",
    }


def _volume(volumes: Path, number: int) -> dict[str, Any]:
    here = {"key": "kubernetes.io/hostname", "operator": "In", "values": [NODE_NAME]}
    return {
        "apiVersion": "v1",
        "kind": "PersistentVolume",
        "metadata": {"name": f"local-{number}"},
        "spec": {
            "capacity": {"storage": "20Gi"},
            "accessModes": ["ReadWriteOnce", "ReadOnlyMany", "ReadWriteMany"],
            "storageClassName": _CLASS,
            "persistentVolumeReclaimPolicy": "Retain",
            "local": {"path": str(volumes / str(number))},
            "nodeAffinity": {"required": {"nodeSelectorTerms": [{"matchExpressions": [here]}]}},
        },
    }
