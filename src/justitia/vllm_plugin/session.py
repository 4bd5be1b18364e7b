"""The engine's session with the scheduler service, in a thread of its own.

The engine never waits for it. The thread and its channel are made inside the engine core after vLLM
has started its workers, because a channel must not cross a fork.
"""

import logging
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

import grpc

from justitia.api.v1 import engine_pb2, engine_pb2_grpc
from justitia.vllm_plugin import wire
from justitia.vllm_plugin.controller import EngineController
from justitia.vllm_plugin.settings import Settings
from justitia.vllm_plugin.wire import EngineFacts

__all__ = ["EngineFacts", "EngineSession"]

_logger = logging.getLogger("justitia.vllm_plugin")

_FIRST_BACKOFF_S: Final = 0.1
_MAX_BACKOFF_S: Final = 2.0
#: A report that says only that the engine is alive; the service counts an engine's silence.
_HEARTBEAT_S: Final = 1.0
#: Least time between two reports that something urgent asks for.
_KICK_PERIOD_S: Final = 0.02
_CLOSE_TIMEOUT_S: Final = 0.4
_OPTIONS: Final = (
    ("grpc.keepalive_time_ms", 10_000),
    ("grpc.keepalive_timeout_ms", 5_000),
    ("grpc.keepalive_permit_without_calls", 0),
    ("grpc.max_send_message_length", 16 * 2**20),
    ("grpc.max_receive_message_length", 64 * 2**20),
    # Backoff is ours: gRPC's own would keep a failed connection for up to two minutes.
    ("grpc.initial_reconnect_backoff_ms", 100),
    ("grpc.min_reconnect_backoff_ms", 1_000),
    ("grpc.max_reconnect_backoff_ms", 1_000),
    ("grpc.enable_http_proxy", 0),
    ("grpc.use_local_subchannel_pool", 1),
)


class EngineSession:
    """Reports what the engine does and receives tags; connects again whenever the stream breaks."""

    def __init__(self, controller: EngineController, facts: EngineFacts) -> None:
        self._controller = controller
        self._facts = facts
        self._settings: Settings = controller.settings
        self._is_closing = threading.Event()
        self._wake = threading.Event()
        self._call: Any = None
        self._thread = threading.Thread(target=self._run, name="justitia-session", daemon=True)
        self._has_warned = False
        self.is_connected = False
        self.num_connections = 0
        self.num_reports = 0

    def start(self) -> None:
        """Start the thread."""
        self._thread.start()

    def kick(self) -> None:
        """Something should be reported at once; called by the engine's thread, never waits."""
        if not self._wake.is_set():
            self._wake.set()

    def close(self, timeout_s: float = _CLOSE_TIMEOUT_S) -> None:
        """End the session, within ``timeout_s`` whatever the service does."""
        self._is_closing.set()
        self._wake.set()
        call = self._call
        if call is not None:
            call.cancel()
        self._thread.join(timeout_s)

    # -- the thread ----------------------------------------------------

    def _run(self) -> None:
        backoff_s = _FIRST_BACKOFF_S
        while not self._is_closing.is_set():
            had_connection = self.num_connections
            try:
                self._connect_once()
                problem = "the service ended the session"
            except grpc.RpcError as error:
                problem = _describe(error)
            except Exception as error:  # noqa: BLE001 - the thread must live as long as the engine
                problem = repr(error)
            self._note_end(problem, was_connected=self.num_connections > had_connection)
            if self.num_connections > had_connection:
                backoff_s = _FIRST_BACKOFF_S
            self._is_closing.wait(backoff_s)
            backoff_s = min(2 * backoff_s, _MAX_BACKOFF_S)

    def _note_end(self, problem: str, *, was_connected: bool) -> None:
        """Say once that the service is away, not in every attempt."""
        self.is_connected = False
        if was_connected:
            self._has_warned = False
        if self._is_closing.is_set() or self._has_warned:
            return
        self._has_warned = True
        _logger.warning(
            "Justitia's scheduler service at %s is away (%s); this engine goes on by itself",
            self._settings.scheduler_address,
            problem,
        )

    def _connect_once(self) -> None:
        with _open_channel(self._settings) as channel:
            if self._is_closing.is_set():
                return
            stub = engine_pb2_grpc.EngineServiceStub(channel)  # type: ignore[no-untyped-call]
            is_over = threading.Event()
            call = self._call = stub.Session(self._outgoing(is_over))
            try:
                self._receive(call)
            finally:
                is_over.set()
                call.cancel()
                self._call = None
                self._wake.set()  # the sender may be waiting

    def _receive(self, call: Any) -> None:
        if self._is_closing.is_set():  # ``close`` may have come before there was a call to cancel
            return
        for message in call:
            if not self.is_connected:
                self.is_connected = True
                self.num_connections += 1
            self._controller.inbox.put(wire.read_directive(message, self._controller.clock()))

    def _outgoing(self, is_over: threading.Event) -> Iterator[engine_pb2.EngineMessage]:
        """What this session sends; runs in a thread of gRPC's until the call ends."""
        clock = self._controller.clock
        yield from wire.hellos(self._controller, self._facts, clock())
        sequence, last_s = 0, time.monotonic()
        while not self._is_closing.is_set() and not is_over.is_set():
            is_due = time.monotonic() - last_s >= _HEARTBEAT_S
            message = wire.report(self._controller, sequence + 1, clock(), is_due=is_due)
            if message is not None:
                sequence += 1
                self.num_reports += 1
                last_s = time.monotonic()
                yield message
            self._pause(last_s)

    def _pause(self, last_s: float) -> None:
        """Wait until the next report may go.

        At once if there is more, soon if kicked, else a period.
        """
        if self._wake.wait(self._settings.report_period_s):
            self._wake.clear()
            self._is_closing.wait(max(0.0, last_s + _KICK_PERIOD_S - time.monotonic()))


def _describe(error: Any) -> str:
    """Say what went wrong with a call: gRPC raises the call itself, with a code and details."""
    return f"{error.code().name}: {error.details()}" if hasattr(error, "code") else repr(error)


def _open_channel(settings: Settings) -> Any:
    """Open a channel; certificates are read anew each time, so that they can rotate."""
    if not settings.tls_ca:
        return grpc.insecure_channel(settings.scheduler_address, options=_OPTIONS)
    credentials = grpc.ssl_channel_credentials(
        root_certificates=Path(settings.tls_ca).read_bytes(),
        private_key=Path(settings.tls_key).read_bytes() if settings.tls_key else None,
        certificate_chain=Path(settings.tls_cert).read_bytes() if settings.tls_cert else None,
    )
    return grpc.secure_channel(settings.scheduler_address, credentials, options=_OPTIONS)
