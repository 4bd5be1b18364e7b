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
from justitia_scheduler.admin_servicer import AdminServicer, EngineServicer
from justitia_scheduler.limits import MAX_MESSAGE_BYTES
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
    host, colon, port = address.rpartition(":")
    if not colon or not port.isdigit() or int(port) > 65535:  # noqa: PLR2004
        raise ListenError(f"{field}: must be host:port, got {address!r}")
    return host.strip("[]"), int(port)


def credentials(cert: Path, key: Path, client_ca: Path | None) -> grpc.ServerCredentials:
    """Read TLS files; with ``client_ca`` every client must show a certificate of it (mTLS).

    Raises:
        ListenError: a file cannot be read.
    """
    try:
        pair = (key.read_bytes(), cert.read_bytes())
        ca = None if client_ca is None else client_ca.read_bytes()
    except OSError as error:
        raise ListenError(f"{error.filename}: {error.strerror}") from error
    return grpc.ssl_server_credentials(
        [pair], root_certificates=ca, require_client_auth=ca is not None
    )


class GrpcServer:
    """The gRPC server of one service."""

    def __init__(self, service: SchedulerService) -> None:
        self._service = service
        self._server = grpc.aio.server(options=_OPTIONS)
        self._health = health.aio.HealthServicer()
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

    async def drain(self, grace_s: float) -> None:
        """Say NOT_SERVING, close the streams, let calls finish for ``grace_s``, then end them."""
        await self._health.enter_graceful_shutdown()
        self._service.begin_stop()
        await self._server.stop(grace_s)


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
    with socket.socket(family, socket.SOCK_STREAM) as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind((host, port))
        except OSError as error:
            raise ListenError(
                f"{field}: cannot listen on {host}:{port}: {error.strerror}"
            ) from error
