"""The least time of an engine that work takes, in whatever order and company it is served.

A step takes the longer one of ``floor_s`` (reading weights) and ``compute_s`` + ``per_token_s`` for
each token, and more for sequences, for what decoding reads of the cache, and for the pairs of
tokens that a prefill compares. It is divided among those that it serves:

* of the floor, each has the share of all blocks that it holds; together they hold no more;
* where prompts are computed a step takes at least floor + ``per_token_s`` for each of their tokens
  - D, with D = max(0, floor - compute). So a chunk has ``per_token_s`` for each token - D, if that
  is above 0: the sum is no more than what the step takes beyond the floor;
* the rest is each sequence's own.

So no step gives away more than it takes. An inference needs a prefill step that holds its prompt,
and a decode step for each further token; its prompt comes in at most 1 + ceil(p / (B - S)) chunks
(step budget B, S sequences at most: only the first chunk can be smaller than what is left beside S
that decode). What it has of all its steps is therefore at least ``least_engine_s``, preemptions
only add to that, and in a time t engines give away at most t each. That makes a fluid system of the
real one, whose SRPT no order of service on these engines can beat in the mean.
"""

import math
from dataclasses import replace

from justitia.sim.limits import FluidRun, fluid_runs, least_mean_jct_s
from justitia.sim.scenario import EnginePlan, InferencePlan, RunPlan, Scenario
from justitia.sim.step_models import step_time_of


def least_engine_s(inference: InferencePlan, engine: EnginePlan) -> float:
    """Seconds of an engine without a prefix cache that an inference takes at least."""
    time = step_time_of(engine.step_time)
    prompt, decode_steps = inference.prompt_tokens, max(0, inference.output_tokens - 1)
    room = max(1, engine.max_num_batched_tokens - engine.max_num_seqs)
    chunks = 1 + math.ceil(prompt / room)
    hidden_s = max(0.0, time.floor_s - time.compute_s)
    read_tokens = decode_steps * prompt + decode_steps * (decode_steps + 1) // 2
    # A chunk of a single token counts as decoding.
    pairs = max(0.0, prompt * prompt / 2 - chunks * prompt)
    return time.scale * (
        time.floor_s * _block_steps(prompt, decode_steps, engine.block_size_tokens) / engine.blocks
        + max(0.0, time.per_token_s * prompt - chunks * hidden_s)
        + time.per_sequence_s * (1 + decode_steps)
        + time.per_kv_token_s * read_tokens
        + time.per_prefill_pair_s * pairs
    )


def _block_steps(prompt: int, decode_steps: int, block_size: int) -> int:
    """Add up the blocks held: in one prefill step, and in decode steps of a token more each."""
    return sum(-(-(prompt + step) // block_size) for step in range(decode_steps + 1))


def timed_runs(scenario: Scenario) -> tuple[FluidRun, ...]:
    """Turn a scenario's runs into those of a fluid system, with seconds of an engine as costs.

    Its rate is the number of engines.

    Raises:
        InvalidValueError: an engine has a prefix cache.
    """
    return tuple(
        replace(fluid, cost=min(_run_s(run, engine) for engine in set(scenario.engines)))
        for run, fluid in zip(scenario.runs, fluid_runs(scenario), strict=True)
    )


def _run_s(run: RunPlan, engine: EnginePlan) -> float:
    return math.fsum(least_engine_s(inference, engine) for inference in run.inferences)


def least_mean_of_any_order_s(scenario: Scenario) -> float:
    """Mean JCT that no order of service on these engines can go below; NaN of no runs.

    Raises:
        InvalidValueError: an engine has a prefix cache, or there is no engine.
    """
    return least_mean_jct_s(timed_runs(scenario), float(len(scenario.engines)))
