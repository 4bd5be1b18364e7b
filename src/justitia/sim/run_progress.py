"""How far a run is: which of its inferences may begin, and what it has met."""

from collections.abc import Iterator
from typing import TYPE_CHECKING

from justitia.core.estimates import Estimate
from justitia.core.fairness import FairRatio
from justitia.sim.engine import Ended, RunTag
from justitia.sim.results import RunResult
from justitia.sim.scenario import RunPlan

if TYPE_CHECKING:
    from justitia.core.runs import EndedRun


class RunProgress:
    """One run from its arrival to its end."""

    __slots__ = (
        "_followers",
        "_missing",
        "_num_cached",
        "_num_left",
        "_num_preemptions",
        "_started_at_s",
        "_waiting_s",
        "ended",
        "estimate",
        "plan",
        "tag",
        "turn_by_place",
    )

    def __init__(self, plan: RunPlan, estimate: Estimate, tag: RunTag) -> None:
        self.plan = plan
        self.estimate = estimate
        self.tag = tag
        self.ended: EndedRun | None = None
        #: Engines that it has been to: how often each had finished steps when it was last there.
        self.turn_by_place: dict[int, int] = {}
        self._num_left = len(plan.inferences)
        self._missing = [len(set(inference.after)) for inference in plan.inferences]
        self._followers: dict[int, list[int]] = {}
        for place, inference in enumerate(plan.inferences):
            for other in set(inference.after):
                self._followers.setdefault(other, []).append(place)
        self._started_at_s = -1.0
        self._waiting_s = 0.0
        self._num_preemptions = 0
        self._num_cached = 0

    @property
    def is_over(self) -> bool:
        """Whether all of its inferences have ended."""
        return self._num_left == 0

    def first(self) -> Iterator[int]:
        """List the places of those that come with the run."""
        return (place for place, missing in enumerate(self._missing) if not missing)

    def end_inference(self, ended: Ended) -> Iterator[int]:
        """Take in an inference that has ended; returns those that it was the last to hold back."""
        times = ended.times
        if self._started_at_s < 0 or times.started_at_s < self._started_at_s:
            self._started_at_s = times.started_at_s
        self._waiting_s += times.finished_at_s - times.arrived_at_s - times.computing_s
        self._num_preemptions += ended.num_preemptions
        self._num_cached += ended.cached_tokens
        self._num_left -= 1
        return self._release(ended.place)

    def _release(self, place: int) -> Iterator[int]:
        for follower in self._followers.get(place, ()):
            self._missing[follower] -= 1
            if not self._missing[follower]:
                yield follower

    def result(self, ratio: FairRatio) -> RunResult:
        """Put together what became of it; it must have ended."""
        ended = self.ended
        assert ended is not None
        return RunResult(
            run_id=self.plan.id,
            application=self.plan.application,
            size_class=self.plan.size_class,
            arrival_s=self.plan.arrival_s,
            finished_at_s=ended.finished_at_s,
            reference_jct_s=ratio.reference_jct_s,
            predicted_kvtt=self.estimate.cost_kvtt,
            true_kvtt=ended.true_cost_kvtt,
            wasted_kvtt=ended.wasted_kvtt,
            queue_wait_s=self._started_at_s - self.plan.arrival_s,
            waiting_s=self._waiting_s,
            num_inferences=len(self.plan.inferences),
            num_preemptions=self._num_preemptions,
            cached_tokens=self._num_cached,
        )
