"""Make a plan, carry out its steps one after another on what came before, write the answer."""

import random

import corpus
from agentkit import Llm, Task, list_items, main

APPLICATION = "plan-and-execute"

_CONTEXT_CHARS = 200
_AUDIENCES = ("a beginner", "a reviewer", "a colleague from another team", "a student")


def make_task(seed: int) -> Task:
    rng, shelf = random.Random(seed), corpus.shelf(seed)
    num_steps = rng.choice((2, 3, 3, 4, 5, 6))
    text = shelf.document(rng, chars=90 * num_steps)
    goal = f"Explain the text below to {rng.choice(_AUDIENCES)}, in {num_steps} steps."
    return Task(
        prompt=f"{goal}\n\n{text}",
        parts=corpus.split_document(text, chunk_chars=_CONTEXT_CHARS),
        question=goal,
        num_samples=num_steps,
    )


async def run(llm: Llm, task: Task) -> str:
    steps = await _plan(llm, task)
    results: list[str] = []
    for step in steps:
        results.append(await _execute(llm, task, step, results))
    return await llm.chat(
        f"{task.question}\nPut these results together into the answer:\n" + "\n".join(results),
        max_tokens=70,
        stage="answer",
    )


async def _plan(llm: Llm, task: Task) -> list[str]:
    reply = await llm.chat(
        f"{task.question}\nText: {task.parts[0]}\n\n"
        f"Write a plan as a numbered list of {task.num_samples} short steps.",
        max_tokens=8 + 12 * task.num_samples,
        stage="plan",
    )
    planned = list_items(reply, limit=task.num_samples)
    # A reply without a list still leaves work to do: go through the text part by part.
    return planned or [f"Explain: {part[:120]}" for part in task.parts]


async def _execute(llm: Llm, task: Task, step: str, results: list[str]) -> str:
    passage = corpus.best_match(step, task.parts)
    before = results[-1] if results else "nothing yet"
    result = await llm.chat(
        f"Text: {passage}\n\nDone so far: {before}\n\nDo this step now: {step}",
        max_tokens=40,
        stage="execute",
    )
    return result or passage


if __name__ == "__main__":
    main(APPLICATION, make_task, run)
