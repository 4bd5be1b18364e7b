"""The operator's HTTP port: /healthz, /readyz and /metrics."""

from collections.abc import Awaitable, Callable
from typing import Final

from aiohttp import web
from prometheus_client import CollectorRegistry
from prometheus_client.exposition import CONTENT_TYPE_LATEST, generate_latest

_OK: Final = 200
_UNAVAILABLE: Final = 503


class ListenError(Exception):
    """The port cannot be used; the message is one sentence."""


class Pages:
    """Served from the operator's own event loop, so that a stuck loop answers nothing.

    ``ailment`` and ``unreadiness`` say what is wrong, or nothing.
    """

    def __init__(
        self,
        registry: CollectorRegistry,
        *,
        ailment: Callable[[], str],
        unreadiness: Callable[[], str],
    ) -> None:
        application = web.Application()
        application.router.add_get("/healthz", _probe(ailment))
        application.router.add_get("/readyz", _probe(unreadiness))
        application.router.add_get("/metrics", _metrics(registry))
        self._runner = web.AppRunner(application, access_log=None)

    async def start(self, host: str, port: int) -> int:
        """Listen; returns the port.

        Raises:
            ListenError: the address cannot be used.
        """
        await self._runner.setup()
        site = web.TCPSite(self._runner, host or None, port)
        try:
            await site.start()
        except OSError as error:
            await self._runner.cleanup()
            raise ListenError(
                f"http_address: cannot listen on {host}:{port}: {error.strerror}"
            ) from error
        return int(self._runner.addresses[0][1])

    async def stop(self) -> None:
        """Stop listening."""
        await self._runner.cleanup()


def _probe(problem: Callable[[], str]) -> Callable[[web.Request], Awaitable[web.Response]]:
    async def answer(_: web.Request) -> web.Response:
        said = problem()
        return web.Response(text=said or "ok", status=_UNAVAILABLE if said else _OK)

    return answer


def _metrics(
    registry: CollectorRegistry,
) -> Callable[[web.Request], Awaitable[web.Response]]:
    async def answer(_: web.Request) -> web.Response:
        body = generate_latest(registry)
        return web.Response(body=body, headers={"Content-Type": CONTENT_TYPE_LATEST})

    return answer
