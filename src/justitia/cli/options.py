"""Options that several subcommands share, and the connection they describe."""

from pathlib import Path
from typing import Annotated, Final

import typer

from justitia.client import DEFAULT_ADDRESS, Client, TlsFiles, connect

DEFAULT_CACHE_DIR: Final = Path(".cache")

Address = Annotated[
    str,
    typer.Option(
        "--address",
        envvar="JUSTITIA_SCHEDULER_ADDRESS",
        help="host:port of the scheduler service",
    ),
]
Pool = Annotated[
    str, typer.Option("--pool", envvar="JUSTITIA_POOL", help="pool; empty: the default one")
]
TlsCa = Annotated[
    Path | None,
    typer.Option("--tls-ca", envvar="JUSTITIA_TLS_CA", help="PEM file; turns encryption on"),
]
Manifests = Annotated[
    Path, typer.Option("--file", "-f", help="manifest, or a folder of them (*.yaml)")
]
CacheDir = Annotated[
    Path,
    typer.Option("--cache-dir", envvar="JUSTITIA_CACHE_DIR", help="where the small model is kept"),
]


def connected(address: str, tls_ca: Path | None) -> Client:
    """Connect as the options say."""
    return connect(address, tls=None if tls_ca is None else TlsFiles(ca=tls_ca))


__all__ = [
    "DEFAULT_ADDRESS",
    "DEFAULT_CACHE_DIR",
    "Address",
    "CacheDir",
    "Manifests",
    "Pool",
    "TlsCa",
    "connected",
]
