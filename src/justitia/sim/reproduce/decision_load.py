"""A pool and one engine's queue with a fixed number of open runs, to time decisions of the core.

Every open run has one inference that waits. Costs are lognormal (sigma 1), estimates exact.
"""

import random
from typing import Final

from justitia.core.engines import EngineReport, RunReport
from justitia.core.estimates import Estimate, Source
from justitia.core.policies import Inference, make_policy
from justitia.core.pool import Pool
from justitia.core.queue import InferenceQueue
from justitia.core.units import UNIT_WEIGHT

_ENGINE: Final = "engine"
_INCARNATION: Final = "first"
_MEDIAN_LOG_KVTT: Final = 11.5


class DecisionLoad:
    """One decision is what an arrival needs of the core.

    That is the report that moves V, with the departures it brings; the run's S and F; the policy's
    tag; the inference into the queue, and the next one out of it.
    """

    def __init__(self, num_open: int, seed: int) -> None:
        self._random = random.Random(seed)  # noqa: S311 - repeatable, not secret
        self._pool = Pool()
        self._pool.join_engine(_ENGINE, _INCARNATION, kv_capacity_tokens=10**6)
        self._policy = make_policy("justitia")
        self._queue = InferenceQueue(self._policy)
        self._cost_kvtt: dict[str, int] = {}
        self._number = 0
        self._now_s = 0.0
        self._done = ("none", 0)
        while self._number < num_open:
            self._arrive()

    def __len__(self) -> int:
        return len(self._pool)

    def decide(self, now_s: float) -> str:
        """Take a run that arrives; return the one that is served next."""
        self._now_s = now_s
        run_id, cost_kvtt = self._done
        closed = () if run_id in self._pool else (run_id,)
        self._pool.report(
            EngineReport(
                _ENGINE,
                _INCARNATION,
                self._number,
                self._number,
                (RunReport(run_id, cost_kvtt),),
                closed,
            ),
            now_s=now_s,
        )
        self._arrive()
        return self._queue.pop().run_id

    def settle(self, run_id: str) -> None:
        """End the run that was served before; the one that came out now is reported next time."""
        ended, _ = self._done
        if ended in self._pool:
            self._pool.end_run(ended, now_s=self._now_s)
            self._policy.end_run(ended)
        self._done = (run_id, self._cost_kvtt.pop(run_id))

    def _arrive(self) -> None:
        run_id = f"run-{self._number}"
        cost_kvtt = max(1, round(self._random.lognormvariate(_MEDIAN_LOG_KVTT, 1.0)))
        self._cost_kvtt[run_id] = cost_kvtt
        view = self._pool.start_run(
            run_id,
            "application",
            weight=UNIT_WEIGHT,
            estimate=Estimate(cost_kvtt, Source.CLIENT),
            now_s=self._now_s,
        )
        self._policy.start_run(run_id, view.sequence)
        self._policy.set_finish(run_id, view.finish, view.sequence)
        self._queue.add(Inference(f"{run_id}/0", run_id, self._number, cost_kvtt))
        self._number += 1
