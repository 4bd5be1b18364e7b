"""A small engine, step by step, under the core's queue, policies and pool.

Not a model of any real engine: just enough of one (KV capacity, admission, decoding that grows,
preemption by recomputation, several engines of a pool) to try the rules of the core on small cases.
"""

from dataclasses import dataclass

from justitia.core.engines import EngineReport, RunReport
from justitia.core.fairness import InferenceTimes
from justitia.core.policies import Inference, Key, Policy, Service
from justitia.core.queue import InferenceQueue
from justitia.testing.scenarios import EngineConfig


@dataclass
class Sequence:
    """One inference in the engine. ``filled`` is the KV that it holds (tokens)."""

    inference: Inference
    prompt: int
    output: int
    arrived_step: int
    generated: int = 0
    filled: int = 0
    #: Most KV that was ever filled: below it, work is recomputation (rule C4).
    reached: int = 0
    started_step: int = -1

    @property
    def target(self) -> int:
        """KV to be filled before the next token comes out."""
        return self.prompt + self.generated

    @property
    def is_done(self) -> bool:
        """Whether its last token is out (for no output: its prompt is computed)."""
        return self.generated >= max(1, self.output)


class StepEngine:
    """One engine. The owner calls ``submit``, then ``step`` for each step, and ``report``."""

    def __init__(self, engine_id: str, policy: Policy, config: EngineConfig) -> None:
        self.engine_id = engine_id
        self.policy = policy
        self.config = config
        self.queue = InferenceQueue(policy)
        self.running: list[Sequence] = []
        self.num_preemptions = 0
        self.num_steps = 0
        self.admitted: list[tuple[str, str]] = []
        self.useful_kvtt = 0
        self._waiting: dict[str, Sequence] = {}
        self._useful: dict[str, int] = {}
        self._wasted: dict[str, int] = {}
        self._finished: dict[str, list[InferenceTimes]] = {}
        self._num_reports = 0
        self._closed: list[str] = []

    @property
    def held_tokens(self) -> int:
        """KV that is spoken for: what is filled, and what an admitted prompt is going to fill."""
        return sum(self._claim(sequence) for sequence in self.running)

    @property
    def is_idle(self) -> bool:
        """Nothing runs, nothing waits."""
        return not self.running and not self._waiting

    def start_run(
        self, run_id: str, sequence: int, cost_kvtt: int, finish: int, application: str = ""
    ) -> None:
        """Tell the policy of a run."""
        self.policy.start_run(run_id, sequence)
        self.policy.set_application(run_id, application)
        self.policy.set_cost(run_id, cost_kvtt)
        self.policy.set_finish(run_id, finish, sequence)
        self.queue.refresh(run_id)

    def set_finish(self, run_id: str, finish: int, sequence: int) -> None:
        """Tell the policy of another virtual finish."""
        if self.policy.set_finish(run_id, finish, sequence):
            self.queue.refresh(run_id)

    def end_run(self, run_id: str) -> None:
        """Forget a run of which nothing is here; the next report says so."""
        self.policy.end_run(run_id)
        if self._useful.pop(run_id, None) is not None:
            self._closed.append(run_id)
        self._wasted.pop(run_id, None)

    def submit(self, inference: Inference, prompt: int, output: int, step: int) -> None:
        """Queue an inference."""
        self._waiting[inference.inference_id] = Sequence(inference, prompt, output, step)
        self.queue.add(inference)

    def cancel(self, run_id: str) -> None:
        """Abort everything of a run."""
        for inference_id in [i for i, s in self._waiting.items() if s.inference.run_id == run_id]:
            self.queue.remove(inference_id)
            del self._waiting[inference_id]
        self.running = [s for s in self.running if s.inference.run_id != run_id]

    def step(self, number: int) -> list[Inference]:
        """Compute one step; returns the inferences that ended in it."""
        self.admit(number)
        self.make_room()
        for sequence in self.running:
            self._compute(sequence)
        done = [sequence for sequence in self.running if sequence.is_done]
        self.running = [sequence for sequence in self.running if not sequence.is_done]
        for sequence in done:
            times = InferenceTimes(sequence.arrived_step, sequence.started_step, number + 1)
            self._finished.setdefault(sequence.inference.run_id, []).append(times)
        self.num_steps += 1
        return [sequence.inference for sequence in done]

    def report(self) -> EngineReport:
        """Say what was done so far."""
        self._num_reports += 1
        waiting, running = self._flight()
        runs = tuple(
            RunReport(
                run_id,
                self._useful.get(run_id, 0),
                self._wasted.get(run_id, 0),
                waiting.get(run_id, 0),
                running.get(run_id, 0),
                tuple(self._finished.pop(run_id, ())),
            )
            for run_id in sorted({*self._useful, *self._wasted, *waiting, *running})
        )
        closed, self._closed = tuple(self._closed), []
        return EngineReport(
            self.engine_id, "first", self._num_reports, self.num_steps, runs, closed
        )

    def can_admit(self, sequence: Sequence) -> bool:
        """Whether it could be admitted now."""
        is_slot_free = len(self.running) < self.config.max_sequences
        fits = self.held_tokens + self._claim(sequence) <= self.config.capacity_tokens
        return is_slot_free and fits

    def head(self) -> Sequence | None:
        """Look at what is served next."""
        inference = self.queue.peek()
        return None if inference is None else self._waiting[inference.inference_id]

    def admit(self, number: int) -> None:
        """Admit from the head as long as it fits (rule O2)."""
        while (sequence := self.head()) is not None and self.can_admit(sequence):
            self.queue.pop()
            inference = sequence.inference
            del self._waiting[inference.inference_id]
            if sequence.started_step < 0:
                sequence.started_step = number
                self._charge(inference.run_id, Service(prompt_tokens=sequence.prompt))
            self.running.append(sequence)
            self.admitted.append((inference.run_id, inference.inference_id))

    def make_room(self) -> None:
        """Preempt the last in the order until the rest can take its step (rule O3)."""
        while self.held_tokens > self.config.capacity_tokens:
            victim = max(self.running, key=self._place)
            self.running.remove(victim)
            victim.filled = 0
            self.num_preemptions += 1
            self._waiting[victim.inference.inference_id] = victim
            self.queue.add(victim.inference)

    def _place(self, sequence: Sequence) -> tuple[Key, int]:
        return self.policy.key(sequence.inference), sequence.inference.sequence

    def _claim(self, sequence: Sequence) -> int:
        if self.config.does_reserve_output:
            return sequence.prompt + sequence.output
        return sequence.target

    def _compute(self, sequence: Sequence) -> None:
        sequence.filled = min(sequence.filled + self.config.step_budget_tokens, sequence.target)
        run_id = sequence.inference.run_id
        is_useful = sequence.filled > sequence.reached
        if is_useful:
            self.useful_kvtt += sequence.filled
            self._useful[run_id] = self._useful.get(run_id, 0) + sequence.filled
            sequence.reached = sequence.filled
        else:
            self._wasted[run_id] = self._wasted.get(run_id, 0) + sequence.filled
        num_new = 0
        if sequence.filled == sequence.target:
            sequence.generated += 1
            num_new = 1
        useful = sequence.filled if is_useful else 0
        self._charge(run_id, Service(output_tokens=num_new, useful_kvtt=useful))

    def _charge(self, run_id: str, service: Service) -> None:
        if self.policy.charge(run_id, service):
            self.queue.refresh(run_id)

    def _flight(self) -> tuple[dict[str, int], dict[str, int]]:
        waiting: dict[str, int] = {}
        running: dict[str, int] = {}
        for sequences, counts in ((self._waiting.values(), waiting), (self.running, running)):
            for sequence in sequences:
                run_id = sequence.inference.run_id
                counts[run_id] = counts.get(run_id, 0) + 1
        return waiting, running
