import asyncio
import json
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

import openai
import pytest

from justitia.local.agents import load_agents

# pytest-asyncio 1.5 asks for "the current event loop" when it makes the first one; on Python 3.11
# that makes another, which nothing closes, and the warning fails whichever test runs by then.
asyncio.set_event_loop(None)

ROOT = Path(__file__).parents[2]
AGENTS_FOLDER = ROOT / "examples" / "agents"


@dataclass
class FakeServer:
    """An OpenAI-compatible server on loopback that answers what ``answer`` returns."""

    answer: Callable[[str], str] = lambda prompt: f"Yes. {len(prompt)}"
    status: int = 200
    gate: Callable[[], object] | None = None  # awaited before each answer
    requests: list[tuple[dict[str, str], dict]] = field(default_factory=list)
    base_url: str = ""

    async def serve(self, reader, writer):
        try:
            while await self._serve_one(reader, writer):
                pass
        finally:
            writer.close()

    async def _serve_one(self, reader, writer):
        try:
            head = (await reader.readuntil(b"\r\n\r\n")).decode()
        except (asyncio.IncompleteReadError, ConnectionError):
            return False
        pairs = (line.split(": ", 1) for line in head.split("\r\n")[1:] if line)
        headers = {name.lower(): value for name, value in pairs}
        body = json.loads(await reader.readexactly(int(headers["content-length"])))
        self.requests.append((headers, body))
        if self.gate is not None:
            await self.gate()
        payload = json.dumps(self._completion(body)).encode()
        writer.write(
            f"HTTP/1.1 {self.status} X\r\ncontent-type: application/json\r\n"
            f"content-length: {len(payload)}\r\n\r\n".encode()
            + payload
        )
        await writer.drain()
        return True

    def _completion(self, body):
        prompt = body["messages"][-1]["content"]
        content = self.answer(prompt)
        return {
            "id": "x",
            "object": "chat.completion",
            "created": 0,
            "model": body["model"],
            "choices": [
                {
                    "index": 0,
                    "finish_reason": "stop",
                    "message": {"role": "assistant", "content": content},
                }
            ],
            "usage": {
                "prompt_tokens": len(prompt.split()),
                "completion_tokens": len(content.split()),
                "total_tokens": 0,
                "prompt_tokens_details": {"cached_tokens": 1},
            },
        }


@pytest.fixture
async def server():
    fake = FakeServer()
    listener = await asyncio.start_server(fake.serve, "127.0.0.1", 0)
    fake.base_url = f"http://127.0.0.1:{listener.sockets[0].getsockname()[1]}/v1"
    yield fake
    listener.close()


@pytest.fixture(scope="session")
def agents():
    return load_agents(AGENTS_FOLDER)


@pytest.fixture
async def client():
    """What all runs of a test share; without certificates, which take longer to read than a run."""
    connections = openai.DefaultAsyncHttpxClient(verify=False)
    async with openai.AsyncOpenAI(
        base_url="http://unused", api_key="none", http_client=connections
    ) as shared:
        yield shared


@pytest.fixture
def run_agent(server, agents, client):
    async def run(application, task_seed=1):
        agent = agents[application]
        async with agent.make_llm(
            base_url=server.base_url,
            model="m",
            application=application,
            run_id=f"run-{task_seed}",
            client=client,
        ) as llm:
            result = await agent.run(llm, agent.task(task_seed))
        return result, llm

    return run
