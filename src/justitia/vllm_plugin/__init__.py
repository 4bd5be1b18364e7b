"""Justitia inside vLLM: a scheduler class and a middleware, both given to vLLM by public flags.

    --scheduler-cls justitia.vllm_plugin.JustitiaScheduler
    --middleware justitia.vllm_plugin.RunIdentity

Importing this package costs nothing but the standard library: vLLM imports it in processes that
need only one of the two, and generated protobuf code must not load there.
"""

from typing import Any

from justitia.vllm_plugin.middleware import RunIdentity

__all__ = ["JustitiaScheduler", "RunIdentity"]


def JustitiaScheduler(*args: Any, **kwargs: Any) -> Any:  # noqa: N802 - vLLM's flag names a class
    """Make the scheduler of an engine core: Justitia's order over vLLM's own scheduler class.

    vLLM calls whatever ``--scheduler-cls`` names with keywords. A function, so that one name serves
    synchronous and asynchronous scheduling: it takes the class that vLLM would have chosen and puts
    Justitia's hooks in front of it.

    Raises:
        SettingsError: a setting or a flag of vLLM's makes it impossible; the message says which.
    """
    from justitia.vllm_plugin.factory import make_scheduler  # noqa: PLC0415 - loads vLLM

    return make_scheduler(*args, **kwargs)
