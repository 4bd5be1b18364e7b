"""Every Prometheus metric of the service: names, units, help texts, and the calls that move them.

A call here never raises into the path that it measures: what goes wrong is counted in
``justitia_metric_errors_total``. Application labels are only ever those of declared applications
and of the default one (the callers see to it), and go with the application.
"""

import functools
import math
from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, Concatenate, Final, ParamSpec, cast

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram

from justitia_scheduler.objectives import MIN_RUNS, PERCENT, WINDOW_S

if TYPE_CHECKING:
    from prometheus_client.metrics import MetricWrapperBase

P = ParamSpec("P")

_RUN_S: Final = (0.1, 0.25, 0.5, 1, 2.5, 5, 10, 25, 50, 100, 250, 500, 1000, 2500, 5000)
_FAST_S: Final = (1e-5, 3e-5, 1e-4, 3e-4, 1e-3, 3e-3, 0.01, 0.03, 0.1, 0.3, 1)
#: For quantiles on dashboards; whether an objective is met is decided on the ratios themselves.
_RATIO: Final = (
    *(0.1, 0.25, 0.5, 0.75, 0.9, 1.0, 1.1, 1.25, 1.5, 1.75, 2, 2.5),
    *(3, 4, 5, 7.5, 10, 15, 20, 50, 100),
)
_ERROR: Final = (0.05, 0.1, 0.2, 0.3, 0.5, 0.75, 1, 2, 5, 10, 100)

#: A run that has got this many times its estimate is counted, once.
UNDERESTIMATED: Final = 10

BOUND_HELP: Final = (
    "Runs that finished later than rule D1 allows: JCT > reference JCT + 2 x the longest single"
    " inference + the largest run alone. Both terms are estimates from what this process has seen"
    " in the last half hour to hour: the longest time in which any finished inference was computed,"
    " and the largest true cost of any finished run over the mean rate at which the pool delivered"
    " useful service while it was busy."
)


def _safe(
    method: Callable[Concatenate["Metrics", P], None],
) -> Callable[Concatenate["Metrics", P], None]:
    @functools.wraps(method)
    def wrapper(self: "Metrics", *args: P.args, **kwargs: P.kwargs) -> None:
        try:
            method(self, *args, **kwargs)
        except Exception:  # noqa: BLE001  a metric must never break what it measures
            self.errors.inc()

    return cast("Callable[Concatenate[Metrics, P], None]", wrapper)


