"""What of a pool changed since the journal last asked: names of things, never their values."""

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Final

from justitia.core.virtual_time import Flow
from justitia_scheduler.store import SampleRow, Transaction

#: Samples that wait for a disk that refuses; beyond it the newest are not recorded.
MAX_WAITING_SAMPLES: Final = 1000
#: Bytes that their prompts may take; beyond it the newest are recorded without.
MAX_WAITING_PROMPT_BYTES: Final = 64 << 20


@dataclass(frozen=True, kw_only=True, slots=True)
class TakenChanges:
    """What one transaction is to hold; see ``PoolChanges``.

    ``num_blanked``, ``num_lost``: runs since the last one that are recorded without their prompt,
    or not at all, since too much waits.
    """

    runs: list[str]
    ended: list[str]
    applications: list[str]
    engines: list[str]
    flows: list[Flow]
    is_ladder_dirty: bool
    lessons: list[str]
    num_blanked: int
    num_lost: int


@dataclass(slots=True)
class PoolChanges:
    """Bounded by the pool's own size, whatever the disk does.

    ``decided``: runs that were opened, tagged anew or ended; callers wait for these to be durable,
    so each transaction takes all of them. ``progressed``: runs of which only the account moved, or
    that a new weight reached; they are many and nobody waits, so a transaction takes a page.
    ``samples``, ``forgotten`` and ``blanked`` are nowhere else, so they stay until a commit has
    worked; of samples as many, and with as long prompts, as their limits allow.
    """

    decided: dict[str, None] = field(default_factory=dict)
    progressed: dict[str, None] = field(default_factory=dict)
    ended_runs: dict[str, None] = field(default_factory=dict)
    applications: dict[str, None] = field(default_factory=dict)
    engines: dict[str, None] = field(default_factory=dict)
    flows: list[Flow] = field(default_factory=list)
    samples: list[SampleRow] = field(default_factory=list)
    forgotten: list[str] = field(default_factory=list)
    blanked: list[str] = field(default_factory=list)
    is_pool_dirty: bool = True
    is_ladder_dirty: bool = False
    #: The rows that rows of ``samples`` replace, by the id of the latter.
    _copied_from: dict[int, SampleRow] = field(default_factory=dict)
    #: Applications whose runs taught something inside runs (rule K2), or that are gone.
    lessons: dict[str, None] = field(default_factory=dict)
    _waiting_prompt_bytes: int = 0
    _num_blanked: int = 0
    _num_lost: int = 0

    # -- what happens ------------------------------------------------------------------------------

    def decide(self, run_id: str) -> None:
        """A run was opened, ended or has another tag."""
        self.decided[run_id] = None
        self.is_pool_dirty = True

    def progress(self, run_id: str) -> None:
        """A run's account moved."""
        self.progressed[run_id] = None
        self.is_pool_dirty = True

    def end(self, run_id: str, flow: Flow | None) -> None:
        """A run is over; with a flow, the fluid system goes on with it (rule V3)."""
        self.decide(run_id)
        self.ended_runs[run_id] = None
        if flow is not None:
            self.flows.append(flow)

    def settle(self, run_id: str) -> None:
        """The fair ratio of an ended run is known."""
        self.ended_runs[run_id] = None

    def application(self, name: str, *, is_gone: bool = False) -> None:
        """An application was declared, edited or removed; with it go samples not yet written."""
        self.applications[name] = None
        if is_gone:
            self.forgotten.append(name)
            self._keep([row for row in self.samples if row.application != name])
            self.is_ladder_dirty = True

    def blank(self, name: str) -> None:
        """An application's prompts are to be kept no more: of samples written, under way, waiting.

        What a commit has under way is written with its prompt and loses it in the next one.
        """
        self.blanked.append(name)
        for place, row in enumerate(self.samples):
            if row.application == name and row.prompt_text:
                self.samples[place] = copy = replace(row, prompt_text="")
                self._copied_from[id(copy)] = row

    def sample(self, row: SampleRow) -> None:
        """A finished run is to be recorded, as far as the limits of what waits allow."""
        if len(self.samples) >= MAX_WAITING_SAMPLES:
            self._num_lost += 1
            return
        size = _prompt_bytes(row)
        if self._waiting_prompt_bytes + size > MAX_WAITING_PROMPT_BYTES:
            row, size = replace(row, prompt_text=""), 0
            self._num_blanked += 1
        self._waiting_prompt_bytes += size
        self.samples.append(row)

    # -- what the journal takes --------------------------------------------------------------------

    def take(self, *, most_progressed: int) -> TakenChanges:
        """Hand over what changed and forget it, but for progress beyond ``most_progressed``."""
        for run_id in self.decided:
            self.progressed.pop(run_id, None)
        page = list(self.progressed)[:most_progressed]
        for run_id in page:
            del self.progressed[run_id]
        taken = TakenChanges(
            runs=[*self.decided, *page],
            ended=list(self.ended_runs),
            applications=list(self.applications),
            engines=list(self.engines),
            flows=self.flows,
            is_ladder_dirty=self.is_ladder_dirty,
            lessons=list(self.lessons),
            num_blanked=self._num_blanked,
            num_lost=self._num_lost,
        )
        self._num_blanked = self._num_lost = 0
        for emptied in (
            self.decided,
            self.ended_runs,
            self.applications,
            self.engines,
            self.lessons,
        ):
            emptied.clear()
        self.flows = []
        self.is_pool_dirty = bool(self.progressed)
        self.is_ladder_dirty = False
        return taken

    def written(
        self, transaction: Transaction, *, forgotten: Sequence[str], blanked: Sequence[str]
    ) -> None:
        """The store has taken these samples, dropped these applications and blanked those."""
        done = {id(row) for row in transaction.samples}
        self._keep([row for row in self.samples if not self._ids(row) & done])
        del self.forgotten[: len(forgotten)]
        del self.blanked[: len(blanked)]

    def _keep(self, samples: list[SampleRow]) -> None:
        self.samples = samples
        left = {id(row) for row in samples}
        self._copied_from = {key: row for key, row in self._copied_from.items() if key in left}
        self._waiting_prompt_bytes = sum(_prompt_bytes(self._original(row)) for row in samples)

    def _ids(self, row: SampleRow) -> set[int]:
        return {id(row), id(self._original(row))}

    def _original(self, row: SampleRow) -> SampleRow:
        """Return the row that a commit may have under way: its prompt takes memory until then."""
        return self._copied_from.get(id(row), row)


def _prompt_bytes(row: SampleRow) -> int:
    return len(row.prompt_text.encode())
