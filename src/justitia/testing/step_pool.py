"""Plays jobs on step engines that share one pool."""

from collections.abc import Callable, Sequence
from fractions import Fraction

from justitia.core.cost import inference_cost_kvtt
from justitia.core.estimates import Estimate, Source
from justitia.core.policies import Inference, Policy
from justitia.core.pool import Clock, Pool
from justitia.core.units import NANO_PER_WEIGHT, parse_weight
from justitia.testing.fluid_oracle import FluidOracle
from justitia.testing.scenarios import EngineConfig, Job, Outcome
from justitia.testing.step_engine import StepEngine

_MAX_STEPS = 200_000


class StepPool:
    """A pool with engines of one configuration; ``play`` runs jobs to their ends."""

    def __init__(
        self,
        make_policy: Callable[[], Policy],
        config: EngineConfig | None = None,
        *,
        num_engines: int = 1,
        report_every: int = 1,
        clock: Clock = Clock.DELIVERED,
        place: Callable[[int, str], int] | None = None,
        reverse_reports: bool = False,
        has_oracle: bool = True,
    ) -> None:
        self.config = config or EngineConfig()
        self.pool = Pool(clock=clock)
        self.oracle = FluidOracle() if has_oracle else None
        self.engines = [StepEngine(f"e{n}", make_policy(), self.config) for n in range(num_engines)]
        for engine in self.engines:
            self.pool.join_engine(
                engine.engine_id, "first", kv_capacity_tokens=self.config.capacity_tokens
            )
        self.outcome = Outcome()
        #: Called after the engines of a step have admitted, before they compute.
        self.watch: Callable[[StepEngine], None] = lambda _: None
        self._report_every = report_every
        self._reverse_reports = reverse_reports
        self._place = place or (lambda number, _: number % num_engines)
        self._stage: dict[str, int] = {}
        self._left: dict[str, int] = {}
        self._num_inferences = 0

    def play(self, jobs: Sequence[Job]) -> Outcome:
        """Play to the end and a little further, until the fluid system is empty too."""
        by_name = {job.name: job for job in jobs}
        coming = sorted(jobs, key=lambda job: job.at_step)
        number = 0
        while coming or self._left:
            if number > _MAX_STEPS:
                raise AssertionError(f"no end after {number} steps: {sorted(self._left)}")
            while coming and coming[0].at_step <= number:
                self._arrive(coming.pop(0), number)
            self._step(number, by_name)
            number += 1
        self._flush(number)
        self.outcome.num_steps = number
        self.outcome.num_preemptions = sum(engine.num_preemptions for engine in self.engines)
        self.outcome.admitted = [pair for engine in self.engines for pair in engine.admitted]
        return self.outcome

    def _arrive(self, job: Job, number: int) -> None:
        self._flush(number)
        cost = job.cost_kvtt(self.config.step_budget_tokens)
        weight = parse_weight(job.weight)
        estimate = Estimate(job.estimate_kvtt or cost, Source.CLIENT)
        view = self.pool.start_run(
            job.name, job.application, weight=weight, estimate=estimate, now_s=number
        )
        if self.oracle is not None:
            self.oracle.arrive(job.name, Fraction(cost), Fraction(weight, NANO_PER_WEIGHT))
        for engine in self.engines:
            engine.start_run(
                job.name, view.sequence, estimate.cost_kvtt, view.finish, job.application
            )
        self._stage[job.name] = 0
        self._submit_stage(job, number)

    def _submit_stage(self, job: Job, number: int) -> None:
        stage = job.stages[self._stage[job.name]]
        self._left[job.name] = len(stage)
        for prompt, output in stage:
            cost = inference_cost_kvtt(
                prompt, 0, output, step_budget_tokens=self.config.step_budget_tokens
            )
            inference_id = f"{job.name}/{self._num_inferences}"
            inference = Inference(
                inference_id, job.name, self._num_inferences, cost, prompt_tokens=prompt
            )
            engine = self.engines[self._place(self._num_inferences, job.name)]
            engine.submit(inference, prompt, output, number)
            self._num_inferences += 1

    def _step(self, number: int, by_name: dict[str, Job]) -> None:
        done: list[Inference] = []
        before = self._useful()
        for engine in self.engines:
            engine.admit(number)
            self.watch(engine)
            done += engine.step(number)
        self._advance_oracle(self._useful() - before, number + 1)
        if number % self._report_every == 0:
            self._flush(number + 1)
        for inference in done:
            job = by_name[inference.run_id]
            self._left[job.name] -= 1
            if self._left[job.name] == 0:
                self._end_stage(job, number + 1)

    def _end_stage(self, job: Job, number: int) -> None:
        self._stage[job.name] += 1
        if self._stage[job.name] < len(job.stages):
            self._submit_stage(job, number)
            return
        self._flush(number)
        del self._left[job.name]
        self.outcome.ended[job.name] = self.pool.end_run(job.name, now_s=number)
        self.outcome.finish_step[job.name] = number
        self.outcome.jct_steps[job.name] = number - job.at_step
        for engine in self.engines:
            engine.end_run(job.name)

    def _flush(self, number: int) -> None:
        engines = reversed(self.engines) if self._reverse_reports else self.engines
        for engine in engines:
            for ratio in self.pool.report(engine.report(), now_s=number):
                self.outcome.ratio[ratio.run_id] = ratio.ratio
        self.outcome.virtual_time.append(self.pool.value)

    def _useful(self) -> int:
        return sum(engine.useful_kvtt for engine in self.engines)

    def _advance_oracle(self, work_kvtt: int, number: int) -> None:
        if self.oracle is None:
            return
        self.oracle.deliver(Fraction(work_kvtt))
        for name in self.oracle.departed:
            self.outcome.fluid_finish_step.setdefault(name, number)
