"""A real vLLM server with the plugin, over the GPU timing emulator, driven by the openai client."""

import asyncio
import os
import signal
import time
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager

import httpx
import openai
import pytest

from justitia.local.engine import MODEL_NAME, EngineServer, emulated_engine
from justitia.local.processes import free_port
from justitia.local.tiny_model import ensure_tiny_model

pytestmark = [
    pytest.mark.e2e,
    pytest.mark.filterwarnings("ignore::DeprecationWarning", "ignore::ResourceWarning"),
]


@contextmanager
def running_server(folder, **changes):
    """One engine over the emulator, with four sequences at most, until the block ends."""
    settings = emulated_engine(
        ensure_tiny_model(folder, progress=lambda _: None),
        port=free_port(),
        log_path=folder / "vllm.log",
        max_model_len_tokens=1024,
        max_num_seqs=4,
        kv_blocks=99,
        more_flags={"--shutdown-timeout": 5},
        **changes,
    )
    with asyncio.Runner() as runner:
        server = EngineServer(settings)
        runner.run(server.__aenter__())
        try:
            yield server
        finally:
            runner.run(server.__aexit__())


@pytest.fixture(scope="module")
def server(tmp_path_factory):
    environment = {"JUSTITIA_EMULATOR": '{"scale": 0.3}', "JUSTITIA_WEIGHTS": "large=1,small=100"}
    with running_server(tmp_path_factory.mktemp("server"), more_env=environment) as running:
        yield running


@pytest.fixture
def client(server):
    with openai.OpenAI(base_url=server.settings.base_url, api_key="none", max_retries=0) as client:
        yield client


def origin(server):
    return server.settings.base_url.removesuffix("/v1")


def num_requests(server, state):
    """Ask vLLM itself how many requests are running or waiting."""
    text = httpx.get(f"{origin(server)}/metrics", timeout=10).text
    name = f"vllm:num_requests_{state}"
    lines = [line for line in text.splitlines() if line.startswith(f"{name}{{")]
    return sum(float(line.rsplit(" ", 1)[1]) for line in lines)


def wait_until(condition):
    deadline_s = time.monotonic() + 20
    while not condition():
        assert time.monotonic() < deadline_s
        time.sleep(0.02)


def complete(client, headers=None, body=None, *, output=40):
    return client.completions.create(
        model=MODEL_NAME,
        prompt="hello " * 20,
        max_tokens=output,
        extra_headers=headers,
        extra_body=body,
    )


def chat(client, headers=None, body=None, *, output=40):
    return client.chat.completions.create(
        model=MODEL_NAME,
        messages=[{"role": "user", "content": "hello " * 20}],
        max_tokens=output,
        extra_headers=headers,
        extra_body=body,
    )


def by_header(application, run_id):
    return {"x-justitia-application": application, "x-justitia-run-id": run_id}, None


def by_body(application, run_id):
    return None, {"vllm_xargs": {"justitia_application": application, "justitia_run_id": run_id}}


@pytest.mark.parametrize("carry", [by_header, by_body])
@pytest.mark.parametrize("call", [complete, chat])
def test_a_run_with_a_smaller_finish_overtakes(server, client, call, carry):
    finished = []

    def ask(application, number, output):
        run_id = f"{application}-{call.__name__}-{carry.__name__}"
        call(client, *carry(application, run_id), output=output)
        finished.append((application, number))

    with ThreadPoolExecutor(32) as pool:
        large = [pool.submit(ask, "large", n, 300) for n in range(16)]
        wait_until(lambda: num_requests(server, "waiting") == 12)
        small = [pool.submit(ask, "small", n, 60) for n in range(8)]
        for future in (*large, *small):
            future.result()
    order = [application for application, _ in finished]

    last_small = max(n for n, application in enumerate(order) if application == "small")
    assert order[:3].count("large") == 3  # they ran already
    assert order[last_small + 1 :].count("large") >= 4


def test_a_scripted_output_has_the_length_it_asks_for(client):
    body = {"vllm_xargs": {"emulated_output_tokens": 7}}

    answer = chat(client, None, body, output=50)

    assert answer.usage.completion_tokens == 7
    assert answer.choices[0].finish_reason == "stop"


