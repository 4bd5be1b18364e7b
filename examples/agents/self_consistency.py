"""Solve a word problem several times, each in another way; the majority's result wins."""

import random

from agentkit import Llm, Task, draw_on_shelf, gather, last_number, main, majority

APPLICATION = "self-consistency"

_STEPS = (
    "{name} buys {a} boxes with {b} pens each.",
    "Then {name} finds {a} more pens in a drawer.",
    "A friend gives {name} {a} pens every day for {b} days.",
    "{name} loses {a} pens on the way home.",
    "{name} puts {a} pens aside for each of {b} colleagues.",
)
# Varied instructions, no sampling temperature: the same task then costs the same each time.
_WAYS = (
    "Work it out sentence by sentence.",
    "First list the numbers, then compute.",
    "Solve it as a teacher would show it to a class.",
    "Begin with what changes last and check it.",
    "Keep a running total.",
    "Write one equation and solve it.",
    "Work it out twice and compare.",
    "Draw up a table of gains and losses.",
    "Solve it in as few steps as you can.",
    "Think of it as money on an account.",
)
_NAMES = ("Ada", "Grace", "Alan", "Edsger", "Barbara", "Donald")


def make_task(seed: int) -> Task:
    return draw_on_shelf(seed, _draw_task)


def _draw_task(rng: random.Random) -> Task:
    num_steps = rng.choice((1, 2, 2, 3, 3, 4, 5))
    num_samples = 3 + num_steps + rng.randrange(3)
    name = rng.choice(_NAMES)
    steps = [
        rng.choice(_STEPS).format(name=name, a=rng.randint(2, 12), b=rng.randint(2, 9))
        for _ in range(num_steps)
    ]
    question = f"{name} has {rng.randint(3, 40)} pens. {' '.join(steps)} How many pens are there?"
    return Task(
        prompt=f"{question}\nThink it through {num_samples} times and give the usual result.",
        question=question,
        parts=tuple(steps),
        num_samples=num_samples,
    )


async def run(llm: Llm, task: Task) -> str:
    replies = await gather(
        [_reason(llm, task, sample=sample) for sample in range(task.num_samples)]
    )
    results = [number for number in map(last_number, replies) if number is not None]
    if not results:
        return "no sample came to a number"
    winner = majority(results)
    return f"{winner:g} ({results.count(winner)} of {len(replies)} samples agree)"


async def _reason(llm: Llm, task: Task, *, sample: int) -> str:
    way = _WAYS[sample % len(_WAYS)]
    return await llm.chat(
        f"{way}\n{task.question}\nReason step by step, then end with: The answer is N.",
        max_tokens=25 + 10 * len(task.parts),
        stage="sample",
    )


if __name__ == "__main__":
    main(APPLICATION, make_task, run)
