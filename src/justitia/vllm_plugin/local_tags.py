"""Tags that the engine makes by itself, with the same core as the scheduler service.

A new run is ordered at once by a provisional tag (rule E2). While the service is connected its tag
takes the place of that one within milliseconds; while it is away the local one is what counts.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from itertools import islice
from typing import Final

from justitia.core.engines import EngineReport, RunReport
from justitia.core.estimates import Estimate, Ladder
from justitia.core.pool import Pool
from justitia.core.units import UNIT_WEIGHT, NanoWeight, Ticks, parse_weight
from justitia.vllm_plugin.run_book import OpenRun

_ENGINE: Final = "local"
_MAX_WEIGHTS: Final = 10_000


@dataclass(frozen=True, slots=True)
class LocalTag:
    """What a run is ordered by until the service says better."""

    finish: Ticks
    sequence: int
    cost_kvtt: int


@dataclass(slots=True)
class LocalTags:
    """A pool of one engine. ``settle`` is cheap when nothing was served since the last time."""

    default_cost_kvtt: int
    kv_capacity_tokens: int
    _pool: Pool = field(default_factory=Pool)
    _ladder: Ladder = field(init=False)
    _weights: dict[str, NanoWeight] = field(default_factory=dict)
    _served: dict[OpenRun, None] = field(default_factory=dict)
    _num_reports: int = 0

    def __post_init__(self) -> None:
        self._ladder = Ladder(self.default_cost_kvtt)
        self._pool.join_engine(_ENGINE, _ENGINE, kv_capacity_tokens=max(1, self.kv_capacity_tokens))

    def __len__(self) -> int:
        return len(self._pool)

    @property
    def value(self) -> Ticks:
        """Local virtual time V."""
        return self._pool.value

    def set_default_cost(self, cost_kvtt: int) -> None:
        """Take the pool's default from the service; what is not positive is not meant."""
        if cost_kvtt > 0:
            self._ladder.default_cost_kvtt = cost_kvtt

    def set_weights(self, weights: Mapping[str, float]) -> None:
        """Take the weights of all applications; those that are not among them have weight 1.

        Open runs keep theirs until the service re-tags them.
        """
        self._weights = {
            application: parse_weight(weight)
            for application, weight in islice(weights.items(), _MAX_WEIGHTS)
        }

    def note_served(self, runs: dict[OpenRun, None]) -> None:
        """Runs have been charged since the last ``settle``."""
        self._served.update(runs)

    def settle(self, now_s: float) -> None:
        """Let V grow by what was delivered (rules V1 and V4)."""
        if not self._served:
            return
        reports = tuple(
            RunReport(run.run_id, run.useful_kvtt, run.wasted_kvtt) for run in self._served
        )
        self._served.clear()
        self._num_reports += 1
        self._pool.report(
            EngineReport(_ENGINE, _ENGINE, self._num_reports, 0, reports), now_s=now_s
        )

    def start_run(self, run: OpenRun, now_s: float) -> LocalTag:
        """Tag a run that arrives now: S = V, F = S + C/w (rule V2)."""
        self.settle(now_s)
        estimate = self._ladder.estimate(run.application, prompt_length=run.prompt_tokens)
        view = self._pool.start_run(
            run.run_id,
            run.application,
            weight=self._weights.get(run.application, UNIT_WEIGHT),
            estimate=estimate,
            now_s=now_s,
            prompt_length=run.prompt_tokens,
        )
        return LocalTag(view.finish, view.sequence, estimate.cost_kvtt)

    def re_estimate(self, run_id: str, estimate: Estimate) -> None:
        """The service has a better estimate: what is tagged later counts with it."""
        if run_id in self._pool:
            self._pool.re_estimate(run_id, estimate)

    def end_runs(self, runs: Sequence[OpenRun], now_s: float) -> None:
        """Close runs and learn their true costs (rule K1)."""
        self.settle(now_s)
        for run in runs:
            if run.run_id in self._pool:
                ended = self._pool.end_run(run.run_id, now_s=now_s)
                self._ladder.learn(
                    run.application,
                    prompt_length=ended.prompt_length,
                    cost_kvtt=ended.true_cost_kvtt,
                )
        self._num_reports += 1
        closed = tuple(run.run_id for run in runs)
        closing = EngineReport(_ENGINE, _ENGINE, self._num_reports, 0, closed=closed)
        self._pool.report(closing, now_s=now_s)

    def advance_to(self, value: Ticks, now_s: float) -> None:
        """Follow the service's V, so that local tags stand in one order with its own."""
        self.settle(now_s)
        self._pool.advance_to(value, now_s=now_s)
