"""The network around the service: gRPC with health, reflection and TLS, and the metrics page."""

import asyncio
import socket
from pathlib import Path
from typing import Any, Final
from wsgiref.simple_server import WSGIServer

import grpc
from grpc_health.v1 import health, health_pb2, health_pb2_grpc
from grpc_reflection.v1alpha import reflection
from prometheus_client import CollectorRegistry, start_http_server

from justitia import flags
from justitia.api.v1 import (
    admin_pb2,
    admin_pb2_grpc,
    engine_pb2,
    engine_pb2_grpc,
    run_pb2,
    run_pb2_grpc,
    training_pb2,
    training_pb2_grpc,
)
from justitia.core.limits import MAX_MESSAGE_BYTES
from justitia_scheduler.admin_servicer import AdminServicer, EngineServicer
from justitia_scheduler.run_servicer import RunServicer
from justitia_scheduler.service import SchedulerService
from justitia_scheduler.training_servicer import TrainingServicer

HEALTH_SERVICES: Final = ("", "liveness", "readiness")

_OPTIONS: Final = (
    ("grpc.max_receive_message_length", MAX_MESSAGE_BYTES),
    ("grpc.max_send_message_length", MAX_MESSAGE_BYTES),
    # Two processes on one port would split the engines between them.
    ("grpc.so_reuseport", 0),
    # A peer that is gone without a word is noticed within 15 s;
    ("grpc.keepalive_time_ms", 10_000),
    ("grpc.keepalive_timeout_ms", 5_000),
    # clients may ping as often, also when idle, without being sent away.
    ("grpc.keepalive_permit_without_calls", 1),
    ("grpc.http2.min_ping_interval_without_data_ms", 5_000),
    ("grpc.http2.max_ping_strikes", 0),
)


class ListenError(Exception):
    """An address or a file cannot be used; the message is one sentence."""


def split_address(field: str, address: str) -> tuple[str, int]:
    """Split ``host:port``; IPv6 hosts stand in brackets.

    Raises:
        ListenError: there is no port, or it is no port number.
    """
    try:
        return flags.split_address(field, address)
    except ValueError as error:
        raise ListenError(str(error)) from None


def credentials(cert: Path, key: Path, client_ca: Path | None) -> grpc.ServerCredentials:
    """Read TLS files; with ``client_ca`` every client must show a certificate of it (mTLS).

    Files that change are read again for the next connection, so that certificates can be renewed;
    a set that does not fit together is passed over until it does.

    Raises:
        ListenError: a file cannot be read.
    """
    files = _TlsFiles(cert, key, client_ca)
    try:
        first = files.read()
    except OSError as error:
        raise ListenError(f"{error.filename}: {error.strerror}") from error
    return grpc.dynamic_ssl_server_credentials(
        first,
        files.read_if_changed,  # type: ignore[arg-type]  # None: no change; the stubs forget it
        require_client_authentication=client_ca is not None,
    )


class _TlsFiles:
    """The server's TLS files, and whether they have changed. gRPC asks from its own threads."""

    def __init__(self, cert: Path, key: Path, client_ca: Path | None) -> None:
        self._cert, self._key, self._client_ca = cert, key, client_ca
        self._seen: tuple[bytes, bytes, bytes | None] | None = None

    def read(self) -> grpc.ServerCertificateConfiguration:
        """Read them all."""
        ca = None if self._client_ca is None else self._client_ca.read_bytes()
        self._seen = (self._key.read_bytes(), self._cert.read_bytes(), ca)
        return grpc.ssl_server_certificate_configuration([self._seen[:2]], ca)

    def read_if_changed(self) -> grpc.ServerCertificateConfiguration | None:
        """Read them; None if nothing changed or not all are there."""
        before = self._seen
        try:
            configuration = self.read()
        except OSError:
            return None
        return None if self._seen == before else configuration


