"""What the event loop and an engine, whichever it is, say to each other."""

from dataclasses import dataclass
from typing import NamedTuple, Protocol

from justitia.core.engines import EngineReport
from justitia.core.fairness import InferenceTimes
from justitia.core.units import Ticks
from justitia.sim.scenario import InferencePlan


class RunTag(NamedTuple):
    """What an engine is told of a run: its F, its place in order of arrival, its estimated cost."""

    run_id: str
    finish: Ticks
    sequence: int
    cost_kvtt: int
    application: str = ""


@dataclass(frozen=True, slots=True)
class Submission:
    """An inference that an engine is to serve. ``place`` is the one in its run."""

    run_id: str
    application: str
    place: int
    plan: InferencePlan
    #: What it is expected to cost alone, for the policies that order single inferences.
    expected_kvtt: int
    #: The client's, smallest first.
    priority: int = 0

    @property
    def inference_id(self) -> str:
        """Name of the inference, unique in a scenario."""
        return f"{self.run_id}/{self.place}"


class Ended(NamedTuple):
    """An inference that has ended: when it came, was computed and ended, and what it met."""

    run_id: str
    place: int
    times: InferenceTimes
    cached_tokens: int
    num_preemptions: int


@dataclass(slots=True)
class EngineTotals:
    """What an engine has done. ``plans``: how often it planned, once for many equal steps.

    ``recomputed_tokens``: computed again after a preemption; exact engines do not count them.
    """

    steps: int = 0
    plans: int = 0
    preemptions: int = 0
    prompt_tokens: int = 0
    cached_tokens: int = 0
    recomputed_tokens: int = 0
    busy_s: float = 0.0


class Engine(Protocol):
    """An engine under a virtual clock.

    The loop plans when an engine is free and something may have changed, and calls ``finish_steps``
    when ``due_s`` has come; nothing else happens between the two than ``submit``, ``tag``,
    ``end_run`` and ``report``. Times never go back.
    """

    engine_id: str

    @property
    def totals(self) -> EngineTotals:
        """What it has done so far."""

    @property
    def kv_capacity_tokens(self) -> int:
        """Tokens that its KV cache holds."""

    @property
    def due_s(self) -> float | None:
        """When what was planned ends; None: nothing is under way. Only ``submit`` moves it."""

    @property
    def load_blocks(self) -> int:
        """KV blocks that the prompts here fill or will fill; what they generate not counted."""

    def tag(self, tag: RunTag, now_s: float) -> None:
        """Tell it of a run, before the first inference of it, or of a change."""

    def end_run(self, run_id: str) -> None:
        """Tell it that a run is over; nothing of it is there any longer."""

    def submit(self, submission: Submission, now_s: float) -> None:
        """Queue an inference; it may be admitted at the next step that begins."""

    def plan(self, now_s: float) -> None:
        """Plan the next step, or several equal ones. The engine must be free."""

    def finish_steps(self, now_s: float) -> list[Ended]:
        """Take in what was planned; returns the inferences that ended."""

    def report(self, now_s: float) -> EngineReport:
        """Say what was done so far, a step that is under way included (it was planned)."""
