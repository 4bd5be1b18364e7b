"""The whole product on the cluster, in the order in which a user meets it.

One release serves all tests of this file; each leaves it as it found it.
"""

import json
from pathlib import Path

import pytest
from kube.cluster import Cluster
from kube.daemon import wait_until
from kube.environment import environment_objects
from kube.errors import CommandError
from kube.gpus import GPU_RESOURCE
from kube.images import build_images
from kube.release import POOL, RELEASE, Release

from justitia.local.tiny_model import ensure_tiny_model

ROOT = Path(__file__).parents[2]
EXAMPLES = ROOT / "examples" / "applications"
DEFINITIONS = ("crd/llmapplications.justitia.dev", "crd/predictorprofiles.justitia.dev")
AGENT = "e2e-agent"


@pytest.fixture(scope="module")
def images(cluster, progress, tmp_path_factory):
    """The product's images are on the node; on a cluster of yours, you have put them there."""
    if isinstance(cluster, Cluster):
        logs = tmp_path_factory.mktemp("images")
        sizes = build_images(cluster, log_folder=logs, progress=progress)
        progress(f"images: { ({name: f'{size >> 20} MiB' for name, size in sizes.items()}) }")
        cluster.commands.apply(*environment_objects())


@pytest.fixture(scope="module")
def release(request, cluster, namespace, tmp_path_factory):
    """The chart is installed with two engines, and a client stands ready."""
    request.getfixturevalue("images")
    folder = tmp_path_factory.mktemp("release")
    resource = ""
    if isinstance(cluster, Cluster):
        request.getfixturevalue("gpus")
        resource = GPU_RESOURCE
    release = Release(cluster.commands, namespace, resource, folder)
    # Another test file's definitions may still be on their way out.
    cluster.commands.kubectl("wait", "--for=delete", *DEFINITIONS, "--timeout=60s")
    release.put_model(ensure_tiny_model(folder, progress=lambda _: None))
    release.install()
    release.start_client()
    yield release
    cluster.commands.kubectl("delete", "--ignore-not-found", *DEFINITIONS, "--wait=false")


@pytest.fixture(scope="module")
def agent(release):
    """An application whose runs end two seconds after their last inference, and its profile."""
    profile = {
        "apiVersion": "justitia.dev/v1alpha1",
        "kind": "PredictorProfile",
        "metadata": {"name": AGENT},
        "spec": {"training": {"minSamples": 20}},
    }
    manifest = {
        "apiVersion": "justitia.dev/v1alpha1",
        "kind": "LLMApplication",
        "metadata": {"name": AGENT},
        "spec": {
            "run": {"idleTimeout": "2s"},
            "predictor": {"profileRef": {"name": AGENT}},
        },
    }
    for made in (profile, manifest):
        release.kubectl("apply", "-f", "-", text=json.dumps(made))
    release.kubectl("wait", "--for=condition=Ready", f"llmapp/{AGENT}", "--timeout=30s")
    return AGENT


def status(release, name):
    return release.application(name).get("status", {})


def completed(release, name):
    return status(release, name).get("runs", {}).get("completed", 0)


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
    before = completed(release, agent)

    tokens = release.serve_runs(agent, prefix="first", num_runs=24)

    assert tokens == [32] * 24
    wait_until(
        "24 more runs are completed",
        lambda: completed(release, agent) == before + 24,
        timeout_s=60,
        period_s=1,
    )
    assert status(release, agent)["jctSeconds"]["mean"] is not None


def test_a_training_job_runs_and_its_model_becomes_active(release, agent):
    release.kubectl("wait", "--for=condition=PredictorReady", f"llmapp/{agent}", "--timeout=300s")

    found = status(release, agent)
    assert found["prediction"]["modelVersion"]
    jobs = json.loads(release.kubectl("get", "jobs", "-o", "json"))["items"]
    assert any(job["status"].get("succeeded") for job in jobs)


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
        conditions = {each["type"]: each for each in status(release, agent)["conditions"]}
        ready = conditions["Ready"]
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
    before = completed(release, agent)

    release.install(operator={"resyncSeconds": 15, "figuresSeconds": 5})

    release.kubectl("wait", "--for=condition=Ready", f"llmapp/{agent}", "--timeout=60s")
    assert completed(release, agent) >= before
    assert status(release, agent)["prediction"]["modelVersion"]


def test_uninstall_leaves_what_keep_says_and_nothing_else(release):
    release.kubectl("delete", "llmapp,predprof", "--all", "--timeout=30s")

    release.commands.helm("uninstall", RELEASE, "--namespace", release.namespace, "--wait")

    def left():
        listed = release.kubectl(
            *("get", "all,pvc,secret,configmap,role,rolebinding,networkpolicy,pdb,sa"),
            *("-l", "app.kubernetes.io/name=justitia", "-o", "name"),
        )
        return {name.split("/")[0] for name in listed.split()}

    kept = {"persistentvolumeclaim", "secret"}  # state, and the authority that clients trust
    wait_until("all else is gone", lambda: left() <= kept, timeout_s=120, period_s=1)
    assert "persistentvolumeclaim" in left()
    cluster_wide = release.commands.kubectl(
        *("get", "clusterrole,clusterrolebinding", "-o", "name"),
        *("-l", "app.kubernetes.io/instance=justitia"),
    )
    assert cluster_wide == ""
    assert "llmapplications" in release.commands.kubectl("get", "crd", "-o", "name")
