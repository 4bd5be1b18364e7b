"""What the scheduler knows of a run when it arrives, and of a single inference.

Every estimator is made anew for a play and depends on the scenario, its seed and what has ended
before, never on the policy: under each policy a run has the same error.
"""

import math
import random
from typing import Final, Protocol

from justitia.core.errors import InvalidValueError
from justitia.core.estimates import Estimate, Ladder, Mean, Source, clamp_cost_kvtt
from justitia.sim.cost_units import EXACT, UNITS, InferenceCost, cost_of
from justitia.sim.known_prefixes import KnownPrefixes
from justitia.sim.scenario import RunPlan, Scenario

#: What a run costs where nobody knows anything; that of the service.
DEFAULT_COST_KVTT: Final = 1_000_000


class Estimator(Protocol):
    """Estimates costs in kvtt."""

    def run(self, run: RunPlan) -> Estimate:
        """Estimate a run that arrives."""

    def inference(self, run: RunPlan, place: int) -> int:
        """Estimate one inference of it, alone."""

    def learn(self, run: RunPlan, true_cost_kvtt: int) -> Estimate | None:
        """Take in a run that has ended; returns what open runs of its application cost now.

        None: nothing new is known of those.
        """


class Exact:
    """Knows all lengths, with nothing cached: rule C1, or another unit of cost."""

    def __init__(self, cost: InferenceCost) -> None:
        self._cost = cost

    def run(self, run: RunPlan) -> Estimate:
        """Add up its inferences (rule C2)."""
        total = sum(self._cost(inference, 0) for inference in run.inferences)
        return Estimate(clamp_cost_kvtt(total), Source.MODEL)

    def inference(self, run: RunPlan, place: int) -> int:
        """Cost of one."""
        return clamp_cost_kvtt(self._cost(run.inferences[place], 0))

    def learn(self, run: RunPlan, true_cost_kvtt: int) -> None:
        """There is nothing to learn."""


class Cached:
    """Knows all lengths, and charges no prefill for what the prefix cache will hold.

    That is what earlier runs have brought, and earlier inferences of the run itself; the cache is
    taken to be large enough to hold all of it. Where runs are estimated they have arrived: in order
    of arrival, and so the tokens of a run count as known from its arrival on.
    """

    def __init__(self, cost: InferenceCost, block_size_tokens: int) -> None:
        self._cost = cost
        self._block_size_tokens = block_size_tokens
        self._known = KnownPrefixes()
        self._costs: dict[str, list[float]] = {}

    def run(self, run: RunPlan) -> Estimate:
        """Add up its inferences, each after those before it."""
        costs = self._costs[run.id] = []
        for inference in run.inferences:
            cached = self._known.cached(inference, self._block_size_tokens)
            costs.append(self._cost(inference, cached))
            self._known.add(inference)
        return Estimate(clamp_cost_kvtt(sum(costs)), Source.MODEL)

    def inference(self, run: RunPlan, place: int) -> int:
        """Cost of one."""
        return clamp_cost_kvtt(self._costs[run.id][place])

    def learn(self, run: RunPlan, true_cost_kvtt: int) -> None:  # noqa: ARG002 - lengths are known
        """Forget its costs; what it has brought stays known."""
        self._costs.pop(run.id, None)


