"""The fast engine: plans a step as vLLM's V1 scheduler does, and skips what is all the same.

Running sequences come first, in order of admission, within the budget of tokens that a step has;
then waiting ones in the order of the policy while blocks and places last (rule O2): a whole
sequence must fit, with the watermark on top where something runs already. Where a block is missing,
the running sequence with the largest key loses its blocks and starts again (rule O3); nothing is
admitted in such a step. As long as nobody ends, nobody can be admitted and blocks suffice, steps
differ only in how much is held, and are taken in one go.

Left out: two steps in flight at a time (asynchronous scheduling), speculative decoding, adapters,
encoders, KV connectors, several KV-cache groups.
"""

from justitia.core.engines import EngineReport
from justitia.core.errors import InvariantError
from justitia.core.policies import Policy
from justitia.sim.engine import Ended, EngineTotals, RunTag, Submission
from justitia.sim.fast.batch import Batch, Chunks
from justitia.sim.fast.flight import Flight
from justitia.sim.fast.outlook import is_foreseen, steps_of_order
from justitia.sim.fast.sequence import Sequence
from justitia.sim.scenario import EnginePlan
from justitia.step_time import Chunk, StepTime, Work, work_of


class FastEngine:
    """One engine. ``is_stepwise``: plan every step by itself, to check that skipping is exact."""

    def __init__(
        self,
        engine_id: str,
        plan: EnginePlan,
        policy: Policy,
        step_time: StepTime,
        *,
        is_stepwise: bool = False,
    ) -> None:
        self.engine_id = engine_id
        self._plan = plan
        self._step_time = step_time
        self._batch = Batch(engine_id, plan, policy)
        counts = self._batch.books.counts
        self._is_stepwise = is_stepwise or (counts and not is_foreseen(policy))
        self._flight: Flight | None = None
        self._num_tags = 0

    @property
    def totals(self) -> EngineTotals:
        """What was done so far."""
        return self._batch.totals

    @property
    def kv_capacity_tokens(self) -> int:
        """Tokens that its KV cache holds."""
        return self._plan.kv_capacity_tokens

    @property
    def due_s(self) -> float | None:
        """When the flight ends."""
        return None if self._flight is None else self._flight.due_s

    @property
    def load_blocks(self) -> int:
        """KV blocks of the prompts that are here, waiting or not."""
        return self._batch.load_blocks

    # -- what the loop tells ----------------------------------------------------

    def tag(self, tag: RunTag, now_s: float) -> None:
        """Take a run's place in the order.

        Policies that go by the arrival of runs go by this engine's, as with the plugin: it meets a
        run when the first inference of it comes, which may be later than the pool does.
        """
        policy = self._batch.policy
        policy.start_run(tag.run_id, self._num_tags)
        self._num_tags += 1
        policy.set_application(tag.run_id, tag.application)
        has_moved = policy.set_cost(tag.run_id, tag.cost_kvtt)
        has_moved |= policy.set_finish(tag.run_id, tag.finish, tag.sequence)
        if has_moved and self._batch.queue.num_waiting(tag.run_id):
            self._batch.queue.refresh(tag.run_id)
            self._disturb(now_s)

    def end_run(self, run_id: str) -> None:
        """Forget a run."""
        self._batch.policy.end_run(run_id)
        self._batch.books.close(run_id)

    def submit(self, submission: Submission, now_s: float) -> None:
        """Queue an inference."""
        self._tell(now_s)
        self._batch.arrive(submission, now_s)
        self._disturb(now_s)

    def _tell(self, now_s: float) -> None:
        """Let the policy know what has been served by now."""
        if self._batch.books.counts:
            tick, flight = self._batch.decoding.tick, self._flight
            planned = 0 if flight is None else flight.planned(now_s)
            done = 0 if flight is None else flight.done(now_s)
            self._batch.books.tell(tick + planned, tick + done)

    def _disturb(self, now_s: float) -> None:
        """The order of those that wait has changed: plan anew after this step, if it can matter."""
        flight, batch = self._flight, self._batch
        if flight is None or flight.steps == 1 or not batch.has_place(batch.decoding.num):
            return
        head = batch.head()
        # Within a flight blocks only become fewer: what does not fit now does not fit later.
        if batch.books.counts or (head is not None and batch.hit(head, batch.kv.num_free) >= 0):
            flight.cut(now_s)

    def report(self, now_s: float) -> EngineReport:
        """Say what was done so far."""
        batch = self._batch
        planned = 0 if self._flight is None else self._flight.planned(now_s)
        used = (self._plan.blocks - batch.kv.num_free) * batch.kv.block_size
        steps = batch.totals.steps + planned
        return batch.books.report(batch.decoding.tick + planned, steps, used)

    # -- planning ----------------------------------------------------

    def plan(self, now_s: float) -> None:
        """Plan the next step, or several equal ones."""
        while self._flight is None and (self._batch.running or self._batch.num_waiting):
            self._flight = self._plan_steps(now_s)
        self._batch.totals.plans += 1

    def _plan_steps(self, now_s: float) -> Flight | None:
        """Plan; None if nobody could be served because of preemptions, so that others can now."""
        batch = self._batch
        decoding = batch.decoding
        budget = self._plan.max_num_batched_tokens - decoding.num
        chunks = self._chunks_of_prefilling(budget) if batch.prefilling else []
        for_decoding = decoding.blocks_for(1)
        free = batch.kv.num_free - for_decoding
        for sequence, tokens in chunks:
            budget -= tokens
            free -= batch.blocks_for(sequence, tokens)
        if budget < 0 or free < 0 or len(batch.prefilling) > 1:
            return self._plan_tightly(now_s)
        if not chunks and not self._may_admit(budget, free):
            return self._plan_decoding(now_s)
        batch.kv.take(for_decoding)
        for sequence, tokens in chunks:
            batch.grant(sequence, tokens)
        return self._one_step(chunks + batch.admit(budget, now_s), (), now_s)

    def _chunks_of_prefilling(self, budget: int) -> Chunks:
        """Go on with the prompt that an earlier step has begun: it is the last that runs."""
        return [
            (sequence, tokens)
            for sequence in self._batch.prefilling
            if (tokens := min(sequence.target - sequence.computed, budget)) > 0
        ]

    def _may_admit(self, budget: int, free: int) -> bool:
        batch = self._batch
        if budget <= 0 or len(batch.running) >= self._plan.max_num_seqs:
            return False
        head = batch.head()
        return head is not None and batch.hit(head, free) >= 0

    def _plan_decoding(self, now_s: float) -> Flight:
        """Take as many steps as are alike."""
        batch = self._batch
        decoding = batch.decoding
        if not decoding.num:
            raise InvariantError(f"{self.engine_id}: {batch.num_waiting} wait and nothing runs")
        steps = 1
        if not self._is_stepwise:
            steps = decoding.steps_within(batch.kv.num_free, decoding.steps_to_first_end())
            if batch.books.counts and batch.has_place(decoding.num):
                accounts, tick = batch.books.served, decoding.tick
                steps = steps_of_order(batch.policy, batch.queue, accounts, tick, steps)
        pace = self._step_time.decoding(decoding.num, decoding.held_tokens)
        return Flight(now_s, now_s + pace.of(steps), steps, pace)

    def _one_step(
        self, chunks: Chunks, stalled: tuple[Sequence, ...], now_s: float
    ) -> Flight | None:
        batch = self._batch
        decoding = batch.decoding
        if not chunks and not decoding.num:
            for sequence in stalled:
                decoding.join(sequence)
            return None
        for sequence, tokens in chunks:
            held = sequence.computed + tokens
            again = min(sequence.mark, held) - sequence.computed
            batch.totals.recomputed_tokens += max(0, again)
            paid = held - sequence.foreign * batch.kv.block_size
            batch.books.charge_prefill(sequence, held, paid)
        prefill = work_of(Chunk(tokens, each.computed + tokens) for each, tokens in chunks)
        num = decoding.num
        work = Work(
            num + prefill.tokens,
            num + prefill.sequences,
            decoding.held_tokens + num + prefill.kv_tokens,
            prefill.pairs,
        )
        due_s = now_s + self._step_time.of_work(work)
        return Flight(now_s, due_s, chunks=tuple(chunks), stalled=stalled)

    def _plan_tightly(self, now_s: float) -> Flight | None:
        """Plan one step sequence by sequence: blocks or tokens are too few for all that run."""
        batch = self._batch
        running = batch.running
        budget = self._plan.max_num_batched_tokens
        num_preemptions = batch.totals.preemptions
        granted: dict[Sequence, int] = {}
        for sequence in list(running):
            if budget == 0:
                break
            if sequence not in running:
                continue
            tokens, blocks = self._wish(sequence, budget)
            if blocks or not sequence.is_decoding:
                while blocks > batch.kv.num_free and sequence in running:
                    budget += batch.preempt_last(granted, now_s)
                if sequence not in running:
                    break
                self._take(sequence, tokens, blocks)
            granted[sequence] = tokens
            budget -= tokens
        chunks = [(each, tokens) for each, tokens in granted.items() if not each.is_decoding]
        stalled = tuple(s for s in batch.running if s.is_decoding and s not in granted)
        for sequence in stalled:
            batch.decoding.leave(sequence)
        if batch.totals.preemptions == num_preemptions:
            chunks += batch.admit(budget, now_s)
        return self._one_step(chunks, stalled, now_s)

    def _take(self, sequence: Sequence, tokens: int, blocks: int) -> None:
        if sequence.is_decoding:
            self._batch.kv.take(blocks)
        else:
            self._batch.grant(sequence, tokens)

    def _wish(self, sequence: Sequence, budget: int) -> tuple[int, int]:
        """Return the tokens that a running sequence would compute, and the new blocks for them."""
        batch = self._batch
        if sequence.is_decoding:
            return 1, int(batch.decoding.computed(sequence) % batch.kv.block_size == 0)
        tokens = min(sequence.target - sequence.computed, budget)
        return tokens, batch.blocks_for(sequence, tokens)

    # -- the end of a step ----------------------------------------------------

    def finish_steps(self, now_s: float) -> list[Ended]:
        """Take in what was planned."""
        flight, self._flight = self._flight, None
        if flight is None:
            raise InvariantError(f"{self.engine_id}: nothing is under way")
        batch = self._batch
        decoding = batch.decoding
        if flight.pace is not None:
            batch.kv.take(decoding.blocks_for(flight.steps))
        decoding.tick += flight.steps
        batch.totals.steps += flight.steps
        batch.totals.busy_s += now_s - flight.start_s
        ended = decoding.pop_ended()
        for sequence in ended:
            decoding.leave(sequence)
        for sequence in flight.stalled:
            decoding.join(sequence)
        for sequence, tokens in flight.chunks:
            sequence.computed += tokens
            if sequence.computed == sequence.target and self._decode_on(sequence):
                ended.append(sequence)
        # Before runs end: what an application has got outlives them.
        self._tell(now_s)
        return [self._end(sequence, now_s) for sequence in ended]

    def _decode_on(self, sequence: Sequence) -> bool:
        """A prompt is computed and its first token is there; True if that was the last one."""
        del self._batch.prefilling[sequence]
        sequence.generated += 1
        sequence.account.output_tokens += not sequence.is_silent
        if sequence.generated >= sequence.output:
            return True
        self._batch.decoding.join(sequence)
        return False

    def _end(self, sequence: Sequence, now_s: float) -> Ended:
        self._batch.leave(sequence, now_s)
        self._batch.books.ended(sequence, now_s)
        return Ended(
            sequence.inference.run_id,
            sequence.place,
            sequence.times(now_s),
            sequence.cached,
            sequence.num_preemptions,
        )

    def check_empty(self) -> None:
        """Raise unless nothing is here and no block is missing.

        Raises:
            InvariantError: something is.
        """
        batch = self._batch
        if batch.running or batch.num_waiting or batch.decoding.num:
            raise InvariantError(f"{self.engine_id}: something is left")
        batch.kv.check()
