"""Between the plugin's plain values and the messages of ``justitia.api.v1``.

Every message is bounded: what does not fit goes into the next one. What the service sends is
checked part by part: one bad part is dropped and counted, never the rest.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any, Final

from justitia.api.v1 import common_pb2, engine_pb2
from justitia.core.errors import InvalidValueError
from justitia.core.estimates import Estimate, Source, require_cost_kvtt
from justitia.core.limits import MAX_ID_CHARS
from justitia.core.units import Ticks, parse_weight, ticks_to_kvtt
from justitia.vllm_plugin.controller import EngineController
from justitia.vllm_plugin.directives import Directive, RunTag
from justitia.vllm_plugin.facts import FinishedInference
from justitia.vllm_plugin.run_book import OpenRun

MAX_RUNS_PER_HELLO: Final = 5_000
MAX_ITEMS_PER_REPORT: Final = 2_000
PLUGIN_VERSION: Final = "0.1.0"
_MAX_TICK_DIGITS: Final = 100
_MAX_INT32: Final = 2**31 - 1

_SOURCE_OUT: Final = {
    Source.CLIENT: common_pb2.ESTIMATE_SOURCE_CLIENT,
    Source.MODEL: common_pb2.ESTIMATE_SOURCE_MODEL,
    Source.HISTORY: common_pb2.ESTIMATE_SOURCE_HISTORY,
    Source.POOL: common_pb2.ESTIMATE_SOURCE_POOL,
    Source.DEFAULT: common_pb2.ESTIMATE_SOURCE_DEFAULT,
}
_SOURCE_IN: Final = {number: source for source, number in _SOURCE_OUT.items()}


@dataclass(frozen=True, slots=True, kw_only=True)
class EngineFacts:
    """What an engine is, for its Hello."""

    engine_id: str
    incarnation: str
    kv_blocks: int
    block_size_tokens: int
    vllm_version: str
    model: str


# -- to the service ----------------------------------------------------


def hellos(
    controller: EngineController, facts: EngineFacts, now_s: float
) -> Iterator[engine_pb2.EngineMessage]:
    """Introduce the engine with all runs it knows, split into messages of bounded size."""
    rows = []
    for row in controller.runs:
        row.is_announced = True
        if not row.is_closed:  # meanwhile: see RunBook.close
            rows.append(row)
    pages = [rows[i : i + MAX_RUNS_PER_HELLO] for i in range(0, len(rows), MAX_RUNS_PER_HELLO)]
    for number, page in enumerate(pages or [[]]):
        hello = _hello(controller, facts)
        hello.known_runs.extend(_known_run(row, now_s) for row in page)
        hello.more_follows = number < len(pages) - 1
        yield engine_pb2.EngineMessage(hello=hello)


def _hello(controller: EngineController, facts: EngineFacts) -> engine_pb2.Hello:
    hello = engine_pb2.Hello(
        pool=controller.settings.pool,
        engine_id=facts.engine_id,
        incarnation=facts.incarnation,
        kv_blocks=facts.kv_blocks,
        block_size_tokens=facts.block_size_tokens,
        max_num_seqs=controller.limits.max_num_seqs,
        max_num_batched_tokens=controller.limits.step_budget_tokens,
        max_model_len_tokens=controller.limits.max_model_len_tokens,
        vllm_version=facts.vllm_version,
        plugin_version=PLUGIN_VERSION,
        policy=controller.policy.name,
        model=facts.model,
        steps=controller.gauges.steps,
    )
    hello.unowned_useful_kvtt, hello.unowned_wasted_kvtt = controller.runs.unowned_kvtt
    if controller.service_value is not None:
        hello.last_virtual_time.CopyFrom(virtual_time(controller.service_value))
    return hello


def _known_run(row: OpenRun, now_s: float) -> engine_pb2.KnownRun:
    known = engine_pb2.KnownRun(
        run_id=row.run_id,
        application=row.application,
        useful_kvtt=row.useful_kvtt,
        wasted_kvtt=row.wasted_kvtt,
        num_waiting=row.num_waiting,
        num_running=row.num_running,
        age_s=max(0.0, now_s - row.arrived_at_s),
        ends_when_idle=row.ends_when_idle,
        prompt_tokens=min(row.prompt_tokens, _MAX_INT32),
    )
    tag = row.tag
    if tag is not None:
        known.virtual_finish.CopyFrom(virtual_time(tag.finish))
        known.virtual_start.CopyFrom(virtual_time(tag.start))
        known.arrival_sequence = tag.sequence
        known.weight = tag.weight
        known.learned_kvtt = tag.learned_kvtt
        if tag.estimate is not None:
            known.estimate.CopyFrom(
                common_pb2.Estimate(
                    cost_kvtt=tag.estimate.cost_kvtt,
                    source=_SOURCE_OUT[tag.estimate.source],
                    model_version=tag.estimate.model_version,
                )
            )
    return known


def virtual_time(ticks: Ticks) -> common_pb2.VirtualTime:
    """Write virtual time, exactly and for people."""
    return common_pb2.VirtualTime(ticks=str(ticks), kvtt=ticks_to_kvtt(ticks))


def report(
    controller: EngineController, sequence: int, now_s: float, *, is_due: bool
) -> engine_pb2.EngineMessage | None:
    """Say what has changed since the last report; None if nothing has and none ``is_due``.

    Removes from the controller what it reports. Called by the session's thread.
    """
    message = engine_pb2.Report(sequence=sequence)
    _add_runs(message, controller, now_s)
    if not (is_due or message.runs):
        return None
    gauges = controller.gauges
    message.steps = gauges.steps
    message.kv_used_tokens = gauges.kv_used_tokens
    message.preemptions = controller.ledger.num_preemptions
    message.num_running = controller.ledger.num_running
    message.num_waiting = max(0, len(controller.ledger) - controller.ledger.num_running)
    message.unidentified_inferences = gauges.unidentified_inferences
    message.malformed_identities = gauges.malformed_identities
    message.unowned_useful_kvtt, message.unowned_wasted_kvtt = controller.runs.unowned_kvtt
    message.tag_delay_s, gauges.tag_delay_s = gauges.tag_delay_s, 0.0
    return engine_pb2.EngineMessage(report=message)


def has_more(controller: EngineController) -> bool:
    """Whether a report would have something to say."""
    return bool(controller.runs.changed)


def _add_runs(message: engine_pb2.Report, controller: EngineController, now_s: float) -> None:
    """Fill a report: each run with its finished inferences, so that the two never part."""
    book, seen = controller.runs, set[str]()
    unsaid = []
    while len(message.runs) < MAX_ITEMS_PER_REPORT > len(message.finished):
        row = book.next_changed(seen)
        if row is None:
            break
        seen.add(row.run_id)
        row.is_changed = False  # before anything is read: see RunBook
        is_closed = row.is_closed
        message.runs.append(_progress(row))
        finished = book.take_finished(row, MAX_ITEMS_PER_REPORT - len(message.finished))
        message.finished.extend(_finished(inference, now_s) for inference in finished)
        is_new = not row.is_announced
        if is_new:
            row.is_announced = True
            message.new_runs.append(_new_run(row, now_s))
        # What is new and closed at once is not opened by the service: a run that was over quickly
        # is closed a report later, so that its end counts.
        is_quick = is_new and row.ends_when_idle and bool(finished)
        if row.finished or (is_closed and is_quick):
            unsaid.append(row)
        elif is_closed:
            message.closed_run_ids.append(row.run_id)
    for row in reversed(unsaid):
        book.put_back(row)


def _progress(row: OpenRun) -> engine_pb2.RunProgress:
    return engine_pb2.RunProgress(
        run_id=row.run_id,
        useful_kvtt=row.useful_kvtt,
        wasted_kvtt=row.wasted_kvtt,
        num_waiting=row.num_waiting,
        num_running=row.num_running,
        num_lost_finished=row.num_lost_finished,
    )


def _new_run(row: OpenRun, now_s: float) -> engine_pb2.NewRun:
    return engine_pb2.NewRun(
        run_id=row.run_id,
        application=row.application,
        prompt_tokens=min(row.prompt_tokens, _MAX_INT32),
        age_s=max(0.0, now_s - row.arrived_at_s),
        ends_when_idle=row.ends_when_idle,
    )


def _finished(inference: FinishedInference, now_s: float) -> engine_pb2.FinishedInference:
    return engine_pb2.FinishedInference(
        run_id=inference.run_id,
        prompt_tokens=inference.prompt_tokens,
        cached_tokens=inference.cached_tokens,
        output_tokens=inference.output_tokens,
        preemptions=inference.num_preemptions,
        useful_kvtt=inference.useful_kvtt,
        is_aborted=inference.is_aborted,
        arrived_age_s=max(0.0, now_s - inference.arrived_at_s),
        started_age_s=max(0.0, now_s - inference.started_at_s),
        finished_age_s=max(0.0, now_s - inference.finished_at_s),
        computed_s=inference.computed_s,
    )


# -- from the service ----------------------------------------------------


def read_directive(message: engine_pb2.EngineDirective, now_s: float) -> Directive:
    """Check what the service sent."""
    directive = Directive(
        now_s,
        ended_run_ids=dict.fromkeys(message.ended_run_ids),
        default_cost_kvtt=max(0, message.default_cost_kvtt),
    )
    if message.mode != common_pb2.POOL_MODE_UNSPECIFIED:
        directive.is_shadow = message.mode == common_pb2.POOL_MODE_SHADOW

    if message.HasField("virtual_time"):
        _try(directive, _read_value, message.virtual_time)
    for tag in message.tags:
        _try(directive, _read_tag, tag)
    for item in message.weights:
        _try(directive, _read_weight, item)
    return directive


def _try(directive: Directive, read: Callable[[Directive, Any], None], part: Any) -> None:
    try:
        read(directive, part)
    except ValueError:  # all of the core's refusals are
        directive.num_refused += 1


def _read_value(directive: Directive, value: common_pb2.VirtualTime) -> None:
    directive.value = _ticks(value)


def _read_weight(directive: Directive, item: engine_pb2.ApplicationWeight) -> None:
    parse_weight(item.weight)
    directive.weights[item.application] = item.weight


def _read_tag(directive: Directive, tag: engine_pb2.Tag) -> None:
    if not 1 <= len(tag.run_id) <= MAX_ID_CHARS:
        raise InvalidValueError("run_id", f"must have 1 to {MAX_ID_CHARS} characters")
    if tag.arrival_sequence < 0:
        raise InvalidValueError("arrival_sequence", f"must be >= 0, got {tag.arrival_sequence}")
    finish = _ticks(tag.virtual_finish)
    start = _start_ticks(tag.virtual_start) if tag.HasField("virtual_start") else finish
    estimate = _read_estimate(tag.estimate) if tag.HasField("estimate") else None
    directive.tags[tag.run_id] = RunTag(
        tag.run_id,
        finish,
        start,
        tag.arrival_sequence,
        tag.weight,
        estimate,
        require_cost_kvtt("learned_kvtt", tag.learned_kvtt) if tag.learned_kvtt else 0,
    )


def _read_estimate(estimate: common_pb2.Estimate) -> Estimate:
    return Estimate(
        require_cost_kvtt("estimate.cost_kvtt", estimate.cost_kvtt),
        _SOURCE_IN.get(estimate.source, Source.DEFAULT),
        estimate.model_version,
    )


def _start_ticks(value: common_pb2.VirtualTime) -> Ticks:
    """Read S, which alone may lie below 0: a weight was lowered (rule V5)."""
    if value.ticks.startswith("-"):
        return Ticks(-_ticks(common_pb2.VirtualTime(ticks=value.ticks[1:])))
    return _ticks(value)


def _ticks(value: common_pb2.VirtualTime) -> Ticks:
    if not value.ticks.isascii() or not value.ticks.isdigit():
        raise InvalidValueError("ticks", "must be decimal digits")
    if len(value.ticks) > _MAX_TICK_DIGITS:
        raise InvalidValueError("ticks", f"must have at most {_MAX_TICK_DIGITS} digits")
    return Ticks(int(value.ticks))
