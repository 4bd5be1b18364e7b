"""A small client of the scheduler service, for agents and the command line.

Saying when a run starts and ends is optional: the headers alone put inferences under one run. A run
that is declared gets its estimate before its first inference and is closed at once instead of by
its idle timeout::

    async with connect_async("127.0.0.1:50051") as scheduler:
        async with scheduler.run(application="summarise", prompt=question) as run:
            client = openai.AsyncOpenAI(base_url=..., default_headers=run.headers)

Importing this module needs nothing; connecting needs ``justitia[api]``.
"""

import contextlib
import importlib
import uuid
from collections.abc import AsyncIterator, Iterator
from dataclasses import dataclass
from pathlib import Path
from types import ModuleType, TracebackType
from typing import TYPE_CHECKING, Any, Final, NoReturn, Self

if TYPE_CHECKING:
    from justitia.api.v1 import admin_pb2, run_pb2, training_pb2

RUN_HEADER: Final = "x-justitia-run-id"
APPLICATION_HEADER: Final = "x-justitia-application"
DEFAULT_ADDRESS: Final = "127.0.0.1:50051"
DEFAULT_TIMEOUT_S: Final = 10.0

_MAX_MESSAGE_BYTES: Final = 20 << 20
_PAGE_SIZE: Final = 500


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


def new_run_id() -> str:
    """Make an id for a run that nobody declares to the service."""
    return f"run-{uuid.uuid4().hex}"


def run_headers(run_id: str, application: str = "") -> dict[str, str]:
    """HTTP headers that put an inference under a run: ``default_headers`` of an OpenAI client."""
    headers = {RUN_HEADER: run_id}
    if application:
        headers[APPLICATION_HEADER] = application
    return headers


def connect(
    address: str = DEFAULT_ADDRESS,
    *,
    tls: TlsFiles | None = None,
    timeout_s: float = DEFAULT_TIMEOUT_S,
) -> "Client":
    """Open a blocking client; only its first call finds out whether anybody answers.

    Raises:
        SchedulerError: gRPC is not installed, or a TLS file cannot be read.
    """
    return Client(address, _channel(address, tls, is_async=False), timeout_s)


def connect_async(
    address: str = DEFAULT_ADDRESS,
    *,
    tls: TlsFiles | None = None,
    timeout_s: float = DEFAULT_TIMEOUT_S,
) -> "AsyncClient":
    """Open a client for asyncio; see ``connect``."""
    return AsyncClient(address, _channel(address, tls, is_async=True), timeout_s)


class Run:
    """One run, from ``async with`` to its end; the run is closed also when the body fails.

    Without a scheduler service the body still runs, under a local id: ``is_declared`` says which.
    """

    def __init__(
        self, client: "AsyncClient", request: dict[str, Any], *, is_required: bool
    ) -> None:
        self._client = client
        self._request = request
        self._is_required = is_required
        self.run_id = str(request.get("run_id") or new_run_id())
        self.application = str(request.get("application", ""))
        self.is_declared = False
        #: The service's last word: after ``async with``, with JCT and cost.
        self.facts: run_pb2.Run | None = None

    @property
    def headers(self) -> dict[str, str]:
        """Headers for every inference of this run."""
        return run_headers(self.run_id, self.application)

    async def __aenter__(self) -> Self:
        try:
            self.facts = await self._client.start_run(**{**self._request, "run_id": self.run_id})
            self.is_declared = True
        except UnreachableError:
            if self._is_required:
                raise
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        if not self.is_declared:
            return
        try:
            self.facts = await self._client.end_run(
                self.run_id, pool=str(self._request.get("pool", ""))
            )
        except SchedulerError:
            if kind is None and self._is_required:
                raise