@pytest.mark.parametrize(
    "headers",
    [
        pytest.param({}, id="no identity"),
        pytest.param({"x-justitia-run-id": "x" * 4000}, id="too long"),
        pytest.param({"x-justitia-run-id": b"\xff\x80odd"}, id="odd bytes"),
        pytest.param({"x-justitia-run-id": ""}, id="empty"),
        pytest.param({"x-justitia-run-id": "r", "x-session-id": "mine"}, id="own session"),
    ],
)
@pytest.mark.parametrize("path", ["completions", "chat/completions"])
def test_no_header_costs_an_inference(server, headers, path):
    body = {"model": MODEL_NAME, "max_tokens": 3, "prompt": "hello"}
    if path != "completions":
        body["messages"] = [{"role": "user", "content": body.pop("prompt")}]

    answer = httpx.post(
        f"{server.settings.base_url}/{path}", headers=headers, json=body, timeout=30
    )

    assert answer.status_code == 200
    assert answer.json()["usage"]["completion_tokens"] == 3


@pytest.mark.parametrize(
    ("method", "path", "content", "status"),
    [
        ("GET", "/version", b"", 200),
        ("GET", "/nothing", b"", 404),
        ("DELETE", "/v1/models", b"", 405),
        ("POST", "/v1/completions", b"[1, 2]", 400),
        ("POST", "/v1/completions", b"{broken", 400),
        ("POST", "/v1/completions", b"", 400),
    ],
)
def test_other_calls_get_the_answer_that_they_get_without_an_identity(
    server, method, path, content, status
):
    def ask(headers):
        return httpx.request(
            method,
            f"{origin(server)}{path}",
            content=content,
            headers={"content-type": "application/json", **headers},
            timeout=30,
        )

    plain, named = ask({}), ask({"x-justitia-run-id": "r"})

    assert (plain.status_code, plain.content) == (named.status_code, named.content)
    assert plain.status_code == status


def test_a_client_that_goes_away_leaves_nothing_behind(server, client):
    with httpx.stream(
        "POST",
        f"{server.settings.base_url}/completions",
        json={"model": MODEL_NAME, "prompt": "x", "max_tokens": 900, "stream": True},
        headers={"x-justitia-run-id": "gone"},
        timeout=30,
    ) as answer:
        next(answer.iter_lines())
    wait_until(lambda: num_requests(server, "running") == 0)

    assert complete(client, output=2).usage.completion_tokens == 2


def test_a_killed_engine_core_is_noticed_by_the_service_at_once(tmp_path):
    import threading
    from concurrent import futures

    import grpc

    from justitia.api.v1 import engine_pb2, engine_pb2_grpc

    class Service(engine_pb2_grpc.EngineServiceServicer):
        def __init__(self):
            self.heard, self.gone_at_s = [], []
            self.has_hello, self.is_gone = threading.Event(), threading.Event()

        def Session(self, requests, context):  # noqa: N802
            context.add_callback(self.left)
            yield engine_pb2.EngineDirective(default_cost_kvtt=1000)
            for message in requests:
                self.heard.append(message)
                self.has_hello.set()

        def left(self):
            self.gone_at_s.append(time.monotonic())
            self.is_gone.set()

    service = Service()
    grpc_server = grpc.server(futures.ThreadPoolExecutor(4))
    engine_pb2_grpc.add_EngineServiceServicer_to_server(service, grpc_server)
    port = grpc_server.add_insecure_port("127.0.0.1:0")
    grpc_server.start()
    with running_server(
        tmp_path,
        scheduler_address=f"127.0.0.1:{port}",
        more_env={"JUSTITIA_ENGINE_ID": "e"},
    ) as server:
        assert service.has_hello.wait(30)
        hello = service.heard[0].hello
        with openai.OpenAI(base_url=server.settings.base_url, api_key="none") as client:
            complete(client, {"x-justitia-run-id": "r"}, output=5)
        wait_until(lambda: any(m.report.finished for m in service.heard))
        killed_at_s = time.monotonic()
        os.kill(server.core_pid(), signal.SIGKILL)
        assert service.is_gone.wait(10)
    grpc_server.stop(0).wait()

    assert (hello.engine_id, hello.kv_blocks, hello.block_size_tokens) == ("e-0", 99, 16)
    assert service.gone_at_s[0] - killed_at_s < 2.0
