"""Drives vLLM's real scheduler and KV-cache manager without a model, a server or a clock.

A step is ``schedule``, then a made-up model output, then ``update_from_output``; asynchronous
scheduling keeps two steps in flight, as the engine core does.
"""

import os
import random
from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

os.environ.setdefault("VLLM_LOGGING_LEVEL", "ERROR")

import torch
from vllm.sampling_params import SamplingParams
from vllm.v1.kv_cache_interface import (
    FullAttentionSpec,
    KVCacheConfig,
    KVCacheGroupSpec,
    SlidingWindowSpec,
)
from vllm.v1.outputs import ModelRunnerOutput
from vllm.v1.request import Request, RequestStatus
from vllm.v1.structured_output import StructuredOutputManager

from justitia.sim.exact.requests import block_hasher
from justitia.sim.exact.vllm_scheduler import engine_config, model_config, write_model
from justitia.sim.scenario import EnginePlan
from justitia.vllm_plugin.factory import make_scheduler
from justitia.vllm_plugin.identity import Identity, to_session
from justitia.vllm_plugin.settings import Settings

BLOCK_SIZE_TOKENS = 16
_MAX_MODEL_LEN_TOKENS = 8192


@dataclass(frozen=True, slots=True, kw_only=True)
class EngineShape:
    """What an engine looks like. ``window_tokens`` adds a second, sliding-window KV-cache group."""

    blocks: int = 80
    max_num_seqs: int = 16
    max_batched_tokens: int = 256
    max_model_len_tokens: int = 1024
    block_size_tokens: int = BLOCK_SIZE_TOKENS
    is_async: bool = False
    has_prefix_cache: bool = True
    window_tokens: int = 0


def write_tiny_model(folder: Path) -> Path:
    """Write a model's configuration that vLLM accepts; there are no weights and no tokenizer."""
    return write_model(folder, _MAX_MODEL_LEN_TOKENS)


def make_config(shape: EngineShape, model: Path) -> Any:
    """Make vLLM's configuration of an engine."""
    plan = EnginePlan(
        blocks=shape.blocks,
        block_size_tokens=shape.block_size_tokens,
        max_num_seqs=shape.max_num_seqs,
        max_num_batched_tokens=shape.max_batched_tokens,
        max_model_len_tokens=shape.max_model_len_tokens,
        has_prefix_cache=shape.has_prefix_cache,
    )
    configured = model_config(model, shape.max_model_len_tokens)
    return engine_config(plan, configured, is_async=shape.is_async)


def _groups(shape: EngineShape) -> list[Any]:
    common = {
        "block_size": shape.block_size_tokens,
        "num_kv_heads": 1,
        "head_size": 1,
        "dtype": torch.float32,
    }
    groups = [KVCacheGroupSpec(["full"], FullAttentionSpec(**common))]
    if shape.window_tokens:
        window = SlidingWindowSpec(**common, sliding_window=shape.window_tokens)
        groups.append(KVCacheGroupSpec(["window"], window))
    return groups


def build(
    shape: EngineShape,
    model: Path,
    settings: Settings | None = None,
    *,
    make: Callable[..., Any] = make_scheduler,
) -> Any:
    """Build a scheduler: Justitia's with ``settings``, vLLM's own without."""
    config = make_config(shape, model)
    arguments = {
        "vllm_config": config,
        "kv_cache_config": KVCacheConfig(
            num_blocks=shape.blocks + 1, kv_cache_tensors=[], kv_cache_groups=_groups(shape)
        ),
        "structured_output_manager": StructuredOutputManager(config),
        "block_size": shape.block_size_tokens,
        "hash_block_size": shape.block_size_tokens,
        "log_stats": True,
    }
    if settings is None:
        return config.scheduler_config.get_scheduler_cls()(**arguments)
    return make(settings=settings, **arguments)


def make_request(
    request_id: str,
    prompt: Sequence[int] | int,
    output_tokens: int,
    *,
    run_id: str = "",
    application: str = "",
    arrival_time: float = 0.0,
    priority: int = 0,
    arguments: dict[str, Any] | None = None,
    block_size_tokens: int = BLOCK_SIZE_TOKENS,
    is_resumable: bool = False,
) -> Any:
    """Make an engine request as the middleware would have let it through.

    ``prompt`` is token ids, or a number of tokens that no other request shares.
    """
    if isinstance(prompt, int):
        rng = random.Random(request_id)
        prompt = [rng.randrange(3, 500) for _ in range(prompt)]
    identity = Identity(run_id, application)
    return Request(
        request_id=request_id,
        prompt_token_ids=list(prompt),
        sampling_params=SamplingParams(
            max_tokens=output_tokens, ignore_eos=True, extra_args=arguments
        ),
        pooling_params=None,
        arrival_time=arrival_time,
        priority=priority,
        block_hasher=block_hasher(block_size_tokens),
        session_id=to_session(identity, "") if run_id or application else None,
        resumable=is_resumable,
    )


def model_output(scheduler: Any, planned: Any, token: int = 7) -> Any:
    """Make up what a model would answer; to be called right after ``schedule``."""
    ids = list(planned.num_scheduled_tokens)
    sampled = [[] if scheduler.requests[i].is_prefill_chunk else [token] for i in ids]
    return ModelRunnerOutput(
        req_ids=ids,
        req_id_to_index={request_id: index for index, request_id in enumerate(ids)},
        sampled_token_ids=sampled,
    )


@dataclass(slots=True)
class Driver:
    """Steps a scheduler. ``after_plan`` sees every step right after it was planned."""

    scheduler: Any
    after_plan: Callable[[Any], None] = lambda _planned: None
    finished: list[str] = field(default_factory=list)
    preempted: list[str] = field(default_factory=list)
    #: Ids in the order of admission, and the ids of each step.
    admitted: list[str] = field(default_factory=list)
    steps: list[tuple[str, ...]] = field(default_factory=list)
    _flight: deque[tuple[Any, Any]] = field(default_factory=deque)

    @property
    def is_busy(self) -> bool:
        """Whether there is anything to do."""
        return bool(self.scheduler.has_requests() or self._flight)

    def step(self) -> None:
        """Plan a step if there is room for one more in flight, then take in the oldest."""
        depth = 2 if self.scheduler.scheduler_config.async_scheduling else 1
        if self.scheduler.has_requests() and len(self._flight) < depth:
            planned = self.scheduler.schedule()
            self._flight.append((planned, model_output(self.scheduler, planned)))
            self.preempted += sorted(planned.preempted_req_ids or ())
            self.admitted += [new.req_id for new in planned.scheduled_new_reqs]
            self.steps.append(tuple(planned.num_scheduled_tokens))
            self.after_plan(planned)
            if planned.total_num_scheduled_tokens and len(self._flight) < depth:
                return
        if self._flight:
            self._take_in()

    def run(self, max_steps: int = 100_000) -> None:
        """Step until nothing is left."""
        for _ in range(max_steps):
            if not self.is_busy:
                return
            self.step()
        raise AssertionError(f"{len(self.scheduler.requests)} requests are left")

    def _take_in(self) -> None:
        planned, answer = self._flight.popleft()
        for outputs in self.scheduler.update_from_output(planned, answer).values():
            self.finished += [o.request_id for o in outputs.outputs if o.finish_reason is not None]


def abort(scheduler: Any, request_id: str) -> None:
    """End a request as a client that went away does."""
    scheduler.finish_requests([request_id], RequestStatus.FINISHED_ABORTED)
