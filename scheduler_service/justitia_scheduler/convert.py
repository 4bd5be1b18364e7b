"""From the service's own values to messages of the API; nothing here decides anything."""

from collections.abc import Collection

from google.protobuf.timestamp_pb2 import Timestamp

from justitia.api.v1 import admin_pb2, common_pb2, engine_pb2, run_pb2, training_pb2
from justitia.core.estimates import Estimate, Source
from justitia.core.privacy import Privacy
from justitia.core.quantiles import quantile
from justitia.core.runs import Explanation, RunState, RunView
from justitia.core.units import ticks_to_kvtt, weight_to_float
from justitia.privacy_codes import PRIVACY_BY_CODE, PRIVACY_CODES
from justitia_scheduler.applications import Application, Track
from justitia_scheduler.model_evidence import HeldOut
from justitia_scheduler.model_gate import Activation
from justitia_scheduler.model_watch import Watched
from justitia_scheduler.objectives import Verdict
from justitia_scheduler.run_facts import EndedFacts
from justitia_scheduler.store import ModelRow, SampleCounts, SampleRow

_SOURCES = {
    Source.CLIENT: common_pb2.ESTIMATE_SOURCE_CLIENT,
    Source.MODEL: common_pb2.ESTIMATE_SOURCE_MODEL,
    Source.HISTORY: common_pb2.ESTIMATE_SOURCE_HISTORY,
    Source.POOL: common_pb2.ESTIMATE_SOURCE_POOL,
    Source.DEFAULT: common_pb2.ESTIMATE_SOURCE_DEFAULT,
}
_ACTIVATIONS = {
    training_pb2.ACTIVATION_UNSPECIFIED: Activation.UNLESS_WORSE,
    training_pb2.ACTIVATION_UNLESS_WORSE: Activation.UNLESS_WORSE,
    training_pb2.ACTIVATION_ALWAYS: Activation.ALWAYS,
    training_pb2.ACTIVATION_NEVER: Activation.NEVER,
}
_SOURCES_BACK = {number: source for source, number in _SOURCES.items()}
_STATES = {
    RunState.IDLE: run_pb2.RUN_STATE_IDLE,
    RunState.WAITING: run_pb2.RUN_STATE_WAITING,
    RunState.RUNNING: run_pb2.RUN_STATE_RUNNING,
}
_VERDICTS = {
    Verdict.NO_OBJECTIVE: admin_pb2.OBJECTIVE_VERDICT_NO_OBJECTIVE,
    Verdict.TOO_FEW_RUNS: admin_pb2.OBJECTIVE_VERDICT_TOO_FEW_RUNS,
    Verdict.MET: admin_pb2.OBJECTIVE_VERDICT_MET,
    Verdict.MISSED: admin_pb2.OBJECTIVE_VERDICT_MISSED,
}


def source_from(number: common_pb2.EstimateSource) -> Source:
    """Read a source; what is unknown counts as a default."""
    return _SOURCES_BACK.get(number, Source.DEFAULT)


def privacy_from(number: admin_pb2.Privacy) -> Privacy | None:
    """Read a privacy setting; unspecified means text, unknown numbers are None."""
    if number == admin_pb2.PRIVACY_UNSPECIFIED:
        return Privacy.TEXT
    return PRIVACY_BY_CODE.get(number)


def activation_from(number: training_pb2.Activation) -> Activation | None:
    """Read what becomes of a model; unknown numbers are None."""
    return _ACTIVATIONS.get(number)


def held_out_from(run: training_pb2.HeldOutRun) -> HeldOut:
    """Read a run that training held out."""
    return HeldOut(run_id=run.run_id, cost_kvtt=run.cost_kvtt, predicted_kvtt=run.predicted_kvtt)


def virtual_time(ticks: int) -> common_pb2.VirtualTime:
    """Write virtual time, exact and readable."""
    return common_pb2.VirtualTime(ticks=str(ticks), kvtt=ticks_to_kvtt(ticks))


def estimate(value: Estimate) -> common_pb2.Estimate:
    """Write an estimate."""
    return common_pb2.Estimate(
        cost_kvtt=value.cost_kvtt, source=_SOURCES[value.source], model_version=value.model_version
    )


def timestamp(wall_s: float) -> Timestamp:
    """Write a wall-clock time."""
    stamp = Timestamp()
    stamp.FromNanoseconds(round(wall_s * 1e9))
    return stamp


def _timestamp_or_none(wall_s: float | None) -> Timestamp | None:
    return None if wall_s is None else timestamp(wall_s)


def open_run(pool: str, view: RunView, arrived_wall_s: float) -> run_pb2.Run:
    """Write an open run."""
    return run_pb2.Run(
        pool=pool,
        run_id=view.run_id,
        application=view.application,
        state=_STATES[view.state],
        weight=weight_to_float(view.weight),
        virtual_start=virtual_time(view.start),
        virtual_finish=virtual_time(view.finish),
        arrival_sequence=view.sequence,
        estimate=estimate(view.estimate),
        useful_kvtt=view.useful_kvtt,
        wasted_kvtt=view.wasted_kvtt,
        num_waiting=view.num_waiting,
        num_running=view.num_running,
        num_finished=view.num_finished,
        arrived_at=timestamp(arrived_wall_s),
    )


