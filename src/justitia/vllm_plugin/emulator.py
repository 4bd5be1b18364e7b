"""A GPU timing emulator: the whole real vLLM server without a model.

    --distributed-executor-backend justitia.vllm_plugin.emulator.EmulatedExecutor
    --load-format dummy

HTTP, tokenizer, engine core, scheduler and KV-cache manager are real. There is no worker process
and there are no weights: each step takes as long as ``StepTime`` says and yields made-up tokens. A
model folder with a configuration and a tokenizer is enough. Coefficients come from the variable
JUSTITIA_EMULATOR, a JSON object; ``vllm_xargs`` script a request:

    emulated_output_tokens  n: an end-of-sequence token comes as the n-th (otherwise max_tokens
    decides)
"""

import os
import time
from collections.abc import Callable, Iterator
from concurrent.futures import Future
from dataclasses import dataclass
from typing import Any, Final

from vllm.v1.executor.abstract import Executor
from vllm.v1.kv_cache_interface import FullAttentionSpec
from vllm.v1.outputs import EMPTY_MODEL_RUNNER_OUTPUT, ModelRunnerOutput
from vllm.v1.worker.worker_base import CompilationTimes

from justitia.step_time import Chunk, parse_step_time

OUTPUT_ARGUMENT: Final = "emulated_output_tokens"
_FIRST_TEXT_TOKEN: Final = 3  # tokens below are special in all Llama vocabularies


class _Due(Future[Any]):
    """A result that is there when the emulated GPU is done: asking for it earlier waits."""

    def __init__(self, value: Any, due_at_s: float) -> None:
        super().__init__()
        self._value_when_due = value
        self._due_at_s = due_at_s

    def result(self, timeout: float | None = None) -> Any:
        if not self.done():
            time.sleep(max(0.0, self._due_at_s - time.monotonic()))
            self.set_result(self._value_when_due)
        return super().result(timeout)


def _now(value: Any) -> Future[Any]:
    future: Future[Any] = Future()
    future.set_result(value)
    return future


@dataclass(slots=True)
class _Sequence:
    prompt_tokens: int
    scripted_tokens: int | None
    num_emitted: int = 0