class AsyncClient:
    """Calls of RunService for agents. Use it in one event loop; close it or use ``async with``."""

    def __init__(self, address: str, channel: Any, timeout_s: float) -> None:
        self.address = address
        self._channel = channel
        self._timeout_s = timeout_s
        self._stub = _api("run_pb2_grpc").RunServiceStub(channel)

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
        ``is_required``: fail where nobody answers, instead of going on undeclared.
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
    ) -> "run_pb2.Run":
        """Open a run; an empty ``run_id`` lets the service make one."""
        request = _start_request(application, prompt, cost_kvtt, run_id, pool)
        answer: run_pb2.Run = await self._call(self._stub.StartRun, request)
        return answer

    async def end_run(self, run_id: str, *, pool: str = "") -> "run_pb2.Run":
        """Close a run."""
        request = _api("run_pb2").EndRunRequest(pool=pool, run_id=run_id)
        answer: run_pb2.Run = await self._call(self._stub.EndRun, request)
        return answer

    async def get_run(self, run_id: str, *, pool: str = "") -> "run_pb2.Run":
        """Look at a run."""
        request = _api("run_pb2").GetRunRequest(pool=pool, run_id=run_id)
        answer: run_pb2.Run = await self._call(self._stub.GetRun, request)
        return answer

    async def watch_runs(
        self, *, pool: str = "", application: str = ""
    ) -> "AsyncIterator[run_pb2.RunEvent]":
        """Yield what is open, then every change."""
        request = _api("run_pb2").WatchRunsRequest(pool=pool, application=application)
        with _told(self.address):
            async for event in self._stub.WatchRuns(request):
                yield event

    async def _call(self, method: Any, request: Any) -> Any:
        with _told(self.address):
            return await method(request, timeout=self._timeout_s)


class Client:
    """All of the service's calls, blocking. Close it or use ``with``."""

    def __init__(self, address: str, channel: Any, timeout_s: float) -> None:
        self.address = address
        self._channel = channel
        self._timeout_s = timeout_s
        self._runs = _api("run_pb2_grpc").RunServiceStub(channel)
        self._admin = _api("admin_pb2_grpc").AdminServiceStub(channel)
        self._training = _api("training_pb2_grpc").TrainingServiceStub(channel)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Close the connection."""
        self._channel.close()

    # -- runs --------------------------------------------------------------------------------------

    def start_run(
        self,
        *,
        application: str = "",
        prompt: str = "",
        cost_kvtt: float | None = None,
        run_id: str = "",
        pool: str = "",
    ) -> "run_pb2.Run":
        """Open a run; an empty ``run_id`` lets the service make one."""
        request = _start_request(application, prompt, cost_kvtt, run_id, pool)
        answer: run_pb2.Run = self._call(self._runs.StartRun, request)
        return answer

    def end_run(self, run_id: str, *, pool: str = "") -> "run_pb2.Run":
        """Close a run."""
        request = _api("run_pb2").EndRunRequest(pool=pool, run_id=run_id)
        answer: run_pb2.Run = self._call(self._runs.EndRun, request)
        return answer

    def get_run(self, run_id: str, *, pool: str = "") -> "run_pb2.Run":
        """Look at a run."""
        request = _api("run_pb2").GetRunRequest(pool=pool, run_id=run_id)
        answer: run_pb2.Run = self._call(self._runs.GetRun, request)
        return answer

    def list_runs(self, *, pool: str = "", application: str = "") -> "Iterator[run_pb2.Run]":
        """Yield open runs in the order of service, fetching page by page."""
        token = ""
        while True:
            request = _api("run_pb2").ListRunsRequest(
                pool=pool, application=application, page_size=_PAGE_SIZE, page_token=token
            )
            page = self._call(self._runs.ListRuns, request)
            yield from page.runs
            token = page.next_page_token
            if not token:
                return

    def watch_runs(self, *, pool: str = "", application: str = "") -> "Iterator[run_pb2.RunEvent]":
        """Yield what is open, then every change, until the caller stops."""
        request = _api("run_pb2").WatchRunsRequest(pool=pool, application=application)
        with _told(self.address):
            yield from self._runs.WatchRuns(request)

    def explain_run(self, run_id: str, *, pool: str = "") -> "run_pb2.ExplainRunResponse":
        """Ask why a run waits."""
        request = _api("run_pb2").ExplainRunRequest(pool=pool, run_id=run_id)
        answer: run_pb2.ExplainRunResponse = self._call(self._runs.ExplainRun, request)
        return answer

    # -- applications and pools --------------------------------------------------------------------

    def apply_application(self, application: "admin_pb2.Application") -> "admin_pb2.Application":
        """Declare an application or replace what was declared."""
        request = _api("admin_pb2").ApplyApplicationRequest(application=application)
        answer: admin_pb2.Application = self._call(self._admin.ApplyApplication, request)
        return answer

    def delete_application(self, name: str, *, pool: str = "") -> None:
        """Remove an application; what is not there is gone already."""
        request = _api("admin_pb2").DeleteApplicationRequest(pool=pool, name=name)
        self._call(self._admin.DeleteApplication, request)

    def list_applications(self, *, pool: str = "") -> "list[admin_pb2.Application]":
        """Show the declared applications with what became of their runs."""
        request = _api("admin_pb2").ListApplicationsRequest(pool=pool)
        return list(self._call(self._admin.ListApplications, request).applications)

    def describe_pool(self, name: str = "") -> "admin_pb2.Pool":
        """Show a pool and its engines."""
        request = _api("admin_pb2").DescribePoolRequest(pool=name)
        answer: admin_pb2.Pool = self._call(self._admin.DescribePool, request)
        return answer

    def set_pool_mode(self, name: str = "", *, is_shadow: bool) -> "admin_pb2.Pool":
        """Put the order in force, or only measure."""
        modes = _api("common_pb2")
        mode = modes.POOL_MODE_SHADOW if is_shadow else modes.POOL_MODE_ENFORCE
        request = _api("admin_pb2").SetPoolModeRequest(pool=name, mode=mode)
        answer: admin_pb2.Pool = self._call(self._admin.SetPoolMode, request)
        return answer

    # -- training ----------------------------------------------------------------------------------

    def export_samples(
        self, *, pool: str = "", application: str = "", max_samples: int = 0
    ) -> "Iterator[training_pb2.Sample]":
        """Yield recorded runs, oldest first; 0: all of them."""
        request = _api("training_pb2").ExportSamplesRequest(
            pool=pool, application=application, max_samples=max_samples
        )
        with _told(self.address):
            yield from self._training.ExportSamples(request)

    def publish_model(
        self, application: str, artefact: bytes, *, pool: str = ""
    ) -> "training_pb2.Model":
        """Store a model and make it the application's active one."""
        request = _api("training_pb2").PublishModelRequest(
            pool=pool, application=application, artefact=artefact
        )
        answer: training_pb2.Model = self._call(self._training.PublishModel, request)
        return answer

    def list_models(self, *, pool: str = "", application: str = "") -> "list[training_pb2.Model]":
        """Show the stored models, oldest first."""
        request = _api("training_pb2").ListModelsRequest(pool=pool, application=application)
        return list(self._call(self._training.ListModels, request).models)

    def _call(self, method: Any, request: Any) -> Any:
        with _told(self.address):
            return method(request, timeout=self._timeout_s)


