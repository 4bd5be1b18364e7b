"""Certificates and kubeconfig files of a cluster that lives for one test run."""

import datetime as dt
import ipaddress
import json
from collections.abc import Sequence
from pathlib import Path
from typing import Final

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

#: What the certificate's holder may do with it.
BOTH_USAGES: Final = (ExtendedKeyUsageOID.SERVER_AUTH, ExtendedKeyUsageOID.CLIENT_AUTH)

_LIFETIME: Final = dt.timedelta(days=7)
_CLOCK_SLACK: Final = dt.timedelta(hours=1)


class Authority:
    """A certificate authority that writes what it issues into one folder."""

    def __init__(self, folder: Path, *, name: str = "justitia-e2e-ca") -> None:
        folder.mkdir(parents=True, exist_ok=True)
        self._folder = folder
        self._key = ec.generate_private_key(ec.SECP256R1())
        self._name = _name(name, "")
        builder = _builder(self._name, self._name, self._key, _LIFETIME).add_extension(
            x509.BasicConstraints(ca=True, path_length=None), critical=True
        )
        self.certificate_path = folder / "ca.crt"
        self.key_path = folder / "ca.key"
        _write(self.certificate_path, _pem(builder.sign(self._key, hashes.SHA256())))
        _write(self.key_path, _key_pem(self._key))

    def issue(
        self, name: str, *, common_name: str, group: str = "", hosts: Sequence[str] = ()
    ) -> tuple[Path, Path]:
        """Issue a certificate for clients and servers; returns its path and its key's."""
        pair = self.pair(common_name=common_name, group=group, hosts=hosts)
        paths = self._folder / f"{name}.crt", self._folder / f"{name}.key"
        for path, content in zip(paths, pair, strict=True):
            _write(path, content)
        return paths

    def pair(
        self,
        *,
        common_name: str = "",
        group: str = "",
        hosts: Sequence[str] = (),
        usages: Sequence[x509.ObjectIdentifier] = BOTH_USAGES,
        lifetime: dt.timedelta = _LIFETIME,
    ) -> tuple[bytes, bytes]:
        """Issue a certificate with an ECDSA key of its own; returns both in PEM form."""
        key = ec.generate_private_key(ec.SECP256R1())
        subject = _name(common_name, group)
        builder = _builder(subject, self._name, key, lifetime).add_extension(
            x509.ExtendedKeyUsage(usages), critical=False
        )
        if hosts:
            names = x509.SubjectAlternativeName([_general_name(host) for host in hosts])
            builder = builder.add_extension(names, critical=not common_name)  # RFC 5280, 4.2.1.6
        return _pem(builder.sign(self._key, hashes.SHA256())), _key_pem(key)

    def kubeconfig(self, name: str, *, common_name: str, group: str = "", server: str) -> Path:
        """Issue a client certificate and write a kubeconfig file that uses it."""
        certificate, key = self.issue(name, common_name=common_name, group=group)
        path = self._folder / f"{name}.conf"
        cluster = {"server": server, "certificate-authority": str(self.certificate_path)}
        user = {"client-certificate": str(certificate), "client-key": str(key)}
        config = {  # JSON is YAML
            "apiVersion": "v1",
            "kind": "Config",
            "clusters": [{"name": "e2e", "cluster": cluster}],
            "users": [{"name": name, "user": user}],
            "contexts": [{"name": "e2e", "context": {"cluster": "e2e", "user": name}}],
            "current-context": "e2e",
        }
        _write(path, json.dumps(config, indent=2).encode())
        return path


def write_signing_key(folder: Path) -> tuple[Path, Path]:
    """Write the key pair that signs service account tokens; returns private and public path."""
    key = ec.generate_private_key(ec.SECP256R1())
    private, public = folder / "service-account.key", folder / "service-account.pub"
    _write(private, _key_pem(key))
    _write(
        public,
        key.public_key().public_bytes(
            serialization.Encoding.PEM, serialization.PublicFormat.SubjectPublicKeyInfo
        ),
    )
    return private, public


def _builder(
    subject: x509.Name,
    issuer: x509.Name,
    key: ec.EllipticCurvePrivateKey,
    lifetime: dt.timedelta,
) -> x509.CertificateBuilder:
    now = dt.datetime.now(dt.UTC)
    return (
        x509.CertificateBuilder()
        .subject_name(subject)
        .issuer_name(issuer)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - _CLOCK_SLACK)
        .not_valid_after(now + lifetime)
    )


def _name(common_name: str, group: str) -> x509.Name:
    parts = ((NameOID.ORGANIZATION_NAME, group), (NameOID.COMMON_NAME, common_name))
    return x509.Name([x509.NameAttribute(kind, value) for kind, value in parts if value])


def _general_name(host: str) -> x509.GeneralName:
    try:
        return x509.IPAddress(ipaddress.ip_address(host))
    except ValueError:
        return x509.DNSName(host)


def _pem(certificate: x509.Certificate) -> bytes:
    return certificate.public_bytes(serialization.Encoding.PEM)


def _key_pem(key: ec.EllipticCurvePrivateKey) -> bytes:
    return key.private_bytes(
        serialization.Encoding.PEM,
        serialization.PrivateFormat.PKCS8,  # kube-apiserver reads it for EC keys
        serialization.NoEncryption(),
    )


def _write(path: Path, content: bytes) -> None:
    path.write_bytes(content)
    path.chmod(0o600)
