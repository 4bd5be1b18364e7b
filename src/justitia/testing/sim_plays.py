"""Results of plays that nobody played, to see what is made of them."""

from collections.abc import Mapping, Sequence

from justitia.sim.engine import EngineTotals
from justitia.sim.results import PlayResult, RunResult


def run_result(
    run_id: str,
    jct_s: float,
    *,
    arrival_s: float = 0.0,
    reference_jct_s: float | None = None,
    true_kvtt: int = 1,
    size_class: str = "",
) -> RunResult:
    """Plant a run; its reference is its JCT where none is given."""
    return RunResult(
        run_id=run_id,
        application="application",
        size_class=size_class,
        arrival_s=arrival_s,
        finished_at_s=arrival_s + jct_s,
        reference_jct_s=jct_s if reference_jct_s is None else reference_jct_s,
        predicted_kvtt=true_kvtt,
        true_kvtt=true_kvtt,
        wasted_kvtt=0,
        queue_wait_s=0.0,
        waiting_s=0.0,
        num_inferences=1,
        num_preemptions=0,
        cached_tokens=0,
    )


def play_result(runs: Sequence[RunResult], *, steps: int = 1000) -> PlayResult:
    """Plant a play on one engine that was busy until the last run ended."""
    end_s = max(run.finished_at_s for run in runs)
    return PlayResult(
        policy="planted",
        runs=tuple(runs),
        engines=(EngineTotals(steps=steps, busy_s=end_s),),
        duration_s=end_s,
        useful_kvtt=sum(run.true_kvtt for run in runs),
        wasted_kvtt=0,
        surplus_kvtt=0.0,
    )


def with_jcts(jcts_s: Mapping[str, float] | Sequence[float]) -> PlayResult:
    """Plant a play by its JCTs, of runs with names or of run-0, run-1, ..."""
    if not isinstance(jcts_s, Mapping):
        jcts_s = {f"run-{place}": jct_s for place, jct_s in enumerate(jcts_s)}
    return play_result([run_result(name, jct_s) for name, jct_s in jcts_s.items()])
