"""Workloads of the step engine, and what came of them."""

from dataclasses import dataclass, field
from statistics import mean

from justitia.core.cost import inference_cost_kvtt
from justitia.core.runs import EndedRun


@dataclass(frozen=True)
class Job:
    """A run to be played: stages of (prompt, output) tokens; a stage waits for the one before."""

    name: str
    stages: tuple[tuple[tuple[int, int], ...], ...]
    at_step: int = 0
    weight: str | float = 1
    application: str = ""
    #: What the pool is told; None: the exact cost.
    estimate_kvtt: int | None = None

    @property
    def num_inferences(self) -> int:
        """Inferences of all stages."""
        return sum(len(stage) for stage in self.stages)

    def cost_kvtt(self, step_budget_tokens: int) -> int:
        """Exact cost (rules C1 and C2)."""
        return sum(
            inference_cost_kvtt(prompt, 0, output, step_budget_tokens=step_budget_tokens)
            for stage in self.stages
            for prompt, output in stage
        )

    def longest_inference_steps(self, step_budget_tokens: int) -> int:
        """Steps of the longest single inference, alone."""
        return max(
            max(1, -(-prompt // step_budget_tokens)) + max(0, output - 1)
            for stage in self.stages
            for prompt, output in stage
        )


@dataclass(frozen=True)
class EngineConfig:
    """What an engine can hold and do in a step."""

    capacity_tokens: int = 1000
    max_sequences: int = 10**6
    step_budget_tokens: int = 10**6
    #: True: an inference is admitted when prompt and output fit, so none is ever preempted.
    does_reserve_output: bool = False


@dataclass
class Outcome:
    """What a scenario came to; steps are counted from 0, a finish is the end of its step."""

    finish_step: dict[str, int] = field(default_factory=dict)
    jct_steps: dict[str, int] = field(default_factory=dict)
    #: End of the step in which the fluid system of the oracle was done with the run.
    fluid_finish_step: dict[str, int] = field(default_factory=dict)
    ended: dict[str, EndedRun] = field(default_factory=dict)
    #: (run, inference) in the order in which they were admitted; again after a preemption.
    admitted: list[tuple[str, str]] = field(default_factory=list)
    num_preemptions: int = 0
    num_steps: int = 0
    ratio: dict[str, float] = field(default_factory=dict)
    virtual_time: list[int] = field(default_factory=list)

    @property
    def mean_jct_steps(self) -> float:
        """Mean job completion time."""
        return mean(self.jct_steps.values())

    @property
    def useful_kvtt(self) -> int:
        """Useful service over all runs."""
        return sum(ended.true_cost_kvtt for ended in self.ended.values())

    @property
    def wasted_kvtt(self) -> int:
        """Service spent on recomputation."""
        return sum(ended.wasted_kvtt for ended in self.ended.values())
