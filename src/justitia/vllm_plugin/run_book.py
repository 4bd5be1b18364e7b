"""Runs that this engine knows, and which of them the scheduler service has to hear about.

The engine's thread changes rows, the session's thread reads them; no lock is taken. A row enters
the queue of changed rows when its flag is down; the reader lowers the flag *before* it reads the
counters. So a change after the reading raises the flag again, and none is lost.
"""

from collections import OrderedDict, deque
from collections.abc import Iterator
from dataclasses import dataclass, field
from hashlib import sha256
from typing import Final

from justitia.core.errors import InvariantError
from justitia.vllm_plugin.directives import RunTag
from justitia.vllm_plugin.identity import MAX_ID_CHARS

#: Runs remembered while nothing of them is in flight; beyond, the one idle for longest is closed.
MAX_IDLE_RUNS: Final = 100_000


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
    changed: deque[OpenRun] = field(default_factory=deque)
    _rows: dict[str, OpenRun] = field(default_factory=dict)
    _by_client_key: dict[tuple[str, str], OpenRun] = field(default_factory=dict)
    _idle: OrderedDict[str, OpenRun] = field(default_factory=OrderedDict)
    _num_opened: int = 0

    def __len__(self) -> int:
        return len(self._rows)

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
            self.changed.append(row)

    def set_busy(self, row: OpenRun) -> None:
        """Something of the run is in flight."""
        self._idle.pop(row.run_id, None)

    def set_idle(self, row: OpenRun, now_s: float) -> None:
        """Nothing of the run is in flight since ``now_s``."""
        row.last_seen_s = now_s
        self._idle[row.run_id] = row
        self._idle.move_to_end(row.run_id)

    def overdue(self, now_s: float, timeout_s: float) -> list[OpenRun]:
        """List the runs that have been idle for too long, or that are too many."""
        rows: list[OpenRun] = []
        for row in self._idle.values():
            is_one_too_many = len(self._idle) - len(rows) > self.max_idle_runs
            if not is_one_too_many and now_s - row.last_seen_s < timeout_s:
                break
            rows.append(row)
        return rows

    def close(self, row: OpenRun) -> None:
        """Forget a run: its counters are reported one last time and then dropped."""
        row.is_closed = True
        self._rows.pop(row.run_id, None)
        self._by_client_key.pop((row.application, row.client_run_id), None)
        self._idle.pop(row.run_id, None)
        self.note(row)
