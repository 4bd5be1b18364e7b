"""The scheduler service and one engine, run together until somebody stops them."""

import asyncio
import contextlib
import signal
from collections.abc import Callable, Coroutine
from typing import Any

from rich.console import Console

from justitia.client import connect
from justitia.local.declare import declare
from justitia.local.engine import MODEL_NAME, EngineServer
from justitia.local.service import SchedulerService
from justitia.resources.reading import Resource

#: Something that runs for as long as service and engine do.
Companion = Callable[[], Coroutine[Any, Any, None]]


async def serve(
    service: SchedulerService,
    server: EngineServer,
    manifests: list[Resource],
    console: Console,
    *,
    beside: Companion | None = None,
) -> None:
    """Run both until SIGINT or SIGTERM, or until one of them ends; then neither is left.

    ``beside`` runs along once both are up.

    Raises:
        LocalModeError: one did not start, or ended by itself.
    """
    stop = asyncio.Event()
    for number in (signal.SIGINT, signal.SIGTERM):
        asyncio.get_running_loop().add_signal_handler(number, stop.set)
    stopping = asyncio.create_task(stop.wait())
    serving = asyncio.create_task(_start_and_watch(service, server, manifests, console, beside))
    try:
        await asyncio.wait({stopping, serving}, return_when=asyncio.FIRST_COMPLETED)
        if serving.done():
            _raise_first(serving)
        else:
            console.print("stopping ...")
    finally:
        for task in (serving, stopping):
            task.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await task


async def _start_and_watch(
    service: SchedulerService,
    server: EngineServer,
    manifests: list[Resource],
    console: Console,
    beside: Companion | None,
) -> None:
    with console.status("starting the scheduler service and vLLM (about half a minute)"):
        async with contextlib.AsyncExitStack() as stack:
            await stack.enter_async_context(service)
            with connect(service.address) as client:
                declare(client, manifests)
            await stack.enter_async_context(server)
            started = stack.pop_all()
    async with started:
        console.print(f"OpenAI API   {server.settings.base_url}  (model {MODEL_NAME})")
        console.print(f"scheduler    {service.address}  (justitia runs, justitia explain RUN)")
        console.print(f"metrics      http://{service.metrics_address}/metrics")
        console.print(f"logs         {server.settings.log_path.parent}")
        console.print("Ctrl-C stops both.")
        async with asyncio.TaskGroup() as watchers:
            watchers.create_task(service.process.require_running())
            watchers.create_task(server.process.require_running())
            if beside is not None:
                watchers.create_task(beside())


def _raise_first(serving: asyncio.Task[None]) -> None:
    """Raise what ended the stack; of a group its first member, which is the cause."""
    try:
        serving.result()
    except ExceptionGroup as group:
        raise group.exceptions[0] from None
