"""The scheduler service as a child process of local mode."""

import sys
from collections.abc import Mapping
from pathlib import Path
from types import MappingProxyType
from typing import Self

import grpc
from grpc_health.v1 import health_pb2, health_pb2_grpc

from justitia.client.connection import open_channel
from justitia.local.processes import ChildProcess, free_port, make_parent

_READY_TIMEOUT_S = 60.0
_HOST = "127.0.0.1"


class SchedulerService:
    """A running service; an async context manager that ends it. Ports of 0 are chosen.

    ``more_flags``: others of the service, which go last.

    Raises:
        LocalModeError: the journal's folder cannot be made.
    """

    def __init__(
        self,
        *,
        port: int = 0,
        metrics_port: int = 0,
        journal_path: Path | None = None,
        log_path: Path,
        more_flags: Mapping[str, str] = MappingProxyType({}),
    ) -> None:
        self.address = f"{_HOST}:{port or free_port()}"
        self.metrics_address = f"{_HOST}:{metrics_port or free_port()}"
        command = [sys.executable, "-m", "justitia_scheduler"]
        command += ["--listen-address", self.address, "--metrics-address", self.metrics_address]
        if journal_path is not None:
            make_parent(journal_path)
            command += ["--journal-path", str(journal_path)]
        for flag, value in more_flags.items():
            command += [flag, value]
        self.process = ChildProcess("the scheduler service", command, log_path=log_path)

    async def __aenter__(self) -> Self:
        """Start it and wait until it is ready."""
        await self.process.start_ready(self._is_ready, timeout_s=_READY_TIMEOUT_S)
        return self

    async def __aexit__(self, *_: object) -> None:
        """End it."""
        await self.process.stop()

    async def _is_ready(self) -> bool:
        async with open_channel(self.address, None, is_async=True) as channel:
            request = health_pb2.HealthCheckRequest(service="readiness")
            try:
                answer = await health_pb2_grpc.HealthStub(channel).Check(request, timeout=2.0)
            except grpc.aio.AioRpcError:
                return False
        return bool(answer.status == health_pb2.HealthCheckResponse.SERVING)
