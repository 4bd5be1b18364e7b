"""The chart's monitors and rules, taken by the real prometheus-operator for a Prometheus 3."""

import json
from collections import Counter
from pathlib import Path

import pytest
import yaml
from kube.daemon import wait_until
from kube.neighbours import PROMETHEUS_OPERATOR, definitions
from kube.operated_prometheus import SELECTED_LABELS, OperatedPrometheus
from kube.release import POOL, RELEASE

ROOT = Path(__file__).parents[3]
RUNBOOKS = "https://runbooks.example"
APPLICATION = "watched"
OBSERVED_S = 60.0


@pytest.fixture(scope="module", autouse=True)
def monitoring_definitions(own_cluster, progress):
    """There before the release and after it: Helm must know the kinds that it removes."""
    with definitions(PROMETHEUS_OPERATOR, own_cluster.commands, progress=progress):
        yield


@pytest.fixture(scope="module")
def prometheus(own_cluster, release, other_namespace, progress):
    """A Prometheus that was there before the release, which now has two engines."""
    with OperatedPrometheus(own_cluster, release, other_namespace, progress=progress) as made:
        with own_cluster.phase("install with monitors"):
            release.install(**monitored_values())
        release.start_client()
        release.kubectl("apply", "-f", "-", text=json.dumps(application()))
        release.kubectl("wait", "--for=condition=Ready", f"llmapp/{APPLICATION}", "--timeout=30s")
        yield made


def monitored_values():
    monitor = {"enabled": True, "labels": SELECTED_LABELS, "interval": "2s"}
    at_once = {"for": "0s", "labels": {"page": "nobody"}}
    alerts = ("JustitiaPoolWithoutEngines", "JustitiaSchedulerDown", "JustitiaSchedulerUnreachable")
    return {
        "metrics": {"serviceMonitor": monitor, "podMonitor": monitor},
        "prometheusRule": {**monitor, "runbookBaseUrl": RUNBOOKS},
        "alerts": dict.fromkeys(alerts, at_once),
    }


def application():
    return {
        "apiVersion": "justitia.dev/v1alpha1",
        "kind": "LLMApplication",
        "metadata": {"name": APPLICATION},
        "spec": {"run": {"idleTimeout": "2s"}},
    }


def installation(release):
    return f"{release.namespace}/{RELEASE}"


def pool_key(release):
    return f"{release.namespace}/{POOL}"


def test_every_process_is_scraped_once_and_well(prometheus, release):
    def healths():
        return Counter(
            (target["labels"]["container"], target["health"]) for target in prometheus.scraped()
        )

    wanted = {("scheduler", "up"): 1, ("operator", "up"): 1, ("vllm", "up"): 2}
    wait_until("all are scraped", lambda: healths() == wanted, timeout_s=OBSERVED_S * 2, period_s=1)

    for target in prometheus.scraped():
        assert target["lastError"] == ""
        assert target["scrapeInterval"] == "2s"
        assert target["labels"]["namespace"] == release.namespace
        is_engine = target["labels"]["container"] == "vllm"
        assert target["scrapePool"].startswith("podMonitor/" if is_engine else "serviceMonitor/")
        assert target["labels"].get("justitia_dev_pool") == (POOL if is_engine else None)


def test_the_engines_own_metrics_carry_their_pool(prometheus):
    running = f'vllm:num_requests_running{{justitia_dev_pool="{POOL}"}}'

    wait_until("two engines tell", lambda: len(prometheus.query(running)) == 2, timeout_s=30)


def test_all_rules_of_the_chart_are_evaluated(prometheus):
    file = yaml.safe_load((ROOT / "charts" / "justitia" / "files" / "alerts.yaml").read_text())
    wanted = {*file["alerts"], *(each["record"] for each in file["recordings"])}

    def healths():
        return {
            rule["name"]: (rule["health"], rule.get("lastError")) for rule in prometheus.rules()
        }

    well = dict.fromkeys(wanted, ("ok", None))
    wait_until(
        "all rules are evaluated", lambda: healths() == well, timeout_s=OBSERVED_S, period_s=1
    )


