"""The real scheduler service and a real vLLM server together, through failures.

The GPU timing emulator stands in for the model; clients are the openai library.
"""

import asyncio
import os
import signal
from contextlib import AsyncExitStack

import httpx
import openai
import pytest

from justitia.client import SchedulerError, connect
from justitia.local.declare import declare
from justitia.local.engine import MODEL_NAME, EngineServer, emulated_engine
from justitia.local.manifests import read_manifests
from justitia.local.processes import free_port
from justitia.local.service import SchedulerService
from justitia.local.tiny_model import ensure_tiny_model

pytestmark = [
    pytest.mark.e2e,
    pytest.mark.filterwarnings("ignore::DeprecationWarning", "ignore::ResourceWarning"),
]

MANIFESTS = """
apiVersion: justitia.dev/v1alpha1
kind: LLMApplication
metadata: {name: small}
spec: {fallbackCost: {kvTokenTime: 20000}}
---
apiVersion: justitia.dev/v1alpha1
kind: LLMApplication
metadata: {name: large}
spec: {fallbackCost: {kvTokenTime: 2e6}}
"""


class Stack:
    """A service that can be killed and restarted on its journal, and one engine."""

    def __init__(self, folder):
        self.folder = folder
        self.scheduler_port = free_port()
        self.service = self._make_service()
        self.server = EngineServer(
            emulated_engine(
                ensure_tiny_model(folder, progress=lambda _: None),
                port=free_port(),
                log_path=folder / "vllm.log",
                kv_blocks=140,
                scheduler_address=self.service.address,
            )
        )

    def _make_service(self):
        return SchedulerService(
            port=self.scheduler_port,
            journal_path=self.folder / "journal.db",
            log_path=self.folder / "scheduler.log",
        )

    async def restart_service(self):
        os.kill(self.service.process.pid, signal.SIGKILL)
        await self.service.process.stop()
        self.service = self._make_service()
        await self.service.__aenter__()

    async def stop_service(self):
        await self.service.process.stop()

    def kill_engine_core(self):
        os.kill(self.server.core_pid(), signal.SIGKILL)

    def call(self, method, *arguments, **named):
        with connect(self.service.address) as client:
            return getattr(client, method)(*arguments, **named)

    def runs(self):
        with connect(self.service.address) as client:
            return {run.run_id: run for run in client.list_runs()}

    async def ask(self, application, run_id, *, output):
        headers = {"x-justitia-run-id": run_id, "x-justitia-application": application}
        headers = headers if application else {}
        async with openai.AsyncOpenAI(
            base_url=self.server.settings.base_url,
            api_key="none",
            max_retries=0,
            http_client=httpx.AsyncClient(timeout=None, trust_env=False),
        ) as client:
            answer = await client.chat.completions.create(
                model=MODEL_NAME,
                messages=[{"role": "user", "content": f"{run_id} " * 10}],
                max_tokens=output,
                extra_headers=headers,
                extra_body={"ignore_eos": True},
            )
        assert answer.usage.completion_tokens == output
        return run_id


@pytest.fixture
async def stack(tmp_path):
    manifest = tmp_path / "applications.yaml"
    manifest.write_text(MANIFESTS)
    stack = Stack(tmp_path)
    async with AsyncExitStack() as exits:
        await stack.service.__aenter__()
        exits.push_async_callback(stack.stop_service)
        with connect(stack.service.address) as client:
            declare(client, read_manifests(manifest))
        await exits.enter_async_context(stack.server)
        yield stack


async def until(condition, *, timeout_s=20.0):
    async with asyncio.timeout(timeout_s):
        while not condition():  # noqa: ASYNC110 - it happens in other processes
            await asyncio.sleep(0.05)


async def test_the_stack_keeps_its_promises(stack):
    await an_inference_without_identity_leaves_no_run_behind(stack)
    await small_runs_overtake_large_ones(stack)
    await a_killed_service_costs_no_inference_and_no_finish(stack)
    await a_killed_engine_leaves_the_account_at_once(stack)


async def an_inference_without_identity_leaves_no_run_behind(stack):
    asked = asyncio.create_task(stack.ask("", "nobody's", output=150))
    await until(lambda: len(stack.runs()) == 1)
    await asked
    await until(lambda: not stack.runs(), timeout_s=5.0)


async def small_runs_overtake_large_ones(stack):
    done = []

    async def run(application, run_id, *, width, output):
        inferences = (stack.ask(application, run_id, output=output) for _ in range(width))
        await asyncio.gather(*inferences)
        done.append(run_id)

    large = [asyncio.create_task(run("large", f"l-{n}", width=12, output=150)) for n in range(2)]
    await until(lambda: len(stack.runs()) == 2)
    await run("small", "s-0", width=3, output=40)
    await asyncio.gather(*large)
    assert done[0] == "s-0"
    run_facts = stack.call("end_run", "s-0")
    assert run_facts.num_finished == 3
    assert run_facts.useful_kvtt > 3 * 40 * 20
    for n in range(2):
        stack.call("end_run", f"l-{n}")


async def a_killed_service_costs_no_inference_and_no_finish(stack):
    stack.call("start_run", run_id="declared", application="small", cost_kvtt=5000)
    asked = [asyncio.create_task(stack.ask("large", f"k-{n % 8}", output=400)) for n in range(24)]
    await until(lambda: len(stack.runs()) == 9)
    await asyncio.sleep(0.5)  # some progress, so that V has moved
    before, pool_before = stack.runs(), stack.call("describe_pool")
    await stack.restart_service()
    await until(lambda: len(stack.call("describe_pool").engines) == 1)
    after, pool_after = stack.runs(), stack.call("describe_pool")
    assert {r: x.virtual_finish.ticks for r, x in before.items()} == {
        r: x.virtual_finish.ticks for r, x in after.items()
    }
    assert int(pool_after.virtual_time.ticks) >= int(pool_before.virtual_time.ticks)
    assert int(pool_before.virtual_time.ticks) > 0
    assert sorted(await asyncio.gather(*asked)) == sorted(f"k-{n % 8}" for n in range(24))
    await until(lambda: stack.runs()["k-0"].num_running == 0)
    for run_id in before:
        stack.call("end_run", run_id)
    assert stack.runs() == {}


async def a_killed_engine_leaves_the_account_at_once(stack):
    asked = [asyncio.create_task(stack.ask("large", "x", output=2000)) for _ in range(3)]
    await until(lambda: "x" in stack.runs() and stack.runs()["x"].num_running == 3)
    stack.kill_engine_core()
    await until(lambda: not stack.call("describe_pool").engines, timeout_s=5.0)
    run = stack.runs()["x"]
    assert (run.num_running, run.num_waiting) == (0, 0)
    for outcome in await asyncio.gather(*asked, return_exceptions=True):
        assert isinstance(outcome, openai.OpenAIError)
    with pytest.raises(SchedulerError, match="nobody"):
        stack.call("get_run", "nobody")
