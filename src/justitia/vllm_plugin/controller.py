"""The order and the books of one engine, without vLLM: what the scheduler hooks call.

All methods run in the engine's own thread. What others may look at (the session's thread) stands in
``RunBook`` and in ``Gauges``, and is written so that it can be read at any moment.
"""

import re
from collections import OrderedDict
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from hashlib import sha256
from itertools import islice
from typing import Final, Protocol

from justitia.core.limits import is_usable_id
from justitia.core.policies import Inference, Policy, Service, make_policy
from justitia.core.units import Ticks
from justitia.vllm_plugin.directives import Directive, Inbox, RunTag
from justitia.vllm_plugin.facts import EngineLimits, FinishedInference, Gauges
from justitia.vllm_plugin.identity import NOBODY, Identity
from justitia.vllm_plugin.kv_blocks import KvLayout
from justitia.vllm_plugin.ledger import Ledger, OpenInference
from justitia.vllm_plugin.local_tags import LocalTags
from justitia.vllm_plugin.output_lengths import OutputLengths
from justitia.vllm_plugin.run_book import OpenRun, RunBook
from justitia.vllm_plugin.settings import Settings

_MAX_EARLY_TAGS: Final = 100_000
#: Runs that one step closes at most: each costs the engine some 50 us.
_MAX_CLOSED: Final = 50
_HOUSEKEEPING_PERIOD_S: Final = 0.05
_COMPONENT_BITS: Final = 64
_COPY_PREFIX: Final = re.compile(r"^\d+_(?=.)")


class OrderedQueue(Protocol):
    """A waiting queue that this controller orders."""

    def refresh(self, run_id: str) -> None:
        """Make a run's new key count."""

    def reorder(self) -> None:
        """Sort anew: the order itself has changed."""


