"""Builders with defaults, so that a test shows only what matters."""

from collections.abc import Iterable, Mapping

from justitia.core.engines import EngineReport, RunReport
from justitia.core.estimates import Estimate, Source
from justitia.core.fairness import FairRatio
from justitia.core.policies import Inference
from justitia.core.pool import Clock, Pool
from justitia.core.runs import RunView
from justitia.core.units import UNIT_WEIGHT, parse_weight


def make_estimate(cost_kvtt: int = 100, source: Source = Source.CLIENT) -> Estimate:
    """Make an estimate that somebody declared."""
    return Estimate(cost_kvtt, source)


def make_inference(
    inference_id: str = "i",
    run_id: str = "run",
    sequence: int = 0,
    expected_kvtt: int = 1,
    **others: int,
) -> Inference:
    """Make a waiting inference."""
    return Inference(inference_id, run_id, sequence, expected_kvtt, **others)


def make_report(
    useful_kvtt_by_run: Mapping[str, int] | None = None,
    *,
    engine_id: str = "engine",
    incarnation: str = "first",
    sequence: int = 0,
    steps: int = 0,
    runs: Iterable[RunReport] = (),
    closed: tuple[str, ...] = (),
) -> EngineReport:
    """Make a report of totals: ``useful_kvtt_by_run`` for plain ones, ``runs`` for full ones."""
    plain = (RunReport(name, total) for name, total in (useful_kvtt_by_run or {}).items())
    return EngineReport(engine_id, incarnation, sequence, steps, (*plain, *runs), closed)


class PoolDriver:
    """A pool with one engine that joins at once; keeps the running totals that reports need."""

    def __init__(
        self, clock: Clock = Clock.DELIVERED, *, engine_ids: Iterable[str] = ("engine",)
    ) -> None:
        self.pool = Pool(clock=clock)
        self._totals: dict[str, dict[str, int]] = {}
        self._sequence = 0
        self._steps = 0
        for engine_id in engine_ids:
            self._totals[engine_id] = {}
            self.pool.join_engine(engine_id, "first", kv_capacity_tokens=1000)

    def start(
        self,
        run_id: str,
        cost_kvtt: int = 100,
        *,
        weight: str | float = 1,
        now_s: float = 0.0,
        application: str = "app",
    ) -> RunView:
        """Open a run with a declared cost."""
        nano = parse_weight(weight) if weight != 1 else UNIT_WEIGHT
        estimate = make_estimate(cost_kvtt)
        return self.pool.start_run(run_id, application, weight=nano, estimate=estimate, now_s=now_s)

    def serve(
        self, run_id: str, kvtt: int, *, now_s: float = 0.0, engine_id: str = "engine"
    ) -> list[FairRatio]:
        """Report that an engine did ``kvtt`` more for a run."""
        totals = self._totals[engine_id]
        totals[run_id] = totals.get(run_id, 0) + kvtt
        self._sequence += 1
        self._steps += 1
        report = make_report(
            {run_id: totals[run_id]},
            engine_id=engine_id,
            sequence=self._sequence,
            steps=self._steps,
        )
        return self.pool.report(report, now_s=now_s)
