"""One connection to the scheduler service: channel, TLS and errors in plain words."""

import contextlib
import importlib
import os
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from types import ModuleType
from typing import Any, Final, NoReturn, Self

from justitia.core.limits import MAX_MESSAGE_BYTES

DEFAULT_ADDRESS: Final = "127.0.0.1:50051"
DEFAULT_TIMEOUT_S: Final = 10.0

_MAX_RECONNECT_BACKOFF_MS: Final = 5000
_NOBODY_THERE: Final = "start one with `justitia up` or name its address"
_WANTS_TLS: Final = (
    "if it wants encryption, name the files: --tls-ca, JUSTITIA_TLS_CA or tls=TlsFiles(...)"
)


class SchedulerError(Exception):
    """A call failed. ``code`` is the gRPC status's name, the message one sentence."""

    def __init__(self, code: str, message: str) -> None:
        super().__init__(message)
        self.code = code


class UnreachableError(SchedulerError):
    """Nobody answers at the address."""


@dataclass(frozen=True, kw_only=True, slots=True)
class TlsFiles:
    """PEM files: the authority of the server's certificate; for mTLS also the client's pair."""

    ca: Path
    cert: Path | None = None
    key: Path | None = None

    @classmethod
    def from_environment(cls, variables: Mapping[str, str] = os.environ) -> Self | None:
        """Read JUSTITIA_TLS_CA, JUSTITIA_TLS_CERT and JUSTITIA_TLS_KEY, as the engines do.

        None where they are unset or empty: no encryption.

        Raises:
            SchedulerError: a certificate without its key or without the authority, or a key alone.
        """
        ca, cert, key = (
            Path(text) if (text := variables.get(f"JUSTITIA_TLS_{name}")) else None
            for name in ("CA", "CERT", "KEY")
        )
        if (cert is None) != (key is None) or (cert is not None and ca is None):
            raise SchedulerError(
                "BAD_TLS_FILE",
                "JUSTITIA_TLS_CERT and JUSTITIA_TLS_KEY must be set together, and with"
                " JUSTITIA_TLS_CA",
            )
        return None if ca is None else cls(ca=ca, cert=cert, key=key)


def grpc_module() -> ModuleType:
    """Import gRPC, or say how to install it."""
    try:
        return importlib.import_module("grpc")
    except ImportError as error:
        raise SchedulerError(
            "NOT_INSTALLED", "gRPC is not installed; install it with: pip install 'justitia[api]'"
        ) from error


def api(name: str) -> Any:
    """Import a module of the generated API."""
    grpc_module()
    return importlib.import_module(f"justitia.api.v1.{name}")


def open_channel(address: str, tls: TlsFiles | None, *, is_async: bool) -> Any:
    """Open a channel, for asyncio or blocking; TLS files are read at once."""
    grpc = grpc_module()
    options = (
        ("grpc.max_receive_message_length", MAX_MESSAGE_BYTES),
        ("grpc.max_send_message_length", MAX_MESSAGE_BYTES),
        # gRPC would wait up to two minutes before it tries a service that is back.
        ("grpc.max_reconnect_backoff_ms", _MAX_RECONNECT_BACKOFF_MS),
        # The service is inside the cluster; a proxy that is meant for the internet is not.
        ("grpc.enable_http_proxy", 0),
    )
    family = grpc.aio if is_async else grpc
    if tls is None:
        return family.insecure_channel(address, options=options)
    try:
        credentials = grpc.ssl_channel_credentials(
            tls.ca.read_bytes(),
            None if tls.key is None else tls.key.read_bytes(),
            None if tls.cert is None else tls.cert.read_bytes(),
        )
    except OSError as error:
        raise SchedulerError("BAD_TLS_FILE", f"{error.filename}: {error.strerror}") from error
    return family.secure_channel(address, credentials, options=options)


@contextlib.contextmanager
def told(address: str) -> Iterator[None]:
    """Turn gRPC's errors into ours."""
    grpc = grpc_module()
    try:
        yield
    except grpc.RpcError as error:
        _raise(address, error)


def _raise(address: str, error: Any) -> NoReturn:
    code, details = error.code().name, error.details() or ""
    if code == "UNAVAILABLE":
        # All that is seen of a server that hears something else than TLS.
        advice = _WANTS_TLS if "Socket closed" in details else _NOBODY_THERE
        raise UnreachableError(
            code, f"no scheduler service answers at {address} ({details}); {advice}"
        ) from error
    if code == "DEADLINE_EXCEEDED":
        raise SchedulerError(
            code, f"the scheduler service at {address} did not answer in time"
        ) from error
    raise SchedulerError(code, details or code) from error
