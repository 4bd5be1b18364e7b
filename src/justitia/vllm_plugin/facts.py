"""What an engine is, what it has done so far, and what became of its inferences."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class EngineLimits:
    """Facts of the engine that do not change."""

    kv_capacity_tokens: int
    step_budget_tokens: int
    max_model_len_tokens: int
    max_num_seqs: int


@dataclass(slots=True)
class Gauges:
    """Numbers of the engine as of the last step; totals of this incarnation."""

    steps: int = 0
    kv_used_tokens: int = 0
    unidentified_inferences: int = 0
    malformed_identities: int = 0
    internal_errors: int = 0
    refused_directives: int = 0
    #: Longest time from a tag's arrival in this process to its use; the reader sets it back.
    tag_delay_s: float = 0.0


@dataclass(frozen=True, slots=True)
class FinishedInference:
    """Facts of an inference at its end; times on the engine's clock.

    ``computed_s`` is the time in which it ran, without queueing after preemptions.
    """

    run_id: str
    prompt_tokens: int
    cached_tokens: int
    output_tokens: int
    num_preemptions: int
    useful_kvtt: int
    is_aborted: bool
    arrived_at_s: float
    started_at_s: float
    finished_at_s: float
    computed_s: float
