"""Fixtures: a real Kubernetes for the whole session, or one that the caller names; a release."""

import contextlib
import json
import os
import secrets
import sys
from pathlib import Path

import pytest
from kube import existing
from kube.cluster import Cluster
from kube.environment import environment_objects
from kube.errors import NoClusterError
from kube.gpus import GPU_RESOURCE, Gpus
from kube.images import build_images
from kube.release import Release

from justitia.local.tiny_model import ensure_tiny_model

_AGENT = "e2e-agent"
_DEFINITIONS = ("crd/llmapplications.justitia.dev", "crd/predictorprofiles.justitia.dev")
_TIMINGS = pytest.StashKey()


def pytest_collection_modifyitems(items):
    here = Path(__file__).parent
    for item in items:
        if item.path.is_relative_to(here):
            item.add_marker(pytest.mark.e2e)


@pytest.fixture(scope="session")
def progress(request):
    """Tell a person at the terminal what takes so long; pytest's capture would hide it."""
    capture = request.config.pluginmanager.getplugin("capturemanager")

    def say(text):
        with capture.global_and_fixture_disabled():
            print(f"  {text}", file=sys.stderr, flush=True)

    return say


@pytest.fixture(scope="session")
def cluster(request, tmp_path_factory, progress):
    """The cluster under test, with ``commands``; skips where none can be had."""
    timings = request.config.stash.setdefault(_TIMINGS, {})
    try:
        if os.environ.get(existing.VARIABLE):
            theirs = existing.ExistingCluster(progress=progress)
            timings |= theirs.seconds_by_phase
            yield theirs
            return
        ours = Cluster(log_folder=tmp_path_factory.mktemp("cluster"), progress=progress)
        with ours:
            yield ours
        timings |= ours.seconds_by_phase
    except NoClusterError as error:
        pytest.skip(f"no cluster: {error}")


@pytest.fixture(scope="session")
def own_cluster(cluster):
    """A cluster whose parts the test may kill and whose node it may look into."""
    if not isinstance(cluster, Cluster):
        pytest.skip("this is a cluster that is not the tests' own")
    return cluster


@pytest.fixture(scope="session")
def gpus(cluster):
    """Eight A100s, allocated by kubelet through the tests' device plugin."""
    if not isinstance(cluster, Cluster):
        pytest.skip("this is a cluster that is not the tests' own: its GPUs are its own")
    return Gpus(cluster)


@pytest.fixture(scope="session")
def kubectl(cluster):
    """``kubectl(*arguments, text="")`` returns what it prints, or raises CommandError."""
    return cluster.commands.kubectl


@pytest.fixture(scope="session")
def helm(cluster):
    """``helm(*arguments)``; as ``kubectl``."""
    return cluster.commands.helm


@pytest.fixture(scope="module")
def namespace(kubectl):
    """A namespace of the test file's own."""
    with _new_namespace(kubectl) as name:
        yield name


@contextlib.contextmanager
def _new_namespace(kubectl):
    name = f"justitia-e2e-{secrets.token_hex(3)}"
    kubectl("create", "namespace", name)
    yield name
    kubectl("delete", "namespace", name, "--wait=false")


@pytest.fixture(scope="module")
def in_cluster(cluster, kubectl, namespace):
    """``in_cluster(*command)`` runs a command in a pod and returns what it prints."""
    pod = {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": "in-cluster", "namespace": namespace},
        "spec": {
            "terminationGracePeriodSeconds": 0,
            "containers": [
                {"name": "main", "image": cluster.tool_image, "command": ["sleep", "86400"]}
            ],
        },
    }
    kubectl("apply", "-f", "-", text=json.dumps(pod))
    kubectl("wait", "-n", namespace, "--for=condition=Ready", "pod/in-cluster", "--timeout=60s")

    def run(*command):
        return kubectl("exec", "-n", namespace, "in-cluster", "--", *command)

    return run


@pytest.fixture(scope="session")
def images(cluster, progress, tmp_path_factory):
    """The product's images are on the node; on a cluster of yours, you have put them there."""
    if isinstance(cluster, Cluster):
        logs = tmp_path_factory.mktemp("images")
        sizes = build_images(cluster, log_folder=logs, progress=progress)
        progress(f"images: { ({name: f'{size >> 20} MiB' for name, size in sizes.items()}) }")
        cluster.commands.apply(*environment_objects())


@pytest.fixture(scope="session")
def release(request, cluster, kubectl, tmp_path_factory):
    """The chart is installed with two engines, and a client stands ready: one for all files."""
    request.getfixturevalue("images")
    folder = tmp_path_factory.mktemp("release")
    resource = ""
    if isinstance(cluster, Cluster):
        request.getfixturevalue("gpus")
        resource = GPU_RESOURCE
    # Another test file's definitions may still be on their way out.
    kubectl("wait", "--for=delete", *_DEFINITIONS, "--timeout=60s")
    with _new_namespace(kubectl) as namespace:
        release = Release(cluster.commands, namespace, resource, folder)
        release.put_model(ensure_tiny_model(folder, progress=lambda _: None))
        release.install()
        release.start_client()
        yield release
        kubectl("delete", "--ignore-not-found", *_DEFINITIONS, "--wait=false")


@pytest.fixture(scope="session")
def agent(release):
    """An application whose runs end two seconds after their last inference, and its profile."""
    profile = {
        "apiVersion": "justitia.dev/v1alpha1",
        "kind": "PredictorProfile",
        "metadata": {"name": _AGENT},
        "spec": {"training": {"minSamples": 20}},
    }
    manifest = {
        "apiVersion": "justitia.dev/v1alpha1",
        "kind": "LLMApplication",
        "metadata": {"name": _AGENT},
        "spec": {
            "run": {"idleTimeout": "2s"},
            "predictor": {"profileRef": {"name": _AGENT}},
        },
    }
    for made in (profile, manifest):
        release.kubectl("apply", "-f", "-", text=json.dumps(made))
    release.kubectl("wait", "--for=condition=Ready", f"llmapp/{_AGENT}", "--timeout=30s")
    return _AGENT


def pytest_terminal_summary(terminalreporter, config):
    timings = config.stash.get(_TIMINGS, {})
    if timings:
        terminalreporter.section("cluster")
        for phase, seconds in timings.items():
            terminalreporter.line(f"{seconds:8.1f} s  {phase}")