def ended_run(pool: str, facts: EndedFacts) -> run_pb2.Run:
    """Write a run that is over."""
    return run_pb2.Run(
        pool=pool,
        run_id=facts.run_id,
        application=facts.application,
        state=run_pb2.RUN_STATE_ENDED,
        weight=weight_to_float(facts.weight),
        virtual_start=virtual_time(facts.start),
        virtual_finish=virtual_time(facts.finish),
        arrival_sequence=facts.sequence,
        estimate=estimate(facts.estimate),
        useful_kvtt=facts.useful_kvtt,
        wasted_kvtt=facts.wasted_kvtt,
        num_finished=facts.num_inferences,
        arrived_at=timestamp(facts.arrived_wall_s),
        finished_at=timestamp(facts.finished_wall_s),
        jct_s=facts.jct_s,
        fairness_ratio=facts.fairness_ratio,
    )


def tag(view: RunView) -> engine_pb2.Tag:
    """Write what an engine orders a run by."""
    return engine_pb2.Tag(
        run_id=view.run_id,
        virtual_finish=virtual_time(view.finish),
        virtual_start=virtual_time(view.start),
        arrival_sequence=view.sequence,
        estimate=estimate(view.estimate),
        weight=weight_to_float(view.weight),
        learned_kvtt=view.learned_kvtt,
    )


def explanation(
    run: run_pb2.Run, ahead: list[run_pb2.Run], value: Explanation
) -> run_pb2.ExplainRunResponse:
    """Write why a run stands where it stands."""
    return run_pb2.ExplainRunResponse(
        run=run,
        reason=value.reason,
        virtual_time=virtual_time(value.value),
        num_open=value.num_open,
        num_ahead=value.num_ahead,
        ahead=ahead,
        rest_in_fluid_kvtt=value.rest_in_fluid_kvtt,
    )


def _quantile(values: Collection[float], share: float) -> float:
    return quantile(values, share) if values else 0.0  # 0 in a message: nothing was measured


def application(
    pool: str,
    value: Application,
    track: Track,
    *,
    weighted_share: float,
    model_version: str,
    samples: SampleCounts,
    verdict: Verdict,
    recent_ratio: float | None,
    watched: Watched,
) -> admin_pb2.Application:
    """Write a declared application with what became of its runs."""
    last = track.last_estimate
    status = admin_pb2.ApplicationStatus(
        active_runs=track.num_open,
        completed_runs=track.num_completed,
        weighted_share=weighted_share,
        fairness_ratio_p50=_quantile(track.ratios, 0.5),
        fairness_ratio_p99=_quantile(track.ratios, 0.99),
        jct_mean_s=track.jct_mean_s,
        jct_p90_s=_quantile(track.jct_s, 0.9),
        prediction_source=common_pb2.ESTIMATE_SOURCE_UNSPECIFIED
        if last is None
        else _SOURCES[last.source],
        model_version=model_version,
        prediction_relative_error=track.relative_error,
        samples=samples.total,
        samples_since_model=samples.since_model,
        newest_sample_at=_timestamp_or_none(samples.newest_s),
        newest_third_from=_timestamp_or_none(samples.third_from_s),
        objective_verdict=_VERDICTS[verdict],
        fairness_ratio_recent_p90=recent_ratio or 0.0,
        model_relative_error=watched.errors.mean,
        model_judged_runs=len(watched.errors),
        model_expected_relative_error=watched.expected_error,
    )
    return admin_pb2.Application(
        name=value.name,
        pool=pool,
        weight=weight_to_float(value.weight),
        fallback_cost_kvtt=value.fallback_cost_kvtt,
        privacy=PRIVACY_CODES[value.privacy],
        idle_timeout_s=value.idle_timeout_s,
        max_duration_s=value.max_duration_s,
        max_concurrent_runs=value.max_concurrent_runs,
        objective_max_ratio=value.objective_max_ratio,
        status=status,
        declared_by=value.declared_by,
        objective_for_s=value.objective_for_s,
    )


def sample(row: SampleRow) -> training_pb2.Sample:
    """Write a recorded run."""
    return training_pb2.Sample(
        application=row.application,
        run_id=row.run_id,
        prompt_text=row.prompt_text,
        cost_kvtt=row.cost_kvtt,
        num_inferences=row.num_inferences,
        finished_at=timestamp(row.finished_at_s),
    )


def model(row: ModelRow) -> training_pb2.Model:
    """Write a model without its artefact."""
    return training_pb2.Model(
        application=row.application,
        version=row.version,
        published_at=timestamp(row.published_at_s),
        samples=row.samples,
        relative_error=row.relative_error,
        is_active=row.is_active,
        reason=row.reason,
        activated_at=_timestamp_or_none(row.activated_at_s),
    )
