"""Hooks in front of vLLM's scheduler: they gather facts and apply what others decide.

Only methods of vLLM's ``SchedulerInterface`` are overridden. Whatever our own bookkeeping does, no
error of it reaches a step: it is logged once, counted, and the engine goes on in arrival order.
"""

import logging
import time
from collections.abc import Callable, Iterable, Sequence
from typing import Any

from vllm.v1.core.sched.request_queue import RequestQueue, SchedulingPolicy

from justitia.vllm_plugin.contract import limits_of
from justitia.vllm_plugin.controller import EngineController
from justitia.vllm_plugin.identity import choose, from_arguments, from_session
from justitia.vllm_plugin.kv_layout import block_ids_of, layout_of
from justitia.vllm_plugin.ledger import OpenInference
from justitia.vllm_plugin.settings import Settings
from justitia.vllm_plugin.waiting_queue import PolicyQueue

_logger = logging.getLogger("justitia.vllm_plugin")


class JustitiaMixin:
    """Stands in front of ``Scheduler`` or ``AsyncScheduler`` in the order of base classes.

    Attributes of its own begin with ``justitia``, so that they never meet one of vLLM's.
    """

    justitia: EngineController
    justitia_session: Any = None
    #: Seconds of a clock that never goes back; the simulator and tests put their own here.
    justitia_clock: Callable[[], float] = staticmethod(time.monotonic)
    # Attributes of vLLM's scheduler that the hooks read.
    requests: dict[str, Any]
    running: list[Any]
    kv_cache_manager: Any

    def __init__(self, *args: Any, justitia_settings: Settings, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        layout = layout_of(self)
        self.justitia = EngineController(
            justitia_settings, layout, limits_of(self, layout), self._justitia_now
        )
        for name, queue in list(vars(self).items()):
            if isinstance(queue, RequestQueue):
                mine = PolicyQueue(self.justitia, self._justitia_failed)
                self.justitia.queues.append(mine)
                setattr(self, name, mine)
        self._justitia_set_victim_rule()

    # -- what vLLM calls ----------------------------------------------------

    def add_request(self, request: Any) -> None:
        """Register the inference, then let vLLM queue it."""
        is_new = request.request_id not in self.requests
        if is_new:
            self._justitia_guard(self._justitia_register, request)
        try:
            super().add_request(request)  # type: ignore[misc]
        except Exception:
            if is_new and request.request_id not in self.requests:
                self._justitia_guard(self.justitia.forget, request.request_id)
            raise

    def schedule(self, *args: Any, **kwargs: Any) -> Any:
        """Apply what has been said meanwhile, let vLLM plan a step, charge it."""
        self._justitia_guard(self._justitia_begin_step)
        output = super().schedule(*args, **kwargs)  # type: ignore[misc]
        self._justitia_guard(self._justitia_note_step, output)
        return output

    def update_from_output(self, scheduler_output: Any, model_runner_output: Any) -> Any:
        """Let vLLM take a step's tokens, then note what was generated and what ended."""
        take_in = super().update_from_output  # type: ignore[misc]
        result = take_in(scheduler_output, model_runner_output)
        self._justitia_guard(self._justitia_note_output, scheduler_output, result)
        return result

    def finish_requests(self, request_ids: Any, finished_status: Any) -> Any:
        """Let vLLM end requests from outside of a step, then close their books."""
        result = super().finish_requests(request_ids, finished_status)  # type: ignore[misc]
        is_aborted = finished_status.name in {"FINISHED_ABORTED", "FINISHED_ERROR"}
        self._justitia_guard(self._justitia_close_all, result or (), is_aborted)
        return result

    def shutdown(self) -> None:
        """Say good-bye to the scheduler service without waiting for it, then let vLLM shut down."""
        if self.justitia_session is not None:
            self._justitia_guard(self.justitia_session.close)
        super().shutdown()  # type: ignore[misc]

    def _justitia_now(self) -> float:
        return self.justitia_clock()

    # -- gathering ----------------------------------------------------

    def _justitia_register(self, request: Any) -> None:
        from_header, session = from_session(request.session_id)
        request.session_id = session  # what the client itself had sent
        parameters = request.sampling_params
        arguments = None if parameters is None else parameters.extra_args
        self.justitia.arrive(
            request.request_id,
            choose(from_header, from_arguments(arguments)),
            prompt_tokens=request.num_prompt_tokens,
            max_output_tokens=request.max_tokens,
        )

    def _justitia_begin_step(self) -> None:
        was_stock = self.justitia.is_stock_order
        self.justitia.begin_step()
        if self.justitia.is_stock_order != was_stock:
            self._justitia_set_victim_rule()
            self._justitia_rank(self.running)
        retagged = self.justitia.take_retagged()
        if retagged and not self.justitia.is_stock_order:
            self._justitia_rank(
                request
                for request in self.running
                if (inference := self.justitia.ledger.get(request.request_id)) is not None
                and inference.run.run_id in retagged
            )

    def _justitia_note_step(self, output: Any) -> None:
        controller, ledger = self.justitia, self.justitia.ledger
        for request_id in output.preempted_req_ids or ():
            if (inference := ledger.get(request_id)) is not None:
                controller.preempted(inference)
        inferences, requests = ledger.inferences, self.requests
        computed = [
            (inferences[request_id], requests[request_id].num_computed_tokens)
            for request_id in output.num_scheduled_tokens
            if request_id in inferences
        ]
        self._justitia_note_blocks(output, computed)
        controller.charge_step(computed)
        for request_id in output.finished_req_ids:
            self._justitia_close_if_gone(request_id)
        pool = self.kv_cache_manager.block_pool
        used_blocks = pool.num_gpu_blocks - 1 - pool.get_num_free_blocks()
        controller.gauges.kv_used_tokens = controller.layout.tokens_of_blocks(used_blocks)

    def _justitia_note_blocks(
        self, output: Any, planned: Sequence[tuple[OpenInference, int]]
    ) -> None:
        """Note who was admitted and which blocks everybody got.

        In the order in which vLLM planned it, what ran already first: of several that take a block
        in the same step, the first one pays for it.
        """
        admitted, extended = _granted_blocks(output)
        newly = [i for i, _ in planned if i.inference_id in admitted] if admitted else []
        for inference in newly:
            stats = self.requests[inference.inference_id].prefill_stats
            self.justitia.admitted(inference, 0 if stats is None else stats.num_cached_tokens)
        if not self.justitia.layout.is_append_only:
            self._justitia_recount([inference for inference, _ in planned])
            return
        ledger = self.justitia.ledger
        for request_id, ids in extended:
            if (running := ledger.get(request_id)) is not None:
                ledger.blocks.extend(running.holding, ids)
        for inference in newly:
            ledger.blocks.match(inference.holding, admitted[inference.inference_id])

    def _justitia_recount(self, planned: list[OpenInference]) -> None:
        """Blocks may have been given back: look at the manager's own lists."""
        blocks = self.justitia.ledger.blocks
        lists = [block_ids_of(self.kv_cache_manager, i.inference_id) for i in planned]
        for inference, ids in zip(planned, lists, strict=True):
            blocks.give_back(inference.holding, ids)
        for inference, ids in zip(planned, lists, strict=True):
            blocks.match(inference.holding, ids)

    def _justitia_note_output(self, scheduler_output: Any, result: Any) -> None:
        ledger = self.justitia.ledger
        for request_id in scheduler_output.scheduled_spec_decode_tokens:
            inference = ledger.get(request_id)
            if inference is not None and inference.is_running:
                computed_tokens = self.requests[request_id].num_computed_tokens
                ledger.reject_drafts(inference, computed_tokens)
        generated: list[tuple[OpenInference, int]] = []
        stopped: list[tuple[str, bool]] = []
        inferences = ledger.inferences
        for outputs in result.values():
            for output in outputs.outputs:
                if output.new_token_ids and output.request_id in inferences:
                    inference = inferences[output.request_id]
                    generated.append((inference, len(output.new_token_ids)))
                if output.finish_reason is not None:
                    is_aborted = str(output.finish_reason) in {"abort", "error"}
                    stopped.append((output.request_id, is_aborted))
        self.justitia.charge_output(generated)
        for request_id, is_aborted in stopped:
            self._justitia_stop(request_id, is_aborted=is_aborted)

    def _justitia_stop(self, request_id: str, *, is_aborted: bool) -> None:
        """A stop need not be the end: streaming input goes on later, holding its KV cache."""
        request = self.requests.get(request_id)
        if request is None or request.is_finished():
            self.justitia.ended(request_id, is_aborted=is_aborted)
        elif (inference := self.justitia.ledger.get(request_id)) is not None:
            self.justitia.parked(inference)

    def _justitia_close_all(self, finished: Iterable[Any], is_aborted: bool) -> None:
        for request in finished:
            self.justitia.ended(request.request_id, is_aborted=is_aborted)

    def _justitia_close_if_gone(self, request_id: str) -> None:
        request = self.requests.get(request_id)
        if request is None or request.is_finished():
            self.justitia.ended(request_id, is_aborted=True)

    # -- applying ----------------------------------------------------

    def _justitia_rank(self, running: Iterable[Any]) -> None:
        if self.justitia.is_stock_order:
            return
        for request in list(running):
            inference = self.justitia.inference(request.request_id)
            request.priority = self.justitia.rank(inference)

    def _justitia_set_victim_rule(self) -> None:
        """Victims by ``Request.priority``, or vLLM's own: the one admitted last."""
        is_stock = self.justitia.is_stock_order
        self.policy = SchedulingPolicy.FCFS if is_stock else SchedulingPolicy.PRIORITY

    def _justitia_guard(self, hook: Callable[..., None], *args: Any) -> None:
        try:
            hook(*args)
        except Exception as error:  # noqa: BLE001 - it would end the engine for everybody
            self._justitia_failed(error)

    def _justitia_failed(self, error: Exception) -> None:
        if not self.justitia.is_degraded:
            _logger.error(
                "Justitia failed inside this engine, which goes on in arrival order until it is "
                "restarted; please report this",
                exc_info=error,
            )
        self.justitia.degrade()
        self._justitia_set_victim_rule()


def _granted_blocks(output: Any) -> tuple[dict[str, Any], list[tuple[str, Any]]]:
    """Blocks that a step gave out, by request.

    All of those admitted, the new ones of those that ran.
    """
    admitted = {new.req_id: new.block_ids for new in output.scheduled_new_reqs}
    cached = output.scheduled_cached_reqs
    granted = zip(cached.req_ids, cached.new_block_ids, strict=True)
    if not cached.resumed_req_ids:
        return admitted, [(i, new_ids) for i, new_ids in granted if new_ids is not None]
    extended = []
    for request_id, new_ids in granted:
        if request_id in cached.resumed_req_ids:
            admitted[request_id] = new_ids or ()
        elif new_ids is not None:
            extended.append((request_id, new_ids))
    return admitted, extended
