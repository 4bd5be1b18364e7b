"""Plays a scenario on fast and on exact engines and says how far the two are apart."""

import time
from dataclasses import dataclass

from justitia.core.errors import InvalidValueError
from justitia.sim.exact.make import exact_engines
from justitia.sim.loop import PlaySettings, play
from justitia.sim.results import PlayResult, rank_correlation
from justitia.sim.scenario import Scenario


@dataclass(frozen=True, slots=True, kw_only=True)
class Parity:
    """One scenario under one policy, played twice; ``fast_s`` and ``exact_s`` are wall time."""

    fast: PlayResult
    exact: PlayResult
    fast_s: float
    exact_s: float

    @property
    def jct_difference(self) -> float:
        """How much larger the fast engines' mean JCT is, as a share of the exact ones'."""
        return self.fast.against(self.exact).mean_jct_quotient - 1

    @property
    def largest_difference(self) -> float:
        """Largest difference of one run's JCT, as a share of the exact one's."""
        theirs = {run.run_id: run.jct_s for run in self.exact.runs}
        return max(abs(run.jct_s / theirs[run.run_id] - 1) for run in self.fast.runs)

    @property
    def order_correlation(self) -> float:
        """Rank correlation of the two orders of completion."""
        return rank_correlation(self.fast.finish_order, self.exact.finish_order)

    @property
    def speed_quotient(self) -> float:
        """How many times as fast the fast engines were."""
        return self.exact_s / self.fast_s


def compare(
    scenario: Scenario,
    policy: str,
    settings: PlaySettings | None = None,
    *,
    is_async: bool = False,
) -> Parity:
    """Play a scenario on both kinds of engines.

    ``is_async``: the exact ones keep two steps in flight, which the fast ones do not.

    Raises:
        InvalidValueError: vLLM is not installed, or the scenario can't be played or has no runs.
    """
    if not scenario.runs:
        raise InvalidValueError("runs", "must be at least one")
    make_exact = exact_engines(is_async=is_async)
    start_s = time.perf_counter()
    fast = play(scenario, policy, settings)
    between_s = time.perf_counter()
    exact = play(scenario, policy, settings, make_engine=make_exact)
    end_s = time.perf_counter()
    return Parity(fast=fast, exact=exact, fast_s=between_s - start_s, exact_s=end_s - between_s)
