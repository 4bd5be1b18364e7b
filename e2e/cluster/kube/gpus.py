"""GPUs of the tests' own on a node: announced, allocated, and broken on demand."""

import json
import sys
from pathlib import Path
from typing import Final

from kube.cluster import Cluster
from kube.daemon import wait_until
from kube.init import NODE_NAME

GPU_RESOURCE: Final = "nvidia.com/gpu"
#: What NVIDIA's feature discovery says about an A100.
GPU_LABELS: Final = {
    "nvidia.com/gpu.product": "NVIDIA-A100-SXM4-80GB",
    "nvidia.com/gpu.memory": "81920",
    "nvidia.com/gpu.family": "ampere",
    "nvidia.com/gpu.present": "true",
}

_PLUGIN: Final = Path(__file__).resolve().parents[1] / "device_plugin.py"
_REGISTERED: Final = "registered "
_NEWS_TIMEOUT_S: Final = 30.0


class Gpus:
    """``count`` GPUs of ``resource``, announced by a device plugin that runs on the node."""

    def __init__(self, cluster: Cluster, *, count: int = 8, resource: str = GPU_RESOURCE) -> None:
        self._cluster = cluster
        self._resource = resource
        self._state = cluster.sandbox.folder / "gpus"
        self._state.mkdir()
        self.count = count
        command = [sys.executable, str(_PLUGIN), "--state", str(self._state)]
        command += ["--folder", "/var/lib/kubelet/device-plugins"]
        command += ["--resource", resource, "--count", str(count)]
        cluster.add_daemon("device-plugin", command)
        labels = [f"{name}={value}" for name, value in GPU_LABELS.items()]
        labels.append(f"nvidia.com/gpu.count={count}")
        cluster.commands.kubectl("label", "--overwrite", "node", NODE_NAME, *labels)
        self.wait_allocatable(count)
        self._num_registrations = 1

    def wait_allocatable(self, count: int) -> None:
        """Wait until the node offers ``count`` of them."""
        wait_until(
            f"node offers {count} {self._resource}",
            lambda: self.allocatable() == count,
            timeout_s=_NEWS_TIMEOUT_S,
            daemons=[self._cluster.daemons["device-plugin"]],
        )

    def wait_announced_again(self) -> None:
        """Wait until the plugin has followed kubelet through a restart."""
        plugin = self._cluster.daemons["device-plugin"]
        before = self._num_registrations
        wait_until(
            "the device plugin has registered again",
            lambda: plugin.log_path.read_text().count(_REGISTERED) > before,
            timeout_s=_NEWS_TIMEOUT_S,
            daemons=[plugin],
        )
        self._num_registrations = plugin.log_path.read_text().count(_REGISTERED)

    def allocatable(self) -> int:
        """How many the node offers now."""
        node = self._cluster.commands.get("node", NODE_NAME)
        return int(node["status"]["allocatable"].get(self._resource, 0))

    def allocations(self) -> list[list[str]]:
        """Device ids of every container so far that kubelet gave devices to."""
        log = self._state / "allocations"
        lines = log.read_text().splitlines() if log.exists() else []
        return [json.loads(line) for line in lines]

    def break_devices(self, *ids: str) -> None:
        """Make exactly these devices unhealthy; none heals all."""
        partial = self._state / "unhealthy.partial"
        partial.write_text("\n".join(ids))
        partial.replace(self._state / "unhealthy")
