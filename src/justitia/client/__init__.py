"""A small client of the scheduler service, for agents and the command line.

Saying when a run starts and ends is optional: the headers alone put inferences under one run. A run
that is declared gets its estimate before its first inference and is closed at once instead of by
its idle timeout::

    async with connect_async("127.0.0.1:50051") as scheduler:
        async with scheduler.run(application="summarise", prompt=question) as run:
            client = openai.AsyncOpenAI(base_url=..., default_headers=run.headers)

Importing this module needs nothing; connecting needs ``justitia[api]``.
"""

from justitia.client.blocking import Client
from justitia.client.connection import (
    DEFAULT_ADDRESS,
    DEFAULT_TIMEOUT_S,
    SchedulerError,
    TlsFiles,
    UnreachableError,
    open_channel,
)
from justitia.client.prompts import PromptPolicy
from justitia.client.runs import (
    APPLICATION_HEADER,
    RUN_HEADER,
    AsyncClient,
    Run,
    new_run_id,
    run_headers,
)

__all__ = [
    "APPLICATION_HEADER",
    "DEFAULT_ADDRESS",
    "RUN_HEADER",
    "AsyncClient",
    "Client",
    "PromptPolicy",
    "Run",
    "SchedulerError",
    "TlsFiles",
    "UnreachableError",
    "connect",
    "connect_async",
    "new_run_id",
    "run_headers",
]


def connect(
    address: str = DEFAULT_ADDRESS,
    *,
    tls: TlsFiles | None = None,
    timeout_s: float = DEFAULT_TIMEOUT_S,
    prompts: PromptPolicy | None = None,
) -> Client:
    """Open a blocking client; only its first call finds out whether anybody answers.

    ``prompts``: what of prompts leaves this process; None: their text.

    Raises:
        SchedulerError: gRPC is not installed, or a TLS file cannot be read.
    """
    return Client(address, open_channel(address, tls, is_async=False), timeout_s, prompts)


def connect_async(
    address: str = DEFAULT_ADDRESS,
    *,
    tls: TlsFiles | None = None,
    timeout_s: float = DEFAULT_TIMEOUT_S,
    prompts: PromptPolicy | None = None,
) -> AsyncClient:
    """Open a client for asyncio; see ``connect``."""
    return AsyncClient(address, open_channel(address, tls, is_async=True), timeout_s, prompts)
