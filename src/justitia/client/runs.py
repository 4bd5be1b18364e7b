"""Runs as agents declare them: their headers, their life as a context, the asyncio client."""

import uuid
from types import TracebackType
from typing import TYPE_CHECKING, Any, Final, Self

from justitia.client.connection import SchedulerError, api, told
from justitia.client.prompts import PromptPolicy

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from justitia.api.v1 import run_pb2

RUN_HEADER: Final = "x-justitia-run-id"
APPLICATION_HEADER: Final = "x-justitia-application"

#: What an agent that can do without the service waits for it, at the start and at the end of a run.
OPTIONAL_TIMEOUT_S: Final = 0.5
#: The caller's own mistakes: going on undeclared would hide them.
_MISTAKES: Final = frozenset({"INVALID_ARGUMENT", "ALREADY_EXISTS", "NOT_FOUND"})


def new_run_id() -> str:
    """Make an id for a run that nobody declares to the service."""
    return f"run-{uuid.uuid4().hex}"


def run_headers(run_id: str, application: str = "") -> dict[str, str]:
    """HTTP headers that put an inference under a run: ``default_headers`` of an OpenAI client."""
    headers = {RUN_HEADER: run_id}
    if application:
        headers[APPLICATION_HEADER] = application
    return headers


class Run:
    """One run, from ``async with`` to its end; the run is closed also when the body fails.

    A service that is away, hangs, is full or broken does not fail the agent: unless the run
    ``is_required``, the body runs undeclared, at most ``OPTIONAL_TIMEOUT_S`` later. ``is_declared``
    says which, ``problem`` why. What the caller got wrong (INVALID_ARGUMENT, ALREADY_EXISTS,
    NOT_FOUND) raises SchedulerError all the same.
    """

    def __init__(
        self, client: "AsyncClient", request: dict[str, Any], *, is_required: bool
    ) -> None:
        self._client = client
        self._request = request
        self._is_required = is_required
        self._timeout_s = None if is_required else OPTIONAL_TIMEOUT_S
        self.run_id = str(request.get("run_id") or new_run_id())
        self.application = str(request.get("application", ""))
        self.is_declared = False
        #: The service's last word: after ``async with``, with JCT and cost.
        self.facts: run_pb2.Run | None = None
        #: Why the run is undeclared, or was not ended.
        self.problem: SchedulerError | None = None

    @property
    def headers(self) -> dict[str, str]:
        """Headers for every inference of this run."""
        return run_headers(self.run_id, self.application)

    async def __aenter__(self) -> Self:
        try:
            self.facts = await self._client.start_run(
                **{**self._request, "run_id": self.run_id}, timeout_s=self._timeout_s
            )
            self.is_declared = True
        except SchedulerError as error:
            if self._is_required or error.code in _MISTAKES:
                raise
            self.problem = error
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        if self.facts is None:
            return
        try:
            # The pool that the service chose: an application knows its own, the caller need not.
            self.facts = await self._client.end_run(
                self.run_id, pool=self.facts.pool, timeout_s=self._timeout_s
            )
        except SchedulerError as problem:
            if kind is None and self._is_required:
                raise
            self.problem = problem


class AsyncClient:
    """Calls of RunService for agents. Use it in one event loop; close it or use ``async with``."""

    def __init__(
        self,
        address: str,
        channel: Any,
        timeout_s: float,
        prompts: PromptPolicy | None = None,
    ) -> None:
        self.address = address
        self._prompts = prompts or PromptPolicy()
        self._channel = channel
        self._timeout_s = timeout_s
        self._stub = api("run_pb2_grpc").RunServiceStub(channel)

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.close()

    async def close(self) -> None:
        """Close the connection."""
        await self._channel.close()

    def run(
        self,
        *,
        application: str = "",
        prompt: str = "",
        cost_kvtt: float | None = None,
        run_id: str = "",
        pool: str = "",
        is_required: bool = False,
    ) -> Run:
        """Make a run to be entered with ``async with``.

        ``cost_kvtt``: what the whole run will cost, if you know better than the predictor.
        ``is_required``: fail where the service does, instead of going on undeclared.
        """
        request = {
            "application": application,
            "prompt": prompt,
            "cost_kvtt": cost_kvtt,
            "run_id": run_id,
            "pool": pool,
        }
        return Run(self, request, is_required=is_required)

    async def start_run(
        self,
        *,
        application: str = "",
        prompt: str = "",
        cost_kvtt: float | None = None,
        run_id: str = "",
        pool: str = "",
        timeout_s: float | None = None,
    ) -> "run_pb2.Run":
        """Open a run; an empty ``run_id`` lets the service make one.

        ``timeout_s`` None: the client's own.
        """
        told_of = self._prompts.fields(prompt)
        request = start_request(application, told_of, cost_kvtt, run_id, pool)
        answer: run_pb2.Run = await self._call(self._stub.StartRun, request, timeout_s)
        return answer

    async def end_run(
        self, run_id: str, *, pool: str = "", timeout_s: float | None = None
    ) -> "run_pb2.Run":
        """Close a run; ``pool`` as its start answered."""
        request = api("run_pb2").EndRunRequest(pool=pool, run_id=run_id)
        answer: run_pb2.Run = await self._call(self._stub.EndRun, request, timeout_s)
        return answer

    async def get_run(self, run_id: str, *, pool: str = "") -> "run_pb2.Run":
        """Look at a run."""
        request = api("run_pb2").GetRunRequest(pool=pool, run_id=run_id)
        answer: run_pb2.Run = await self._call(self._stub.GetRun, request)
        return answer

    async def watch_runs(
        self, *, pool: str = "", application: str = ""
    ) -> "AsyncIterator[run_pb2.RunEvent]":
        """Yield what is open, then every change."""
        request = api("run_pb2").WatchRunsRequest(pool=pool, application=application)
        with told(self.address):
            async for event in self._stub.WatchRuns(request):
                yield event

    async def _call(self, method: Any, request: Any, timeout_s: float | None = None) -> Any:
        limit_s = self._timeout_s if timeout_s is None else timeout_s
        with told(self.address):
            return await method(request, timeout=limit_s)


def start_request(
    application: str, prompt: dict[str, Any], cost_kvtt: float | None, run_id: str, pool: str
) -> Any:
    """Build the request that opens a run; ``prompt``: see ``PromptPolicy.fields``."""
    return api("run_pb2").StartRunRequest(
        pool=pool, run_id=run_id, application=application, cost_kvtt=cost_kvtt, **prompt
    )
