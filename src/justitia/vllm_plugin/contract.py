"""What the plugin takes for granted of vLLM, checked at start and refused in one sentence."""

import re
from typing import Any, Final

from justitia.vllm_plugin.facts import EngineLimits
from justitia.vllm_plugin.kv_blocks import KvLayout
from justitia.vllm_plugin.settings import Settings, SettingsError

#: Versions on which the test-suite of this plugin runs: first one in, first one out.
TESTED_WINDOW: Final = ((0, 32), (0, 33))
_VERSION: Final = re.compile(r"(\d+)\.(\d+)")

_NEEDED: Final = ("requests", "running", "waiting", "kv_cache_manager", "kv_cache_config", "policy")


def check_version(version: str, settings: Settings) -> None:
    """Refuse a vLLM that the plugin was not tested with; suffixes like rc1 or +cu130 are ignored.

    Raises:
        SettingsError: outside the window, and JUSTITIA_ALLOW_UNTESTED_VLLM is not set.
    """
    match = _VERSION.match(version)
    found = None if match is None else (int(match[1]), int(match[2]))
    low, high = TESTED_WINDOW
    if settings.allow_untested_vllm or (found is not None and low <= found < high):
        return
    raise SettingsError(
        f"this Justitia was tested with vLLM {low[0]}.{low[1]} only, got {version!r}; "
        "install that one, or set JUSTITIA_ALLOW_UNTESTED_VLLM=1 to try"
    )


def check_flags(vllm_config: Any) -> None:
    """Refuse flags of vLLM's that contradict the plugin.

    Raises:
        SettingsError: the sentence names the flag.
    """
    policy = str(vllm_config.scheduler_config.policy)
    if policy != "fcfs":
        raise SettingsError(
            f"--scheduling-policy {policy} and JustitiaScheduler both set the order: remove one"
        )


def check_base(base: type) -> None:
    """Refuse a scheduler class of vLLM's that is not the one the hooks were written for.

    Raises:
        SettingsError: the sentence names the class.
    """
    names = {cls.__name__ for cls in base.__mro__}
    if "Scheduler" not in names:
        raise SettingsError(f"JustitiaScheduler cannot order the scheduler class {base.__name__}")


def check_scheduler(scheduler: Any) -> None:
    """Refuse a scheduler that lacks what the hooks read.

    Raises:
        SettingsError: the sentence names what is missing.
    """
    missing = [name for name in _NEEDED if not hasattr(scheduler, name)]
    if not scheduler.justitia.queues:
        missing.append("a waiting queue")
    if missing:
        raise SettingsError(f"this vLLM's scheduler has no {', '.join(missing)}")


def limits_of(scheduler: Any, layout: KvLayout) -> EngineLimits:
    """Gather the facts of the engine that do not change."""
    blocks = scheduler.kv_cache_manager.block_pool.num_gpu_blocks - 1  # block 0 is a placeholder
    return EngineLimits(
        kv_capacity_tokens=layout.tokens_of_blocks(blocks),
        step_budget_tokens=scheduler.max_num_scheduled_tokens,
        max_model_len_tokens=scheduler.max_model_len,
        max_num_seqs=scheduler.max_num_running_reqs,
    )
