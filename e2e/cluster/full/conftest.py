"""Fixtures of the full part: tests with other projects' software, which takes minutes to build."""

import os
import secrets
from pathlib import Path

import pytest
from kube.gpus import GPU_RESOURCE
from kube.release import RELEASE, Release

from justitia.local.tiny_model import ensure_tiny_model

VARIABLE = "JUSTITIA_E2E_FULL"

_DEFINITIONS = ("crd/llmapplications.justitia.dev", "crd/predictorprofiles.justitia.dev")


def pytest_collection_modifyitems(items):
    if os.environ.get(VARIABLE, "") not in {"", "0"}:
        return
    skip = pytest.mark.skip(reason=f"{VARIABLE} is not set: make e2e-cluster FULL=1")
    here = Path(__file__).parent
    for item in items:
        if item.path.is_relative_to(here):
            item.add_marker(skip)


@pytest.fixture(scope="module")
def release(request, own_cluster, namespace, tmp_path_factory):
    """A release that the test file installs in its own way; it is gone afterwards."""
    for needed in ("images", "gpus"):
        request.getfixturevalue(needed)
    commands = own_cluster.commands
    # Another test file's definitions may still be on their way out.
    commands.kubectl("wait", "--for=delete", *_DEFINITIONS, "--timeout=60s")
    folder = tmp_path_factory.mktemp("release")
    release = Release(commands, namespace, GPU_RESOURCE, folder)
    release.put_model(ensure_tiny_model(folder, progress=lambda _: None))
    yield release
    release.kubectl("delete", "pod", "client", "--ignore-not-found", "--wait=false")
    commands.helm("uninstall", RELEASE, "-n", namespace, "--ignore-not-found", "--wait")
    commands.kubectl("delete", "--ignore-not-found", *_DEFINITIONS, "--wait=false")


@pytest.fixture(scope="module")
def other_namespace(kubectl):
    """A second namespace of the test file's own."""
    name = f"justitia-e2e-{secrets.token_hex(3)}"
    kubectl("create", "namespace", name)
    yield name
    kubectl("delete", "namespace", name, "--wait=false")
