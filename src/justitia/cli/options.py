"""Options that several subcommands share, and the connection they describe."""

from pathlib import Path
from typing import Annotated, Final

import typer

from justitia.client import DEFAULT_ADDRESS, Client, TlsFiles, connect
from justitia.core.policies import POLICIES, make_policy

DEFAULT_CACHE_DIR: Final = Path(".cache")
POLICY_NAMES: Final = ", ".join(sorted(POLICIES))
MAX_PORT: Final = 65535

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
TlsCert = Annotated[
    Path | None,
    typer.Option("--tls-cert", envvar="JUSTITIA_TLS_CERT", help="PEM file of our own, for mTLS"),
]
TlsKey = Annotated[
    Path | None,
    typer.Option("--tls-key", envvar="JUSTITIA_TLS_KEY", help="PEM file of its private key"),
]
Manifests = Annotated[
    Path, typer.Option("--file", "-f", help="manifest, or a folder of them (*.yaml)")
]
CacheDir = Annotated[
    Path,
    typer.Option("--cache-dir", envvar="JUSTITIA_CACHE_DIR", help="where the small model is kept"),
]


def require_policy(name: str, *, flag: str) -> str:
    """Return a policy's name; one that is unknown is refused."""
    try:
        make_policy(name)
    except ValueError as error:
        raise typer.BadParameter(str(error), param_hint=flag) from None
    return name


def connected(
    address: str, tls_ca: Path | None, *, cert: Path | None = None, key: Path | None = None
) -> Client:
    """Connect as the options say."""
    if (cert is None) != (key is None):
        raise typer.BadParameter("must be given together", param_hint="--tls-cert and --tls-key")
    if cert is not None and tls_ca is None:
        raise typer.BadParameter(
            "needs --tls-ca, which turns encryption on", param_hint="--tls-cert"
        )
    tls = None if tls_ca is None else TlsFiles(ca=tls_ca, cert=cert, key=key)
    return connect(address, tls=tls)


def warn(problem: str) -> None:
    """Print a warning on stderr, in one line; nothing where there is no problem."""
    if problem:
        typer.echo(f"warning: {problem}", err=True)


__all__ = [
    "DEFAULT_ADDRESS",
    "DEFAULT_CACHE_DIR",
    "MAX_PORT",
    "POLICY_NAMES",
    "Address",
    "CacheDir",
    "Manifests",
    "Pool",
    "TlsCa",
    "TlsCert",
    "TlsKey",
    "connected",
    "require_policy",
    "warn",
]
