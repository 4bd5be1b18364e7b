"""Verify equations: the model reasons, exact arithmetic checks it, doubts are explained."""

import ast
import operator
import random
from collections.abc import Callable

from agentkit import Llm, Task, draw_on_shelf, gather, main, says_yes

APPLICATION = "equation-verification"

_OPERATORS: dict[type[ast.operator], tuple[str, Callable[[int, int], int]]] = {
    ast.Add: ("+", operator.add),
    ast.Sub: ("-", operator.sub),
    ast.Mult: ("*", operator.mul),
}


def make_task(seed: int) -> Task:
    return draw_on_shelf(seed, _draw_task)


def _draw_task(rng: random.Random) -> Task:
    equations = []
    for _ in range(rng.choice((1, 2, 2, 3, 4, 5))):
        left = _expression(rng, depth=rng.choice((1, 1, 2)))
        error = rng.choice((0, 0, 0, 1, -1, 10, -10))
        equations.append(f"{left} = {_evaluate(left) + error}")
    listing = "\n".join(f"{i}. {equation}" for i, equation in enumerate(equations, 1))
    return Task(prompt=f"Which of these are correct?\n{listing}", parts=tuple(equations))


async def run(llm: Llm, task: Task) -> str:
    verdicts = await gather([_verify(llm, equation) for equation in task.parts])
    return "\n".join(f"{i}. {verdict}" for i, verdict in enumerate(verdicts, 1))


async def _verify(llm: Llm, equation: str) -> str:
    left, _, right = equation.rpartition(" = ")
    reply = await llm.chat(
        f"Is {equation} correct? Compute the left side step by step, then say yes or no.",
        max_tokens=30,
        stage="verify",
    )
    exact = _evaluate(left)
    is_correct = exact == int(right)
    if says_yes(reply, default=not is_correct) == is_correct:
        return f"{equation}: {'correct' if is_correct else 'wrong'}"
    reason = await llm.chat(
        f"The exact value of {left} is {exact}. Explain in one sentence what that says about "
        f"{equation}.",
        max_tokens=25,
        stage="explain",
    )
    return f"{equation}: {'correct' if is_correct else 'wrong'}, against first sight. {reason}"


def _expression(rng: random.Random, *, depth: int) -> str:
    if depth == 0:
        return str(rng.randint(2, 40))
    sign = rng.choice(("+", "-", "*"))
    return f"({_expression(rng, depth=depth - 1)} {sign} {_expression(rng, depth=0)})"


def _evaluate(expression: str) -> int:
    """Compute an expression of integers, +, - and * exactly; anything else is refused."""

    def value(node: ast.expr) -> int:
        if isinstance(node, ast.Constant) and isinstance(node.value, int):
            return node.value
        if isinstance(node, ast.BinOp) and type(node.op) in _OPERATORS:
            return _OPERATORS[type(node.op)][1](value(node.left), value(node.right))
        raise ValueError(f"not plain arithmetic: {expression}")

    return value(ast.parse(expression, mode="eval").body)


if __name__ == "__main__":
    main(APPLICATION, make_task, run)
