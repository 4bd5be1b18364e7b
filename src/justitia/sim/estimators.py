"""What the scheduler knows of a run when it arrives, and of a single inference.

Every estimator is made anew for a play and depends on the scenario, its seed and what has ended
before, never on the policy: under each policy a run has the same error.
"""

import math
import random
from collections.abc import Callable, Mapping
from typing import Final, Protocol

from justitia.core.cost import inference_cost_kvtt, paper_cost_kvtt, run_cost_kvtt, vtc_cost_tokens
from justitia.core.errors import InvalidValueError
from justitia.core.estimates import Estimate, Ladder, Mean, Source, clamp_cost_kvtt
from justitia.sim.scenario import InferencePlan, RunPlan, Scenario

#: What a run costs where nobody knows anything; that of the service.
DEFAULT_COST_KVTT: Final = 1_000_000

InferenceCost = Callable[[InferencePlan], int]


class Estimator(Protocol):
    """Estimates costs. Costs are in kvtt, unless a variant has a unit of its own."""

    def run(self, run: RunPlan) -> Estimate:
        """Estimate a run that arrives."""

    def inference(self, run: RunPlan, place: int) -> int:
        """Estimate one inference of it, alone."""

    def learn(self, run: RunPlan, true_cost_kvtt: int) -> None:
        """Take in a run that has ended."""


class Exact:
    """Knows all lengths: rule C1 with nothing cached, or another formula of them."""

    def __init__(self, cost: InferenceCost) -> None:
        self._cost = cost

    def run(self, run: RunPlan) -> Estimate:
        """Add up its inferences (rule C2)."""
        total = run_cost_kvtt(self._cost(inference) for inference in run.inferences)
        return Estimate(clamp_cost_kvtt(total), Source.MODEL)

    def inference(self, run: RunPlan, place: int) -> int:
        """Cost of one."""
        return self._cost(run.inferences[place])

    def learn(self, run: RunPlan, true_cost_kvtt: int) -> None:
        """There is nothing to learn."""


class Lognormal:
    """Exact costs times a lognormal error that is the run's own.

    The factor is exp(sigma z): its median is 1. sigma is such that the mean of |factor - 1| is the
    wanted relative error.
    """

    def __init__(self, exact: Exact, relative_error: float, seed: int) -> None:
        self._exact = exact
        self._sigma = sigma_of(relative_error)
        self._seed = seed

    def _factor(self, name: str) -> float:
        # Seeded by a text: the same in every process.
        drawn = random.Random(f"{self._seed}/{name}")  # noqa: S311 - no secret
        return math.exp(self._sigma * drawn.gauss(0.0, 1.0))

    def run(self, run: RunPlan) -> Estimate:
        """Err on the whole run."""
        cost = self._exact.run(run).cost_kvtt
        return Estimate(clamp_cost_kvtt(cost * self._factor(run.id)), Source.MODEL)

    def inference(self, run: RunPlan, place: int) -> int:
        """Err on one inference, each with an error of its own."""
        factor = self._factor(f"{run.id}/{place}")
        return clamp_cost_kvtt(self._exact.inference(run, place) * factor)

    def learn(self, run: RunPlan, true_cost_kvtt: int) -> None:
        """The error stays what it is."""


class History:
    """Knows nothing but what has ended: the cold start ladder (rule E1) without a model."""

    def __init__(self, cost: InferenceCost, default_cost_kvtt: int = DEFAULT_COST_KVTT) -> None:
        self._ladder = Ladder(default_cost_kvtt)
        self._cost = cost
        self._default_kvtt = default_cost_kvtt
        self._inferences: dict[str, Mean] = {}

    def run(self, run: RunPlan) -> Estimate:
        """Take the mean of the application so far, or what the ladder has below."""
        length = run.inferences[0].prompt_tokens
        return self._ladder.estimate(run.application, prompt_length=length)

    def inference(self, run: RunPlan, place: int) -> int:  # noqa: ARG002 - they are all alike
        """Take the mean of the application's inferences so far."""
        mean = self._inferences.get(run.application)
        return self._default_kvtt if mean is None else clamp_cost_kvtt(mean.value_kvtt)

    def learn(self, run: RunPlan, true_cost_kvtt: int) -> None:
        """Count it."""
        length = run.inferences[0].prompt_tokens
        self._ladder.learn(run.application, prompt_length=length, cost_kvtt=true_cost_kvtt)
        mean = self._inferences.setdefault(run.application, Mean())
        for inference in run.inferences:
            mean.add(self._cost(inference))


def sigma_of(relative_error: float) -> float:
    """Find the sigma at which a lognormal factor of median 1 errs by so much in the mean.

    E|exp(sigma z) - 1| = exp(sigma^2 / 2) (2 Phi(sigma) - 1), which grows with sigma.
    """
    low, high = 0.0, 8.0
    for _ in range(80):
        middle = (low + high) / 2
        error = math.exp(middle * middle / 2) * math.erf(middle / math.sqrt(2))
        low, high = (middle, high) if error < relative_error else (low, middle)
    return (low + high) / 2


def _kvtt(budget_tokens: int) -> InferenceCost:
    return lambda plan: inference_cost_kvtt(
        plan.prompt_tokens, 0, plan.output_tokens, step_budget_tokens=budget_tokens
    )


def _paper(plan: InferencePlan) -> int:
    return paper_cost_kvtt(plan.prompt_tokens, plan.output_tokens)


def _tokens(plan: InferencePlan) -> int:
    return max(1, vtc_cost_tokens(plan.prompt_tokens, plan.output_tokens))


_MAKERS: Final[Mapping[str, Callable[[InferenceCost], Estimator]]] = {
    "exact": Exact,
    "history": History,
    "paper": lambda _: Exact(_paper),
    "tokens": lambda _: Exact(_tokens),
}
ESTIMATORS: Final = (*_MAKERS, "error:X")
_ERROR_PREFIX: Final = "error:"
_MAX_ERROR: Final = 1000.0


def make_estimator(name: str, scenario: Scenario) -> Estimator:
    """Make an estimator by name.

    ``exact``; ``history``: means of what has ended; ``paper``: the paper's formula (the prefill is
    free); ``tokens``: p + 2d; ``error:0.53``: exact with a mean relative error of 53 %.

    Raises:
        InvalidValueError: there is none of this name.
    """
    cost = _kvtt(scenario.engines[0].max_num_batched_tokens)
    if name in _MAKERS:
        return _MAKERS[name](cost)
    if name.startswith(_ERROR_PREFIX):
        return Lognormal(Exact(cost), _error_of(name), scenario.seed)
    raise InvalidValueError("estimator", f"must be one of {', '.join(ESTIMATORS)}; got {name!r}")


def _error_of(name: str) -> float:
    text = name.removeprefix(_ERROR_PREFIX)
    try:
        error = float(text)
    except ValueError:
        error = math.nan
    if not 0 <= error <= _MAX_ERROR:
        raise InvalidValueError(
            "estimator", f"error must be from 0 to {_MAX_ERROR:g}, got {text!r}"
        )
    return error
