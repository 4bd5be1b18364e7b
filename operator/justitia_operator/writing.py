"""Writes statuses and events: only when something changed, figures not more often than allowed."""

import hashlib
from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime
from typing import Final

import structlog

from justitia_operator import conditions
from justitia_operator.apply import Cluster, ClusterError
from justitia_operator.events import Event, build_events
from justitia_operator.facts import ApplicationFacts, Kind, Meta, ProfileFacts
from justitia_operator.manifests import build_event
from justitia_operator.metrics import Metrics
from justitia_operator.status import Status, Urgency, compare

_HASH_CHARS: Final = 12
_TIME_FORMAT: Final = "%Y-%m-%dT%H:%M:%SZ"

_log = structlog.get_logger()


@dataclass(frozen=True, kw_only=True, slots=True)
class Clock:
    """Both clocks: the wall's for what people read, the other one for intervals in seconds."""

    now: Callable[[], datetime]
    now_s: Callable[[], float]

    def text(self) -> str:
        """Write the present time as the API server does."""
        return self.now().strftime(_TIME_FORMAT)


class Writer:
    """Owns the API server's view of our resources. ``figures_s``: see ``settings``."""

    def __init__(
        self, cluster: Cluster, metrics: Metrics, clock: Clock, *, figures_s: float
    ) -> None:
        self._cluster = cluster
        self._metrics = metrics
        self._clock = clock
        self._figures_s = figures_s
        self._written_s: dict[str, float] = {}

    def forget(self, uid: str) -> None:
        """Forget an object that is gone."""
        self._written_s.pop(uid, None)

    async def write(
        self, kind: Kind, facts: ApplicationFacts | ProfileFacts, status: Status
    ) -> float:
        """Write a status if it is time; returns the seconds until it will be, 0: no need.

        Raises:
            ClusterError: the API server did not take it.
        """
        meta = facts.meta
        merged = tuple(c for c in map(conditions.from_body, status["conditions"]) if c is not None)
        self._metrics.conditions.show(kind, meta.key, merged)
        urgency = compare(facts.status, status)
        if urgency is Urgency.NOT:
            return 0.0
        left_s = self._left_s(meta.uid)
        if urgency is Urgency.LATER and left_s > 0:
            return left_s
        try:
            await self._cluster.apply_status(kind, meta, status)
        except ClusterError as error:
            if error.is_gone:
                return 0.0  # the object that comes after it is looked at by itself
            raise
        self._written_s[meta.uid] = self._clock.now_s()
        self._metrics.status_writes.labels(kind.value).inc()
        for event in build_events(facts.conditions, merged):
            await self.post(kind, meta, event)
        return 0.0

    def _left_s(self, uid: str) -> float:
        # After a restart nothing is known of the last write: it counts as one of just now.
        now_s = self._clock.now_s()
        return self._written_s.setdefault(uid, now_s) + self._figures_s - now_s

    async def post(self, kind: Kind, meta: Meta, event: Event) -> None:
        """Post an event; that it could not be is no reason to do the rest again."""
        identity = f"{meta.uid}/{event.reason}/{event.since}"
        digest = hashlib.sha256(identity.encode()).hexdigest()[:_HASH_CHARS]
        name = f"{meta.key.name}.{digest}"
        body = build_event(event, kind, meta, name=name, now=self._clock.now())
        try:
            await self._cluster.post_event(body)
        except ClusterError as error:
            self._metrics.cluster_errors.labels(str(error.status)).inc()
            _log.warning("an event was not posted", reason=event.reason, error=str(error))
        else:
            self._metrics.events.labels(event.reason).inc()
