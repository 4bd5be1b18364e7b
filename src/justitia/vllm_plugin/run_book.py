"""Runs that this engine knows, and which of them the scheduler service has to hear about.

The engine's thread changes rows, the session's thread reads them; no lock is taken, because single
operations on dictionaries and lists are whole. A row enters the queue of changed rows when its flag
is down; the reader lowers the flag *before* it reads the counters. So a change after the reading
raises the flag again, and none is lost.

Where the service is away, or does not read, closed runs that it never heard of are not kept: what
they got goes into one pair of totals.
"""

from collections import OrderedDict
from collections.abc import Container, Iterable, Iterator
from contextlib import suppress
from dataclasses import dataclass, field
from hashlib import sha256
from typing import Final

from justitia.core.errors import InvariantError
from justitia.core.limits import MAX_ID_CHARS
from justitia.vllm_plugin.directives import RunTag
from justitia.vllm_plugin.facts import FinishedInference

#: Runs remembered while nothing of them is in flight; beyond, the one idle for longest is closed.
MAX_IDLE_RUNS: Final = 100_000
#: Rows that wait for the service before closed ones that it never heard of are folded.
MAX_UNHEARD: Final = 2_000
#: Finished inferences that wait for the service.
MAX_FINISHED: Final = 100_000


@dataclass(slots=True, eq=False)
class OpenRun:
    """One run as this engine sees it. Costs are totals of this incarnation, in shares of kvtt."""

    run_id: str
    application: str
    sequence: int
    arrived_at_s: float
    prompt_tokens: int
    #: What its client calls it; ``run_id`` is unique in this engine, this only in its application.
    client_run_id: str
    #: Over as soon as nothing of it is in flight: made for an inference without an identity, or
    #: ended.
    ends_when_idle: bool = False
    shares_per_kvtt: int = 1
    useful_shares: int = 0
    wasted_shares: int = 0
    num_waiting: int = 0
    num_running: int = 0
    last_seen_s: float = 0.0
    #: The service's tag; None: it has none yet, or none any more.
    tag: RunTag | None = None
    #: The tag has yet to be applied: it came while nothing of the run was in flight.
    has_new_tag: bool = False
    #: Inferences that the service has yet to hear of.
    finished: list[FinishedInference] = field(default_factory=list)
    #: Those that it never will hear of.
    num_lost_finished: int = 0
    #: The service has been told of it in this session.
    is_announced: bool = False
    is_closed: bool = False
    is_changed: bool = False

    @property
    def useful_kvtt(self) -> int:
        """Useful service in whole kvtt."""
        return self.useful_shares // self.shares_per_kvtt

    @property
    def wasted_kvtt(self) -> int:
        """Wasted service in whole kvtt."""
        return self.wasted_shares // self.shares_per_kvtt

    @property
    def is_idle(self) -> bool:
        """Nothing of it is in flight here."""
        return not (self.num_waiting or self.num_running)


