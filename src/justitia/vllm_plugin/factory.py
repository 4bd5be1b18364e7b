"""Makes the scheduler of an engine core: checks, class, hooks, session."""

import uuid
from functools import cache
from typing import Any

import vllm

from justitia.vllm_plugin import contract
from justitia.vllm_plugin.scheduler import JustitiaMixin
from justitia.vllm_plugin.settings import Settings, load_settings


def make_scheduler(*args: Any, settings: Settings | None = None, **kwargs: Any) -> Any:
    """Make a scheduler with the arguments that vLLM gives to a scheduler class.

    Raises:
        SettingsError: a setting, a flag or the version of vLLM is refused.
    """
    settings = load_settings() if settings is None else settings
    vllm_config = kwargs["vllm_config"] if "vllm_config" in kwargs else args[0]
    contract.check_version(vllm.__version__, settings)
    contract.check_flags(vllm_config)
    base = _vllm_choice(vllm_config.scheduler_config)
    contract.check_base(base)
    scheduler = mixed(base)(*args, justitia_settings=settings, **kwargs)
    contract.check_scheduler(scheduler)
    if settings.scheduler_address:
        _open_session(scheduler, vllm_config, settings)
    return scheduler


def _vllm_choice(scheduler_config: Any) -> type:
    """Ask vLLM for the class that it would have used without the flag."""
    flag, scheduler_config.scheduler_cls = scheduler_config.scheduler_cls, None
    try:
        chosen: type = scheduler_config.get_scheduler_cls()
    finally:
        scheduler_config.scheduler_cls = flag
    return chosen


@cache
def mixed(base: type) -> type:
    """Put the hooks in front of a scheduler class."""
    return type(f"Justitia{base.__name__}", (JustitiaMixin, base), {})


def _open_session(scheduler: Any, vllm_config: Any, settings: Settings) -> None:
    """Start the thread that talks to the scheduler service.

    Not before here: vLLM has forked its workers by now, and a channel must not cross a fork.
    """
    from justitia.vllm_plugin.session import EngineFacts, EngineSession  # noqa: PLC0415 - slow

    layout = scheduler.justitia.layout
    blocks = scheduler.kv_cache_manager.block_pool.num_gpu_blocks - 1
    facts = EngineFacts(
        engine_id=settings.named_for(vllm_config.parallel_config.data_parallel_index),
        incarnation=uuid.uuid4().hex,
        kv_blocks=blocks // layout.shares,
        block_size_tokens=layout.block_size_tokens,
        vllm_version=vllm.__version__,
        model=str(vllm_config.model_config.served_model_name or vllm_config.model_config.model),
    )
    session = EngineSession(scheduler.justitia, facts)
    scheduler.justitia.kick = session.kick
    scheduler.justitia_session = session
    session.start()
