"""What is simulated: engines, applications, and runs with their inferences. Pure data.

Lengths and structure of the runs are what happens; what the scheduler knows beforehand is another
matter (the estimator's). A scenario says nothing of policies either: the same one is played under
each.
"""

import math
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Final

from justitia.core.errors import InvalidValueError

MAX_TOKENS: Final = 10**7


@dataclass(frozen=True, slots=True)
class Segment:
    """The first ``tokens`` tokens of a stream of tokens that has a name.

    Two prompts whose first segments are of one stream share the shorter one's tokens, and go on
    sharing while whole segments are equal. A stream that nobody else names shares nothing.
    """

    stream: str
    tokens: int


@dataclass(frozen=True, slots=True, kw_only=True)
class InferencePlan:
    """One call of a model.

    ``after``: places, in its run, of the inferences that must have ended; none: it comes with the
    run. ``pause_s``: time between their end (or the run's arrival) and its own arrival, such as a
    tool's. ``output_tokens`` 0: prefill alone (embedding, scoring). ``output_stream``: name of the
    stream that the output is, so that a later prompt can go on from it; empty: nobody's.
    """

    prompt: tuple[Segment, ...]
    output_tokens: int
    after: tuple[int, ...] = ()
    pause_s: float = 0.0
    output_stream: str = ""
    #: Length of the prompt; kept, since it is asked for again and again.
    prompt_tokens: int = field(init=False, compare=False, repr=False)

    def __post_init__(self) -> None:
        tokens = sum(segment.tokens for segment in self.prompt)
        object.__setattr__(self, "prompt_tokens", tokens)


@dataclass(frozen=True, slots=True, kw_only=True)
class RunPlan:
    """One run. ``text`` is its prompt where a real predictor is to read it.

    ``size_class`` groups runs in reports, such as small, medium and large; it decides nothing.
    ``priority``: what its client sends with its inferences, smallest first; one policy reads it.
    """

    id: str
    application: str
    arrival_s: float
    inferences: tuple[InferencePlan, ...]
    text: str = ""
    size_class: str = ""
    priority: int = 0

    def __post_init__(self) -> None:
        if not self.inferences:
            raise InvalidValueError(f"run {self.id}", "must have at least one inference")
        if not (math.isfinite(self.arrival_s) and self.arrival_s >= 0):
            raise InvalidValueError(
                f"run {self.id}: arrival_s", f"must be a finite number >= 0, got {self.arrival_s!r}"
            )
        for place, inference in enumerate(self.inferences):
            _check_inference(f"run {self.id}: inference {place}", place, inference)


@dataclass(frozen=True, slots=True, kw_only=True)
class ApplicationPlan:
    """An application and its weight, from 1e-9 to 1e9."""

    name: str
    weight: float = 1.0


@dataclass(frozen=True, slots=True, kw_only=True)
class EnginePlan:
    """An engine. ``step_time`` names a model of ``justitia.sim.step_models``.

    ``watermark``: share of the blocks that admission keeps free.
    """

    blocks: int
    block_size_tokens: int = 16
    max_num_seqs: int = 256
    max_num_batched_tokens: int = 2048
    max_model_len_tokens: int = 1 << 20
    watermark: float = 0.0
    has_prefix_cache: bool = True
    step_time: str = "a100-llama2-7b"

    @property
    def kv_capacity_tokens(self) -> int:
        """Tokens that the KV cache holds."""
        return self.blocks * self.block_size_tokens


@dataclass(frozen=True, slots=True, kw_only=True)
class Scenario:
    """All of it. ``runs`` in order of arrival; applications that are not listed have weight 1.

    ``seed`` is the one that it was made from, for reports; ``about`` is a sentence for them.
    ``engine_of_run`` pins runs to engines by place; a run that is missing goes where the router
    sends it.
    """

    engines: tuple[EnginePlan, ...]
    runs: tuple[RunPlan, ...]
    applications: tuple[ApplicationPlan, ...] = ()
    seed: int = 0
    about: str = ""
    engine_of_run: dict[str, int] = field(default_factory=dict)

    def weight_of(self, application: str) -> float:
        """Weight of an application."""
        return next((each.weight for each in self.applications if each.name == application), 1.0)


def in_order(runs: Iterable[RunPlan]) -> tuple[RunPlan, ...]:
    """Sort runs by arrival; those of one moment stay in their order."""
    return tuple(sorted(runs, key=lambda run: run.arrival_s))


def _check_inference(name: str, place: int, inference: InferencePlan) -> None:
    counts = [segment.tokens for segment in inference.prompt]
    if not counts or min(counts) < 1 or sum(counts) > MAX_TOKENS:
        raise InvalidValueError(
            f"{name}: prompt", f"must have segments of 1 or more tokens, {MAX_TOKENS} at most"
        )
    if not 0 <= inference.output_tokens <= MAX_TOKENS:
        raise InvalidValueError(f"{name}: output_tokens", f"must be from 0 to {MAX_TOKENS}")
    if not (math.isfinite(inference.pause_s) and inference.pause_s >= 0):
        raise InvalidValueError(f"{name}: pause_s", "must be a finite number >= 0")
    if any(not 0 <= other < place for other in inference.after):
        raise InvalidValueError(f"{name}: after", "must name earlier inferences of the run")
