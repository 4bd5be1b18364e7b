"""The exact engine: a step is vLLM's ``schedule``, a made-up answer, and ``update_from_output``.

With ``is_async`` two steps are in flight, as in vLLM's engine core with asynchronous scheduling:
the next one is planned before the answer of the one under way is there.
"""

from collections import deque
from dataclasses import dataclass
from typing import Any, Final

from vllm.v1.outputs import ModelRunnerOutput

from justitia.core.engines import EngineReport
from justitia.core.errors import InvariantError
from justitia.core.fairness import InferenceTimes
from justitia.core.policies import Policy
from justitia.sim.engine import Ended, EngineTotals, RunTag, Submission
from justitia.sim.exact.link import PluginLink
from justitia.sim.exact.requests import make_request
from justitia.sim.exact.tokens import first_token_of
from justitia.sim.exact.vllm_scheduler import build_scheduler
from justitia.sim.scenario import EnginePlan
from justitia.step_time import Chunk, StepTime
from justitia.vllm_plugin.ledger import OpenInference

_POOLED: Final = object()


@dataclass(slots=True)
class _Served:
    """An inference that is here. ``wanted_blocks``: those it asked for when it was queued."""

    submission: Submission
    books: OpenInference
    first_token: int
    wanted_blocks: int


@dataclass(slots=True)
class _Step:
    """A step in flight. ``answered``: inferences that a token, or what is pooled, comes out of."""

    planned: Any
    answered: frozenset[str]
    start_s: float
    due_s: float


