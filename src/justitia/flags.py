"""Settings of our processes from flags and variables, read one way for all of them.

Needs pydantic-settings, which the extras ``service`` and ``operator`` bring.
"""

import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Final, TypeVar

from pydantic import ValidationError
from pydantic_settings import BaseSettings, SettingsConfigDict

S = TypeVar("S", bound=BaseSettings)

_MAX_PORT: Final = 65535
_MAX_PORT_DIGITS: Final = 5


class SettingsError(Exception):
    """The settings cannot be used; the message says which and why."""


class ProcessSettings(BaseSettings):
    """How flags and variables of every process are read; each adds its prefix and its name."""

    model_config = SettingsConfigDict(
        env_ignore_empty=True,
        frozen=True,
        extra="forbid",
        cli_kebab_case=True,
        cli_hide_none_type=True,
        cli_implicit_flags=True,
    )


def require_pair(cert: Path | None, key: Path | None) -> None:
    """Refuse ``tls_cert`` without ``tls_key`` and the other way round.

    Raises:
        ValueError: one of them is missing.
    """
    if (cert is None) != (key is None):
        raise ValueError("tls_cert and tls_key must be given together")


def read_flags(
    kind: type[S],
    arguments: Sequence[str],
    environment: Mapping[str, str],
    *,
    others: frozenset[str] = frozenset(),
) -> S:
    """Read flags and variables; flags win.

    ``others``: variables under the same prefix that are meant for somebody else.

    Raises:
        SettingsError: an unknown variable, or a value that does not fit.
        SystemExit: --help, or an unknown flag (code 2).
    """
    prefix = kind.model_config.get("env_prefix", "")
    known = {prefix + name.upper() for name in kind.model_fields} | others
    injected = _injected(prefix)
    for name in sorted(environment):
        is_ours = name.upper().startswith(prefix)
        if is_ours and name.upper() not in known and not injected.fullmatch(name.upper()):
            raise SettingsError(f"{name}: no such setting; --help lists them")
    try:
        return kind(_cli_parse_args=list(arguments))
    except ValidationError as error:
        raise SettingsError(_sentence(error)) from error


def split_address(field: str, address: str) -> tuple[str, int]:
    """Split ``host:port``; IPv6 hosts stand in brackets.

    Raises:
        ValueError: there is no port, or it is no port number; the message names ``field``.
    """
    host, colon, port = address.rpartition(":")
    is_number = port.isascii() and port.isdigit() and len(port) <= _MAX_PORT_DIGITS
    if not colon or not is_number or int(port) > _MAX_PORT:
        raise ValueError(f"{field}: must be host:port, got {address!r}")
    return host.strip("[]"), int(port)


def _injected(prefix: str) -> re.Pattern[str]:
    """Match what Kubernetes injects for a Service of our own name, which is not meant for us."""
    return re.compile(
        rf"{prefix}(.+_)?(SERVICE_HOST|SERVICE_PORT(_.+)?"
        r"|PORT(_\d+_(TCP|UDP|SCTP)(_(PROTO|PORT|ADDR))?)?)"
    )


def _sentence(error: ValidationError) -> str:
    first = error.errors()[0]
    where = ".".join(str(part) for part in first["loc"])
    what = first["msg"].removeprefix("Value error, ")
    given = "" if isinstance(first["input"], dict) else f", got {first['input']!r}"
    return f"{where}: {what}{given}" if where else what
