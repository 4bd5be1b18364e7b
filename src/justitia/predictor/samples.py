"""What a predictor learns from: the text of a run and what the run cost.

Samples come from the scheduler service (finished runs) or from a file of recorded runs
(`recordings`). Neighbour: `training` turns samples into models.
"""

from collections.abc import Iterable
from dataclasses import dataclass

MAX_APPLICATION_CHARS = 512
"""Longest application name: `namespace/name` in Kubernetes has at most 317 characters."""


def require_application(application: object) -> str:
    """Return the name of an application, or raise ValueError that says what is wrong with it."""
    if not isinstance(application, str):
        raise ValueError(f"application must be a string, got {type(application).__name__}")  # noqa: TRY004
    if not 1 <= len(application) <= MAX_APPLICATION_CHARS:
        raise ValueError(
            f"application must have 1 to {MAX_APPLICATION_CHARS} characters, got {len(application)}"
        )
    return application


@dataclass(frozen=True, kw_only=True, slots=True)
class Sample:
    """One finished run.

    ``run_id`` names the run where the scheduler service recorded it, else it is empty.
    ``prompt`` is empty where the run's is not known: nothing can be learnt from such a run.
    ``cost_kvtt`` may be any number: measured costs can be zero or broken. Training drops and counts
    such samples instead of failing on them.

    Raises:
        ValueError: the application's name, the prompt or the cost is not of its type.
    """

    application: str
    prompt: str
    cost_kvtt: float
    run_id: str = ""

    def __post_init__(self) -> None:
        require_application(self.application)
        prompt: object = self.prompt
        if not isinstance(prompt, str):
            raise ValueError(f"prompt must be a string, got {type(prompt).__name__}")  # noqa: TRY004
        cost: object = self.cost_kvtt
        if isinstance(cost, bool) or not isinstance(cost, int | float):
            raise ValueError(f"cost_kvtt must be a number, got {type(cost).__name__}")  # noqa: TRY004


def num_without_prompt(samples: Iterable[Sample]) -> int:
    """Return how many samples have no prompt: training drops them."""
    return sum(not sample.prompt for sample in samples)