class EmulatedExecutor(Executor):  # type: ignore[misc] # vLLM is untyped here
    """Stands in for the executor that would run the model."""

    supports_pp = False

    def _init_executor(self) -> None:
        self._step_time = parse_step_time(os.environ.get("JUSTITIA_EMULATOR", ""))
        self._sequences: dict[str, _Sequence] = {}
        self._pending: tuple[Any, float] | None = None
        self._free_at_s = 0.0
        self._end_token = _end_token(self.model_config.hf_text_config)
        self._vocabulary = self.model_config.get_vocab_size()
        # The platform without a GPU turns it off; the engine core looks at it after the executor is
        # made.
        self.scheduler_config.async_scheduling = self._step_time.is_async

    # -- start ----------------------------------------------------

    def get_kv_cache_specs(self) -> list[dict[str, Any]]:
        """One full-attention group with the shape that the configuration says."""
        spec = FullAttentionSpec(
            block_size=self.cache_config.block_size,
            num_kv_heads=self.model_config.get_num_kv_heads(self.parallel_config),
            head_size=self.model_config.get_head_size(),
            dtype=self.model_config.dtype,
        )
        layers = self.model_config.get_num_layers(self.parallel_config)
        return [{f"layers.{layer}": spec for layer in range(layers)}]

    def determine_available_memory(self) -> list[int]:
        """Bytes for the KV cache.

        ``--num-gpu-blocks-override`` sets the number of blocks directly.
        """
        return [int(self._step_time.kv_cache_bytes)]

    def get_supported_kv_cache_layouts(self) -> list[list[str]]:
        """Any will do."""
        return [["LBNHC", "LBHNC"]]

    def collective_rpc(
        self,
        method: str | Callable[..., Any],
        timeout: float | None = None,  # noqa: ARG002 - vLLM's signature
        args: tuple[Any, ...] = (),  # noqa: ARG002
        kwargs: dict[str, Any] | None = None,  # noqa: ARG002
        non_block: bool = False,
    ) -> Any:
        """Answer what the engine asks its workers; what needs a model is answered with None."""
        answers: dict[str, Any] = {
            "get_supported_tasks": ("generate",),
            "compile_or_warm_up_model": CompilationTimes(0.0, 0.0),
        }
        name = method if isinstance(method, str) else getattr(method, "__name__", "")
        answer = [answers.get(name)]
        return _now(answer) if non_block else answer

    def check_health(self) -> None:
        """Nothing can be ill."""

    def shutdown(self) -> None:
        """Nothing to end."""

    @classmethod
    def supports_async_scheduling(cls) -> bool:
        """Steps are planned ahead."""
        return True

    # -- steps ----------------------------------------------------

    def execute_model(self, scheduler_output: Any, non_block: bool = False) -> Any:
        """Begin a step: it starts when the emulated GPU is free."""
        for request_id in scheduler_output.finished_req_ids:
            self._sequences.pop(request_id, None)
        if scheduler_output.total_num_scheduled_tokens == 0:
            return _now(EMPTY_MODEL_RUNNER_OUTPUT) if non_block else EMPTY_MODEL_RUNNER_OUTPUT
        ids: list[str] = []
        tokens: list[list[int]] = []
        chunks: list[Chunk] = []
        for request_id, computed, known in self._scheduled(scheduler_output):
            new = scheduler_output.num_scheduled_tokens[request_id]
            ids.append(request_id)
            chunks.append(Chunk(new, computed + new))
            tokens.append([self._next_token(request_id)] if computed + new >= known else [])
        start_s = max(self._free_at_s, time.monotonic())
        self._free_at_s = start_s + self._step_time.of(chunks)
        index = {request_id: position for position, request_id in enumerate(ids)}
        output = ModelRunnerOutput(req_ids=ids, req_id_to_index=index, sampled_token_ids=tokens)
        self._pending = output, self._free_at_s
        return _now(None) if non_block else None

    def sample_tokens(self, grammar_output: Any, non_block: bool = False) -> Any:  # noqa: ARG002
        """Hand over the tokens of the step that ``execute_model`` has begun."""
        assert self._pending is not None
        (output, due_at_s), self._pending = self._pending, None
        due = _Due(output, due_at_s)
        return due if non_block else due.result()

    def _scheduled(self, scheduler_output: Any) -> Iterator[tuple[str, int, int]]:
        """Yield id, tokens in the KV cache before the step, and tokens known, for each sequence."""
        for new in scheduler_output.scheduled_new_reqs:
            sequence = self._sequences.get(new.req_id)
            if sequence is None:
                sequence = self._sequences[new.req_id] = _new_sequence(new)
            known = len(new.prefill_token_ids or ()) or sequence.prompt_tokens
            yield new.req_id, new.num_computed_tokens, known
        cached = scheduler_output.scheduled_cached_reqs
        for request_id, computed, num_output in zip(
            cached.req_ids, cached.num_computed_tokens, cached.num_output_tokens, strict=True
        ):
            yield request_id, computed, self._sequences[request_id].prompt_tokens + num_output

    def _next_token(self, request_id: str) -> int:
        sequence = self._sequences[request_id]
        sequence.num_emitted += 1
        if sequence.num_emitted == sequence.scripted_tokens:
            return self._end_token
        spread = sequence.num_emitted * 7919 + sequence.prompt_tokens
        token = _FIRST_TEXT_TOKEN + spread % (self._vocabulary - _FIRST_TEXT_TOKEN)
        return _FIRST_TEXT_TOKEN if token == self._end_token else token


def _new_sequence(new: Any) -> _Sequence:
    parameters = new.sampling_params
    arguments = (parameters.extra_args if parameters is not None else None) or {}
    scripted = arguments.get(OUTPUT_ARGUMENT)
    is_usable = isinstance(scripted, int) and scripted > 0
    return _Sequence(len(new.prompt_token_ids), scripted if is_usable else None)


def _end_token(config: Any) -> int:
    token = getattr(config, "eos_token_id", None)
    first = token[0] if isinstance(token, list) and token else token
    return first if isinstance(first, int) else 2
