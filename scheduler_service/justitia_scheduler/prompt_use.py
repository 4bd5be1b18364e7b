"""How far a run's prompt, and a model made of prompts, may be used: the strictest setting counts.

A run may name one application and be served in another (over ``max_concurrent_runs``, undeclared),
be named only later, or outlive an application: what any of them forbids stays forbidden.
"""

from collections.abc import Callable, Sequence

from justitia.core.privacy import Privacy, is_hashed, strictest
from justitia_scheduler.applications import Application
from justitia_scheduler.outcomes import CallError, Outcome
from justitia_scheduler.run_facts import RunFacts


def privacy_of(
    facts: RunFacts, application: Callable[[str], Application], *, named: str = ""
) -> Privacy:
    """Return what is allowed of an open run's prompt; ``named``: by the call that is at hand."""
    names = (facts.served, facts.requested, named or facts.requested)
    return strictest(facts.privacy, *(application(name).privacy for name in names))


def require_model_allowed(declared: Application, vocabulary: Sequence[str]) -> None:
    """Check that a model's terms are of a kind that its application lets out of prompts.

    Raises:
        CallError: prompts are withheld, or hashed and a term is none of hashed words.
    """
    if declared.privacy is Privacy.NONE:
        raise CallError(
            Outcome.PRECONDITION,
            f"application: {declared.name!r} has privacy None, which has no model;"
            " its runs are estimated by the means of finished ones",
        )
    if declared.privacy is Privacy.HASHED and not all(map(is_hashed, vocabulary)):
        raise CallError(
            Outcome.PRECONDITION,
            f"artefact: application {declared.name!r} has privacy Hashed, and the model knows words"
            " that are not hashed; train it from samples recorded under this setting",
        )
