"""Plays cert-manager: does for Certificate objects what its controllers and a CA issuer do."""

import base64
import datetime as dt
import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from cryptography import x509
from cryptography.x509.oid import ExtendedKeyUsageOID
from kube.commands import Commands
from kube.errors import ClusterError
from kube.keys import Authority

#: Name of the Issuer that Certificates must refer to.
ISSUER: Final = "e2e-issuer"

_KEY: Final = {"algorithm": "ECDSA", "size": 256}
_USAGES: Final = {
    "server auth": ExtendedKeyUsageOID.SERVER_AUTH,
    "client auth": ExtendedKeyUsageOID.CLIENT_AUTH,
}


@dataclass(frozen=True, slots=True)
class Issued:
    """One issue of a Certificate, in PEM form as in its Secret."""

    ca: str
    certificate: str
    key: str

    @property
    def serial(self) -> int:
        """Serial number."""
        return self._parsed.serial_number

    @property
    def expires_at(self) -> dt.datetime:
        """When it ends."""
        return self._parsed.not_valid_after_utc

    @property
    def starts_at(self) -> dt.datetime:
        """When it begins."""
        return self._parsed.not_valid_before_utc

    @property
    def _parsed(self) -> x509.Certificate:
        return x509.load_pem_x509_certificate(self.certificate.encode())


class Issuer:
    """Issues the Certificates of one namespace, whenever it is told to."""

    def __init__(self, commands: Commands, namespace: str, folder: Path) -> None:
        self._commands = commands
        self._namespace = namespace
        self._folder = folder
        self._num_authorities = 0
        self.change_authority()

    def change_authority(self) -> None:
        """Sign with a new authority from now on; the old one is trusted by nothing issued later."""
        self._num_authorities += 1
        name = f"{ISSUER}-{self._num_authorities}"
        self._authority = Authority(self._folder / name, name=name)

    def asked(self) -> list[str]:
        """Names of the Certificates that want this issuer."""
        listed = self._commands.get("certificates.cert-manager.io", "-n", self._namespace)["items"]
        wanted = {"group": "cert-manager.io", "kind": "Issuer", "name": ISSUER}
        return sorted(
            each["metadata"]["name"] for each in listed if each["spec"]["issuerRef"] == wanted
        )

    def issue(self, name: str, *, lifetime: dt.timedelta) -> Issued:
        """Sign what a Certificate asks for, write its Secret and say that it is ready."""
        found = self._commands.get("certificates.cert-manager.io", name, "-n", self._namespace)
        issued = self.sign(found["spec"], lifetime=lifetime)
        self._commands.apply(_secret(found, issued))
        status = json.dumps({"status": _status(found, issued)})
        self._commands.kubectl(
            *("patch", "certificates.cert-manager.io", name, "-n", self._namespace),
            *("--subresource=status", "--type=merge", "-p", status),
        )
        return issued

    def sign(self, spec: Mapping[str, Any], *, lifetime: dt.timedelta) -> Issued:
        """Sign with a new key, as `rotationPolicy: Always` says.

        Raises:
            ClusterError: it asks for a key that this issuer can't make.
        """
        if not spec["privateKey"].items() >= _KEY.items():
            raise ClusterError(f"the tests' issuer makes no such key: {spec['privateKey']}")
        certificate, key = self._authority.pair(
            common_name=spec.get("commonName", ""),
            hosts=[*spec.get("dnsNames", []), *spec.get("ipAddresses", [])],
            usages=[_USAGES[usage] for usage in spec["usages"] if usage in _USAGES],
            lifetime=lifetime,
        )
        ca = self._authority.certificate_path.read_text()
        return Issued(ca=ca, certificate=certificate.decode(), key=key.decode())


def _secret(certificate: Mapping[str, Any], issued: Issued) -> dict[str, Any]:
    spec, metadata = certificate["spec"], certificate["metadata"]
    files = {"ca.crt": issued.ca, "tls.crt": issued.certificate, "tls.key": issued.key}
    about = {
        "alt-names": ",".join(spec.get("dnsNames", [])),
        "certificate-name": metadata["name"],
        "common-name": spec.get("commonName", ""),
        "ip-sans": ",".join(spec.get("ipAddresses", [])),
        "issuer-group": "cert-manager.io",
        "issuer-kind": "Issuer",
        "issuer-name": ISSUER,
        "uri-sans": "",
    }
    return {
        "apiVersion": "v1",
        "kind": "Secret",
        "type": "kubernetes.io/tls",
        "metadata": {
            "name": spec["secretName"],
            "namespace": metadata["namespace"],
            "annotations": {f"cert-manager.io/{name}": value for name, value in about.items()},
            "labels": {"controller.cert-manager.io/fao": "true"},
        },
        "data": {name: base64.b64encode(text.encode()).decode() for name, text in files.items()},
    }


def _status(certificate: Mapping[str, Any], issued: Issued) -> dict[str, Any]:
    before = certificate.get("status", {})
    lifetime = issued.expires_at - issued.starts_at
    ready = {
        "type": "Ready",
        "status": "True",
        "reason": "Ready",
        "message": "Certificate is up to date and has not expired",
        "lastTransitionTime": _text(dt.datetime.now(dt.UTC)),
        "observedGeneration": certificate["metadata"]["generation"],
    }
    return {
        "conditions": [ready],
        "notBefore": _text(issued.starts_at),
        "notAfter": _text(issued.expires_at),
        "renewalTime": _text(issued.expires_at - lifetime / 3),
        "revision": before.get("revision", 0) + 1,
    }


def _text(moment: dt.datetime) -> str:
    return moment.strftime("%Y-%m-%dT%H:%M:%SZ")
