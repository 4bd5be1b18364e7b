"""Draw one run from a type's table. Pure but for the generator of numbers that is passed in."""

import random
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Final

from justitia.sim.scenario import InferencePlan, RunPlan, Segment
from justitia.sim.workloads.kind import Kind, Stage, Waits
from justitia.sim.workloads.spread import Spread
from justitia.sim.workloads.tables import MAX_CONTEXT_TOKENS

_NO_COUNTS: Final[Mapping[str, int]] = MappingProxyType({})


def draw_run(
    kind: Kind,
    rng: random.Random,
    *,
    run_id: str,
    arrival_s: float = 0.0,
    application: str = "",
    size: float | None = None,
    counts: Mapping[str, int] = _NO_COUNTS,
) -> RunPlan:
    """Draw a run of ``kind``.

    ``application``: its name where it is not the type's. ``size``: how far the run as a whole lies
    above the typical one, in standard deviations of every number of the table; None draws that too.
    ``counts``: inferences of stages, by the stage's name, where they are given.
    """
    draft = _Draft(kind, rng, run_id, size, counts)
    for stage in kind.stages:
        draft.add(stage)
    return RunPlan(
        id=run_id,
        application=application or kind.name,
        arrival_s=arrival_s,
        inferences=tuple(draft.plans),
        size_class=kind.size_class.value,
        priority=kind.size_class.priority,
    )


@dataclass
class _Draft:
    kind: Kind
    rng: random.Random
    run_id: str
    size: float | None
    counts: Mapping[str, int]
    plans: list[InferencePlan] = field(default_factory=list)
    #: Places of the stage before.
    before: tuple[int, ...] = ()
    text_tokens: int = 0

    def __post_init__(self) -> None:
        self.text_tokens = self.kind.text.draw(self.rng, self._common())

    def add(self, stage: Stage) -> None:
        """Add the inferences of a stage."""
        num = self._count(stage)
        common_output, common_own = self._common(), self._common()
        places: list[int] = []
        history_tokens = 0
        for number in range(num):
            after = self._after(stage, places, number)
            output_tokens = stage.output.draw(self.rng, common_output)
            own_tokens = _drawn(stage.own, self.rng, common_own)
            if stage.waits is Waits.CHAIN:
                prompt = self._prompt(stage, after, "history", history_tokens)
                history_tokens += output_tokens + own_tokens
            else:
                prompt = self._prompt(stage, after, str(number), own_tokens)
            places.append(len(self.plans))
            self.plans.append(self._plan(stage, prompt, output_tokens, after))
        self.before = tuple(places)

    def _plan(
        self, stage: Stage, prompt: tuple[Segment, ...], output_tokens: int, after: tuple[int, ...]
    ) -> InferencePlan:
        room = MAX_CONTEXT_TOKENS - sum(segment.tokens for segment in prompt)
        pause_s = round(self.rng.uniform(*stage.pause_s), 3) if after and stage.pause_s[1] else 0.0
        return InferencePlan(
            prompt=prompt, output_tokens=min(output_tokens, room), after=after, pause_s=pause_s
        )

    def _common(self) -> float:
        drawn = self.rng.gauss(0, 1)
        return drawn if self.size is None else self.size

    def _count(self, stage: Stage) -> int:
        if stage.count is None:
            return len(self.before)
        drawn = stage.count.draw(self.rng, self._common())
        return self.counts.get(stage.name, drawn)

    def _after(self, stage: Stage, places: Sequence[int], number: int) -> tuple[int, ...]:
        if stage.waits is Waits.CHAIN and places:
            return (places[-1],)
        if stage.waits is Waits.EACH:
            return (self.before[number],)
        return self.before

    def _prompt(
        self, stage: Stage, after: tuple[int, ...], own_name: str, own_tokens: int
    ) -> tuple[Segment, ...]:
        written = sum(self.plans[place].output_tokens for place in after)
        reads = min(written, stage.reads_output_tokens)
        parts = (
            (f"{self.kind.name}/{stage.name}", stage.instructions.median),
            (f"{self.run_id}/text", self.text_tokens if stage.reads_text else 0),
            (f"{self.run_id}/output-{after[0] if after else ''}", reads),
            (f"{self.run_id}/{stage.name}/{own_name}", own_tokens),
        )
        return tuple(Segment(stream, tokens) for stream, tokens in parts if tokens > 0)


def _drawn(spread: Spread | None, rng: random.Random, common: float) -> int:
    return 0 if spread is None else spread.draw(rng, common)