def test_every_recording_yields_series_of_this_installation(prometheus, release):
    names = [rule["name"] for rule in prometheus.rules() if rule["type"] == "recording"]
    assert len(names) == 5
    before = 0

    def without_series():
        nonlocal before
        before += 1  # what an increase is made of: runs that end between two scrapes
        release.serve_runs(APPLICATION, prefix=f"watched-{before}", num_runs=4)
        selector = f'{{installation="{installation(release)}"}}'
        return [name for name in names if not prometheus.query(f"{name}{selector}")]

    wait_until("all have some", lambda: not without_series(), timeout_s=90, period_s=3)
    (engines,) = prometheus.query("justitia:engines_up:count")
    assert (engines["metric"]["pool"], engines["value"][1]) == (pool_key(release), "2")
    ready = f'justitia:resource_condition{{name="{APPLICATION}",type="Ready",status="True"}}'
    (condition,) = prometheus.query(ready)
    assert condition["metric"]["namespace"] == release.namespace
    assert condition["value"][1] == "1"


def test_nothing_is_told_while_all_is_well(prometheus):
    wait_evaluated(prometheus)
    told = [each for each in prometheus.query("ALERTS") if each["metric"]["severity"] == "critical"]

    assert told == []


@pytest.fixture
def scale(release):
    """``scale(KIND/NAME, replicas)``; the former numbers come back afterwards."""
    former = {}

    def to(target, replicas):
        count = release.kubectl("get", target, "-o", "jsonpath={.spec.replicas}")
        former.setdefault(target, count)
        release.kubectl("scale", target, f"--replicas={replicas}")

    yield to
    for target, count in former.items():
        release.kubectl("scale", target, f"--replicas={count}")
        release.kubectl("rollout", "status", target, "--timeout=300s")


def wait_firing(prometheus, name):
    """Wait for an alert; returns its one instance."""

    def is_firing():
        return [each["state"] for each in prometheus.alerts(name)] == ["firing"]

    wait_until(f"{name} fires", is_firing, timeout_s=OBSERVED_S, period_s=1)
    return prometheus.alerts(name)[0]


def wait_silent(prometheus, name):
    wait_until(
        f"{name} is over", lambda: not prometheus.alerts(name), timeout_s=OBSERVED_S, period_s=1
    )


def wait_evaluated(prometheus):
    """Wait until all rules have been evaluated with what Prometheus knows now."""

    def last():
        return {rule["name"]: rule["lastEvaluation"] for rule in prometheus.rules()}

    for _ in range(2):  # the first may have begun before
        before = last()
        wait_until(
            "all rules are evaluated again",
            lambda before=before: not before.items() & last().items(),
            timeout_s=OBSERVED_S,
            period_s=1,
        )


def test_a_missing_scheduler_is_told_and_its_consequences_are_not(prometheus, release, scale):
    name = "JustitiaSchedulerDown"
    scale(f"statefulset/{RELEASE}-scheduler", 0)

    alert = wait_firing(prometheus, name)
    assert alert["labels"] == {
        "alertname": name,
        "severity": "critical",
        "installation": installation(release),
        "namespace": release.namespace,  # of the target that is missed
        "page": "nobody",
    }
    assert alert["annotations"]["runbook_url"] == f"{RUNBOOKS}/{name}.md"
    assert installation(release) in alert["annotations"]["summary"]
    wait_until(
        "the operator has noticed",
        lambda: (
            [e["value"][1] for e in prometheus.query("justitia_operator_scheduler_up")] == ["0"]
        ),
        timeout_s=OBSERVED_S,
        period_s=1,
    )
    wait_evaluated(prometheus)
    for consequence in ("JustitiaSchedulerUnreachable", "JustitiaPoolWithoutEngines"):
        assert prometheus.alerts(consequence) == []

    scale(f"statefulset/{RELEASE}-scheduler", 1)
    wait_silent(prometheus, name)


def test_a_pool_that_lost_its_engines_is_told(prometheus, release, scale):
    name = "JustitiaPoolWithoutEngines"
    connected = "justitia:engines_up:count == 2"  # again, after a restart of the service
    wait_until("all is well", lambda: prometheus.query(connected), timeout_s=OBSERVED_S, period_s=1)
    wait_silent(prometheus, name)
    scale(f"deployment/{RELEASE}-{POOL}", 0)

    alert = wait_firing(prometheus, name)

    assert alert["labels"] == {
        "alertname": name,
        "severity": "critical",
        "installation": installation(release),
        "pool": pool_key(release),
        "page": "nobody",
    }
    assert alert["annotations"]["runbook_url"] == f"{RUNBOOKS}/{name}.md"
    assert pool_key(release) in alert["annotations"]["summary"]
