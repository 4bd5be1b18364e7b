"""The real small language model on a real vLLM on the CPU, as `make run` starts it."""

import asyncio
from pathlib import Path

import openai
import pytest
from rich.console import Console

from justitia.local.engine import MODEL_NAME, EngineServer, cpu_engine
from justitia.local.engine_kind import EngineKind
from justitia.local.models import ensure_model
from justitia.local.processes import free_port

pytestmark = [
    pytest.mark.e2e,
    pytest.mark.filterwarnings("ignore::DeprecationWarning", "ignore::ResourceWarning"),
]

CACHE = Path(".cache")


async def ask(client, text, **options):
    answer = await client.chat.completions.create(
        model=MODEL_NAME, messages=[{"role": "user", "content": text}], **options
    )
    return answer.choices[0].message.content


async def test_it_answers_in_words_and_survives_seeds_with_prompts_that_do_not_fit_one_step(
    tmp_path,
):
    model = ensure_model(EngineKind.CPU, CACHE, Console(stderr=True))
    settings = cpu_engine(model, port=free_port(), log_path=tmp_path / "vllm.log")
    long_prompts = [f"{number} " + "word and more " * 150 for number in range(8)]
    async with (
        EngineServer(settings),
        openai.AsyncOpenAI(base_url=settings.base_url, api_key="none", max_retries=0) as client,
    ):
        seeded = [
            ask(client, prompt, max_tokens=4, seed=7, temperature=0.7) for prompt in long_prompts
        ]
        await asyncio.gather(*seeded)  # 8 x 450 tokens: more than a step's 2048
        capital = await ask(
            client, "What is the capital of France?", max_tokens=24, temperature=0.0
        )

    assert "Paris" in capital
