"""How long a step of a GPU takes, as sums of coefficients. Pure arithmetic, no vLLM.

The default is one A100-SXM4-80GB with LLaMA-7B in half precision. Sources:

* Linear layers: Vidur's profile of Llama-2-7B on an A100 (Microsoft, MIT licence; 261 measurements
  of batches of 1 to 4096 tokens, tensor parallelism 1; medians of all operators of a layer but
  attention, the residual addition twice, times 32 layers). Below about 90 tokens a step is bound by
  reading the weights and takes 9.6 ms; above, it is bound by compute: 4.0 ms + 63.5 us per token.
  This form has a mean error of 3.7 %, a median one of 2.0 % and a largest one of 29 % on them.
* Output projection: 32,000 x 4,096 weights of 2 bytes, read once a step: 0.16 ms, in both parts.
* Attention of decoding: keys and values of a token are 2 x 32 x 4,096 x 2 bytes = 512 KiB, read at
  80 % of 2,039 GB/s: 0.32 us per token held.
* Attention of prefill: 4 x 4,096 x 32 floating point operations per pair of tokens, at
  200 TFLOP/s: 2.6 ns.
* Sampling: 5 us per sequence, an assumption.

Attention and sampling were not measured. The scheduler's and the server's own time comes on top,
because they are real.
"""

import json
import math
from collections.abc import Iterable
from dataclasses import dataclass, fields
from typing import Final, NamedTuple

from justitia.core.errors import InvalidValueError

_VARIABLE: Final = "JUSTITIA_EMULATOR"


class Chunk(NamedTuple):
    """Work of one sequence in a step: tokens computed now, and held in the KV cache afterwards."""

    new_tokens: int
    held_tokens: int


class Work(NamedTuple):
    """Work of a step: ``pairs`` of tokens that prefill compares, ``kv_tokens`` that decoding reads.

    ``tokens`` are computed, by ``sequences``.
    """

    tokens: int
    sequences: int
    kv_tokens: int
    pairs: int = 0


class DecodePace(NamedTuple):
    """Decode steps of one batch after each other: each takes ``growth_s`` longer than the last."""

    first_s: float
    growth_s: float

    def of(self, steps: int) -> float:
        """Seconds that the first ``steps`` steps take."""
        return steps * self.first_s + self.growth_s * (steps * (steps - 1) // 2)

    def steps_by(self, seconds: float, most: int) -> int:
        """Count the steps, from 1 to ``most``, that have ended or are under way by then."""
        low, high = 1, most
        if self.of(most) < seconds:
            return most
        guess = self._guess(seconds)
        if low < guess < high:  # two looks beside it end the search
            if self.of(guess + 1) >= seconds:
                high = guess + 1
            if self.of(guess - 1) < seconds:
                low = guess
        while low < high:
            middle = (low + high) // 2
            if self.of(middle) >= seconds:
                high = middle
            else:
                low = middle + 1
        return low

    def _guess(self, seconds: float) -> int:
        slope = self.first_s - self.growth_s / 2
        root = math.sqrt(max(0.0, slope * slope + 2 * self.growth_s * seconds))
        return math.ceil(2 * seconds / (slope + root)) if slope + root > 0 else 1


@dataclass(frozen=True, slots=True, kw_only=True)
class StepTime:
    """Coefficients in seconds; each finite and >= 0."""

    #: Least time of the linear layers and the output projection: reading the weights.
    floor_s: float = 9.76e-3
    #: Linear layers when compute is the bound: fixed part and part per token.
    compute_s: float = 4.16e-3
    per_token_s: float = 63.5e-6
    per_sequence_s: float = 5e-6
    per_kv_token_s: float = 0.32e-6
    per_prefill_pair_s: float = 2.6e-9
    #: Everything is multiplied by this: 0.1 is a GPU ten times as fast, 0 one that takes no time.
    scale: float = 1.0
    #: Plan the next step while this one runs, as vLLM does on a GPU.
    is_async: bool = True
    #: KV cache of the emulated GPU in bytes: 80 GB less the weights, activations and 10 % reserve.
    kv_cache_bytes: int = 56 * 10**9

    def __post_init__(self) -> None:
        for item in fields(self):
            value = getattr(self, item.name)
            if not math.isfinite(value) or value < 0:
                raise InvalidValueError(
                    f"{_VARIABLE}.{item.name}", f"must be a finite number >= 0, got {value!r}"
                )

    def of(self, chunks: Iterable[Chunk]) -> float:
        """Seconds that a step of these chunks takes."""
        return self.of_work(work_of(chunks))

    def of_work(self, work: Work) -> float:
        """Seconds that a step takes."""
        linear_s = max(self.floor_s, self.compute_s + self.per_token_s * work.tokens)
        return self.scale * (
            linear_s
            + self.per_sequence_s * work.sequences
            + self.per_kv_token_s * work.kv_tokens
            + self.per_prefill_pair_s * work.pairs
        )

    def decoding(self, sequences: int, held_tokens: int) -> DecodePace:
        """Pace of steps that each give every one of ``sequences`` one token.

        ``held_tokens``: what they hold together before the first of the steps.
        """
        first = Work(sequences, sequences, held_tokens + sequences)
        return DecodePace(self.of_work(first), self.scale * self.per_kv_token_s * sequences)


def work_of(chunks: Iterable[Chunk]) -> Work:
    """Add up the work of a step. A chunk of one token counts as decoding."""
    tokens = sequences = kv_tokens = pairs = 0
    for chunk in chunks:
        tokens += chunk.new_tokens
        sequences += 1
        if chunk.new_tokens == 1:
            kv_tokens += chunk.held_tokens
        else:
            pairs += chunk.new_tokens * (chunk.held_tokens - chunk.new_tokens // 2)
    return Work(tokens, sequences, kv_tokens, pairs)


def parse_step_time(text: str) -> StepTime:
    """Read coefficients from a JSON object; empty text means the defaults.

    Raises:
        InvalidValueError: not an object, an unknown name, or a value out of range.
    """
    if not text.strip():
        return StepTime()
    try:
        given = json.loads(text)
    except ValueError:
        raise InvalidValueError(_VARIABLE, f"must be a JSON object, got {text!r}") from None
    if not isinstance(given, dict):
        raise InvalidValueError(_VARIABLE, f"must be a JSON object, got {text!r}")
    known = {item.name for item in fields(StepTime)}
    for name, value in given.items():
        if name not in known:
            names = ", ".join(sorted(known))
            raise InvalidValueError(f"{_VARIABLE}.{name}", f"is unknown; known are {names}")
        if not isinstance(value, int | float):
            raise InvalidValueError(f"{_VARIABLE}.{name}", f"must be a number, got {value!r}")
    return StepTime(**given)
