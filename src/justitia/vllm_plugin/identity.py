"""Which run an inference belongs to. Pure: no vLLM, no I/O.

Two carriers bring an identity to the engine core: the session id of vLLM's requests, into which the
middleware has put the headers, and ``vllm_xargs`` of the body. The headers win, because a gateway
sets them. An identity that is malformed never costs an inference: it is counted, and the inference
becomes a run of its own.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Final
from urllib.parse import quote, unquote

from justitia.core.limits import is_usable_id

RUN_ID_HEADER: Final = b"x-justitia-run-id"
APPLICATION_HEADER: Final = b"x-justitia-application"
RUN_ID_ARGUMENT: Final = "justitia_run_id"
APPLICATION_ARGUMENT: Final = "justitia_application"
#: vLLM's own header whose value reaches the engine core.
SESSION_HEADER: Final = b"x-session-id"

_PREFIX: Final = "justitia-identity-1"
_SEPARATOR: Final = ":"


@dataclass(frozen=True, slots=True)
class Identity:
    """What a client said. Empty application: the pool's default; empty run id: a run of its own."""

    run_id: str = ""
    application: str = ""
    is_malformed: bool = False

    @property
    def is_given(self) -> bool:
        """Whether the client named a run."""
        return bool(self.run_id)


NOBODY: Final = Identity()
MALFORMED: Final = Identity(is_malformed=True)


def make_identity(run_id: str, application: str) -> Identity:
    """Check what a client sent: 1 to 256 printable characters, or empty for not sent."""
    if any(text and not is_usable_id(text) for text in (run_id, application)):
        return MALFORMED
    return Identity(run_id, application)


def from_headers(headers: Iterable[tuple[bytes, bytes]]) -> Identity:
    """Read an identity from raw HTTP headers; names come in lower case as ASGI demands.

    A header that is repeated with another value, is empty or is not UTF-8 makes the identity
    malformed.
    """
    found: dict[bytes, bytes] = {}
    for name, value in headers:
        if name in (RUN_ID_HEADER, APPLICATION_HEADER):
            text = value.strip(b" \t")
            if not text or found.setdefault(name, text) != text:
                return MALFORMED
    if not found:
        return NOBODY
    try:
        run_id = found.get(RUN_ID_HEADER, b"").decode()
        application = found.get(APPLICATION_HEADER, b"").decode()
    except UnicodeDecodeError:
        return MALFORMED
    return make_identity(run_id, application)


def from_arguments(arguments: Mapping[str, Any] | None) -> Identity:
    """Read an identity from ``vllm_xargs``.

    Strings, or whole numbers, which clients also use as ids.
    """
    if not arguments:
        return NOBODY
    texts = []
    for name in (RUN_ID_ARGUMENT, APPLICATION_ARGUMENT):
        value = arguments.get(name)
        if value == "" or isinstance(value, bool) or not isinstance(value, str | int | None):
            return MALFORMED
        texts.append("" if value is None else str(value))
    return make_identity(*texts)


def to_session(identity: Identity, session: str) -> str:
    """Pack an identity, and the session id that the client itself sent, into one session id."""
    mark = "malformed" if identity.is_malformed else "ok"
    parts = (identity.application, identity.run_id, session)
    return _SEPARATOR.join((_PREFIX, mark, *(quote(part, safe="") for part in parts)))


def from_session(session: str | None) -> tuple[Identity, str | None]:
    """Undo ``to_session``: the identity and the client's own session id, if it had sent one.

    A session id that the middleware did not make carries no identity and comes back as it is.
    """
    parts = session.split(_SEPARATOR) if session else []
    if len(parts) != 5 or parts[0] != _PREFIX:  # noqa: PLR2004 - prefix, mark and three texts
        return NOBODY, session
    application, run_id, own = (unquote(part) for part in parts[2:])
    identity = MALFORMED if parts[1] != "ok" else make_identity(run_id, application)
    return identity, own or None


def choose(from_header: Identity, from_body: Identity) -> Identity:
    """The header's identity if there is any, else the body's."""
    return from_body if from_header == NOBODY else from_header
