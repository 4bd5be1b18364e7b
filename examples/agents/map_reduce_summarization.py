"""Summarize a long document: map over its chunks, reduce the summaries in a tree."""

import random

import corpus
from agentkit import Llm, Task, gather, main

APPLICATION = "map-reduce-summarization"

_CHUNK_CHARS = 240
_FAN_IN = 4


def make_task(seed: int) -> Task:
    rng, shelf = random.Random(seed), corpus.shelf(seed)
    text = shelf.document(rng, chars=corpus.spread(rng, 1200, 4500))
    return Task(
        prompt=f"Summarize this document.\n\n{text}",
        parts=corpus.split_document(text, chunk_chars=_CHUNK_CHARS),
    )


async def run(llm: Llm, task: Task) -> str:
    summaries = await gather([_summarize_chunk(llm, chunk) for chunk in task.parts])
    while len(summaries) > _FAN_IN:
        groups = [summaries[i : i + _FAN_IN] for i in range(0, len(summaries), _FAN_IN)]
        summaries = await gather([_combine(llm, group) for group in groups])
    return await llm.chat(
        "Write one clear summary of a document from these notes on its parts.\n\n"
        + "\n".join(summaries),
        max_tokens=90,
        stage="final",
    )


async def _summarize_chunk(llm: Llm, chunk: str) -> str:
    summary = await llm.chat(
        f"Summarize this text in two or three sentences:\n\n{chunk}", max_tokens=45, stage="map"
    )
    return summary or chunk[:200]


async def _combine(llm: Llm, summaries: list[str]) -> str:
    if len(summaries) == 1:
        return summaries[0]
    joined = "\n".join(summaries)
    combined = await llm.chat(
        f"Combine these notes into one paragraph:\n\n{joined}", max_tokens=60, stage="reduce"
    )
    return combined or joined[:400]


if __name__ == "__main__":
    main(APPLICATION, make_task, run)
