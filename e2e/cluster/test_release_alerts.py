"""A real Prometheus scrapes the release, and its alerts tell what is the case."""

import json
import random

import pytest
from kube.cluster import Cluster
from kube.daemon import wait_until
from kube.prometheus import PUBLIC_IMAGE, Prometheus, load_own_image
from kube.release import POOL, RELEASE, Run

ALERT = "JustitiaFairnessObjectiveMissed"
MOUSE, ELEPHANT = "mouse", "elephant"
MAX_RATIO = 5
NUM_MICE = 16
NUM_KNOWN = 6


@pytest.fixture(scope="module")
def prometheus(cluster, release, progress):
    own = isinstance(cluster, Cluster)
    image = load_own_image(cluster, progress=progress) if own else PUBLIC_IMAGE
    prometheus = Prometheus(release, image)
    prometheus.start()
    return prometheus


@pytest.fixture(scope="module")
def applications(release):
    """Two that share the pool; one is promised something."""
    promise = {"objective": {"maxRatio": MAX_RATIO, "for": "0s"}}

    def are_known():
        return all(release.completed(name) >= NUM_KNOWN for name in (MOUSE, ELEPHANT))

    for name, more in ((MOUSE, {"fairness": promise}), (ELEPHANT, {})):
        manifest = {
            "apiVersion": "justitia.dev/v1alpha1",
            "kind": "LLMApplication",
            "metadata": {"name": name},
            "spec": {"run": {"idleTimeout": "2s"}, **more},
        }
        release.kubectl("apply", "-f", "-", text=json.dumps(manifest))
    both = (f"llmapp/{MOUSE}", f"llmapp/{ELEPHANT}")
    release.kubectl("wait", "--for=condition=Ready", *both, "--timeout=30s")
    release.play(list(a_few_of_both()))
    wait_until("their usual cost is known", are_known, timeout_s=60, period_s=1)
    yield
    release.kubectl("delete", *both)


def elephant(name, lengths, start_s=0.0):
    return Run(
        application=ELEPHANT,
        id=name,
        prompt=f"{name} " * 25,  # of its own: what runs share, the cache holds once
        inferences=[lengths.randint(128, 640) for _ in range(2)],
        start_s=start_s,
    )


def mouse(name, start_s=0.0):
    return Run(application=MOUSE, id=name, prompt=name, inferences=(16, 16), start_s=start_s)


def a_few_of_both():
    """What it takes to know what runs of both usually cost (rule E1)."""
    lengths = random.Random(0)
    yield from (mouse(f"known-mouse-{number}") for number in range(NUM_KNOWN))
    yield from (elephant(f"known-elephant-{number}", lengths) for number in range(NUM_KNOWN))


def elephants_and_mice(prefix):
    """More than the cache can hold of one application, and small runs of another in between."""
    lengths = random.Random(1)
    for number in range(120):
        yield elephant(f"{prefix}-elephant-{number}", lengths, start_s=lengths.uniform(0, 5))
    for number in range(NUM_MICE):
        yield mouse(f"{prefix}-mouse-{number}", start_s=8 + 1.5 * number)


def mouse_ratio(prometheus):
    """The number that the objective is compared with; None as long as nothing is known."""
    found = prometheus.query(f'justitia_fairness_recent_p90_ratio{{application="{MOUSE}"}}')
    return float(found[0]["value"][1]) if found else None


def test_all_targets_are_scraped_and_all_rules_evaluated(prometheus):
    def is_scraped():
        health = prometheus.targets()
        names = {name.removeprefix(f"{RELEASE}-").split("-")[0] for name in health}
        return names == {"scheduler", "operator"} and set(health.values()) == {"up"}

    wait_until("both are scraped", is_scraped, timeout_s=60, period_s=1)

    def unhealthy():
        return [rule["name"] for rule in prometheus.rules() if rule["health"] != "ok"]

    wait_until("all rules are evaluated", lambda: not unhealthy(), timeout_s=30, period_s=1)
    assert ALERT in {rule["name"] for rule in prometheus.rules()}

    def engines_up():
        found = prometheus.query(f'justitia:engines_up:count{{pool="{release_pool(prometheus)}"}}')
        return [each["value"][1] for each in found]

    # A rule that was evaluated before the first scrape is healthy and has recorded nothing.
    wait_until("both engines are counted", lambda: engines_up() == ["2"], timeout_s=30, period_s=1)


def release_pool(prometheus):
    return f"{prometheus.namespace}/{POOL}"


@pytest.mark.usefixtures("applications")
def test_the_alert_is_silent_while_runs_are_served_fairly(release, prometheus, progress):
    release.play(list(elephants_and_mice("fair")))

    wait_until("it is judged", lambda: mouse_ratio(prometheus), timeout_s=60, period_s=1)
    progress(f"p90 of the small runs' fairness ratio under justitia: {mouse_ratio(prometheus):.2f}")
    assert mouse_ratio(prometheus) <= MAX_RATIO
    assert prometheus.firing(ALERT) == []


@pytest.mark.usefixtures("applications")
def test_the_alert_fires_when_the_pool_serves_unfairly(release, prometheus, progress):
    release.install(policy="fcfs")

    release.play(list(elephants_and_mice("unfair")))

    wait_until("the alert fires", lambda: prometheus.firing(ALERT), timeout_s=90, period_s=1)
    progress(f"p90 of the small runs' fairness ratio with fcfs: {mouse_ratio(prometheus):.2f}")
    (labels,) = prometheus.firing(ALERT)
    assert labels["application"] == MOUSE
    assert labels["pool"] == release_pool(prometheus)
    assert labels["severity"] == "warning"

    def is_told():
        return release.condition(MOUSE, "FairnessObjectiveMet").get("status") == "False"

    wait_until("the condition says the same", is_told, timeout_s=60, period_s=1)