class Metrics:
    """All metrics on a registry of their own. Called from the event loop alone."""

    def __init__(self) -> None:
        self.registry = CollectorRegistry()
        self._of_applications: list[MetricWrapperBase] = []
        self._of_pools: list[Counter] = []
        self._make_run_metrics()
        self._make_pool_metrics()
        self._make_engine_metrics()
        self._make_service_metrics()

    # -- what there is -----------------------------------------------------------------------------

    def _make_run_metrics(self) -> None:
        self.started = self._counter("runs_started", "Runs opened", by_application=True)
        self.ended = self._counter("runs_ended", "Runs closed", "reason", by_application=True)
        self.open = self._gauge(
            "open_runs", "Open runs: idle, waiting or running (active = waiting + running)", "state"
        )
        self.jct = self._histogram("run_jct_seconds", "Job completion time of runs", _RUN_S)
        self.reference = self._histogram(
            "run_reference_jct_seconds",
            "Completion time under ideal weighted fair sharing (rule R1)",
            _RUN_S,
        )
        self.ratio = self._histogram(
            "fairness_ratio", "JCT over reference JCT, dimensionless (rule R1)", _RATIO
        )
        self.recent_ratio = self._gauge(
            "fairness_recent_p90_ratio",
            f"{PERCENT}th percentile of the fairness ratios of runs settled in the last"
            f" {WINDOW_S / 60:.0f} minutes; absent with fewer than {MIN_RUNS} of them",
        )
        self.objective = self._gauge(
            "fairness_objective_ratio",
            "Largest fairness ratio that meets the application's objective; absent without one",
        )
        self.objective_met = self._gauge(
            "fairness_objective_met",
            "0 once justitia_fairness_recent_p90_ratio has been above the objective for its time,"
            " else 1; absent without an objective or with too few runs",
        )
        self.queue_wait = self._histogram(
            "queue_wait_seconds",
            "From the arrival of an inference to its first admission",
            _RUN_S,
        )
        self.delivered = self._counter(
            "delivered_kvtt",
            "KV token-time delivered, useful or wasted",
            "kind",
            by_application=True,
        )
        self.estimates = self._counter(
            "estimates",
            "Estimates of runs' costs by where they come from",
            "source",
            by_application=True,
        )
        self.underestimated = self._counter(
            "underestimated_runs",
            f"Runs that got more than {UNDERESTIMATED} times their estimate: until rule K2"
            " raised them they had the place in the order that it gave them",
            by_application=True,
        )
        self.prediction_error = self._histogram(
            "prediction_relative_error_ratio",
            "|estimate - true cost| / true cost of ended runs",
            _ERROR,
        )
        self.learned_error = self._histogram(
            "learned_relative_error_ratio",
            "|cost that a run was last taken for - true cost| / true cost of ended runs: below"
            " justitia_prediction_relative_error_ratio where runs teach their cost (rule K2)",
            _ERROR,
        )
        self.reestimates = self._counter(
            "run_reestimates",
            "Times that a run's virtual finish moved for what it has shown itself (rule K2), or for"
            " what ended runs of its application have cost (rule E2)",
            by_application=True,
        )
        self._make_model_metrics()

    def _make_model_metrics(self) -> None:
        self.model_info = self._gauge("model_info", "1 for the active model", "version")
        self.model_error = self._gauge(
            "model_relative_error_ratio",
            "Mean relative error of the active model: 'expected' by training, 'recent' on the last"
            " runs that it gave the first estimate for (20 to 100 of them; absent with fewer)",
            "kind",
        )
        self.published = self._counter(
            "models_published",
            "Models that came in sound, 'activated' or only 'stored'",
            "verdict",
            by_application=True,
        )

    def _make_pool_metrics(self) -> None:
        self.applications = self._pool_gauge("applications", "Declared applications")
        self.virtual_time = Gauge(
            "justitia_virtual_time_kvtt",
            "V, in kvtt per unit of weight",
            ["pool"],
            registry=self.registry,
        )
        self.fluid_weight = self._pool_gauge(
            "fluid_weight", "Sum of the weights active in the fluid system, W"
        )
        self.surplus = self._pool_gauge(
            "surplus_kvtt", "Service delivered while the fluid system was empty"
        )
        self.bound_violations = self._pool_counter("bound_violations", BOUND_HELP)
        self.unidentified = self._pool_counter(
            "unidentified_inferences", "Inferences that carried no identity"
        )
        self.malformed = self._pool_counter(
            "malformed_identities", "Inferences whose identity was malformed"
        )
        self.unknown_applications = self._pool_counter(
            "unknown_application_runs", "Runs of undeclared applications, served in the default one"
        )
        self.over_limit = self._pool_counter(
            "over_limit_runs", "Runs beyond maxConcurrent, served in the default application"
        )
        self.refused_runs = self._pool_counter(
            "refused_runs", "Runs not opened since the pool holds its largest number of open runs"
        )
        self.dropped = self._pool_counter(
            "dropped_items", "Items of engines' messages that were dropped as invalid", "kind"
        )
        self.samples_dropped = self._pool_counter(
            "samples_without_prompt",
            "Runs whose prompt was not kept for training, since those of open runs, or of runs that"
            " wait for a disk that refuses, took too many bytes",
        )
        self.samples_lost = self._pool_counter(
            "samples_lost",
            "Finished runs that were not recorded, since too many waited for a disk that refuses",
        )
        self.tag_latency = Histogram(
            "justitia_tag_latency_seconds",
            "From a decision on a run's tag to its hand-over to an engine's stream",
            ["pool"],
            buckets=_FAST_S,
            registry=self.registry,
        )

    def _make_engine_metrics(self) -> None:
        engine = functools.partial(self._pool_gauge, labels=("engine",))
        self.engine_up = engine("engine_up", "1 while the engine's session lives, 0 after it left")
        self.kv_capacity = engine("engine_kv_capacity_tokens", "KV cache of the engine")
        self.kv_used = engine("engine_kv_used_tokens", "KV cache in use")
        self.engine_waiting = engine(
            "engine_waiting_inferences", "Inferences that wait in the engine"
        )
        self.engine_running = engine(
            "engine_running_inferences", "Inferences that the engine computes"
        )
        self.tag_delay = engine(
            "engine_tag_delay_seconds",
            "From a tag's arrival in the engine to its use, largest of the last report",
        )
        self.preemptions = self._pool_counter("engine_preemptions", "Preemptions", "engine")
        self.steps = self._pool_counter("engine_steps", "Engine steps", "engine")

    def _make_service_metrics(self) -> None:
        registry = self.registry
        self.errors = Counter(
            "justitia_metric_errors", "Calls that moved a metric and failed", registry=registry
        )
        self.decisions = Histogram(
            "justitia_decision_seconds",
            "Time that one decision held the event loop",
            ["call"],
            buckets=_FAST_S,
            registry=registry,
        )
        self.calls = Counter(
            "justitia_refused_calls", "Calls that were refused", ["outcome"], registry=registry
        )
        self.predictions = Histogram(
            "justitia_prediction_seconds",
            "Time that a call waited for a prediction",
            buckets=_FAST_S,
            registry=registry,
        )
        self.missed_predictions = Counter(
            "justitia_missed_predictions",
            "Predictions not in time or failed",
            registry=registry,
        )
        self.journal_errors = Counter(
            "justitia_journal_errors", "Commits that failed", registry=registry
        )
        self.journal_healthy = Gauge(
            "justitia_journal_healthy", "1 while the last commit worked", registry=registry
        )
        self.journal_commit = Histogram(
            "justitia_journal_commit_seconds",
            "Time of a commit",
            buckets=_FAST_S,
            registry=registry,
        )
        self.journal_healthy.set(1)

    def _labels(self, labels: Iterable[str], *, by_application: bool) -> list[str]:
        return ["pool", *(["application"] if by_application else []), *labels]

    def _counter(self, name: str, text: str, *labels: str, by_application: bool) -> Counter:
        names = self._labels(labels, by_application=by_application)
        metric = Counter(f"justitia_{name}", text, names, registry=self.registry)
        self._of_applications.append(metric)
        return metric

    def _gauge(self, name: str, text: str, *labels: str) -> Gauge:
        names = self._labels(labels, by_application=True)
        metric = Gauge(f"justitia_{name}", text, names, registry=self.registry)
        self._of_applications.append(metric)
        return metric

    def _histogram(self, name: str, text: str, buckets: tuple[float, ...]) -> Histogram:
        metric = Histogram(
            f"justitia_{name}",
            text,
            ["pool", "application"],
            buckets=buckets,
            registry=self.registry,
        )
        self._of_applications.append(metric)
        return metric

    def _pool_gauge(self, name: str, text: str, labels: tuple[str, ...] = ()) -> Gauge:
        return Gauge(f"justitia_{name}", text, ["pool", *labels], registry=self.registry)

    def _pool_counter(self, name: str, text: str, *labels: str) -> Counter:
        counter = Counter(f"justitia_{name}", text, ["pool", *labels], registry=self.registry)
        if not labels:
            self._of_pools.append(counter)
        return counter

    # -- how it moves ------------------------------------------------------------------------------

    @_safe
    def count(self, counter: Counter, *labels: str, by: float = 1) -> None:
        """Add to a counter."""
        (counter.labels(*labels) if labels else counter).inc(by)

    @_safe
    def show(self, gauge: Gauge, *labels: str, value: float) -> None:
        """Set a gauge; what is not a finite number is not shown."""
        if math.isfinite(value):
            (gauge.labels(*labels) if labels else gauge).set(value)

    @_safe
    def show_or_hide(self, gauge: Gauge, *labels: str, value: float | None) -> None:
        """Set a gauge with labels, or remove its series where there is no value."""
        if value is None:
            gauge.remove(*labels)
        else:
            gauge.labels(*labels).set(value)

    @_safe
    def begin_pool(self, pool: str) -> None:
        """Show a pool's counters from 0 on: one that appears with 1 hides its first event."""
        for counter in self._of_pools:
            counter.labels(pool)

    @_safe
    def observe(self, histogram: Histogram, *labels: str, value: float) -> None:
        """Add to a histogram; what is not a finite number >= 0 is an error of ours and counted."""
        if not (math.isfinite(value) and value >= 0):
            raise ValueError(value)
        (histogram.labels(*labels) if labels else histogram).observe(value)

    @_safe
    def journal_committed(self, duration_s: float) -> None:
        """Note a commit that worked."""
        self.journal_commit.observe(duration_s)

    @_safe
    def journal_failed(self) -> None:
        """Note a commit that failed."""
        self.journal_errors.inc()

    @_safe
    def journal_health(self, *, is_healthy: bool) -> None:
        """Say whether the last commit worked."""
        self.journal_healthy.set(is_healthy)

    @_safe
    def forget_application(self, pool: str, application: str) -> None:
        """Remove every series of an application that is gone."""
        for metric in self._of_applications:
            metric.remove_by_labels({"pool": pool, "application": application})

    @_safe
    def forget_engine(self, pool: str, engine_id: str) -> None:
        """Remove every series of an engine that left long ago."""
        labels = {"pool": pool, "engine": engine_id}
        gauges = (
            self.engine_up,
            self.kv_capacity,
            self.kv_used,
            self.engine_waiting,
            self.engine_running,
            self.tag_delay,
        )
        for metric in (*gauges, self.preemptions, self.steps):
            metric.remove_by_labels(labels)
