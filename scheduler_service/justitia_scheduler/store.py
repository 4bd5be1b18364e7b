"""What the journal needs of a store: a few tables of records, written in transactions.

State (pools, runs, engines, applications, ended runs) is small records that are replaced whole;
samples and models are kept apart, since they are large and read piece by piece. All methods block:
`journal` calls them from its one writer thread.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol

#: Key of a record: its kind ("run"), then what names it ("pool", "run id").
Key = tuple[str, ...]


class StoreError(Exception):
    """The store cannot be used at all; the message is one sentence with the next step."""


class WriteError(Exception):
    """A transaction failed and changed nothing; another one later may succeed."""


@dataclass(frozen=True, kw_only=True, slots=True)
class SampleRow:
    """One finished run; ``finished_at_s`` is wall-clock time.

    ``prompt_text``: text, or words hashed, as the application's privacy was; empty where there is
    none: the run's cost teaches the mean, and no model.
    """

    pool: str
    application: str
    run_id: str
    prompt_text: str
    cost_kvtt: int
    num_inferences: int
    finished_at_s: float


@dataclass(frozen=True, kw_only=True, slots=True)
class ModelRow:
    """One published model.

    ``reason``: why it was, or was not, made the active one; ``activated_at_s``: when it was for the
    last time, None: never.
    """

    pool: str
    application: str
    version: str
    published_at_s: float
    samples: int
    relative_error: float
    is_active: bool
    artefact: bytes = field(repr=False)
    reason: str = ""
    activated_at_s: float | None = None


@dataclass(frozen=True, kw_only=True, slots=True)
class SampleCounts:
    """Samples of an application that have a prompt: those that a model can be trained from.

    ``since_model``: finished since its active model was activated.

    ``newest_s``: when the newest of all finished; ``third_from_s``: when the first of the newest
    third of ``since_model`` did; None: there are none.
    """

    total: int = 0
    since_model: int = 0
    newest_s: float | None = None
    third_from_s: float | None = None


@dataclass(kw_only=True, slots=True)
class Transaction:
    """Changes that become durable together.

    ``replaces_all``: ``puts`` is the whole state and everything else of it goes (samples and models
    stay). ``forgotten`` are (pool, application) whose samples and models go; ``blanked`` are those
    whose stored samples lose their prompts.
    """

    puts: dict[Key, Mapping[str, Any]] = field(default_factory=dict)
    deletes: list[Key] = field(default_factory=list)
    samples: list[SampleRow] = field(default_factory=list)
    forgotten: list[tuple[str, str]] = field(default_factory=list)
    blanked: list[tuple[str, str]] = field(default_factory=list)
    replaces_all: bool = False

    def __bool__(self) -> bool:
        gone = self.deletes or self.forgotten or self.blanked
        return bool(self.puts or self.samples or gone or self.replaces_all)


@dataclass(frozen=True, kw_only=True, slots=True)
class Loaded:
    """What a store held when it was opened. ``troubles`` are sentences to be said loudly."""

    records: Mapping[Key, Mapping[str, Any]]
    models: Sequence[ModelRow]
    troubles: Sequence[str] = ()


class Store(Protocol):
    """Durable records."""

    def load(self) -> Loaded:
        """Open and read everything; called once, first."""

    def commit(self, transaction: Transaction) -> None:
        """Make a transaction durable, or raise ``WriteError`` and change nothing."""

    def samples(
        self, pool: str, application: str, *, after: int, limit: int
    ) -> list[tuple[int, SampleRow]]:
        """Read up to ``limit`` samples with their serial numbers, oldest first."""

    def newest_samples(
        self, pool: str, application: str, *, before: int, limit: int
    ) -> list[tuple[int, SampleRow]]:
        """Read up to ``limit`` samples of an application that have a prompt, newest first."""

    def sample_counts(self, pool: str, application: str = "") -> dict[str, SampleCounts]:
        """Count samples with a prompt, of each application of a pool, or of one, that has any."""

    def drop_samples(self, *, before_s: float) -> int:
        """Delete samples of runs that finished before a moment; returns how many."""

    def forget_prompts(self, pool: str, application: str) -> None:
        """Delete what an application's prompts left: the text of its samples, and its models."""

    def put_model(self, model: ModelRow, *, keep: int) -> None:
        """Store a model; it alone is active if it says so.

        Of an application's models stay the newest ``keep``, and the two that were activated last.
        """

    def models(
        self, pool: str, application: str = "", *, has_artefacts: bool = False
    ) -> list[ModelRow]:
        """Read the models of a pool, or of one application, oldest first."""

    def close(self) -> None:
        """Release the files."""
