"""What the plugin's session with the scheduler service is in a real engine, without a network.

As in the session, tags go into the plugin's inbox and count from the next step on, and reports are
what the plugin's book of runs says has changed.
"""

from dataclasses import dataclass

from justitia.core.engines import EngineReport, RunReport
from justitia.core.estimates import Estimate, Source
from justitia.core.fairness import InferenceTimes
from justitia.sim.engine import RunTag
from justitia.vllm_plugin import directives
from justitia.vllm_plugin.controller import EngineController
from justitia.vllm_plugin.directives import Directive
from justitia.vllm_plugin.run_book import OpenRun


@dataclass(slots=True)
class PluginLink:
    """Connects the plugin of one engine with a play's pool."""

    controller: EngineController
    engine_id: str
    _num_reports: int = 0

    def __post_init__(self) -> None:
        self.controller.runs.is_reported = True

    def tag(self, tag: RunTag, now_s: float) -> None:
        """Tell the plugin a run's F, place and estimated cost."""
        estimate = Estimate(tag.cost_kvtt, Source.MODEL)
        told = directives.RunTag(
            tag.run_id, tag.finish, tag.finish, tag.sequence, weight=1.0, estimate=estimate
        )
        self.controller.inbox.put(Directive(now_s, tags={tag.run_id: told}))

    def end_run(self, run_id: str, now_s: float) -> None:
        """Tell the plugin that a run is over."""
        self.controller.inbox.put(Directive(now_s, ended_run_ids={run_id: None}))

    def report(self) -> EngineReport:
        """Say what the plugin has noted since the last report."""
        book, runs, closed, seen = self.controller.runs, [], [], set[str]()
        while (row := book.next_changed(seen)) is not None:
            seen.add(row.run_id)
            row.is_changed = False
            row.is_announced = True
            runs.append(self._progress(row))
            if row.is_closed:
                closed.append(row.run_id)
        self._num_reports += 1
        gauges = self.controller.gauges
        return EngineReport(
            self.engine_id,
            "1",
            self._num_reports,
            gauges.steps,
            tuple(runs),
            tuple(closed),
            gauges.kv_used_tokens,
        )

    def _progress(self, row: OpenRun) -> RunReport:
        finished = self.controller.runs.take_finished(row, len(row.finished))
        times = (
            InferenceTimes(
                each.arrived_at_s,
                each.started_at_s,
                each.finished_at_s,
                each.computed_s,
                None if each.is_aborted else each.useful_kvtt,
            )
            for each in finished
        )
        return RunReport(
            row.run_id,
            row.useful_kvtt,
            row.wasted_kvtt,
            row.num_waiting,
            row.num_running,
            tuple(times),
        )
