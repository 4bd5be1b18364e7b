"""What the parts of a cluster must agree on, and the files that tell them."""

import json
import resource
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final, Self

from kube.init import NODE_ADDRESS, NODE_NAME
from kube.keys import Authority, write_signing_key

API_SERVER: Final = "https://127.0.0.1:6443"
API_SERVICE_ADDRESS: Final = "10.96.0.1"
DNS_ADDRESS: Final = "10.96.0.10"
SERVICE_RANGE: Final = "10.96.0.0/16"
POD_RANGE: Final = "10.244.0.0/24"
DOMAIN: Final = "cluster.local"
PAUSE_IMAGE: Final = "docker.io/justitia-e2e/pause:1"


@dataclass(frozen=True, kw_only=True, slots=True)
class Files:
    """Paths of keys, kubeconfig files and settings, all below the sandbox's folder."""

    folder: Path
    authority: Authority
    api_server: tuple[Path, Path]
    kubelet_client: tuple[Path, Path]
    kubelet_server: tuple[Path, Path]
    signing_key: tuple[Path, Path]
    kubeconfig: dict[str, Path]
    containerd_socket: Path

    @classmethod
    def write(cls, folder: Path, *, cgroup: str) -> Self:
        """Write all of them."""
        keys = folder / "keys"
        authority = Authority(keys)
        hosts = ["127.0.0.1", NODE_ADDRESS, API_SERVICE_ADDRESS, "localhost"]
        hosts += ["kubernetes", "kubernetes.default", "kubernetes.default.svc"]
        files = cls(
            folder=folder,
            authority=authority,
            api_server=authority.issue("api-server", common_name="kube-apiserver", hosts=hosts),
            kubelet_client=authority.issue(
                "kubelet-client", common_name="kube-apiserver", group="system:masters"
            ),
            kubelet_server=authority.issue(
                "kubelet-server", common_name=NODE_NAME, hosts=[NODE_NAME, NODE_ADDRESS]
            ),
            signing_key=write_signing_key(keys),
            kubeconfig={
                name: authority.kubeconfig(
                    name, common_name=common_name, group=group, server=API_SERVER
                )
                for name, common_name, group in _CLIENTS
            },
            containerd_socket=folder / "containerd.sock",
        )
        files.write_settings(cgroup)
        return files

    def write_settings(self, cgroup: str) -> None:
        """Write what the daemons read beside their flags."""
        (self.folder / "cni").mkdir(exist_ok=True)
        (self.folder / "resolv.conf").write_text(f"nameserver {NODE_ADDRESS}\n")
        (self.folder / "containerd.toml").write_text(_containerd(self))
        (self.folder / "Corefile").write_text(_corefile(self))
        _write_json(self.folder / "cni" / "pods.conflist", _pod_network(self.folder))
        _write_json(self.folder / "kubelet.json", _kubelet(self, cgroup))


_CLIENTS: Final = (
    ("admin", "admin", "system:masters"),
    ("controller-manager", "system:kube-controller-manager", ""),
    ("scheduler", "system:kube-scheduler", ""),
    ("proxy", "system:kube-proxy", ""),
    ("kubelet", f"system:node:{NODE_NAME}", "system:nodes"),
)


def _containerd(files: Files) -> str:
    # restrict_oom_score_adj: a machine without CAP_SYS_RESOURCE may not lower a score.
    return f"""\
version = 3
root = "{files.folder}/containerd"
state = "/run/containerd-state"

[grpc]
  address = "{files.containerd_socket}"

[ttrpc]
  address = "{files.containerd_socket}.ttrpc"

[plugins."io.containerd.internal.v1.opt"]
  path = "{files.folder}/containerd-opt"

[plugins."io.containerd.cri.v1.images".pinned_images]
  sandbox = "{PAUSE_IMAGE}"

[plugins."io.containerd.cri.v1.runtime"]
  disable_apparmor = true
  restrict_oom_score_adj = true

  [plugins."io.containerd.cri.v1.runtime".cni]
    bin_dirs = ["/usr/lib/cni"]
    conf_dir = "{files.folder}/cni"

[plugins."io.containerd.grpc.v1.cri"]
  stream_server_address = "127.0.0.1"
"""


def _pod_network(folder: Path) -> dict[str, Any]:
    addresses = {
        "type": "host-local",
        "dataDir": f"{folder}/pod-addresses",
        "ranges": [[{"subnet": POD_RANGE}]],
        "routes": [{"dst": "0.0.0.0/0"}],
    }
    bridge = {
        "type": "bridge",
        "bridge": "pods0",
        "isGateway": True,
        "ipMasq": True,
        "hairpinMode": True,  # a pod that calls its own Service
        "ipam": addresses,
    }
    ports = {"type": "portmap", "capabilities": {"portMappings": True}, "snat": True}
    return {"cniVersion": "0.4.0", "name": "pods", "plugins": [bridge, ports]}


def _kubelet(files: Files, cgroup: str) -> dict[str, Any]:
    certificate, key = files.kubelet_server
    return {
        "apiVersion": "kubelet.config.k8s.io/v1beta1",
        "kind": "KubeletConfiguration",
        "authentication": {
            "anonymous": {"enabled": False},
            "webhook": {"enabled": True},
            "x509": {"clientCAFile": str(files.authority.certificate_path)},
        },
        "authorization": {"mode": "Webhook"},
        "tlsCertFile": str(certificate),
        "tlsPrivateKeyFile": str(key),
        "containerRuntimeEndpoint": f"unix://{files.containerd_socket}",
        "cgroupDriver": "cgroupfs",
        "cgroupRoot": cgroup,
        "failCgroupV1": False,
        "failSwapOn": False,
        # A machine without CAP_SYS_RESOURCE allows neither more files nor a lower score.
        "maxOpenFiles": _open_files_limit(),
        "oomScoreAdj": 0,
        "clusterDomain": DOMAIN,
        "clusterDNS": [DNS_ADDRESS],
        "resolvConf": f"{files.folder}/resolv.conf",
        "volumePluginDir": "/var/lib/kubelet/volume-plugins",
        "nodeStatusUpdateFrequency": "2s",
        "syncFrequency": "10s",  # how soon changed Secrets and ConfigMaps are in pods; else 60 s
        # Images come from no registry: never throw one away. A full disk is the machine's matter.
        "imageGCHighThresholdPercent": 100,
        "imageGCLowThresholdPercent": 99,
        "evictionHard": {
            "memory.available": "100Mi",
            "nodefs.available": "1%",
            "imagefs.available": "1%",
        },
    }


def _open_files_limit() -> int:
    return min(resource.getrlimit(resource.RLIMIT_NOFILE)[1], 1_000_000)


def _corefile(files: Files) -> str:
    # Two blocks: `template` in the first would answer before `kubernetes` does.
    return f"""\
{DOMAIN}:53 in-addr.arpa:53 {{
  bind {NODE_ADDRESS}
  errors
  kubernetes {DOMAIN} in-addr.arpa {{
    kubeconfig {files.kubeconfig["admin"]} e2e
  }}
}}
.:53 {{
  bind {NODE_ADDRESS}
  template ANY ANY . {{
    rcode NXDOMAIN
  }}
}}
"""


def _write_json(path: Path, content: dict[str, Any]) -> None:
    path.write_text(json.dumps(content, indent=2))
