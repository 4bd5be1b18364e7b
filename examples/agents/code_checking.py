"""Review a function: what the parser sees, several checks at once, then one verdict."""

import ast
import random

import corpus
from agentkit import Llm, Task, gather, main

APPLICATION = "code-checking"

_CHECKS = (
    "What goes wrong when an argument is empty or None?",
    "Name one thing that a reader may misunderstand.",
    "Which error can a wrong argument raise?",
    "Is there work that is done twice?",
    "Which test is missing most?",
)
_LINES_PER_CHECK = 4
_SYSTEM = "You review Python code. Answer in one short sentence."


def make_task(seed: int) -> Task:
    rng, shelf = random.Random(seed), corpus.shelf(seed)
    source = shelf.function_source(rng, max_chars=rng.choice((250, 400, 600)))
    num_checks = min(len(_CHECKS), 1 + len(source.splitlines()) // _LINES_PER_CHECK)
    return Task(
        prompt=f"Check this function.\n\n{source}",
        parts=_CHECKS[:num_checks],
        question=source,
    )


async def run(llm: Llm, task: Task) -> str:
    source = task.question
    findings = await gather([_check(llm, source, check) for check in task.parts])
    report = "\n".join(findings)
    verdict = await llm.chat(
        f"Facts: {_describe(source)}\nFindings:\n{report}\n\n"
        "Should the function be changed before it is merged? Answer in one sentence.",
        max_tokens=15,
        stage="verdict",
        system=_SYSTEM,
    )
    return f"{report}\n=> {verdict}"


async def _check(llm: Llm, source: str, question: str) -> str:
    # The source comes first, so that all checks share its cached prefix.
    return await llm.chat(f"{source}\n\n{question}", max_tokens=20, stage="check", system=_SYSTEM)


def _describe(source: str) -> str:
    """Say what the parser knows for sure, for the verdict to lean on."""
    tree = ast.parse(source)
    function = next(node for node in ast.walk(tree) if isinstance(node, ast.FunctionDef))
    counts: dict[str, type[ast.AST] | tuple[type[ast.AST], ...]] = {
        "returns": ast.Return,
        "loops": (ast.For, ast.While),
        "branches": ast.If,
        "raises": ast.Raise,
    }
    found = {
        name: sum(isinstance(node, kinds) for node in ast.walk(tree))
        for name, kinds in counts.items()
    }
    arguments = ", ".join(argument.arg for argument in function.args.args) or "none"
    documented = "has" if ast.get_docstring(function) else "lacks"
    listing = ", ".join(f"{count} {name}" for name, count in found.items())
    return f"{function.name} takes {arguments}; {documented} a docstring; {listing}."


if __name__ == "__main__":
    main(APPLICATION, make_task, run)
