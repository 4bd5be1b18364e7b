"""Builds vLLM's scheduler with the plugin for an engine of a scenario; no model, no device."""

import json
from dataclasses import replace
from functools import cache
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, Final

import torch
from vllm.config import (
    CacheConfig,
    DeviceConfig,
    ModelConfig,
    ParallelConfig,
    SchedulerConfig,
    VllmConfig,
)
from vllm.v1.kv_cache_interface import FullAttentionSpec, KVCacheConfig, KVCacheGroupSpec
from vllm.v1.structured_output import StructuredOutputManager

from justitia.core.errors import InvalidValueError
from justitia.core.policies import make_policy
from justitia.sim.scenario import EnginePlan
from justitia.vllm_plugin.factory import make_scheduler
from justitia.vllm_plugin.settings import Settings

#: vLLM wants to know a model; of this one nothing but the longest context is ever used.
_MODEL: Final = {
    "architectures": ["LlamaForCausalLM"],
    "model_type": "llama",
    "hidden_size": 32,
    "intermediate_size": 64,
    "num_hidden_layers": 2,
    "num_attention_heads": 2,
    "num_key_value_heads": 2,
    "vocab_size": 512,
    "bos_token_id": 1,
    "eos_token_id": 2,
}
#: Runs may pause for long between inferences, and it is the loop that ends them.
_IDLE_TIMEOUT_S: Final = 86_400.0


def build_scheduler(plan: EnginePlan, policy: str, *, is_async: bool) -> Any:
    """Build the scheduler of an engine.

    Raises:
        InvalidValueError: the policy is not one of the product's, or vLLM or the plugin refuses the
            engine; the message says why.
    """
    make_policy(policy)
    try:
        settings = Settings(policy=policy, run_idle_timeout_s=_IDLE_TIMEOUT_S)
        config = _config(replace(plan, step_time=""), is_async=is_async)
        return make_scheduler(
            settings=settings,
            vllm_config=config,
            kv_cache_config=_kv_cache(plan),
            structured_output_manager=StructuredOutputManager(config),
            block_size=plan.block_size_tokens,
            hash_block_size=plan.block_size_tokens,
            log_stats=False,
        )
    except ValueError as error:  # pydantic's and the plugin's are
        raise InvalidValueError("engine", " ".join(str(error).split())) from None


@cache
def _config(plan: EnginePlan, *, is_async: bool) -> Any:
    """Equal engines share a configuration: to make one takes a while."""
    return engine_config(plan, _model(plan.max_model_len_tokens), is_async=is_async)


def engine_config(plan: EnginePlan, model: Any, *, is_async: bool) -> Any:
    """Make vLLM's configuration of an engine for a model."""
    config = VllmConfig(
        model_config=model,
        scheduler_config=SchedulerConfig(
            # More than one sequence a token vLLM refuses, and no step could have them.
            max_num_seqs=min(plan.max_num_seqs, plan.max_num_batched_tokens),
            max_num_batched_tokens=plan.max_num_batched_tokens,
            max_model_len=plan.max_model_len_tokens,
            is_encoder_decoder=False,
            enable_chunked_prefill=True,
            watermark=plan.watermark,
        ),
        cache_config=CacheConfig(
            block_size=plan.block_size_tokens, enable_prefix_caching=plan.has_prefix_cache
        ),
        parallel_config=ParallelConfig(),
        device_config=DeviceConfig("cpu"),
    )
    config.scheduler_config.async_scheduling = is_async  # the CPU platform turns it off
    config.cache_config.num_gpu_blocks = plan.blocks + 1  # one is a placeholder
    config.cache_config.block_size = plan.block_size_tokens
    return config


@cache
def _model(max_model_len_tokens: int) -> Any:
    with TemporaryDirectory() as folder:
        return model_config(write_model(Path(folder), max_model_len_tokens), max_model_len_tokens)


def write_model(folder: Path, max_model_len_tokens: int) -> Path:
    """Write a model's configuration that vLLM accepts; there are no weights and no tokenizer."""
    folder.mkdir(parents=True, exist_ok=True)
    text = json.dumps(_MODEL | {"max_position_embeddings": max_model_len_tokens})
    (folder / "config.json").write_text(text)
    return folder


def model_config(folder: Path, max_model_len_tokens: int) -> Any:
    """Make vLLM's configuration of a model that ``write_model`` has written."""
    return ModelConfig(
        model=str(folder),
        dtype="bfloat16",
        max_model_len=max_model_len_tokens,
        skip_tokenizer_init=True,
        seed=0,
    )


def _kv_cache(plan: EnginePlan) -> Any:
    spec = FullAttentionSpec(
        block_size=plan.block_size_tokens, num_kv_heads=1, head_size=1, dtype=torch.float32
    )
    return KVCacheConfig(
        num_blocks=plan.blocks + 1,
        kv_cache_tensors=[],
        kv_cache_groups=[KVCacheGroupSpec(["full"], spec)],
    )
