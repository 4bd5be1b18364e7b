"""The whole product on the cluster, in the order in which a user meets it.

One release serves all test files; each test leaves it as it found it.
"""

import json
from datetime import UTC, datetime
from pathlib import Path

import pytest
from kube.daemon import wait_until
from kube.errors import CommandError
from kube.release import POOL, RELEASE

ROOT = Path(__file__).parents[2]
EXAMPLES = ROOT / "examples" / "applications"


def test_the_release_passes_its_own_test(release):
    told = release.commands.helm("test", RELEASE, "--namespace", release.namespace)

    assert "Phase:          Succeeded" in told


@pytest.mark.usefixtures("release")
def test_engines_got_gpus_of_their_own_from_kubelet(gpus):
    one, other = gpus.allocations()[-2:]

    assert len(one) == len(other) == 1
    assert one != other


def test_pods_meet_the_restricted_pod_security_level(release):
    warnings = release.commands.kubectl(
        *("label", "--dry-run=server", "--overwrite", "namespace", release.namespace),
        "pod-security.kubernetes.io/enforce=restricted",
        with_warnings=True,
    )
    objections = [line for line in warnings.splitlines() if f"Warning: {RELEASE}-" in line]

    # The packages that the tests mount come from a host path; nothing else is objected to.
    assert all(line.endswith(": restricted volume types") for line in objections), warnings


def test_the_examples_become_ready(release):
    release.kubectl("apply", "-f", str(EXAMPLES))

    release.kubectl("wait", "--for=condition=Ready", "llmapp", "--all", "--timeout=60s")
    assert release.kubectl("get", "llmapp", "-o", "name").count("llmapplication") >= 9


def test_an_openai_client_in_a_pod_is_served_and_its_runs_are_counted(release, agent):
    before = release.completed(agent)

    tokens = release.serve_runs(agent, prefix="first", num_runs=24)

    assert tokens == [32] * 24
    wait_until(
        "24 more runs are completed",
        lambda: release.completed(agent) == before + 24,
        timeout_s=60,
        period_s=1,
    )
    assert release.status(agent)["jctSeconds"]["mean"] is not None


def test_a_training_job_runs_and_its_model_becomes_active(release, agent):
    collecting = release.condition(agent, "PredictorReady")
    assert collecting["reason"] == "CollectingSamples"  # headers alone bring no prompt
    release.serve_runs(agent, prefix="declared", num_runs=24, is_declared=True)

    release.kubectl("wait", "--for=condition=PredictorReady", f"llmapp/{agent}", "--timeout=300s")

    found = release.status(agent)
    assert found["prediction"]["modelVersion"]
    release.kubectl("wait", "--for=condition=Complete", "jobs", "--all", "--timeout=60s")


def test_a_training_can_be_asked_for(release, agent):
    before = release.kubectl("get", "jobs", "-o", "name").split()
    moment = datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
    asked = f"justitia.dev/training-requested-at={moment}"

    release.kubectl("annotate", "llmapp", agent, asked)

    def new_jobs():
        return set(release.kubectl("get", "jobs", "-o", "name").split()) - set(before)

    wait_until("there is another Job", new_jobs, timeout_s=60, period_s=1)
    (job,) = new_jobs()
    release.kubectl("wait", "--for=condition=Complete", job, "--timeout=120s")


def total(exposition, metric, **labels):
    """Sum of a metric's samples that carry the labels."""
    found = [
        line.rsplit(" ", 1)
        for line in exposition.splitlines()
        if line.startswith(f"{metric}{{")
        and all(f'{label}="{value}"' in line for label, value in labels.items())
    ]
    return sum(float(value) for _, value in found)


def test_metrics_move_with_the_runs(release, agent):
    labels = {"application": agent, "pool": f"{release.namespace}/{POOL}"}

    def runs():
        exposition = release.metrics(f"{RELEASE}-scheduler")
        return total(exposition, "justitia_runs_started_total", **labels)

    before = runs()
    release.serve_runs(agent, prefix="metrics", num_runs=5)

    assert runs() == before + 5
    told = release.metrics(f"{RELEASE}-operator")
    ready = {"kind": "LLMApplication", "name": agent, "type": "Ready", "status": "True"}
    assert total(told, "justitia_resource_condition", **ready) == 1


@pytest.mark.parametrize("component", ["operator", "scheduler", "engine"])
def test_a_killed_pod_comes_back_and_nobody_is_refused(release, agent, component):
    selector = f"app.kubernetes.io/component={component}"
    release.kubectl("delete", "pod", "-l", selector, "--grace-period=0", "--force", "--wait=false")
    if component != "engine":  # the data plane does not depend on it
        assert release.serve_runs(agent, prefix=f"without-{component}", num_runs=4) == [32] * 4
    for kind, name in json_names(release, selector):
        release.kubectl("rollout", "status", f"{kind}/{name}", "--timeout=300s")

    assert release.serve_runs(agent, prefix=f"after-{component}", num_runs=4) == [32] * 4
    ready = ("wait", "--for=condition=Ready", f"llmapp/{agent}", "--timeout=60s")
    release.kubectl(*ready)


def json_names(release, selector):
    listed = json.loads(release.kubectl("get", "deploy,statefulset", "-l", selector, "-o", "json"))
    return [(item["kind"], item["metadata"]["name"]) for item in listed["items"]]


def test_an_edit_is_in_force_and_status_says_for_which_generation(release, agent):
    patch = json.dumps({"spec": {"weight": "2500m"}})
    release.kubectl("patch", "llmapp", agent, "--type=merge", "-p", patch)
    generation = release.application(agent)["metadata"]["generation"]

    def is_observed():
        ready = release.condition(agent, "Ready")
        return ready["status"] == "True" and ready["observedGeneration"] == generation

    wait_until("the edit is observed", is_observed, timeout_s=30)


def declared(release):
    """How many applications the scheduler service knows."""
    return total(release.metrics(f"{RELEASE}-scheduler"), "justitia_applications")


def test_a_deleted_application_goes_at_once_also_while_the_operator_is_away(release):
    release.kubectl("apply", "-f", str(EXAMPLES))
    release.kubectl("wait", "--for=condition=Ready", "llmapp", "--all", "--timeout=60s")
    before = declared(release)
    operator = f"deployment/{RELEASE}-operator"
    release.kubectl("scale", operator, "--replicas=0")
    gone = ("wait", "--for=delete", "pod", "-l", "app.kubernetes.io/component=operator")
    release.kubectl(*gone, "--timeout=60s")
    try:
        release.kubectl("delete", "-f", str(EXAMPLES), "--timeout=20s")
        assert declared(release) == before
    finally:
        release.kubectl("scale", operator, "--replicas=1")
    release.kubectl("rollout", "status", operator, "--timeout=120s")

    applications = len(list(EXAMPLES.glob("*.yaml"))) - 1  # one is the profile
    wait_until("nine are gone", lambda: declared(release) == before - applications, timeout_s=60)


def test_a_bad_edit_is_refused_and_changes_nothing(release, agent):
    patch = json.dumps({"spec": {"weight": 0}})

    with pytest.raises(CommandError, match="must be a quantity greater than 0"):
        release.kubectl("patch", "llmapp", agent, "--type=merge", "-p", patch)


def test_an_upgrade_keeps_state(release, agent):
    before = release.completed(agent)

    release.install(operator={"resyncSeconds": 15, "figuresSeconds": 5})

    release.kubectl("wait", "--for=condition=Ready", f"llmapp/{agent}", "--timeout=60s")
    assert release.completed(agent) >= before
    assert release.status(agent)["prediction"]["modelVersion"]