@dataclass(slots=True)
class RunBook:
    """The rows, by run id. Idle ones stand in order of the time since which they are."""

    is_reported: bool = False
    shares_per_kvtt: int = 1
    max_idle_runs: int = MAX_IDLE_RUNS
    changed: OrderedDict[OpenRun, None] = field(default_factory=OrderedDict)
    #: What closed runs got that the service will not hear of one by one, in shares of kvtt.
    unowned_useful_shares: int = 0
    unowned_wasted_shares: int = 0
    #: Finished inferences kept, by the engine's thread, and taken, by the session's.
    _num_kept: int = 0
    _num_taken: int = 0
    _rows: dict[str, OpenRun] = field(default_factory=dict)
    _by_client_key: dict[tuple[str, str], OpenRun] = field(default_factory=dict)
    _idle: OrderedDict[str, OpenRun] = field(default_factory=OrderedDict)
    _num_opened: int = 0

    def __len__(self) -> int:
        return len(self._rows)

    @property
    def unowned_kvtt(self) -> tuple[int, int]:
        """Useful and wasted service of the folded runs in whole kvtt."""
        shares = self.shares_per_kvtt
        return self.unowned_useful_shares // shares, self.unowned_wasted_shares // shares

    def __iter__(self) -> Iterator[OpenRun]:
        return iter(list(self._rows.values()))

    def get(self, run_id: str) -> OpenRun | None:
        """Look up an open run by its name in reports and tags."""
        return self._rows.get(run_id)

    def find(self, application: str, run_id: str) -> OpenRun | None:
        """Look up an open run by what clients call it: ids are scoped by application."""
        return self._by_client_key.get((application, run_id))

    def open(
        self,
        application: str,
        client_run_id: str,
        *,
        now_s: float,
        prompt_tokens: int,
        ends_when_idle: bool = False,
    ) -> OpenRun:
        """Open a run that is not open.

        In reports and tags it has the client's own id, because the service knows runs by id. Where
        that id is open for another application, the later run is called ``id@application`` and
        never meets it.
        """
        if (application, client_run_id) in self._by_client_key:
            raise InvariantError(f"run {client_run_id!r} of {application!r} is open already")
        row = OpenRun(
            self._free_name(application, client_run_id),
            application,
            self._num_opened,
            now_s,
            prompt_tokens,
            client_run_id,
            ends_when_idle,
            self.shares_per_kvtt,
            last_seen_s=now_s,
        )
        self._num_opened += 1
        self._rows[row.run_id] = self._by_client_key[application, client_run_id] = row
        self.note(row)
        return row

    def _free_name(self, application: str, client_run_id: str) -> str:
        name = client_run_id
        while name in self._rows:
            name = f"{name}@{application}"
            if len(name) > MAX_ID_CHARS:
                name = sha256(name.encode()).hexdigest()
        return name

    def note(self, row: OpenRun) -> None:
        """Something about a run has changed: the service is to hear of it."""
        if self.is_reported and not row.is_changed:
            row.is_changed = True
            self.changed[row] = None

    def note_all(self, rows: Iterable[OpenRun]) -> None:
        """``note`` for all runs that a step has served."""
        if self.is_reported:
            for row in rows:
                if not row.is_changed:
                    row.is_changed = True
                    self.changed[row] = None

    def keep_finished(self, row: OpenRun, inference: FinishedInference) -> None:
        """Keep an inference for the next report; beyond ``MAX_FINISHED`` it counts as lost."""
        if self._num_kept - self._num_taken >= MAX_FINISHED:
            row.num_lost_finished += 1
            return
        self._num_kept += 1
        row.finished.append(inference)

    # -- the session's thread ----------------------------------------------------

    def next_changed(self, seen: Container[str]) -> OpenRun | None:
        """Take the row that has waited longest; None if there is none or its id is in ``seen``.

        A run that was closed and came back has two rows of one id: its counters start again, in a
        report of their own.
        """
        try:
            row, _ = self.changed.popitem(last=False)
        except KeyError:
            return None
        if row.run_id in seen:
            self.put_back(row)
            return None
        return row

    def put_back(self, row: OpenRun) -> None:
        """There is more to say of a row: it is the first of the next report."""
        row.is_changed = True
        self.changed[row] = None
        with suppress(KeyError):  # the engine's thread may have folded it
            self.changed.move_to_end(row, last=False)

    def take_finished(self, row: OpenRun, most: int) -> list[FinishedInference]:
        """Take what has been kept of a run, the oldest first."""
        taken = row.finished[:most]
        del row.finished[: len(taken)]
        self._num_taken += len(taken)
        return taken

    # -- idle and closed ----------------------------------------------------

    def set_busy(self, row: OpenRun) -> None:
        """Something of the run is in flight."""
        self._idle.pop(row.run_id, None)

    def set_idle(self, row: OpenRun, now_s: float) -> None:
        """Nothing of the run is in flight since ``now_s``."""
        row.last_seen_s = now_s
        self._idle[row.run_id] = row
        self._idle.move_to_end(row.run_id)

    def overdue(self, now_s: float, timeout_s: float, *, most: int) -> list[OpenRun]:
        """List up to ``most`` of the runs that have been idle for too long, or are too many."""
        rows: list[OpenRun] = []
        for row in self._idle.values():
            is_one_too_many = len(self._idle) - len(rows) > self.max_idle_runs
            is_overdue = is_one_too_many or now_s - row.last_seen_s >= timeout_s
            if not is_overdue or len(rows) == most:
                break
            rows.append(row)
        return rows

    def close(self, row: OpenRun) -> None:
        """Forget a run: its counters are reported one last time and then dropped."""
        row.is_closed = True
        self._rows.pop(row.run_id, None)
        self._by_client_key.pop((row.application, row.client_run_id), None)
        self._idle.pop(row.run_id, None)
        if not self._fold(row):
            self.note(row)

    def _fold(self, row: OpenRun) -> bool:
        """Add a closed run to the totals instead, if the service does not keep up."""
        if self._is_heard(row) or len(self.changed) <= MAX_UNHEARD:
            return False
        if self.changed.pop(row, self) is self:  # the session's thread has it in hand
            return False
        if self._is_heard(row):  # by a Hello, just now
            self.changed[row] = None
            return False
        self.unowned_useful_shares += row.useful_shares
        self.unowned_wasted_shares += row.wasted_shares
        self._num_kept -= len(row.finished)
        return True

    @staticmethod
    def _is_heard(row: OpenRun) -> bool:
        return row.is_announced
