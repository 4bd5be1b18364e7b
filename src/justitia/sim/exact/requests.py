"""Inferences of a scenario as requests of vLLM's engine core."""

from functools import cache
from typing import Any

from vllm.pooling_params import PoolingParams
from vllm.sampling_params import SamplingParams
from vllm.utils.hashing import sha256_cbor
from vllm.v1.core.kv_cache_utils import get_request_block_hasher, init_none_hash
from vllm.v1.request import Request

from justitia.core.errors import InvalidValueError
from justitia.core.limits import is_usable_id
from justitia.sim.engine import Submission
from justitia.sim.exact.tokens import tokens_of
from justitia.vllm_plugin.identity import Identity, to_session


@cache
def block_hasher(block_size_tokens: int) -> Any:
    """Return what vLLM hashes full blocks with."""
    init_none_hash(sha256_cbor)
    return get_request_block_hasher(block_size_tokens, sha256_cbor)


def make_request(
    submission: Submission, now_s: float, *, block_size_tokens: int, has_prefix_cache: bool
) -> Any:
    """Make the request that the middleware would have let through.

    Without output it is one of a pooling model, which ends with its prompt.

    Raises:
        InvalidValueError: the plugin would refuse the run's or the application's name.
    """
    plan = submission.plan
    identity = _identity_of(submission)
    generates = plan.output_tokens > 0
    return Request(
        request_id=submission.inference_id,
        prompt_token_ids=tokens_of(plan.prompt),
        sampling_params=_sampling(plan.output_tokens) if generates else None,
        pooling_params=None if generates else PoolingParams(task="embed"),
        arrival_time=now_s,
        block_hasher=block_hasher(block_size_tokens) if has_prefix_cache else None,
        session_id=to_session(identity, ""),
    )


def _sampling(output_tokens: int) -> Any:
    return SamplingParams(max_tokens=output_tokens, ignore_eos=True)


def _identity_of(submission: Submission) -> Identity:
    run_id, application = submission.run_id, submission.application
    if not is_usable_id(run_id) or (application and not is_usable_id(application)):
        raise InvalidValueError(
            f"run {run_id}", "run and application must have names of 1 to 256 printable characters"
        )
    return Identity(run_id, application)
