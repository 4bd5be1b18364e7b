"""A changed prompt template: the same requests, put to the application in other words."""

import statistics
from dataclasses import replace

from shelves import by_model, cost_of

#: Ended runs under the new template from which a model of it is learned.
FEW = 20
#: What a team writes before each request one day; numbers and a list, since models read those.
PREAMBLE = """You are the assistant of an engineering team. House rules, version 3:
1. Read the whole request before you answer.
2. Say what you assume where the request leaves something open.
3. Prefer 2 short sentences to 1 long one; no more than 12 lines in all.
4. Never invent names, numbers or sources.

The request follows; lines that begin with ">" are the user's own words.
"""


def reworded(text):
    """Return a request as the new template puts it."""
    quoted = "\n".join(f"> {line}" for line in text.splitlines())
    return f"{PREAMBLE}\n## Request\n\n{quoted}\n\n## Your answer\n"


def old_model(known):
    """Ask the model of the old template's runs what a run under the new one costs."""
    return by_model(known, put=reworded)


def new_model(known):
    """Ask a model of these runs under the new template."""
    return old_model([replace(run, prompt=reworded(run.prompt)) for run in known])


def template_figures(shelves):
    """How far both are off, |predicted - true| / true: means over applications and shelves."""
    errors = {"old": [], "new": []}
    for shelf in shelves:
        for application in sorted({run.application for run in shelf.runs}):
            known = [run for run in shelf.others if run.application == application]
            runs = [run for run in shelf.runs if run.application == application]
            for name, ask in (("old", old_model(known)), ("new", new_model(known[:FEW]))):
                off = [abs(ask(run) - cost_of(run)) / cost_of(run) for run in runs]
                errors[name].append(statistics.fmean(off))
    return {f"template_{name}_error": round(statistics.fmean(e), 3) for name, e in errors.items()}
