"""Plays with a meter: how much useful work the runs had got at which time, by whatever groups.

The meter reads the engines' own reports, which come when a run arrives and when one ends; between
two of them service is taken as even. What a report tells includes the step that is under way.
"""

from bisect import bisect_left
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from justitia.core.engines import EngineReport
from justitia.core.policies import Policy
from justitia.sim.engine import Engine
from justitia.sim.fast.engine import FastEngine
from justitia.sim.loop import PlaySettings, play
from justitia.sim.results import PlayResult
from justitia.sim.scenario import EnginePlan, RunPlan, Scenario
from justitia.sim.step_models import step_time_of


@dataclass(frozen=True, slots=True)
class Curve:
    """Work by time, as points joined by straight lines; neither ever goes down."""

    times_s: Sequence[float]
    work_kvtt: Sequence[float]

    def work_at(self, time_s: float) -> float:
        """Work done by a time."""
        return _between(self.times_s, self.work_kvtt, time_s)

    def time_of(self, work_kvtt: float) -> float:
        """First time at which so much was done; the end where it never was."""
        return _between(self.work_kvtt, self.times_s, work_kvtt)


@dataclass(frozen=True, slots=True)
class ServiceCurves:
    """Work of each group at the same times. Its ``as_json`` can be kept and read again."""

    times_s: tuple[float, ...]
    kvtt_by_group: Mapping[str, tuple[int, ...]]

    @classmethod
    def of_json(cls, kept: Mapping[str, Any]) -> "ServiceCurves":
        """Read what ``as_json`` returned."""
        groups = {name: tuple(values) for name, values in kept["kvtt_by_group"].items()}
        return cls(tuple(kept["times_s"]), groups)

    def as_json(self) -> dict[str, Any]:
        """Turn it into what JSON can hold."""
        groups = {name: list(values) for name, values in self.kvtt_by_group.items()}
        return {"times_s": list(self.times_s), "kvtt_by_group": groups}

    def of(self, group: str) -> Curve:
        """Work of one group."""
        return Curve(self.times_s, self.kvtt_by_group[group])

    def total(self) -> Curve:
        """Work of all."""
        columns = zip(*self.kvtt_by_group.values(), strict=True)
        return Curve(self.times_s, tuple(sum(column) for column in columns))


def play_with_meter(
    scenario: Scenario,
    policy: str | Callable[[], Policy],
    settings: PlaySettings | None = None,
    *,
    group_of: Callable[[RunPlan], str],
) -> tuple[PlayResult, ServiceCurves]:
    """Play a scenario on fast engines and meter the service of its runs by group.

    Raises:
        InvalidValueError: as ``play``.
    """
    settings = settings or PlaySettings()
    meter = _Meter({run.id: group_of(run) for run in scenario.runs})

    def make(engine_id: str, plan: EnginePlan, its_policy: Policy) -> Engine:
        step_time = step_time_of(plan.step_time)
        engine = _Metered(engine_id, plan, its_policy, step_time, is_stepwise=settings.is_stepwise)
        engine.meter = meter
        return engine

    played = play(scenario, policy, settings, make_engine=make)
    return played, meter.curves()


class _Metered(FastEngine):
    """Lets a meter read its reports."""

    meter: "_Meter"

    def report(self, now_s: float) -> EngineReport:
        """Report, and let it be read."""
        report = super().report(now_s)
        self.meter.read(report, now_s)
        return report


class _Meter:
    def __init__(self, group_by_run: Mapping[str, str]) -> None:
        self._group_by_run = group_by_run
        self._kvtt = dict.fromkeys(sorted(set(group_by_run.values())), 0)
        self._seen: dict[tuple[str, str], int] = {}
        self._points: list[tuple[float, tuple[int, ...]]] = [(0.0, tuple(self._kvtt.values()))]

    def read(self, report: EngineReport, now_s: float) -> None:
        """Add what is new since the engine's last report."""
        for run in report.runs:
            key = (report.engine_id, run.run_id)
            new = run.useful_kvtt - self._seen.get(key, 0)
            self._seen[key] = run.useful_kvtt
            self._kvtt[self._group_by_run[run.run_id]] += new
        point = (now_s, tuple(self._kvtt.values()))
        if self._points[-1][0] == now_s:
            self._points[-1] = point
        else:
            self._points.append(point)

    def curves(self) -> ServiceCurves:
        """Hand over what was read."""
        times_s = tuple(at_s for at_s, _ in self._points)
        columns = zip(*(kvtt for _, kvtt in self._points), strict=True)
        return ServiceCurves(times_s, dict(zip(self._kvtt, columns, strict=True)))


def _between(xs: Sequence[float], ys: Sequence[float], x: float) -> float:
    after = bisect_left(xs, x)
    if after == 0:
        return ys[0]
    if after == len(xs):
        return ys[-1]
    share = (x - xs[after - 1]) / (xs[after] - xs[after - 1])
    return ys[after - 1] + share * (ys[after] - ys[after - 1])


def by_tenant(run: RunPlan) -> str:
    """Group by tenant: what stands before the slash of ``gold/self-consistency``."""
    return run.application.partition("/")[0]
