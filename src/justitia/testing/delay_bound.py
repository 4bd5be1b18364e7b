"""Rule D1 on outcomes of the step engine."""

from collections.abc import Sequence

from justitia.core.policies import make_policy
from justitia.testing.scenarios import EngineConfig, Job, Outcome
from justitia.testing.step_pool import StepPool


def steps_alone(job: Job, config: EngineConfig) -> int:
    """Steps that a run takes when nothing else is there."""
    alone = Job(job.name, job.stages)
    return StepPool(lambda: make_policy("parrot"), config, has_oracle=False).play([alone]).num_steps


def delay_bound_steps(jobs: Sequence[Job], config: EngineConfig) -> int:
    """Rule D1: 2 x longest single inference + largest run alone, in steps."""
    longest = max(job.longest_inference_steps(config.step_budget_tokens) for job in jobs)
    return 2 * longest + max(steps_alone(job, config) for job in jobs)


def delays_steps(outcome: Outcome) -> dict[str, int]:
    """How much later than in the fluid system each run has finished; negative: earlier."""
    return {
        name: finish - outcome.fluid_finish_step[name]
        for name, finish in outcome.finish_step.items()
    }