def _grpc() -> ModuleType:
    try:
        return importlib.import_module("grpc")
    except ImportError as error:
        raise SchedulerError(
            "NOT_INSTALLED", "gRPC is not installed; install it with: pip install 'justitia[api]'"
        ) from error


def _api(name: str) -> Any:
    _grpc()
    return importlib.import_module(f"justitia.api.v1.{name}")


def _channel(address: str, tls: TlsFiles | None, *, is_async: bool) -> Any:
    grpc = _grpc()
    options = (
        ("grpc.max_receive_message_length", _MAX_MESSAGE_BYTES),
        ("grpc.max_send_message_length", _MAX_MESSAGE_BYTES),
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
def _told(address: str) -> Iterator[None]:
    """Turn gRPC's errors into ours."""
    grpc = _grpc()
    try:
        yield
    except grpc.RpcError as error:
        _raise(address, error)


def _raise(address: str, error: Any) -> NoReturn:
    code, details = error.code().name, error.details() or ""
    if code == "UNAVAILABLE":
        raise UnreachableError(
            code,
            f"no scheduler service answers at {address} ({details}); start one with `justitia up`"
            " or name its address",
        ) from error
    if code == "DEADLINE_EXCEEDED":
        raise SchedulerError(
            code, f"the scheduler service at {address} did not answer in time"
        ) from error
    raise SchedulerError(code, details or code) from error


def _start_request(
    application: str, prompt: str, cost_kvtt: float | None, run_id: str, pool: str
) -> Any:
    return _api("run_pb2").StartRunRequest(
        pool=pool, run_id=run_id, application=application, prompt_text=prompt, cost_kvtt=cost_kvtt
    )
