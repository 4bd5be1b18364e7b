"""Command lines of the programs that make up the cluster."""

from typing import Final

from kube.init import NODE_ADDRESS, NODE_NAME
from kube.programs import Programs
from kube.settings import DOMAIN, POD_RANGE, SERVICE_RANGE, Files

_ETCD: Final = "http://127.0.0.1:2379"
_ETCD_PEER: Final = "http://127.0.0.1:2380"


def commands(programs: Programs, files: Files) -> dict[str, list[str]]:
    """Build the command line of each part, by its name, in the order in which they are started."""
    flags: dict[str, dict[str, object]] = {
        "etcd": _etcd(files),
        "containerd": {"--config": files.folder / "containerd.toml"},
        "kube-apiserver": _api_server(files),
        "kube-controller-manager": _controller_manager(files),
        "kube-scheduler": {
            "--kubeconfig": files.kubeconfig["scheduler"],
            "--leader-elect": "false",
            "--bind-address": "127.0.0.1",
        },
        "kubelet": {
            "--config": files.folder / "kubelet.json",
            "--kubeconfig": files.kubeconfig["kubelet"],
            "--hostname-override": NODE_NAME,
            "--node-ip": NODE_ADDRESS,
        },
        "kube-proxy": {
            "--kubeconfig": files.kubeconfig["proxy"],
            "--hostname-override": NODE_NAME,
            "--proxy-mode": "iptables",
            "--cluster-cidr": POD_RANGE,
            "--conntrack-max-per-core": 0,  # the machine's own setting stays
        },
        "coredns": {"-conf": files.folder / "Corefile"},
    }
    return {
        name: [programs[name], *(part for flag in given.items() for part in _flag(*flag))]
        for name, given in flags.items()
    }


def _flag(name: str, value: object) -> list[str]:
    # Go's flag package takes "-name value" for all but booleans, pflag takes both.
    return [f"{name}={value}"]


def _etcd(files: Files) -> dict[str, object]:
    return {
        "--name": "e2e",
        "--data-dir": files.folder / "etcd",
        "--listen-client-urls": _ETCD,
        "--advertise-client-urls": _ETCD,
        "--listen-peer-urls": _ETCD_PEER,
        "--initial-advertise-peer-urls": _ETCD_PEER,
        "--initial-cluster": f"e2e={_ETCD_PEER}",
        "--unsafe-no-fsync": "true",  # nothing here outlives the run
    }


def _api_server(files: Files) -> dict[str, object]:
    certificate, key = files.api_server
    client_certificate, client_key = files.kubelet_client
    signing_private, signing_public = files.signing_key
    return {
        "--etcd-servers": _ETCD,
        "--advertise-address": NODE_ADDRESS,
        "--secure-port": 6443,
        "--service-cluster-ip-range": SERVICE_RANGE,
        "--client-ca-file": files.authority.certificate_path,
        "--tls-cert-file": certificate,
        "--tls-private-key-file": key,
        "--service-account-key-file": signing_public,
        "--service-account-signing-key-file": signing_private,
        "--service-account-issuer": f"https://kubernetes.default.svc.{DOMAIN}",
        "--authorization-mode": "Node,RBAC",
        # The second is what OpenShift has on: an operator may own only what it may also finalise.
        "--enable-admission-plugins": "NodeRestriction,OwnerReferencesPermissionEnforcement",
        "--allow-privileged": "true",
        "--kubelet-certificate-authority": files.authority.certificate_path,
        "--kubelet-client-certificate": client_certificate,
        "--kubelet-client-key": client_key,
        "--kubelet-preferred-address-types": "InternalIP",
    }


def _controller_manager(files: Files) -> dict[str, object]:
    return {
        "--kubeconfig": files.kubeconfig["controller-manager"],
        "--root-ca-file": files.authority.certificate_path,
        "--service-account-private-key-file": files.signing_key[0],
        "--use-service-account-credentials": "true",
        "--cluster-signing-cert-file": files.authority.certificate_path,
        "--cluster-signing-key-file": files.authority.key_path,
        "--leader-elect": "false",
        "--bind-address": "127.0.0.1",
    }