class GrpcServer:
    """The gRPC server of one service."""

    def __init__(self, service: SchedulerService) -> None:
        self._service = service
        self._server = grpc.aio.server(options=_OPTIONS)
        self._health = health.aio.HealthServicer()
        self._probes: grpc.aio.Server | None = None
        self.port = 0
        served: tuple[tuple[Any, object], ...] = (
            (run_pb2_grpc.add_RunServiceServicer_to_server, RunServicer(service)),
            (admin_pb2_grpc.add_AdminServiceServicer_to_server, AdminServicer(service)),
            (engine_pb2_grpc.add_EngineServiceServicer_to_server, EngineServicer(service)),
            (training_pb2_grpc.add_TrainingServiceServicer_to_server, TrainingServicer(service)),
            (health_pb2_grpc.add_HealthServicer_to_server, self._health),
        )
        for register, servicer in served:
            register(servicer, self._server)
        files = (run_pb2, admin_pb2, engine_pb2, training_pb2, health_pb2)
        names = [name for file in files for name in _service_names(file)]
        reflection.enable_server_reflection([*names, reflection.SERVICE_NAME], self._server)

    async def start(self, address: str, tls: grpc.ServerCredentials | None = None) -> int:
        """Listen and serve; returns the port.

        Raises:
            ListenError: the address is malformed or taken, or the TLS files do not fit together.
        """
        host, port = split_address("listen_address", address)
        _require_free("listen_address", host, port)
        try:
            if tls is None:
                self.port = self._server.add_insecure_port(address)
            else:
                self.port = self._server.add_secure_port(address, tls)
        except RuntimeError as error:
            raise ListenError(
                f"listen_address: cannot listen on {address}"
                f"{'' if tls is None else ' with these TLS files'}: {error}"
            ) from error
        await self._server.start()
        for name in HEALTH_SERVICES:
            await self._health.set(name, health_pb2.HealthCheckResponse.SERVING)
        return self.port

    async def start_probes(self, address: str) -> int:
        """Serve health alone on a port without TLS, which kubelet's probes need; returns the port.

        Raises:
            ListenError: the address is malformed or taken.
        """
        _require_free("health_address", *split_address("health_address", address))
        self._probes = grpc.aio.server(options=_OPTIONS)
        health_pb2_grpc.add_HealthServicer_to_server(self._health, self._probes)
        try:
            port = self._probes.add_insecure_port(address)
        except RuntimeError as error:
            raise ListenError(f"health_address: cannot listen on {address}: {error}") from error
        await self._probes.start()
        return port

    async def drain(self, grace_s: float) -> None:
        """Say NOT_SERVING, close the streams, let calls finish for ``grace_s``, then end them."""
        await self._health.enter_graceful_shutdown()
        self._service.begin_stop()
        await self._server.stop(grace_s)
        if self._probes is not None:
            await self._probes.stop(None)


def serve_metrics(address: str, registry: CollectorRegistry) -> WSGIServer:
    """Serve the metrics page from a thread of its own.

    Raises:
        ListenError: the address is malformed or taken.
    """
    host, port = split_address("metrics_address", address)
    try:
        server, _ = start_http_server(port, host or "0.0.0.0", registry)  # noqa: S104  as asked
    except OSError as error:
        raise ListenError(
            f"metrics_address: cannot listen on {address}: {error.strerror}"
        ) from error
    return server


async def stop_metrics(server: WSGIServer) -> None:
    """Stop the metrics page."""
    await asyncio.to_thread(server.shutdown)
    server.server_close()


def _service_names(file: object) -> list[str]:
    services = file.DESCRIPTOR.services_by_name.values()  # type: ignore[attr-defined]
    return [service.full_name for service in services]


def _require_free(field: str, host: str, port: int) -> None:
    """Say plainly that a port is taken; gRPC's own message does not."""
    if port == 0:
        return
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    try:
        with socket.socket(family, socket.SOCK_STREAM) as probe:
            probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            probe.bind((host, port))
    except OSError as error:  # also where the kernel has no IPv6
        raise ListenError(f"{field}: cannot listen on {host}:{port}: {error.strerror}") from error
