"""Where a run's estimated cost comes from (rules K3, E1), and what the accounts learn (K1)."""

import math
from collections import OrderedDict
from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Final

from justitia.core.errors import InvalidValueError, shown
from justitia.core.recency import use
from justitia.core.units import MAX_COST_KVTT

#: The mean of the pool's runs of a length counts from so many of them on (rule E1); that of an
#: application's own runs from the first one on.
MIN_PEER_RUNS: Final = 5


class Source(StrEnum):
    """Who made an estimate."""

    CLIENT = "client"
    MODEL = "model"
    HISTORY = "history"
    POOL = "pool"
    DEFAULT = "default"

    @property
    def is_provisional(self) -> bool:
        """Whether it knows the application at best, not the run: a better one may come (E2)."""
        return self not in (Source.CLIENT, Source.MODEL)


@dataclass(frozen=True, slots=True)
class Estimate:
    """Predicted cost of a run in kvtt, from 1 to ``MAX_COST_KVTT``, and who says so."""

    cost_kvtt: int
    source: Source
    model_version: str = ""


def clamp_cost_kvtt(value: float, *, max_cost_kvtt: int = MAX_COST_KVTT) -> int:
    """Round a cost to whole kvtt within [1, ``max_cost_kvtt``] (rule K3); infinity is the most."""
    return max_cost_kvtt if value >= max_cost_kvtt else max(1, round(value))


def is_usable_cost(value: float | None) -> bool:
    """Whether a cost can be taken, after clamping: finite and above 0."""
    return value is not None and 0 < value < math.inf


def require_cost_kvtt(field_name: str, value: float) -> int:
    """Validate a cost that somebody outside claims.

    Raises:
        InvalidValueError: NaN, infinite, zero, negative or above ``MAX_COST_KVTT``.
    """
    if not 0 < value <= MAX_COST_KVTT:
        raise InvalidValueError(
            field_name, f"must be a finite number > 0 and <= {MAX_COST_KVTT:g}, got {shown(value)}"
        )
    return clamp_cost_kvtt(value)


@dataclass(slots=True)
class Mean:
    """Running mean of costs; exact, since costs are whole kvtt."""

    count: int = 0
    total_kvtt: int = 0

    def add(self, cost_kvtt: int) -> None:
        """Count one finished run."""
        self.count += 1
        self.total_kvtt += cost_kvtt

    @property
    def value_kvtt(self) -> float:
        """The mean so far; the caller checks ``count`` first."""
        return self.total_kvtt / self.count


@dataclass(slots=True)
class Ladder:
    """The cold start ladder of one pool (rule E1).

    Order: what the client declares; the application's trained model; the mean of the application's
    own finished runs; that of at least ``MIN_PEER_RUNS`` of the pool with prompts of that length;
    the application's ``fallbackCost``; the pool's default.
    """

    default_cost_kvtt: int
    max_cost_kvtt: int = MAX_COST_KVTT
    max_applications: int = 10_000
    _by_application: OrderedDict[str, Mean] = field(default_factory=OrderedDict)
    _by_length: dict[int, Mean] = field(default_factory=dict)

    def estimate(
        self,
        application: str,
        *,
        prompt_length: int | None,
        client_kvtt: float | None = None,
        model_kvtt: float | None = None,
        model_version: str = "",
        fallback_kvtt: float | None = None,
    ) -> Estimate:
        """Take the first step of the ladder that holds.

        ``prompt_length`` is in whatever unit the pool uses throughout (characters or tokens); None
        where nobody knows it. An answer that is not finite or not positive is passed over; that
        tells a client of its mistake nowhere, so whoever takes the claim calls
        ``require_cost_kvtt`` first.
        """
        if client_kvtt is not None and is_usable_cost(client_kvtt):
            return self._made(client_kvtt, Source.CLIENT)
        if model_kvtt is not None and is_usable_cost(model_kvtt):
            return self._made(model_kvtt, Source.MODEL, model_version)
        own = self._by_application.get(application)
        if own is not None:
            return self._made(own.value_kvtt, Source.HISTORY)
        peers = None if prompt_length is None else self._by_length.get(_bucket(prompt_length))
        if peers is not None and peers.count >= MIN_PEER_RUNS:
            return self._made(peers.value_kvtt, Source.POOL)
        if fallback_kvtt is not None and is_usable_cost(fallback_kvtt):
            return self._made(fallback_kvtt, Source.DEFAULT)
        return self._made(self.default_cost_kvtt, Source.DEFAULT)

    def learn(
        self, application: str, *, prompt_length: int | None, cost_kvtt: int
    ) -> Estimate | None:
        """Count the true cost of a finished run (rule K1).

        Returns what open runs of the application are to be taken to cost from now on, unless
        somebody knows them better (rule E2): with its first finished run, and whenever their number
        has doubled. Remembers at most ``max_applications`` of them, the ones seen last.
        """
        own = use(self._by_application, application, Mean(), most=self.max_applications)
        own.add(cost_kvtt)
        if prompt_length is not None:
            self._by_length.setdefault(_bucket(prompt_length), Mean()).add(cost_kvtt)
        is_news = own.count & (own.count - 1) == 0
        return self._made(own.value_kvtt, Source.HISTORY) if is_news else None

    def forget(self, application: str) -> None:
        """Drop what an application taught: it is gone."""
        self._by_application.pop(application, None)

    def history(self) -> tuple[Mapping[str, tuple[int, int]], Mapping[int, tuple[int, int]]]:
        """Freeze (count, total) by application and by prompt length class, to be stored."""
        return (
            {name: (m.count, m.total_kvtt) for name, m in self._by_application.items()},
            {size: (m.count, m.total_kvtt) for size, m in self._by_length.items()},
        )

    def restore(
        self,
        by_application: Mapping[str, tuple[int, int]],
        by_length: Mapping[int, tuple[int, int]],
    ) -> None:
        """Put back what ``history`` froze."""
        self._by_application = OrderedDict((k, Mean(*v)) for k, v in by_application.items())
        self._by_length = {k: Mean(*v) for k, v in by_length.items()}

    def _made(self, value: float, source: Source, version: str = "") -> Estimate:
        cost = clamp_cost_kvtt(value, max_cost_kvtt=self.max_cost_kvtt)
        return Estimate(cost, source, version)


def _bucket(prompt_length: int) -> int:
    """Class of a prompt length: its number of binary digits, so each class spans a factor of 2."""
    return prompt_length.bit_length()
