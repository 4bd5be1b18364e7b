"""Verify claims against a text: a search query for each claim, the passage found, a verdict."""

import random

import corpus
from agentkit import Llm, Task, gather, main, says_yes

APPLICATION = "fact-verification"

_PASSAGE_CHARS = 160


def make_task(seed: int) -> Task:
    rng, shelf = random.Random(seed), corpus.shelf(seed)
    num_claims = rng.choice((1, 2, 2, 3, 3, 4, 6))
    text = shelf.document(rng, chars=150 * num_claims)
    other = shelf.document(rng, chars=150 * num_claims)  # claims that the text does not hold
    claims = [
        rng.choice(corpus.split_document(rng.choice((text, other)), chunk_chars=80))[:120]
        for _ in range(num_claims)
    ]
    listing = "\n".join(f"{i}. {claim}" for i, claim in enumerate(claims, 1))
    return Task(
        prompt=f"Does the text support each of these claims?\n{listing}\n\nText: {text}",
        parts=tuple(claims),
        question=text,
    )


async def run(llm: Llm, task: Task) -> str:
    passages = corpus.split_document(task.question, chunk_chars=_PASSAGE_CHARS)
    verdicts = await gather([_verify(llm, claim, passages) for claim in task.parts])
    return "\n".join(f"{i}. {verdict}" for i, verdict in enumerate(verdicts, 1))


async def _verify(llm: Llm, claim: str, passages: tuple[str, ...]) -> str:
    query = await llm.chat(
        f"Write a search query of a few words that finds evidence for this claim:\n{claim}",
        max_tokens=10,
        stage="query",
    )
    found = corpus.best_match(query if corpus.words(query) else claim, passages)
    reply = await llm.chat(
        f"Passage: {found}\n\nClaim: {claim}\n\n"
        "Does the passage support the claim? Say yes or no, then the reason in one sentence.",
        max_tokens=25,
        stage="verify",
    )
    return "supported" if says_yes(reply, default=False) else "not supported"


if __name__ == "__main__":
    main(APPLICATION, make_task, run)
