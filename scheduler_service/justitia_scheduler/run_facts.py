"""What the service knows of a run beyond what the core keeps of it."""

from collections import OrderedDict
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from enum import StrEnum
from typing import TYPE_CHECKING, Any, Final, Self

from justitia.core.estimates import Estimate, Source
from justitia.core.privacy import Privacy
from justitia.core.runs import RunState, RunView
from justitia.core.units import NanoWeight, Ticks

if TYPE_CHECKING:
    import asyncio

#: Ended runs that are remembered for each pool, the latest ones.
MAX_ENDED: Final = 10_000
#: After EndRun a run whose last report may be under way waits this long for it,
END_GRACE_S: Final = 0.1
#: and one that still has something in flight this long.
END_WAIT_S: Final = 2.0


class EndReason(StrEnum):
    """Why a run is over; also a metric's label."""

    END_RUN = "end_run"
    IDLE = "idle"
    MAX_DURATION = "max_duration"
    SINGLE = "single"  # made for one inference without an identity


@dataclass(frozen=True, kw_only=True, slots=True)
class RunOrder:
    """A wish to open a run, checked.

    Clients send a prompt's text, or its words hashed, or its length; engines its length in tokens.
    """

    run_id: str
    application: str = ""
    prompt_text: str = ""
    hashed_prompt: str = ""
    prompt_chars: int = 0
    client_kvtt: float | None = None
    prompt_tokens: int | None = None
    is_from_engine: bool = False
    ends_when_idle: bool = False

    @property
    def prompt_length(self) -> int | None:
        """Length for the pool's history, in tokens; of a text: its characters / 4."""
        if self.prompt_tokens is not None:
            return self.prompt_tokens
        chars = len(self.prompt_text) or len(self.hashed_prompt) or self.prompt_chars
        return chars // 4 if chars else None

    def prompt_for(self, privacy: Privacy) -> str:
        """What of the prompt an application of this setting may look at and keep."""
        match privacy:
            case Privacy.TEXT:
                return self.prompt_text
            case Privacy.HASHED:
                return self.hashed_prompt
        return ""


@dataclass(slots=True)
class Ending:
    """An EndRun that waits for the engines' last word."""

    asked_at_s: float
    engines: set[str]
    done: "asyncio.Future[EndedFacts]"

    def is_due(self, state: RunState, now_s: float) -> bool:
        """Whether the run may be closed now."""
        waited_s = now_s - self.asked_at_s
        if waited_s >= END_WAIT_S:
            return True
        return state is RunState.IDLE and (not self.engines or waited_s >= END_GRACE_S)


@dataclass(slots=True)
class RunFacts:
    """Of an open run. ``requested`` is the application as its first caller wrote it.

    ``counters``: (incarnation, useful, wasted) by engine, of engines of the journal that have not
    come back. ``is_restored``: it was open when the service restarted, and what had ended of it
    until then is known by its service alone. ``has_lost``: an engine left, or began anew, while
    something of it was under way there.
    """

    requested: str
    arrived_wall_s: float
    idle_from_s: float
    state: RunState = RunState.IDLE
    client_kvtt: float | None = None
    prompt_text: str = ""
    prompt_bytes: int = 0
    #: Under which setting ``prompt_text`` was kept: it is text, or hashed words.
    prompt_privacy: Privacy = Privacy.NONE
    #: The strictest of what its applications have allowed when it was opened and told of again.
    privacy: Privacy = Privacy.TEXT
    last_end_s: float | None = None
    num_aborted: int = 0
    ends_when_idle: bool = False
    is_restored: bool = False
    has_lost: bool = False
    is_underestimated: bool = False
    #: What the active model said at the start, where its word was taken; empty version: it was not.
    model_version: str = ""
    model_kvtt: int = 0
    #: Application that the run is served in, as in the core.
    served: str = ""
    ending: Ending | None = None
    counters: dict[str, tuple[str, int, int]] = field(default_factory=dict)

    def note_model(self, estimate: Estimate) -> None:
        """Keep what a model said first; what is learnt inside the run later replaces it nowhere."""
        if not self.model_version:
            self.model_version, self.model_kvtt = estimate.model_version, estimate.cost_kvtt


@dataclass(kw_only=True, slots=True)
class EndedFacts:
    """Of a run that is over; ``fairness_ratio`` comes once the fluid system has got there too."""

    run_id: str
    application: str
    weight: NanoWeight
    start: Ticks
    finish: Ticks
    sequence: int
    estimate: Estimate
    useful_kvtt: int
    wasted_kvtt: int
    num_inferences: int
    arrived_wall_s: float
    finished_wall_s: float
    jct_s: float
    fairness_ratio: float | None = None

    @classmethod
    def of(cls, view: RunView, *, arrived_wall_s: float, jct_s: float) -> Self:
        """Freeze a run as it was at its end."""
        return cls(
            run_id=view.run_id,
            application=view.application,
            weight=view.weight,
            start=view.start,
            finish=view.finish,
            sequence=view.sequence,
            estimate=view.estimate,
            useful_kvtt=view.useful_kvtt,
            wasted_kvtt=view.wasted_kvtt,
            num_inferences=view.num_finished,
            arrived_wall_s=arrived_wall_s,
            finished_wall_s=arrived_wall_s + jct_s,
            jct_s=jct_s,
        )

    def to_record(self) -> dict[str, Any]:
        """Write it down for the journal."""
        return asdict(self)

    @classmethod
    def from_record(cls, record: Mapping[str, Any]) -> Self:
        """Read what ``to_record`` wrote."""
        return cls(**{**record, "estimate": estimate_from(record["estimate"])})


def estimate_from(record: Mapping[str, Any]) -> Estimate:
    """Read an estimate from the journal."""
    return Estimate(record["cost_kvtt"], Source(record["source"]), record["model_version"])


class EndedRuns:
    """The latest ended runs of a pool; ``evicted`` collects ids that the journal may drop."""

    def __init__(self) -> None:
        self._by_id: OrderedDict[str, EndedFacts] = OrderedDict()
        self.evicted: list[str] = []

    def __contains__(self, run_id: str) -> bool:
        return run_id in self._by_id

    def get(self, run_id: str) -> EndedFacts | None:
        """Look one up."""
        return self._by_id.get(run_id)

    def add(self, facts: EndedFacts) -> None:
        """Remember a run; the oldest beyond the limit is forgotten."""
        self._by_id[facts.run_id] = facts
        self._by_id.move_to_end(facts.run_id)
        if len(self._by_id) > MAX_ENDED:
            self.evicted.append(self._by_id.popitem(last=False)[0])

    def drop(self, run_id: str) -> None:
        """Forget one: its id has come back as a new run."""
        if self._by_id.pop(run_id, None) is not None:
            self.evicted.append(run_id)

    def all(self) -> list[EndedFacts]:
        """All of them, oldest first."""
        return list(self._by_id.values())