class Lognormal:
    """Costs that somebody knows times a lognormal error that is the run's own.

    The factor is exp(sigma z): its median is 1. sigma is such that the mean of |factor - 1| is the
    wanted relative error.
    """

    def __init__(self, known: Estimator, relative_error: float, seed: int) -> None:
        self._known = known
        self._sigma = sigma_of(relative_error)
        self._seed = seed

    def _factor(self, name: str) -> float:
        # Seeded by a text: the same in every process.
        drawn = random.Random(f"{self._seed}/{name}")  # noqa: S311 - no secret
        return math.exp(self._sigma * drawn.gauss(0.0, 1.0))

    def run(self, run: RunPlan) -> Estimate:
        """Err on the whole run."""
        cost = self._known.run(run).cost_kvtt
        return Estimate(clamp_cost_kvtt(cost * self._factor(run.id)), Source.MODEL)

    def inference(self, run: RunPlan, place: int) -> int:
        """Err on one inference, each with an error of its own."""
        factor = self._factor(f"{run.id}/{place}")
        return clamp_cost_kvtt(self._known.inference(run, place) * factor)

    def learn(self, run: RunPlan, true_cost_kvtt: int) -> None:
        """The error stays what it is."""
        self._known.learn(run, true_cost_kvtt)


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

    def learn(self, run: RunPlan, true_cost_kvtt: int) -> Estimate | None:
        """Count it."""
        mean = self._inferences.setdefault(run.application, Mean())
        for inference in run.inferences:
            mean.add(round(self._cost(inference, 0)))
        length = run.inferences[0].prompt_tokens
        return self._ladder.learn(run.application, prompt_length=length, cost_kvtt=true_cost_kvtt)


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


HISTORY: Final = "history"
CACHED: Final = "cached"
_RAW: Final = "raw"
_TIMES_PREFIX: Final = "times:"
_ERROR_PREFIX: Final = "error:"
ESTIMATORS: Final = (
    *UNITS,
    CACHED,
    "cached:UNIT",
    "raw:UNIT",
    "times:X",
    "error:X",
    "UNIT+error:X",
    HISTORY,
)
_MAX_NUMBER: Final = 1000.0


def make_estimator(name: str, scenario: Scenario) -> Estimator:
    """Make an estimator by name.

    ``exact``: rule C1 on the true lengths. ``paper``, ``tokens``, ``seconds``, ``dominant``: other
    units of cost (``justitia.sim.cost_units``), scaled; ``raw:tokens``: not scaled. ``cached``:
    exact, less the prefill of what the prefix cache will hold; ``cached:seconds``: so in another
    unit. ``times:0.5``: half of exact for everybody, so that V runs twice as fast as it should.
    ``error:0.53``: exact with a mean relative error of 53 %; ``tokens+error:0.53``: that error on
    something else. ``history``: means of what has ended.

    Raises:
        InvalidValueError: there is none of this name.
    """
    if name == HISTORY:
        return History(cost_of(EXACT, scenario))
    known, plus, error = name.rpartition("+")
    if not error.startswith(_ERROR_PREFIX):
        return _knowing(name, scenario)
    base = _knowing(known if plus else EXACT, scenario)
    return Lognormal(base, _number_of(error, _ERROR_PREFIX), scenario.seed)


def _knowing(name: str, scenario: Scenario) -> Estimator:
    """Make one that knows the true lengths."""
    if name.startswith(_TIMES_PREFIX):
        return Exact(_times(_number_of(name, _TIMES_PREFIX), cost_of(EXACT, scenario)))
    kind, _, unit = f"{CACHED}:{EXACT}".rpartition(":") if name == CACHED else name.rpartition(":")
    if unit not in UNITS or kind not in ("", CACHED, _RAW) or name.startswith(":"):
        known = ", ".join(ESTIMATORS)
        raise InvalidValueError("estimator", f"must be one of {known}; got {name!r}")
    engine = scenario.engines[0]
    if kind == CACHED and engine.has_prefix_cache:
        return Cached(cost_of(unit, scenario, is_cached=True), engine.block_size_tokens)
    return Exact(cost_of(unit, scenario, is_scaled=kind != _RAW))


def _times(factor: float, cost: InferenceCost) -> InferenceCost:
    return lambda plan, cached: factor * cost(plan, cached)


def _number_of(name: str, prefix: str) -> float:
    text = name.removeprefix(prefix)
    try:
        number = float(text)
    except ValueError:
        number = math.nan
    if not 0 <= number <= _MAX_NUMBER:
        what = prefix.removesuffix(":")
        raise InvalidValueError(
            "estimator", f"{what} must be from 0 to {_MAX_NUMBER:g}, got {text!r}"
        )
    return number
