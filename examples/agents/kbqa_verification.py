"""Answer questions from a knowledge base, then verify each answer against its entry."""

import random

import corpus
from agentkit import Llm, Task, gather, main, says_yes

APPLICATION = "kbqa-verification"

_NUM_CANDIDATES = 2
_SYSTEM = "You answer questions about Python functions. Answer with one short sentence."


def make_task(seed: int) -> Task:
    rng, shelf = random.Random(seed), corpus.shelf(seed)
    num_questions = rng.choice((1, 1, 1, 2, 2, 3))
    asked = rng.sample(shelf.facts, num_questions)
    questions = tuple(f"Which function does this: {summary}" for _, summary in asked)
    return Task(prompt="\n".join(questions), parts=questions, seed=seed)


async def run(llm: Llm, task: Task) -> str:
    shelf = corpus.shelf(task.seed)
    answers = await gather([_answer(llm, question, shelf) for question in task.parts])
    return "\n".join(answers)


async def _answer(llm: Llm, question: str, shelf: corpus.Shelf) -> str:
    entries = _search(question, shelf)
    listing = "\n".join(f"{name}: {summary}" for name, summary in entries.items())
    reply = await llm.chat(
        f"Knowledge base:\n{listing}\n\n{question}", max_tokens=14, stage="answer", system=_SYSTEM
    )
    name = next((name for name in entries if name in reply), next(iter(entries)))
    verdict = await llm.chat(
        f"The function {name} does this: {entries[name]}\n"
        f"{question}\nIs {name} the right answer? Say yes or no, and why.",
        max_tokens=14,
        stage="verify",
        system=_SYSTEM,
    )
    mark = "verified" if says_yes(verdict, default=False) else "doubtful"
    return f"{name} ({mark})"


def _search(question: str, shelf: corpus.Shelf) -> dict[str, str]:
    """Return the entries of the shelf's knowledge base that share most words with the question."""
    wanted = corpus.words(question)
    ranked = sorted(shelf.facts, key=lambda fact: len(wanted & corpus.words(fact[1])), reverse=True)
    return dict(ranked[:_NUM_CANDIDATES])


if __name__ == "__main__":
    main(APPLICATION, make_task, run)
