"""Who waits and who runs in an engine, and the moves between the two."""

from dataclasses import replace

from justitia.core.policies import Inference, Policy
from justitia.sim.engine import EngineTotals, Submission
from justitia.sim.fast.books import Books
from justitia.sim.fast.decoding import DecodeGroup
from justitia.sim.fast.kv_cache import KvCache
from justitia.sim.fast.outlook import OutlookQueue
from justitia.sim.fast.sequence import Sequence, Stretch, path_of
from justitia.sim.scenario import EnginePlan, InferencePlan

#: Sequences of a step with the tokens that it computes of each.
Chunks = list[tuple[Sequence, int]]


class Batch:
    """Sequences of one engine, with their blocks and their accounts."""

    def __init__(self, engine_id: str, plan: EnginePlan, policy: Policy) -> None:
        self.plan = plan
        self.policy = policy
        self.totals = EngineTotals()
        self.queue = OutlookQueue(policy)
        self.books = Books(engine_id, policy, self.queue)
        self.kv = KvCache(plan.blocks, plan.block_size_tokens, plan.has_prefix_cache)
        self.decoding = DecodeGroup(plan.block_size_tokens)
        # In order of admission; those that do not decode yet are among them.
        self.running: dict[Sequence, None] = {}
        self.prefilling: dict[Sequence, None] = {}
        #: Blocks of what is here as it was when it was queued, waiting or not.
        self.load_blocks = 0
        # vLLM counts its placeholder block among them.
        self._watermark_blocks = int(plan.watermark * (plan.blocks + 1))
        self._waiting: dict[str, Sequence] = {}
        self._num_arrivals = 0
        self._num_admissions = 0

    @property
    def num_waiting(self) -> int:
        """Sequences that wait."""
        return len(self._waiting)

    def arrive(self, submission: Submission, now_s: float) -> Sequence:
        """A new inference waits."""
        self._num_arrivals += 1
        plan = submission.plan
        inference_id = submission.inference_id
        inference = Inference(
            inference_id,
            submission.run_id,
            self._num_arrivals,
            submission.expected_kvtt,
            plan.prompt_tokens,
            priority=submission.priority,
        )
        sequence = Sequence(
            inference,
            self.books.account(submission.run_id),
            submission.place,
            plan.prompt_tokens,
            max(1, plan.output_tokens),
            self._path(plan, inference_id),
            now_s,
            is_silent=plan.output_tokens == 0,
        )
        if cached_tokens := self.kv.find(sequence)[0] * self.kv.block_size:
            sequence.inference = replace(inference, cached_tokens=cached_tokens)
        self.books.arrived(sequence)
        self._enqueue(sequence)
        return sequence

    def _path(self, plan: InferencePlan, inference_id: str) -> tuple[Stretch, ...]:
        if not self.kv.has_prefix_cache:
            return ()
        return path_of(plan.prompt, plan.output_stream or inference_id, self.kv.block_size)

    def _enqueue(self, sequence: Sequence) -> None:
        self._waiting[sequence.inference.inference_id] = sequence
        sequence.wanted_blocks = self.kv.blocks_of(sequence.target)
        self.load_blocks += sequence.wanted_blocks
        self.queue.add(sequence.inference)

    def head(self) -> Sequence | None:
        """Look at what is served next."""
        inference = self.queue.peek()
        return None if inference is None else self._waiting[inference.inference_id]

    # -- admission ----------------------------------------------------

    def has_place(self, tokens: int) -> bool:
        """Whether a step that computes ``tokens`` has room for one sequence more."""
        is_place_free = len(self.running) < self.plan.max_num_seqs
        return is_place_free and tokens < self.plan.max_num_batched_tokens

    def hit(self, sequence: Sequence, free: int) -> int:
        """Count the cached blocks that a waiting sequence begins with.

        -1 if the sequence does not fit into ``free`` free blocks: all of it must, with the
        watermark on top where something runs.
        """
        found, idle = self.kv.find(sequence)
        needed = self.kv.blocks_of(sequence.target) - found + idle
        if self.running:
            needed += self._watermark_blocks
        return found if needed <= free else -1

    def admit(self, budget: int, now_s: float) -> Chunks:
        """Admit from the head while tokens, places and blocks last (rule O2)."""
        chunks: Chunks = []
        fresh: list[Sequence] = []
        while budget > 0 and len(self.running) < self.plan.max_num_seqs:
            sequence = self.head()
            found = -1 if sequence is None else self.hit(sequence, self.kv.num_free)
            if sequence is None or found < 0:
                break
            self.queue.pop()
            if sequence.started_at_s < 0:
                fresh.append(sequence)
            self._start(sequence, found, now_s)
            tokens = min(budget, sequence.target - sequence.computed)
            self.grant(sequence, tokens)
            chunks.append((sequence, tokens))
            budget -= tokens
        for sequence in fresh:
            self.books.tell_prompt(sequence)
        return chunks

    def _start(self, sequence: Sequence, hit: int, now_s: float) -> None:
        del self._waiting[sequence.inference.inference_id]
        self._num_admissions += 1
        sequence.order = self._num_admissions
        self.running[sequence] = self.prefilling[sequence] = None
        self.kv.admit(sequence, hit)
        sequence.computed = hit * self.kv.block_size
        sequence.running_since_s = now_s
        if sequence.started_at_s < 0:
            sequence.started_at_s = now_s
            sequence.cached = sequence.computed
            self.totals.prompt_tokens += sequence.prompt
            self.totals.cached_tokens += sequence.cached
        self.books.admitted(sequence)

    def blocks_for(self, sequence: Sequence, tokens: int) -> int:
        """Count the new blocks that the next ``tokens`` of a prefilling sequence take."""
        return self.kv.blocks_of(sequence.computed + tokens) - sequence.blocks

    def grant(self, sequence: Sequence, tokens: int) -> None:
        """Give a prefilling sequence the blocks for its next tokens."""
        blocks = self.blocks_for(sequence, tokens)
        self.kv.take(blocks)
        sequence.blocks += blocks
        self.kv.fill(sequence, sequence.computed + tokens)

    # -- the way back ----------------------------------------------------

    def preempt_last(self, granted: dict[Sequence, int], now_s: float) -> int:
        """Preempt the last in the order of service (rule O3).

        ``granted``: what the step under way has given so far. Returns the tokens that come back.
        """
        victim = max(self.running, key=self._rank)
        tokens = granted.pop(victim, 0)
        if victim.is_decoding:
            if tokens and self.decoding.computed(victim) % self.kv.block_size == 0:
                self.kv.give_back(1)  # the one that it had got for this step
            self.decoding.leave(victim)
        self.leave(victim, now_s)
        victim.computed = 0
        victim.num_preemptions += 1
        self.totals.preemptions += 1
        self.books.preempted(victim)
        self._enqueue(victim)
        return tokens

    def _rank(self, sequence: Sequence) -> tuple[tuple[int, ...], int]:
        return self.policy.key(sequence.inference), sequence.inference.sequence

    def leave(self, sequence: Sequence, now_s: float) -> None:
        """A sequence that does not decode any more gives its blocks back and runs no longer."""
        del self.running[sequence]
        self.load_blocks -= sequence.wanted_blocks
        self.prefilling.pop(sequence, None)
        sequence.computed_s += now_s - sequence.running_since_s
        for heir, blocks in self.kv.release(sequence, sequence.computed):
            if heir.is_decoding:
                self.decoding.inherit(heir, blocks)
