"""Run identity: carriers, bounds, and the middleware as pure ASGI."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from justitia.vllm_plugin import RunIdentity
from justitia.vllm_plugin.identity import (
    MALFORMED,
    NOBODY,
    Identity,
    choose,
    from_arguments,
    from_headers,
    from_session,
    to_session,
)


@pytest.mark.parametrize(
    ("headers", "expected"),
    [
        pytest.param([], NOBODY, id="none"),
        pytest.param([(b"x-justitia-run-id", b"r1")], Identity("r1"), id="run"),
        pytest.param(
            [(b"x-justitia-run-id", b"r1"), (b"x-justitia-application", b"a")],
            Identity("r1", "a"),
            id="both",
        ),
        pytest.param([(b"x-justitia-application", b"a")], Identity("", "a"), id="application"),
        pytest.param([(b"x-justitia-run-id", b" r1\t")], Identity("r1"), id="blanks around"),
        pytest.param([(b"x-justitia-run-id", "über".encode())], Identity("über"), id="UTF-8"),
        pytest.param([(b"x-justitia-run-id", b"r")] * 2, Identity("r"), id="repeated alike"),
        pytest.param(
            [(b"x-justitia-run-id", b"r"), (b"x-justitia-run-id", b"s")], MALFORMED, id="two"
        ),
        pytest.param([(b"x-justitia-run-id", b"")], MALFORMED, id="empty"),
        pytest.param([(b"x-justitia-run-id", b"\xff\xfe")], MALFORMED, id="not UTF-8"),
        pytest.param([(b"x-justitia-run-id", b"a\x00b")], MALFORMED, id="control character"),
        pytest.param([(b"x-justitia-run-id", b"x" * 256)], Identity("x" * 256), id="longest"),
        pytest.param([(b"x-justitia-run-id", b"x" * 257)], MALFORMED, id="too long"),
    ],
)
def test_headers_name_a_run(headers, expected):
    assert from_headers(headers) == expected


@pytest.mark.parametrize(
    ("arguments", "expected"),
    [
        (None, NOBODY),
        ({}, NOBODY),
        ({"other": 1}, NOBODY),
        ({"justitia_run_id": "r", "justitia_application": "a"}, Identity("r", "a")),
        ({"justitia_run_id": 17}, Identity("17")),
        ({"justitia_run_id": ""}, MALFORMED),
        ({"justitia_run_id": 1.5}, MALFORMED),
        ({"justitia_run_id": True}, MALFORMED),
        ({"justitia_run_id": ["r"]}, MALFORMED),
        ({"justitia_run_id": "x" * 257}, MALFORMED),
        ({"justitia_run_id": "a\nb"}, MALFORMED),
    ],
)
def test_arguments_name_a_run(arguments, expected):
    assert from_arguments(arguments) == expected


def test_the_header_wins_over_the_body():
    assert choose(Identity("h"), Identity("b")) == Identity("h")
    assert choose(NOBODY, Identity("b")) == Identity("b")
    assert choose(MALFORMED, Identity("b")) == MALFORMED


@given(
    st.binary(max_size=300),
    st.binary(max_size=300),
    st.text(max_size=50, alphabet=st.characters(max_codepoint=255)),
)
def test_any_bytes_travel_as_plain_ascii_and_come_back(run_id, application, session):
    identity = from_headers(
        [(b"x-justitia-run-id", run_id), (b"x-justitia-application", application)]
    )
    packed = to_session(identity, session)

    assert packed.isascii()
    assert packed.isprintable()
    assert from_session(packed) == (identity, session or None)


@given(st.none() | st.text(max_size=100))
def test_foreign_session_ids_come_back_unchanged(session):
    assert from_session(session) == (NOBODY, session)


# -- middleware --------------------------------------------------------------------------------


async def pass_through(scope, events=()):
    """What an application behind the middleware sees and what the client gets."""
    seen = {}
    sent = []
    incoming = iter(events)

    async def receive():
        return next(incoming)

    async def send(message):
        sent.append(message)

    async def app(scope, receive, send):
        seen.update(scope=scope, receive=receive, send=send)
        for _ in events:
            await send(await receive())

    await RunIdentity(app)(scope, receive, send)
    return seen, sent, receive, send


def scope_of(*headers, kind="http", method="POST"):
    return {"type": kind, "method": method, "headers": list(headers), "path": "/v1/x"}


async def test_a_request_without_identity_goes_on_untouched():
    scope = scope_of((b"x-session-id", b"mine"), (b"host", b"h"))
    before = dict(scope, headers=list(scope["headers"]))

    seen, _, receive, send = await pass_through(scope)

    assert seen["scope"] is scope
    assert scope == before
    assert (seen["receive"], seen["send"]) == (receive, send)


@pytest.mark.parametrize("method", ["POST", "GET", "OPTIONS", "PURGE"])
async def test_the_identity_travels_in_the_session_header_and_bodies_are_not_touched(method):
    scope = scope_of(
        (b"x-justitia-run-id", b"r"),
        (b"x-justitia-application", b"a"),
        (b"x-session-id", b"mine"),
        (b"content-length", b"3"),
        method=method,
    )
    body = [
        {"type": "http.request", "body": b"\xff{", "more_body": True},
        {"type": "http.disconnect"},
    ]

    seen, sent, receive, send = await pass_through(scope, body)

    headers = seen["scope"]["headers"]
    packed = [value for name, value in headers if name == b"x-session-id"]
    assert len(packed) == 1
    assert from_session(packed[0].decode()) == (Identity("r", "a"), "mine")
    assert (b"content-length", b"3") in headers
    assert (b"x-justitia-run-id", b"r") in headers
    assert sent == body
    assert (seen["receive"], seen["send"]) == (receive, send)
    assert scope["headers"][2] == (b"x-session-id", b"mine")  # the caller's own scope stays


@pytest.mark.parametrize("kind", ["websocket", "lifespan", "something-new"])
async def test_other_kinds_of_connection_pass_untouched(kind):
    scope = {"type": kind, "headers": [(b"x-justitia-run-id", b"r")]}

    seen, *_ = await pass_through(scope)

    assert seen["scope"] is scope


async def test_odd_bytes_cost_no_request():
    seen, *_ = await pass_through(scope_of((b"x-justitia-run-id", bytes(range(256)))))

    packed = dict(seen["scope"]["headers"])[b"x-session-id"]
    assert from_session(packed.decode()) == (MALFORMED, None)


async def test_an_error_of_the_application_comes_through():
    async def app(_scope, _receive, _send):
        raise ConnectionResetError("client gone")

    with pytest.raises(ConnectionResetError):
        await RunIdentity(app)(scope_of((b"x-justitia-run-id", b"r")), None, None)


def test_the_package_loads_neither_vllm_nor_grpc():
    import subprocess
    import sys

    code = (
        "import sys, justitia.vllm_plugin;"
        "print([m for m in ('vllm', 'grpc', 'google.protobuf', 'torch') if m in sys.modules])"
    )
    result = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True
    )

    assert result.stdout.strip() == "[]"