class ExactEngine:
    """One engine. Of the policy its name counts: the plugin makes its own of that name."""

    def __init__(
        self,
        engine_id: str,
        plan: EnginePlan,
        policy: Policy,
        step_time: StepTime,
        *,
        is_async: bool = False,
    ) -> None:
        self.engine_id = engine_id
        self._plan = plan
        self._step_time = step_time
        self._depth = 2 if is_async else 1
        self._now_s = 0.0
        self._scheduler = build_scheduler(plan, policy.name, is_async=is_async)
        self._scheduler.justitia_clock = lambda: self._now_s
        self._link = PluginLink(self._scheduler.justitia, engine_id)
        self._totals = EngineTotals()
        self._here: dict[str, _Served] = {}
        self._tags: dict[str, RunTag] = {}
        self._flight: deque[_Step] = deque()
        # When the device has done what it has been given.
        self._free_at_s = 0.0
        self._load_blocks = 0

    @property
    def totals(self) -> EngineTotals:
        """What was done so far."""
        return self._totals

    @property
    def kv_capacity_tokens(self) -> int:
        """Tokens that its KV cache holds."""
        return self._plan.kv_capacity_tokens

    @property
    def due_s(self) -> float | None:
        """When the oldest step in flight ends."""
        return self._flight[0].due_s if self._flight else None

    @property
    def load_blocks(self) -> int:
        """KV blocks of the prompts that are here, waiting or not."""
        return self._load_blocks

    # -- what the loop tells ----------------------------------------------------

    def tag(self, tag: RunTag, now_s: float) -> None:
        """Take a run's place in the order."""
        self._now_s = now_s
        self._tags[tag.run_id] = tag
        self._link.tag(tag, now_s)

    def end_run(self, run_id: str) -> None:
        """Forget a run."""
        if self._tags.pop(run_id, None) is not None:
            self._link.end_run(run_id, self._now_s)

    def submit(self, submission: Submission, now_s: float) -> None:
        """Queue an inference."""
        self._now_s = now_s
        tag = self._tags.get(submission.run_id)
        if tag is not None and self._scheduler.justitia.runs.get(submission.run_id) is None:
            self._link.tag(tag, now_s)  # the plugin had forgotten it: it paused for too long
        request = make_request(
            submission,
            now_s,
            block_size_tokens=self._plan.block_size_tokens,
            has_prefix_cache=self._plan.has_prefix_cache,
        )
        self._scheduler.add_request(request)
        self._keep(submission, request)

    def _keep(self, submission: Submission, request: Any) -> None:
        books = self._scheduler.justitia.ledger.get(request.request_id)
        if books is None:
            raise InvariantError(f"{self.engine_id}: the plugin has no {request.request_id!r}")
        plan = submission.plan
        blocks = self._blocks_of(request.num_tokens)
        self._load_blocks += blocks
        stream = plan.output_stream or submission.inference_id
        served = _Served(submission, books, first_token_of(stream), blocks)
        self._here[request.request_id] = served
        if self._scheduler.justitia.policy.is_per_inference:
            # What the play's estimator says, in the place of the plugin's own guess.
            books.expected_kvtt = submission.expected_kvtt
            self._scheduler.waiting.remove_request(request)
            self._scheduler.waiting.add_request(request)

    def _blocks_of(self, tokens: int) -> int:
        return -(-tokens // self._plan.block_size_tokens)

    def report(self, now_s: float) -> EngineReport:
        """Say what was done so far."""
        self._now_s = now_s
        return self._link.report()

    # -- steps ----------------------------------------------------

    def plan(self, now_s: float) -> None:
        """Plan steps until as many are in flight as there can be."""
        self._now_s = now_s
        scheduler, flight = self._scheduler, self._flight
        while len(flight) < self._depth and scheduler.get_num_unfinished_requests():
            planned = scheduler.schedule()
            self._check_plugin()
            self._totals.plans += 1
            for request_id in planned.preempted_req_ids or ():
                self._note_preempted(request_id)
            if planned.total_num_scheduled_tokens:
                flight.append(self._step(planned, now_s))
                continue
            scheduler.update_from_output(planned, self._answer(planned, frozenset()))
            if flight:
                return
            if not planned.preempted_req_ids:
                raise InvariantError(f"{self.engine_id}: inferences wait and nothing runs")

    def _note_preempted(self, request_id: str) -> None:
        served = self._here[request_id]
        self._totals.preemptions += 1
        self._load_blocks -= served.wanted_blocks
        served.wanted_blocks = self._blocks_of(self._scheduler.requests[request_id].num_tokens)
        self._load_blocks += served.wanted_blocks

    def _step(self, planned: Any, now_s: float) -> _Step:
        requests = self._scheduler.requests
        scheduled = planned.num_scheduled_tokens
        # vLLM has counted the step's tokens as computed already.
        chunks = [Chunk(new, requests[i].num_computed_tokens) for i, new in scheduled.items()]
        start_s = max(self._free_at_s, now_s)
        self._free_at_s = start_s + self._step_time.of(chunks)
        answered = frozenset(i for i in scheduled if not requests[i].is_prefill_chunk)
        return _Step(planned, answered, start_s, self._free_at_s)

    def finish_steps(self, now_s: float) -> list[Ended]:
        """Take in the oldest step in flight."""
        if not self._flight:
            raise InvariantError(f"{self.engine_id}: nothing is under way")
        self._now_s = now_s
        step = self._flight.popleft()
        self._totals.steps += 1
        self._totals.busy_s += step.due_s - step.start_s
        answer = self._answer(step.planned, step.answered)
        answers = self._scheduler.update_from_output(step.planned, answer)
        self._check_plugin()
        return [
            self._end(output.request_id, now_s)
            for outputs in answers.values()
            for output in outputs.outputs
            if output.finish_reason is not None
        ]

    def _answer(self, planned: Any, answered: frozenset[str]) -> Any:
        ids = list(planned.num_scheduled_tokens)
        requests, here = self._scheduler.requests, self._here
        sampled: list[list[int]] = [[] for _ in ids]
        pooled: list[object | None] = [None] * len(ids)
        for index, request_id in enumerate(ids):
            # One that has ended meanwhile has no answer.
            if request_id in answered and (request := requests.get(request_id)) is not None:
                served = here[request_id]
                if served.submission.plan.output_tokens == 0:
                    pooled[index] = _POOLED
                else:  # the next token of the output's stream
                    sampled[index].append(served.first_token + int(request.num_output_tokens))
        return ModelRunnerOutput(
            req_ids=ids,
            req_id_to_index={request_id: index for index, request_id in enumerate(ids)},
            sampled_token_ids=sampled,
            pooler_output=pooled,
        )

    def _end(self, request_id: str, now_s: float) -> Ended:
        served = self._here.pop(request_id)
        books, submission = served.books, served.submission
        self._load_blocks -= served.wanted_blocks
        self._totals.prompt_tokens += submission.plan.prompt_tokens
        self._totals.cached_tokens += books.cached_tokens
        started_at_s = now_s if books.started_at_s is None else books.started_at_s
        return Ended(
            submission.run_id,
            submission.place,
            InferenceTimes(books.arrived_at_s, started_at_s, now_s, books.computed_s),
            books.cached_tokens,
            books.num_preemptions,
        )

    def _check_plugin(self) -> None:
        """The plugin hides its own errors from vLLM; a simulation must not go on with them."""
        if self._scheduler.justitia.is_degraded:
            raise InvariantError(f"{self.engine_id}: the plugin has failed; its log says how")

    def check_empty(self) -> None:
        """Raise unless nothing is here and no block is missing.

        Raises:
            InvariantError: something is.
        """
        free = self._scheduler.kv_cache_manager.block_pool.get_num_free_blocks()
        if self._here or self._flight or free != self._plan.blocks or self._load_blocks:
            raise InvariantError(f"{self.engine_id}: something is left")
