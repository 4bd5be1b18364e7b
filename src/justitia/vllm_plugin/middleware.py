"""ASGI middleware that carries the run's identity from the headers to the engine core.

vLLM copies the header ``X-Session-ID`` to every engine request that a call makes, whatever its
route. So the identity travels inside that header, together with the session id that the client
sent, which the scheduler puts back. Bodies are not touched: nothing is buffered, parsed or
rewritten, and a request without an identity goes on unchanged.

One hole is left open on purpose: a ``session_id`` in the *body* takes precedence over the header
inside vLLM, so it hides the headers' identity. Closing it would mean to rewrite bodies; such a
client puts its identity into ``vllm_xargs`` instead.
"""

from collections.abc import Awaitable, Callable, MutableMapping
from typing import Any

from justitia.vllm_plugin.identity import NOBODY, SESSION_HEADER, from_headers, to_session

Scope = MutableMapping[str, Any]
Message = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[Message]]
Send = Callable[[Message], Awaitable[None]]
App = Callable[[Scope, Receive, Send], Awaitable[None]]


class RunIdentity:
    """``--middleware justitia.vllm_plugin.RunIdentity``."""

    def __init__(self, app: App) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Pass the call on; only the headers of an HTTP request with an identity change."""
        if scope["type"] == "http":
            scope = _with_identity(scope)
        await self._app(scope, receive, send)


def _with_identity(scope: Scope) -> Scope:
    headers = list(scope.get("headers") or ())
    identity = from_headers(headers)
    if identity == NOBODY:
        return scope
    # vLLM reads the first X-Session-ID that is there; header values are Latin-1 by HTTP's rules.
    session = next((value for name, value in headers if name == SESSION_HEADER), b"")
    packed = to_session(identity, session.decode("latin-1"))
    others = [(name, value) for name, value in headers if name != SESSION_HEADER]
    return {**scope, "headers": [*others, (SESSION_HEADER, packed.encode("ascii"))]}
