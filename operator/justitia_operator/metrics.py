"""Every Prometheus metric of the operator: names, units, help texts.

``justitia_resource_condition`` is made anew for each scrape from the conditions of the objects that
there are, so that no series outlives its object or its status.
"""

import functools
from collections.abc import Callable, Iterable, Iterator
from typing import Final

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram
from prometheus_client.core import GaugeMetricFamily
from prometheus_client.registry import Collector

from justitia_operator.facts import Condition, Key, Kind

_FAST_S: Final = (0.001, 0.003, 0.01, 0.03, 0.1, 0.3, 1, 3, 10, 30)


class ResourceConditions(Collector):
    """The conditions of all resources, as they were decided last."""

    def __init__(self) -> None:
        self._conditions: dict[tuple[Kind, Key], tuple[Condition, ...]] = {}

    def show(self, kind: Kind, key: Key, conditions: Iterable[Condition]) -> None:
        """Set an object's conditions."""
        self._conditions[kind, key] = tuple(conditions)

    def forget(self, kind: Kind, key: Key) -> None:
        """Remove those of an object that is gone."""
        self._conditions.pop((kind, key), None)

    def collect(self) -> Iterator[GaugeMetricFamily]:
        """Make the series of one scrape."""
        family = GaugeMetricFamily(
            "justitia_resource_condition",
            "1 for the present status (True, False or Unknown) of each condition of each resource",
            labels=["kind", "namespace", "name", "type", "status"],
        )
        for (kind, key), conditions in list(self._conditions.items()):
            for condition in conditions:
                labels = [kind.value, key.namespace, key.name, condition.type, condition.status]
                family.add_metric(labels, 1)
        yield family


class Metrics:
    """All metrics on a registry of their own."""

    def __init__(self) -> None:
        self.registry = CollectorRegistry()
        self.conditions = ResourceConditions()
        self.registry.register(self.conditions)
        self.reconciles = self._counter(
            "reconciles",
            "Looks at a resource; result: done, failed, or away (no service)",
            ["kind", "result"],
        )
        self.reconcile_time = Histogram(
            "justitia_operator_reconcile_seconds",
            "Time of one look at a resource, its calls included",
            ["kind"],
            buckets=_FAST_S,
            registry=self.registry,
        )
        self.status_writes = self._counter("status_writes", "Statuses written", ["kind"])
        self.programs = self._counter(
            "scheduler_writes", "Calls that changed what the scheduler service holds", ["method"]
        )
        self.events = self._counter("events", "Kubernetes events posted", ["reason"])
        self.training_jobs = self._counter("training_jobs", "Training Jobs created", ["trigger"])
        self.missed_changes = self._counter(
            "missed_changes", "Changes that a watch missed and a comparison found", ["kind"]
        )
        self.cluster_errors = self._counter(
            "cluster_errors", "Calls to the API server that failed; code 0: not reached", ["code"]
        )
        self.comparison_time = self._gauge(
            "last_comparison_timestamp_seconds",
            "When the last comparison with the API server and the service was complete",
        )
        self.scheduler_up = self._gauge("scheduler_up", "1 while the scheduler service answers")
        self.watch_deaf = self._gauge(
            "watch_deaf", "1 while a watch misses changes; liveness fails with it", ["kind"]
        )
        self.objects = self._gauge("objects", "Objects that are known by kind", ["kind"])
        self.queue_length = self._gauge("queue_length", "Resources that wait to be looked at")

    def _counter(self, name: str, text: str, labels: list[str]) -> Counter:
        return Counter(f"justitia_operator_{name}", text, labels, registry=self.registry)

    def _gauge(self, name: str, text: str, labels: list[str] | None = None) -> Gauge:
        return Gauge(f"justitia_operator_{name}", text, labels or [], registry=self.registry)

    def read_from(
        self,
        *,
        queue_length: Callable[[], float],
        objects: Callable[[Kind], float],
        is_deaf: Callable[[Kind], bool],
        is_scheduler_up: Callable[[], bool],
    ) -> None:
        """Read some gauges at each scrape instead of setting them."""
        self.queue_length.set_function(queue_length)
        self.scheduler_up.set_function(lambda: float(is_scheduler_up()))
        for kind in Kind:
            self.objects.labels(kind.value).set_function(functools.partial(objects, kind))
            self.watch_deaf.labels(kind.value).set_function(functools.partial(is_deaf, kind))
