"""Step times of GPUs by name, and of any other GPU by its data sheet.

``a100-llama2-7b`` is measured (``justitia.step_time`` names the source). The others are rooflines
(``Roofline``): its four efficiencies are fitted to Vidur's profile of Llama-2-7B on A100-SXM4-80GB
(Microsoft, MIT licence; 259 batch sizes of 1 to 4096 tokens for each tensor parallelism, medians of
all operators of a layer but attention and communication):

* reading weights: 77.6 % of the bandwidth, and 36 us per layer on top (bound by memory);
* computing: 65 % of the peak, and 78 us per layer on top (bound by compute).

Mean relative error on the profile, median and largest in brackets: tensor parallelism 1: 4.2 %
(2.4 %, 37 %), 2: 5.8 % (4.4 %, 30 %), 4: 4.6 % (4.0 %, 21 %), 8: 9.0 % (9.4 %, 24 %). The largest
errors are where the two bounds meet, at 60 to 270 tokens.

That other GPUs reach the same shares of their data sheets is an assumption: V100, H100 and H200
were not measured. Neither were attention (80 % of the bandwidth when decoding, 64 % of the peak in
a prefill), sampling (5 us per sequence) and the all-reduces of tensor parallelism.
"""

import json
import math
from collections.abc import Mapping
from dataclasses import dataclass, fields
from types import MappingProxyType
from typing import Any, Final

from justitia.core.errors import InvalidValueError, shown
from justitia.step_time import StepTime

_WEIGHTS_SHARE: Final = 0.776
_WEIGHTS_LAYER_S: Final = 36e-6
_COMPUTE_SHARE: Final = 0.65
_COMPUTE_LAYER_S: Final = 78e-6
_KV_SHARE: Final = 0.8
_PAIRS_SHARE: Final = 0.64


@dataclass(frozen=True, slots=True, kw_only=True)
class Roofline:
    """A model on a GPU, or on several that share each layer; numbers of data sheets, each > 0.

    ``weights_bytes``: what a step reads, without the embedding. ``flops_per_token``: twice the
    number of weights. ``flops_per_pair``: of attention, for each pair of tokens that a prefill
    compares: 4 x hidden size x layers. ``bandwidth_bytes_s`` and ``flops_s``: of all GPUs together.
    ``exchange_s`` and ``exchange_token_s``: communication in a step, and for each of its tokens;
    these may be 0.
    """

    weights_bytes: float
    kv_bytes_per_token: float
    flops_per_token: float
    flops_per_pair: float
    bandwidth_bytes_s: float
    flops_s: float
    layers: int = 32
    exchange_s: float = 0.0
    exchange_token_s: float = 0.0

    def __post_init__(self) -> None:
        for item in fields(self):
            value = getattr(self, item.name)
            is_number = isinstance(value, int | float) and math.isfinite(value)
            may_be_zero = item.name.startswith("exchange")
            if not is_number or value < 0 or (value == 0 and not may_be_zero):
                raise InvalidValueError(
                    f"step_time: {item.name}", f"must be a number > 0, got {shown(value)}"
                )

    def step_time(self) -> StepTime:
        """Turn it into coefficients."""
        read_s = self.weights_bytes / (self.bandwidth_bytes_s * _WEIGHTS_SHARE)
        token_s = self.flops_per_token / (self.flops_s * _COMPUTE_SHARE)
        return StepTime(
            floor_s=self.layers * _WEIGHTS_LAYER_S + read_s + self.exchange_s,
            compute_s=self.layers * _COMPUTE_LAYER_S + self.exchange_s,
            per_token_s=token_s + self.exchange_token_s,
            per_kv_token_s=self.kv_bytes_per_token / (self.bandwidth_bytes_s * _KV_SHARE),
            per_prefill_pair_s=self.flops_per_pair / (self.flops_s * _PAIRS_SHARE),
        )


#: Llama-2-7B: 32 layers of 4 x 4,096^2 + 3 x 4,096 x 11,008 weights and 32,000 x 4,096 of output
#: projection, of 2 bytes; keys and values of 2 x 32 x 4,096 x 2 bytes a token.
_LLAMA_7B: Final[Mapping[str, Any]] = MappingProxyType(
    {
        "weights_bytes": 13.21e9,
        "kv_bytes_per_token": 524_288,
        "flops_per_token": 13.21e9,
        "flops_per_pair": 4 * 4096 * 32,
        "layers": 32,
    }
)

#: H100 SXM5: 3.35 TB/s, 989 TFLOP/s dense in half precision. H200 SXM: 4.8 TB/s, the same compute.
#: LLaMA-13B (40 layers of 4 x 5,120^2 + 3 x 5,120 x 13,824 weights) on four V100-SXM2-32GB with
#: NVLink: 900 GB/s and 125 TFLOP/s each; two all-reduces a layer, 20 us each and 10,240 bytes a
#: token, of which a ring moves 1.5-fold at 100 GB/s.
STEP_MODELS: Final[Mapping[str, StepTime]] = MappingProxyType(
    {
        "a100-llama2-7b": StepTime(),
        "4xv100-llama-13b": Roofline(
            weights_bytes=25.7e9,
            kv_bytes_per_token=819_200,
            flops_per_token=25.7e9,
            flops_per_pair=4 * 5120 * 40,
            bandwidth_bytes_s=4 * 900e9,
            flops_s=4 * 125e12,
            layers=40,
            exchange_s=80 * 20e-6,
            exchange_token_s=80 * 10_240 * 1.5 / 100e9,
        ).step_time(),
        "h100-llama2-7b": Roofline(
            **_LLAMA_7B, bandwidth_bytes_s=3.35e12, flops_s=989e12
        ).step_time(),
        "h200-llama2-7b": Roofline(
            **_LLAMA_7B, bandwidth_bytes_s=4.8e12, flops_s=989e12
        ).step_time(),
    }
)


def step_time_of(name: str) -> StepTime:
    """Find a step-time model by name, or make one of a JSON object.

    The object has the fields of ``Roofline``, or any of the coefficients of ``StepTime``; where
    those are left out, they are the A100's.

    Raises:
        InvalidValueError: unknown, or a value is refused; the message names it.
    """
    if not name.lstrip().startswith("{"):
        if name not in STEP_MODELS:
            known = ", ".join(STEP_MODELS)
            raise InvalidValueError(
                "step_time", f"must be one of {known}, or a JSON object; got {shown(name)}"
            )
        return STEP_MODELS[name]
    try:
        given = json.loads(name)
    except ValueError:
        raise InvalidValueError("step_time", f"is no JSON object: {shown(name)}") from None
    return _made_of(given)


def _made_of(given: dict[str, Any]) -> StepTime:
    coefficients = {item.name for item in fields(StepTime)}
    if given.keys() <= coefficients:
        for field_name, value in given.items():
            if not isinstance(value, int | float):
                raise InvalidValueError(
                    f"step_time: {field_name}", f"must be a number, got {shown(value)}"
                )
        return StepTime(**given)
    try:
        return Roofline(**given).step_time()
    except TypeError as error:
        problem = str(error).removeprefix("Roofline.__init__() ")
        raise InvalidValueError("step_time", f"as a roofline {problem}") from None
