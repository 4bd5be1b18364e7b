"""What all example agents share: an LLM that keeps count, tasks, and ways to read loose answers."""

import argparse
import asyncio
import random
import re
import uuid
import zlib
from collections import Counter
from collections.abc import Awaitable, Callable, Coroutine, Sequence
from dataclasses import dataclass
from typing import Any, Self, TypeVar, cast

import openai

T = TypeVar("T")

# The likeliest token each time makes a run cost the same whatever runs beside it; without the
# penalty a model this small falls into loops. A sampling seed is no way out: vLLM 0.32 on a CPU
# dies of a seeded request whose prefill is cut into chunks ("CPU Generator does not use offset").
_FREQUENCY_PENALTY = 0.4

_SYSTEM = "You are a careful assistant. Answer briefly."

NUM_SHELVES = 5
"""Seeds with another remainder by this number make tasks that have no text in common."""


@dataclass(frozen=True, slots=True)
class Task:
    """One user request. ``prompt`` is what the user sends; the rest is the agent's own reading."""

    prompt: str
    parts: tuple[str, ...] = ()  # what the agent works through: chunks, claims, equations
    question: str = ""
    num_samples: int = 1
    seed: int = 0  # decides on which shelf the agent looks things up


@dataclass(frozen=True, slots=True)
class InferenceUsage:
    """One finished inference, with times in seconds on the event loop's clock."""

    stage: str
    prompt_tokens: int
    cached_tokens: int
    output_tokens: int
    started_at_s: float
    finished_at_s: float


class Llm:
    """Chat completions of one run; every call carries the run's headers and is counted."""

    def __init__(
        self,
        *,
        base_url: str,
        model: str,
        application: str,
        run_id: str | None = None,
        client: openai.AsyncOpenAI | None = None,
    ) -> None:
        """Connect to ``base_url``; or share the connections of ``client``, which stays open."""
        self.run_id = run_id or f"{application}-{uuid.uuid4().hex[:12]}"
        self.inferences: list[InferenceUsage] = []
        self._model = model
        self._own_client = None if client else openai.AsyncOpenAI(base_url=base_url, api_key="none")
        self._client = (client or cast("openai.AsyncOpenAI", self._own_client)).with_options(
            base_url=base_url,
            timeout=None,  # a busy server's queue may be long
            max_retries=0,  # a silent second try would be a second inference
            default_headers={
                "x-justitia-run-id": self.run_id,
                "x-justitia-application": application,
            },
        )

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        if self._own_client is not None:
            await self._own_client.close()

    async def chat(
        self,
        prompt: str,
        *,
        max_tokens: int,
        stage: str,
        system: str = _SYSTEM,
    ) -> str:
        """Answer ``prompt``; the same prompt gets the same answer, up to rounding in the engine."""
        now_s = asyncio.get_running_loop().time
        started_at_s = now_s()
        completion = await self._client.chat.completions.create(
            model=self._model,
            messages=[{"role": "system", "content": system}, {"role": "user", "content": prompt}],
            max_tokens=max_tokens,
            temperature=0.0,
            frequency_penalty=_FREQUENCY_PENALTY,
        )
        usage = completion.usage
        details = usage.prompt_tokens_details if usage else None
        self.inferences.append(
            InferenceUsage(
                stage=stage,
                prompt_tokens=usage.prompt_tokens if usage else 0,
                cached_tokens=(details.cached_tokens or 0) if details else 0,
                output_tokens=usage.completion_tokens if usage else 0,
                started_at_s=started_at_s,
                finished_at_s=now_s(),
            )
        )
        return (completion.choices[0].message.content or "").strip()


def draw_on_shelf(seed: int, draw: Callable[[random.Random], Task]) -> Task:
    """Return the first task drawn whose prompt belongs to the seed's shelf: each does to one."""
    rng = random.Random(seed)
    while True:
        task = draw(rng)
        if (zlib.crc32(task.prompt.encode()) - seed) % NUM_SHELVES == 0:
            return task


async def gather(inferences: Sequence[Coroutine[Any, Any, T]]) -> list[T]:
    """Run all at once; when one fails the others are cancelled and its error is raised."""
    try:
        async with asyncio.TaskGroup() as group:
            tasks = [group.create_task(inference) for inference in inferences]
    except ExceptionGroup as errors:
        raise errors.exceptions[0] from None
    return [task.result() for task in tasks]


def last_number(text: str) -> float | None:
    """Return the last number in ``text``, where small models put their result."""
    found = re.findall(r"-?\d+(?:\.\d+)?", text.replace(",", ""))
    return float(found[-1][:15]) if found else None


def says_yes(text: str, *, default: bool) -> bool:
    """Read yes or no (true or false) out of an answer; the first such word counts."""
    found = re.search(r"\b(yes|true|correct|no|not|false|incorrect|wrong)\b", text.lower())
    return found.group() in {"yes", "true", "correct"} if found else default


def list_items(text: str, *, limit: int) -> list[str]:
    """Return the items of a numbered or bulleted list, without their marks."""
    found = re.findall(r"^\s*(?:\d+[.)]|[-*])\s+(.+)$", text, flags=re.MULTILINE)
    return [item.strip() for item in found][:limit]


def majority(answers: Sequence[T]) -> T:
    """Return the most frequent answer; among equals the one given first."""
    return Counter(answers).most_common(1)[0][0]


def main(
    application: str,
    make_task: Callable[[int], Task],
    run: Callable[[Llm, Task], Awaitable[str]],
) -> None:
    """Run one task of an agent against any OpenAI-compatible server and print its result."""
    parser = argparse.ArgumentParser(description=f"Run the example agent {application}.")
    parser.add_argument("--base-url", default="http://127.0.0.1:8000/v1")
    parser.add_argument("--model", default="smollm2", help="name under which the model is served")
    parser.add_argument("--seed", type=int, default=0, help="choose the task")
    options = parser.parse_args()
    task = make_task(options.seed)

    async def play() -> None:
        async with Llm(
            base_url=options.base_url, model=options.model, application=application
        ) as llm:
            result = await run(llm, task)
            tokens = sum(usage.output_tokens for usage in llm.inferences)
            print(f"--- task\n{task.prompt}\n--- result\n{result}")
            print(f"--- {len(llm.inferences)} inferences, {tokens} output tokens")

    asyncio.run(play())
