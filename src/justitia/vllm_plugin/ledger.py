"""Attained cost of the inferences and runs of one engine, from what it holds (rules C1, C3, C4).

No vLLM and no clock here. In every step in which an inference is scheduled it is charged the KV
tokens that it holds. Steps that only compute again what a preemption threw away, those that end at
or below the highest mark reached before, are wasted; all others are useful.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from justitia.vllm_plugin.kv_blocks import BlockTable, Holding, KvLayout
from justitia.vllm_plugin.run_book import OpenRun


@dataclass(slots=True, eq=False)
class OpenInference:
    """One inference from its arrival to its end. Costs in shares of kvtt (``KvLayout.shares``)."""

    inference_id: str
    run: OpenRun
    sequence: int
    expected_kvtt: int
    arrived_at_s: float
    prompt_tokens: int
    holding: Holding
    started_at_s: float | None = None
    #: Since when it is computed this time, and how long it was before.
    running_since_s: float = 0.0
    computed_s: float = 0.0
    cached_tokens: int = 0
    output_tokens: int = 0
    num_preemptions: int = 0
    #: Highest number of computed tokens so far.
    mark_tokens: int = 0
    useful_shares: int = 0
    wasted_shares: int = 0
    is_running: bool = False


@dataclass(slots=True)
class Ledger:
    """Books of one engine.

    Every inference is opened once and closed once, whatever happens between.
    """

    layout: KvLayout
    blocks: BlockTable = field(init=False)
    num_preemptions: int = 0
    num_running: int = 0
    _open: dict[str, OpenInference] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.blocks = BlockTable(self.layout)

    def __len__(self) -> int:
        return len(self._open)

    def __contains__(self, inference_id: str) -> bool:
        return inference_id in self._open

    @property
    def inferences(self) -> Mapping[str, OpenInference]:
        """All open inferences by id; to be read only."""
        return self._open

    def get(self, inference_id: str) -> OpenInference | None:
        """Look up an open inference."""
        return self._open.get(inference_id)

    def open(
        self,
        inference_id: str,
        run: OpenRun,
        *,
        sequence: int,
        expected_kvtt: int,
        arrived_at_s: float,
        prompt_tokens: int,
    ) -> OpenInference:
        """Note an arrival: it waits."""
        inference = self._open[inference_id] = OpenInference(
            inference_id,
            run,
            sequence,
            expected_kvtt,
            arrived_at_s,
            prompt_tokens,
            self.blocks.new_holding(),
        )
        run.num_waiting += 1
        return inference

    def admit(self, inference: OpenInference, now_s: float) -> bool:
        """It is computed from now on; True if this is the first time."""
        if not inference.is_running:
            inference.is_running = True
            inference.running_since_s = now_s
            inference.run.num_waiting -= 1
            inference.run.num_running += 1
            self.num_running += 1
        is_first = inference.started_at_s is None
        if is_first:
            inference.started_at_s = now_s
        return is_first

    def park(self, inference: OpenInference, now_s: float) -> None:
        """It waits again and keeps its blocks: streaming input that will go on later."""
        if inference.is_running:
            self._stop(inference, now_s)
            inference.run.num_waiting += 1

    def _stop(self, inference: OpenInference, now_s: float) -> None:
        inference.is_running = False
        inference.computed_s += max(0.0, now_s - inference.running_since_s)
        inference.run.num_running -= 1
        self.num_running -= 1

    def preempt(self, inference: OpenInference, now_s: float) -> None:
        """It lost its blocks and waits again."""
        self.park(inference, now_s)
        self.blocks.release(inference.holding)
        inference.num_preemptions += 1
        self.num_preemptions += 1

    def charge(self, computed: Sequence[tuple[OpenInference, int]]) -> None:
        """Charge one step of inferences, each with the tokens that it then has in the KV cache.

        Runs for everything that is computed in every step of the engine, so it calls little.
        """
        charged_shares = self.blocks.charged_shares
        block_tokens = self.blocks.plain_block_tokens
        for inference, computed_tokens in computed:
            if block_tokens:  # what ``charged_shares`` comes to
                shares = computed_tokens - inference.holding.num_foreign[0] * block_tokens
                if shares < 1:  # noqa: PLR1730 - max() is a call
                    shares = 1
            else:
                shares = charged_shares(inference.holding, computed_tokens)
            if computed_tokens > inference.mark_tokens:
                inference.mark_tokens = computed_tokens
                inference.useful_shares += shares
                inference.run.useful_shares += shares
            else:
                inference.wasted_shares += shares
                inference.run.wasted_shares += shares

    def reject_drafts(self, inference: OpenInference, computed_tokens: int) -> None:
        """Speculative tokens were rejected.

        The positions will be computed anew, and that is useful.
        """
        inference.mark_tokens = min(inference.mark_tokens, computed_tokens)

    def close(self, inference_id: str, now_s: float) -> OpenInference | None:
        """Close the books of an inference; None if they are closed already."""
        inference = self._open.pop(inference_id, None)
        if inference is None:
            return None
        self.blocks.release(inference.holding)
        if inference.is_running:
            self._stop(inference, now_s)
        else:
            inference.run.num_waiting -= 1
        return inference
