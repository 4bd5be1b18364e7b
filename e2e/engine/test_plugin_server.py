"""A real vLLM server with the plugin, over the GPU timing emulator, driven by the openai client."""

import os
import signal
import time
from concurrent.futures import ThreadPoolExecutor

import httpx
import openai
import pytest

from justitia.testing.vllm_server import running_server, write_byte_model

pytestmark = [
    pytest.mark.e2e,
    pytest.mark.filterwarnings("ignore::DeprecationWarning", "ignore::ResourceWarning"),
]

FLAGS = (
    *("--max-model-len", "1024", "--block-size", "16", "--num-gpu-blocks-override", "100"),
    *("--max-num-seqs", "4", "--shutdown-timeout", "5"),
)


@pytest.fixture(scope="module")
def server(tmp_path_factory):
    folder = tmp_path_factory.mktemp("server")
    model = write_byte_model(folder / "model")
    environment = {"JUSTITIA_EMULATOR": '{"scale": 0.3}', "JUSTITIA_WEIGHTS": "large=1,small=100"}
    with running_server(model, folder / "log", flags=FLAGS, environment=environment) as running:
        yield running


@pytest.fixture
def client(server):
    with openai.OpenAI(base_url=f"{server.url}/v1", api_key="none", max_retries=0) as client:
        yield client


def complete(client, headers=None, body=None, *, output=40):
    return client.completions.create(
        model="emulated",
        prompt="hello " * 20,
        max_tokens=output,
        extra_headers=headers,
        extra_body=body,
    )


def chat(client, headers=None, body=None, *, output=40):
    return client.chat.completions.create(
        model="emulated",
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
def test_a_run_with_a_smaller_finish_overtakes(client, call, carry):
    finished = []

    def ask(application, number):
        run_id = f"{application}-{call.__name__}-{carry.__name__}"
        call(client, *carry(application, run_id), output=200)
        finished.append((application, number))

    with ThreadPoolExecutor(32) as pool:
        large = [pool.submit(ask, "large", n) for n in range(16)]
        time.sleep(0.4)
        small = [pool.submit(ask, "small", n) for n in range(8)]
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
    body = {"model": "emulated", "max_tokens": 3, "prompt": "hello"}
    if path != "completions":
        body["messages"] = [{"role": "user", "content": body.pop("prompt")}]

    answer = httpx.post(f"{server.url}/v1/{path}", headers=headers, json=body, timeout=30)

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
            f"{server.url}{path}",
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
        f"{server.url}/v1/completions",
        json={"model": "emulated", "prompt": "x", "max_tokens": 900, "stream": True},
        headers={"x-justitia-run-id": "gone"},
        timeout=30,
    ) as answer:
        next(answer.iter_lines())
    deadline_s = time.monotonic() + 10
    while running_requests(server) > 0:
        assert time.monotonic() < deadline_s
        time.sleep(0.1)

    assert complete(client, output=2).usage.completion_tokens == 2


def running_requests(server):
    text = httpx.get(f"{server.url}/metrics", timeout=10).text
    lines = [line for line in text.splitlines() if line.startswith("vllm:num_requests_running")]
    return sum(float(line.rsplit(" ", 1)[1]) for line in lines)


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
    environment = {"JUSTITIA_SCHEDULER_ADDRESS": f"127.0.0.1:{port}", "JUSTITIA_ENGINE_ID": "e"}
    model = write_byte_model(tmp_path / "model")
    with running_server(model, tmp_path / "log", flags=FLAGS, environment=environment) as server:
        assert service.has_hello.wait(30)
        hello = service.heard[0].hello
        with openai.OpenAI(base_url=f"{server.url}/v1", api_key="none") as client:
            complete(client, {"x-justitia-run-id": "r"}, output=5)
        deadline_s = time.monotonic() + 10
        while not any(m.report.finished for m in service.heard):
            assert time.monotonic() < deadline_s
            time.sleep(0.05)
        killed_at_s = time.monotonic()
        os.kill(server.engine_core_pid(), signal.SIGKILL)
        assert service.is_gone.wait(10)
    grpc_server.stop(0).wait()

    assert (hello.engine_id, hello.kv_blocks, hello.block_size_tokens) == ("e-0", 99, 16)
    assert service.gone_at_s[0] - killed_at_s < 2.0
