"""``python -m justitia_scheduler``: start, wait for a signal, drain."""

import asyncio
import os
import signal
import sys
from collections.abc import Sequence
from typing import TYPE_CHECKING, Final

import structlog

from justitia.logs import configure_logs
from justitia_scheduler.garbage import care_for_garbage
from justitia_scheduler.server import (
    GrpcServer,
    ListenError,
    credentials,
    serve_metrics,
    stop_metrics,
)
from justitia_scheduler.service import SchedulerService
from justitia_scheduler.settings import Settings, SettingsError, read_settings
from justitia_scheduler.sqlite_store import SqliteStore
from justitia_scheduler.store import StoreError

if TYPE_CHECKING:
    from wsgiref.simple_server import WSGIServer

_CANNOT_START: Final = 2

_log = structlog.get_logger()


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the service until SIGTERM or SIGINT; returns the exit code.

    What keeps it from starting is one sentence on stderr and code 2.
    """
    try:
        settings = read_settings(sys.argv[1:] if arguments is None else arguments)
        configure_logs(settings.log_format)
        asyncio.run(_serve(settings))
    except (SettingsError, ListenError, StoreError) as error:
        print(f"justitia-scheduler: {error}", file=sys.stderr)  # noqa: T201
        return _CANNOT_START
    return 0


async def _serve(settings: Settings) -> None:
    stop = _stop_on_signals()
    service = SchedulerService(
        SqliteStore(settings.journal_path),
        options=settings.service_options(),
        pool_options=settings.pool_options(),
    )
    tls = None
    if settings.tls_cert is not None and settings.tls_key is not None:
        tls = credentials(settings.tls_cert, settings.tls_key, settings.tls_client_ca)
    await service.start()
    care = asyncio.create_task(care_for_garbage(service.num_open_runs))
    page: WSGIServer | None = None
    try:
        if settings.has_metrics_page:
            page = serve_metrics(settings.metrics_address, service.metrics.registry)
        server = GrpcServer(service)
        port = await server.start(settings.listen_address, tls)
        if settings.has_health_port:
            await server.start_probes(settings.health_address)
        _log.info(
            "serving",
            address=settings.listen_address,
            port=port,
            metrics_port=None if page is None else page.server_port,
            journal=str(settings.journal_path or "memory"),
            tls="none" if tls is None else "mTLS" if settings.tls_client_ca else "TLS",
        )
        await stop.wait()
        _log.info("draining", for_s=settings.drain_s)
        await server.drain(settings.drain_s)
    finally:
        care.cancel()
        await service.stop()
        if page is not None:
            await stop_metrics(page)
    _log.info("stopped")


def _stop_on_signals() -> asyncio.Event:
    """Set an event at the first signal; the second one ends the process at once."""
    stop = asyncio.Event()

    def on_signal(number: int) -> None:
        if stop.is_set():
            os._exit(128 + number)
        stop.set()

    loop = asyncio.get_running_loop()
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, on_signal, number)
    return stop


if __name__ == "__main__":
    sys.exit(main())
