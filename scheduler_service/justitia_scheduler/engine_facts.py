"""What engines say, checked and in the core's words; ages become times of our own clock."""

import math
from dataclasses import dataclass, field, replace
from typing import Final

from justitia.api.v1 import engine_pb2
from justitia.core.engines import EngineReport, RunReport
from justitia.core.errors import InvalidValueError
from justitia.core.estimates import Estimate, clamp_cost_kvtt
from justitia.core.fairness import InferenceTimes
from justitia.core.units import NanoWeight, Ticks, parse_weight
from justitia_scheduler import convert
from justitia_scheduler.limits import (
    MAX_COUNTER_KVTT,
    MAX_HELLO_RUNS,
    MAX_REPORT_ITEMS,
    parse_ticks,
    require_id,
)
from justitia_scheduler.run_facts import RunOrder

_MAX_AGE_S: Final = 30 * 86400.0
_MAX_COUNT: Final = 10**9
_MAX_SEQUENCE: Final = 2**53
_NOTHING: Final = RunReport("", 0)


@dataclass(frozen=True, kw_only=True, slots=True)
class EngineFacts:
    """One engine incarnation as it introduced itself.

    ``unowned``: service of runs that came and went unheard, under an id that no run has.
    """

    pool: str
    engine_id: str
    incarnation: str
    kv_capacity_tokens: int
    steps: int
    vllm_version: str
    plugin_version: str
    policy: str
    model: str
    max_num_seqs: int = 0
    step_budget_tokens: int = 0
    max_model_len_tokens: int = 0
    unowned: RunReport = _NOTHING


@dataclass(frozen=True, kw_only=True, slots=True)
class KnownRun:
    """A run that an engine held when it said Hello; ``finish`` None: it has no tag of ours.

    ``sequence``: its place in order of arrival, ``learned_kvtt``: what it was taken to cost by what
    it had shown (rule K2), both as the tag says.
    """

    report: RunReport
    application: str
    age_s: float
    finish: Ticks | None
    start: Ticks
    weight: NanoWeight
    estimate: Estimate
    sequence: int = -1
    prompt_tokens: int = 0
    ends_when_idle: bool = False
    learned_kvtt: int = 0


@dataclass(frozen=True, kw_only=True, slots=True)
class FinishedFacts:
    """One finished inference, beside the times that the core takes."""

    run_id: str
    times: InferenceTimes
    has_run: bool
    is_aborted: bool


@dataclass(kw_only=True, slots=True)
class ReportFacts:
    """A report. ``num_dropped`` counts invalid items by kind.

    ``lost``: ids, as the engine gave them, of runs of which a finished inference was dropped, here
    or by the engine.
    """

    report: EngineReport
    new_runs: list[tuple[RunOrder, float]]
    finished: list[FinishedFacts]
    preemptions: int
    num_waiting: int
    num_running: int
    unidentified: int
    malformed: int
    tag_delay_s: float
    num_dropped: dict[str, int] = field(default_factory=dict)
    lost: set[str] = field(default_factory=set)


def engine_facts(hello: engine_pb2.Hello) -> EngineFacts:
    """Check the head of a Hello.

    Raises:
        InvalidValueError: names the field; without a sound head there is no session.
    """
    if not 1 <= hello.kv_blocks <= _MAX_COUNT or not 1 <= hello.block_size_tokens <= _MAX_COUNT:
        raise InvalidValueError(
            "hello.kv_blocks, hello.block_size_tokens",
            f"must be from 1 to {_MAX_COUNT}, got {hello.kv_blocks} and {hello.block_size_tokens}",
        )
    return EngineFacts(
        pool=hello.pool,
        engine_id=require_id("hello.engine_id", hello.engine_id),
        incarnation=require_id("hello.incarnation", hello.incarnation),
        kv_capacity_tokens=hello.kv_blocks * hello.block_size_tokens,
        steps=max(0, hello.steps),
        vllm_version=hello.vllm_version[:64],
        plugin_version=hello.plugin_version[:64],
        policy=hello.policy[:64],
        model=hello.model[:256],
        max_num_seqs=max(0, hello.max_num_seqs),
        step_budget_tokens=max(0, hello.max_num_batched_tokens),
        max_model_len_tokens=max(0, hello.max_model_len_tokens),
        unowned=_unowned(hello),
    )