@dataclass(slots=True)
class EngineController:
    """Order of service, attained cost and local tags of one engine core."""

    settings: Settings
    layout: KvLayout
    limits: EngineLimits
    clock: Callable[[], float]
    #: Called when the service should hear of something at once.
    kick: Callable[[], None] = lambda: None
    policy: Policy = field(init=False)
    ledger: Ledger = field(init=False)
    runs: RunBook = field(init=False)
    local: LocalTags = field(init=False)
    gauges: Gauges = field(default_factory=Gauges)
    inbox: Inbox = field(default_factory=Inbox)
    queues: list[OrderedQueue] = field(default_factory=list)
    #: Runs whose key has changed since ``take_retagged``.
    retagged: set[str] = field(default_factory=set)
    is_shadow: bool = False
    is_degraded: bool = False
    service_value: Ticks | None = None
    #: Runs that the service has ended and that are yet to be closed.
    _to_end: dict[str, None] = field(default_factory=dict)
    _early_tags: OrderedDict[str, RunTag] = field(default_factory=OrderedDict)
    _outputs: OutputLengths = field(init=False)
    _num_arrivals: int = 0
    _housekeeping_due_s: float = 0.0

    def __post_init__(self) -> None:
        self.policy = make_policy(self.settings.policy)
        self.ledger = Ledger(self.layout)
        is_reported = bool(self.settings.scheduler_address)
        self.runs = RunBook(is_reported, self.layout.shares)
        self._outputs = OutputLengths(self.limits)
        self.local = LocalTags(self.settings.default_cost_kvtt, self.limits.kv_capacity_tokens)
        self.local.set_weights(self.settings.weight_by_application())
        self.is_shadow = self._is_own_shadow

    # -- order ----------------------------------------------------

    @property
    def _is_own_shadow(self) -> bool:
        """Whether this engine's own setting keeps it in shadow mode, whatever the pool's is."""
        return self.settings.mode == "shadow"

    @property
    def is_stock_order(self) -> bool:
        """Whether the engine serves in vLLM's own order and picks vLLM's own victims."""
        return self.is_shadow or self.is_degraded or self.policy.name == "fcfs"

    def inference(self, inference_id: str) -> Inference:
        """Describe an open inference to the queue.

        One that nobody registered becomes a run of its own.
        """
        found = self.ledger.get(inference_id)
        if found is None:
            found = self.arrive(inference_id, NOBODY, prompt_tokens=1, max_output_tokens=1)
        return Inference(inference_id, found.run.run_id, found.sequence, found.expected_kvtt)

    def rank(self, inference: Inference) -> int:
        """Place of an inference among all, as one whole number: (key, sequence), smallest first."""
        rank = 0
        for component in (*self.policy.key(inference), inference.sequence):
            rank = (rank << _COMPONENT_BITS) + component
        return rank

    def take_retagged(self) -> set[str]:
        """Take the runs whose key has changed: what runs of them has to get its new rank."""
        taken, self.retagged = self.retagged, set()
        return taken

    def degrade(self) -> None:
        """Serve in arrival order from now on: our own books cannot be trusted any more."""
        self.gauges.internal_errors += 1
        if not self.is_degraded:
            self.is_degraded = True
            self._reorder()

    def _reorder(self) -> None:
        for queue in self.queues:
            queue.reorder()

    def _key_changed(self, run_id: str) -> None:
        self.retagged.add(run_id)
        if not self.is_stock_order:
            for queue in self.queues:
                queue.refresh(run_id)

    # -- life of an inference ----------------------------------------------------

    def arrive(
        self,
        inference_id: str,
        identity: Identity,
        *,
        prompt_tokens: int,
        max_output_tokens: int,
    ) -> OpenInference:
        """Open the books of an inference, and its run if need be."""
        now_s = self.clock()
        run = self._run_of(inference_id, identity, prompt_tokens, now_s)
        self._num_arrivals += 1
        inference = self.ledger.open(
            inference_id,
            run,
            sequence=self._num_arrivals,
            expected_kvtt=self._outputs.expect_kvtt(
                run.application, prompt_tokens, max_output_tokens
            ),
            arrived_at_s=now_s,
            prompt_tokens=prompt_tokens,
        )
        self.runs.set_busy(run)
        self.runs.note(run)
        return inference

    def admitted(self, inference: OpenInference, cached_tokens: int) -> None:
        """It is computed from this step on, for the first time or again."""
        if self.ledger.admit(inference, self.clock()):
            inference.cached_tokens = cached_tokens
            if self.policy.counts_tokens:
                service = Service(prompt_tokens=inference.prompt_tokens)
                self._charge_policy(inference.run, service)
        self.runs.note(inference.run)

    def preempted(self, inference: OpenInference) -> None:
        """It lost its blocks."""
        self.ledger.preempt(inference, self.clock())
        self.runs.note(inference.run)

    def parked(self, inference: OpenInference) -> None:
        """It stopped without ending."""
        self.ledger.park(inference, self.clock())
        self.runs.note(inference.run)

    def charge_output(self, generated: Sequence[tuple[OpenInference, int]]) -> None:
        """Inferences made output tokens; to be called before those that end are closed."""
        tokens_by_run: dict[OpenRun, int] = {}
        is_counted = self.policy.counts_tokens
        for inference, num_tokens in generated:
            inference.output_tokens += num_tokens
            if is_counted:
                tokens_by_run[inference.run] = tokens_by_run.get(inference.run, 0) + num_tokens
        for run, num_tokens in tokens_by_run.items():
            self._charge_policy(run, Service(output_tokens=num_tokens))

    def ended(self, inference_id: str, *, is_aborted: bool) -> None:
        """Close the books of an inference; nothing happens if they are closed."""
        now_s = self.clock()
        inference = self.ledger.close(inference_id, now_s)
        if inference is None:
            return
        run = inference.run
        if not is_aborted:
            self._outputs.learn(run.application, inference.output_tokens)
        if self.runs.is_reported:
            finished = self._finished(inference, now_s, is_aborted=is_aborted)
            self.runs.keep_finished(run, finished)
        self.runs.note(run)
        if run.is_idle:
            self.runs.set_idle(run, now_s)
            if run.ends_when_idle:
                self._close_runs([run], now_s)
        self.kick()

    def forget(self, inference_id: str) -> None:
        """VLLM refused an inference that had been registered: as if it had never come."""
        now_s = self.clock()
        inference = self.ledger.close(inference_id, now_s)
        if inference is not None and inference.run.is_idle:
            self.runs.set_idle(inference.run, now_s)

    # -- steps ----------------------------------------------------

    def begin_step(self) -> None:
        """Apply what the service has said; the only moment at which tags and mode change."""
        directive = self.inbox.take()
        now_s = self.clock()
        if directive is not None:
            self._apply(directive, now_s)
        if self._to_end:
            self._end_some(now_s)
        if now_s >= self._housekeeping_due_s:
            self._housekeeping_due_s = now_s + _HOUSEKEEPING_PERIOD_S
            self.local.settle(now_s)
            timeout_s = self.settings.run_idle_timeout_s
            self._close_runs(self.runs.overdue(now_s, timeout_s, most=_MAX_CLOSED), now_s)

    def charge_step(self, computed: Sequence[tuple[OpenInference, int]]) -> None:
        """Charge all inferences of a step.

        Each comes with the tokens it has in the KV cache after it.
        """
        if not computed:
            return
        served = dict.fromkeys([inference.run for inference, _ in computed])
        counts_kvtt = self.policy.counts_kvtt
        before_kvtt = [run.useful_kvtt for run in served] if counts_kvtt else []
        self.ledger.charge(computed)
        self.gauges.steps += 1
        self.runs.note_all(served)
        self.local.note_served(served)
        for run, before in zip(served, before_kvtt, strict=False):  # empty where nobody counts
            if run.useful_kvtt > before:
                self._charge_policy(run, Service(useful_kvtt=run.useful_kvtt - before))

    def _charge_policy(self, run: OpenRun, service: Service) -> None:
        if self.policy.charge(run.run_id, service):
            self._key_changed(run.run_id)

    # -- runs ----------------------------------------------------

    def _run_of(
        self, inference_id: str, identity: Identity, prompt_tokens: int, now_s: float
    ) -> OpenRun:
        if identity.is_malformed:
            self.gauges.malformed_identities += 1
        elif not identity.is_given:
            self.gauges.unidentified_inferences += 1
        run_id = identity.run_id or _name_for(inference_id)
        run = self.runs.find(identity.application, run_id)
        if run is not None and run.run_id in self._to_end:
            self._end_run(run.run_id, now_s)
            run = self.runs.find(identity.application, run_id)
        if run is not None:
            if run.has_new_tag and run.tag is not None:
                self._apply_tag(run, run.tag)
            return run
        run = self.runs.open(
            identity.application,
            run_id,
            now_s=now_s,
            prompt_tokens=prompt_tokens,
            ends_when_idle=not identity.is_given,
        )
        self._tag_new_run(run, now_s)
        self.kick()
        return run

    def _tag_new_run(self, run: OpenRun, now_s: float) -> None:
        self.policy.start_run(run.run_id, run.sequence)
        tag = self.local.start_run(run, now_s)
        self.policy.set_cost(run.run_id, tag.cost_kvtt)
        self.policy.set_finish(run.run_id, tag.finish, tag.sequence)
        early = self._early_tags.pop(run.run_id, None)
        if early is not None:
            self._apply_tag(run, early)

    def _close_runs(self, runs: list[OpenRun], now_s: float) -> None:
        if not runs:
            return
        self.local.end_runs(runs, now_s)
        for run in runs:
            self.runs.close(run)
            self.policy.end_run(run.run_id)
            self.retagged.discard(run.run_id)

    # -- directives ----------------------------------------------------

    def _apply(self, directive: Directive, now_s: float) -> None:
        self.gauges.refused_directives += directive.num_refused
        if directive.weights:
            self.local.set_weights(self.settings.weight_by_application() | directive.weights)
        self.local.set_default_cost(directive.default_cost_kvtt)
        if directive.value is not None:
            self.service_value = directive.value
            self.local.advance_to(directive.value, now_s)
        self._to_end.update(directive.ended_run_ids)
        for tag in directive.tags.values():
            self._take_tag(tag)
        if directive.tags:
            delay_s = max(0.0, now_s - directive.received_at_s)
            self.gauges.tag_delay_s = max(self.gauges.tag_delay_s, delay_s)
        if directive.is_shadow is not None:
            is_shadow = directive.is_shadow or self._is_own_shadow
            if is_shadow != self.is_shadow:
                self.is_shadow = is_shadow
                self._reorder()

    def _take_tag(self, tag: RunTag) -> None:
        """Apply a tag now if it orders anything now: after a pause they may come by the 100,000."""
        self._to_end.pop(tag.run_id, None)
        run = self.runs.get(tag.run_id)
        if run is None:
            self._keep_early(tag)
        elif run.is_idle:
            run.tag, run.has_new_tag = tag, True
        elif run.tag != tag:
            self._apply_tag(run, tag)

    def _apply_tag(self, run: OpenRun, tag: RunTag) -> None:
        run.tag, run.has_new_tag = tag, False
        has_moved = self.policy.set_finish(run.run_id, tag.finish, tag.sequence)
        believed = tag.believed
        if believed is not None:
            has_moved |= self.policy.set_cost(run.run_id, believed.cost_kvtt)
            self.local.re_estimate(run.run_id, believed)
        if has_moved:
            self._key_changed(run.run_id)

    def _keep_early(self, tag: RunTag) -> None:
        self._early_tags[tag.run_id] = tag
        self._early_tags.move_to_end(tag.run_id)
        if len(self._early_tags) > _MAX_EARLY_TAGS:
            self._early_tags.popitem(last=False)

    def _end_some(self, now_s: float) -> None:
        """Close runs that the service has ended, as many as one step bears."""
        for run_id in list(islice(self._to_end, _MAX_CLOSED)):
            self._end_run(run_id, now_s)

    def _end_run(self, run_id: str, now_s: float) -> None:
        self._to_end.pop(run_id, None)
        self._early_tags.pop(run_id, None)
        run = self.runs.get(run_id)
        if run is None:
            return
        run.ends_when_idle = True
        if run.is_idle:
            self._close_runs([run], now_s)

    # -- what is kept ----------------------------------------------------

    def _finished(
        self, inference: OpenInference, now_s: float, *, is_aborted: bool
    ) -> FinishedInference:
        return FinishedInference(
            inference.run.run_id,
            inference.prompt_tokens,
            inference.cached_tokens,
            inference.output_tokens,
            inference.num_preemptions,
            inference.useful_shares // self.layout.shares,
            is_aborted,
            inference.arrived_at_s,
            now_s if inference.started_at_s is None else inference.started_at_s,
            now_s,
            inference.computed_s,
        )


def _name_for(inference_id: str) -> str:
    """Name a run after its only inference.

    The copies that n > 1 makes of one request differ in a leading "0_", "1_", ... and are one run.
    An inference's id is partly the client's choice; what the service would refuse is hashed.
    """
    name = _COPY_PREFIX.sub("", inference_id)
    if is_usable_id(name):
        return name
    return sha256(name.encode(errors="surrogatepass")).hexdigest()
