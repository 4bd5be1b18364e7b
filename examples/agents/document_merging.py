"""Merge several documents into one: notes on each, merged in pairs, candidates scored, polished."""

import random

import corpus
from agentkit import Llm, Task, gather, last_number, main

APPLICATION = "document-merging"

_STYLES = ("in plain words", "in a formal tone", "for a reader in a hurry")
_MAX_SCORE = 10


def make_task(seed: int) -> Task:
    rng, shelf = random.Random(seed), corpus.shelf(seed)
    num_documents = corpus.spread(rng, 3, 9)
    documents = tuple(
        shelf.document(rng, chars=corpus.spread(rng, 160, 360)) for _ in range(num_documents)
    )
    listing = "\n\n".join(f"Document {i}: {text}" for i, text in enumerate(documents, 1))
    return Task(prompt=f"Merge these documents into one.\n\n{listing}", parts=documents)


async def run(llm: Llm, task: Task) -> str:
    notes = await gather([_note(llm, document) for document in task.parts])
    while len(notes) > 1:
        pairs = [notes[i : i + 2] for i in range(0, len(notes), 2)]
        notes = await gather([_merge(llm, pair) for pair in pairs])
    candidates = await gather([_write(llm, notes[0], style) for style in _STYLES])
    scores = await gather([_score(llm, candidate) for candidate in candidates])
    best = candidates[scores.index(max(scores))]
    return await llm.chat(
        f"Improve the wording of this document and keep every fact:\n\n{best}",
        max_tokens=90,
        stage="polish",
    )


async def _note(llm: Llm, document: str) -> str:
    note = await llm.chat(
        f"List the main points of this document:\n\n{document}", max_tokens=45, stage="note"
    )
    return note or document[:300]


async def _merge(llm: Llm, pair: list[str]) -> str:
    if len(pair) == 1:
        return pair[0]
    joined = "\n".join(pair)
    merged = await llm.chat(
        f"Merge these points and leave out what is said twice:\n\n{joined}",
        max_tokens=60,
        stage="merge",
    )
    return merged or joined[:500]


async def _write(llm: Llm, notes: str, style: str) -> str:
    text = await llm.chat(
        f"Write one document from these points, {style}:\n\n{notes}",
        max_tokens=75,
        stage="write",
    )
    return text or notes


async def _score(llm: Llm, candidate: str) -> float:
    reply = await llm.chat(
        f"Rate this document from 1 to {_MAX_SCORE}. Answer with the number only.\n\n{candidate}",
        max_tokens=4,
        stage="score",
    )
    score = last_number(reply)
    # An answer that is no rating says nothing for or against the candidate.
    return score if score is not None and 0 <= score <= _MAX_SCORE else _MAX_SCORE / 2


if __name__ == "__main__":
    main(APPLICATION, make_task, run)