def known_runs(hello: engine_pb2.Hello, *, num_dropped: dict[str, int]) -> list[KnownRun]:
    """Check the runs of one page of a Hello; what is invalid is left out and counted."""
    found = []
    for run in hello.known_runs[:MAX_HELLO_RUNS]:
        try:
            found.append(_known_run(run))
        except ValueError:
            _drop(num_dropped, "known_run")
    _drop(num_dropped, "known_run", max(0, len(hello.known_runs) - MAX_HELLO_RUNS))
    return found


def report_facts(
    message: engine_pb2.Report,
    *,
    engine_id: str,
    incarnation: str,
    now_s: float,
    early: dict[str, list[InferenceTimes]],
) -> ReportFacts:
    """Check a report and put it into the core's words.

    ``early`` keeps, from report to report of one session, the finished inferences of runs that a
    full report could not list any more: they go with the next progress of their run.
    """
    dropped: dict[str, int] = {}
    lost: set[str] = set()
    finished = _finished(message, now_s, dropped, lost)
    for inference in finished:
        early.setdefault(inference.run_id, []).append(inference.times)
    runs = []
    for run in message.runs[:MAX_REPORT_ITEMS]:
        try:
            progress = _progress(run)
            runs.append(replace(progress, finished=tuple(early.pop(run.run_id, ()))))
            if run.num_lost_finished:
                lost.add(run.run_id)
        except ValueError:
            _drop(dropped, "run")
    new_runs = []
    for new in message.new_runs[:MAX_REPORT_ITEMS]:
        try:
            new_runs.append(_new_run(new))
        except ValueError:
            _drop(dropped, "new_run")
    if (unowned := _unowned(message)) != _NOTHING:
        runs.append(unowned)
    while len(early) > MAX_REPORT_ITEMS:
        lost.add(run_id := next(iter(early)))
        _drop(dropped, "finished_of_unlisted_run", len(early.pop(run_id)))
    for kind, items in (("run", message.runs), ("new_run", message.new_runs)):
        _drop(dropped, kind, max(0, len(items) - MAX_REPORT_ITEMS))
    report = EngineReport(
        engine_id,
        incarnation,
        # The core counts from 0 for the Hello; whatever number the engine begins with comes after
        # it.
        max(0, message.sequence) + 1,
        max(0, message.steps),
        tuple(runs),
        tuple(message.closed_run_ids[:MAX_REPORT_ITEMS]),
        max(0, message.kv_used_tokens),
    )
    return ReportFacts(
        report=report,
        new_runs=new_runs,
        finished=finished,
        preemptions=max(0, message.preemptions),
        num_waiting=max(0, message.num_waiting),
        num_running=max(0, message.num_running),
        unidentified=max(0, message.unidentified_inferences),
        malformed=max(0, message.malformed_identities),
        tag_delay_s=message.tag_delay_s,
        num_dropped=dropped,
        lost=lost,
    )


def _drop(counts: dict[str, int], kind: str, number: int = 1) -> None:
    if number:
        counts[kind] = counts.get(kind, 0) + number


def _counter(name: str, value: int, *, most: int = MAX_COUNTER_KVTT) -> int:
    if not 0 <= value <= most:
        raise InvalidValueError(name, f"must be from 0 to {most}, got {value}")
    return value


def _age_s(name: str, value: float) -> float:
    if not 0 <= value <= _MAX_AGE_S or not math.isfinite(value):
        raise InvalidValueError(name, f"must be from 0 to {_MAX_AGE_S:g}, got {value!r}")
    return value


def _progress(
    run: engine_pb2.RunProgress | engine_pb2.KnownRun,
) -> RunReport:
    return RunReport(
        require_id("run_id", run.run_id),
        _counter("useful_kvtt", run.useful_kvtt),
        _counter("wasted_kvtt", run.wasted_kvtt),
        _counter("num_waiting", run.num_waiting, most=_MAX_COUNT),
        _counter("num_running", run.num_running, most=_MAX_COUNT),
    )


def _unowned(message: engine_pb2.Hello | engine_pb2.Report) -> RunReport:
    """Read the totals of runs that an engine does not list; no run has an empty id."""
    useful_kvtt, wasted_kvtt = message.unowned_useful_kvtt, message.unowned_wasted_kvtt
    if 0 <= useful_kvtt <= MAX_COUNTER_KVTT and 0 <= wasted_kvtt <= MAX_COUNTER_KVTT:
        return RunReport("", useful_kvtt, wasted_kvtt)
    return _NOTHING


def _known_run(run: engine_pb2.KnownRun) -> KnownRun:
    has_tag = run.HasField("virtual_finish")
    finish = parse_ticks("virtual_finish", run.virtual_finish.ticks) if has_tag else None
    return KnownRun(
        report=_progress(run),
        application=require_id("application", run.application) if run.application else "",
        age_s=_age_s("age_s", run.age_s),
        finish=finish,
        start=parse_ticks("virtual_start", run.virtual_start.ticks) if has_tag else Ticks(0),
        weight=parse_weight(run.weight or 1),
        estimate=Estimate(
            clamp_cost_kvtt(run.estimate.cost_kvtt),
            convert.source_from(run.estimate.source),
            run.estimate.model_version,
        ),
        sequence=_counter("arrival_sequence", run.arrival_sequence, most=_MAX_SEQUENCE),
        prompt_tokens=_counter("prompt_tokens", run.prompt_tokens, most=_MAX_COUNT),
        ends_when_idle=run.ends_when_idle,
        learned_kvtt=clamp_cost_kvtt(run.learned_kvtt) if run.learned_kvtt > 0 else 0,
    )


def _new_run(new: engine_pb2.NewRun) -> tuple[RunOrder, float]:
    order = RunOrder(
        run_id=require_id("run_id", new.run_id),
        application=require_id("application", new.application) if new.application else "",
        prompt_tokens=_counter("prompt_tokens", new.prompt_tokens, most=_MAX_COUNT),
        is_from_engine=True,
        ends_when_idle=new.ends_when_idle,
    )
    return order, _age_s("age_s", new.age_s)


def _finished(
    message: engine_pb2.Report, now_s: float, dropped: dict[str, int], lost: set[str]
) -> list[FinishedFacts]:
    found = []
    for inference in message.finished[:MAX_REPORT_ITEMS]:
        try:
            found.append(_finished_one(inference, now_s))
        except ValueError:
            lost.add(inference.run_id)
            _drop(dropped, "finished")
    over = message.finished[MAX_REPORT_ITEMS:]
    lost.update(inference.run_id for inference in over)
    _drop(dropped, "finished", len(over))
    return found


def _finished_one(inference: engine_pb2.FinishedInference, now_s: float) -> FinishedFacts:
    arrived = _age_s("arrived_age_s", inference.arrived_age_s)
    started = _age_s("started_age_s", inference.started_age_s)
    ended = _age_s("finished_age_s", inference.finished_age_s)
    if not arrived >= started >= ended:
        raise InvalidValueError(
            "arrived_age_s, started_age_s, finished_age_s",
            f"must not grow, got {arrived}, {started}, {ended}",
        )
    computed_s = _age_s("computed_s", inference.computed_s) or None  # 0: not measured
    return FinishedFacts(
        run_id=require_id("run_id", inference.run_id),
        times=InferenceTimes(
            now_s - arrived, now_s - started, now_s - ended, computed_s, _lesson_kvtt(inference)
        ),
        has_run=started > ended,
        is_aborted=inference.is_aborted,
    )


def _lesson_kvtt(inference: engine_pb2.FinishedInference) -> int | None:
    """Return its cost; None: an aborted, retried or hedged copy says nothing (rule K2)."""
    useful_kvtt = _counter("useful_kvtt", inference.useful_kvtt)
    return None if inference.is_aborted or not useful_kvtt else useful_kvtt
