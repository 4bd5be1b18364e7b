"""`kubectl justitia`: against a real service, through a kubectl that is played by a script."""

import base64
import json
import os
import stat
import subprocess
import sys
import textwrap

import pytest

from justitia.cli import training_request
from justitia.cli.kubectl import main
from justitia.cli.port_forward import Kubectl, KubectlError, SchedulerRef, find_scheduler, forwarded
from justitia.client import connect
from justitia.local.processes import free_port
from justitia.local.profiles import read_profile
from justitia.local.service import SchedulerService
from justitia_operator.facts import REQUEST_ANNOTATION

#: Answers `get` from files, and forwards a port by copying bytes both ways.
KUBECTL = """
import asyncio, os, pathlib, sys

folder = pathlib.Path(__file__).parent
arguments = [a for a in sys.argv[1:] if not a.startswith("--")]
with open(folder / "calls", "a") as calls:
    print(*sys.argv[1:], file=calls)
if arguments[0] == "get":
    answer = folder / ".".join(arguments[1:])
    if not answer.exists() and "--ignore-not-found" in sys.argv:
        sys.exit()
    if not answer.exists():
        sys.exit(f"error: {arguments[1]} not found")
    print(answer.read_text())
    sys.exit()
if arguments[0] == "annotate":
    sys.exit()
target = int((folder / "target").read_text())
port = int(arguments[2].partition(":")[0])

async def copy(reader, writer):
    while data := await reader.read(65536):
        writer.write(data)
        await writer.drain()
    writer.close()

async def serve(reader, writer):
    other_reader, other_writer = await asyncio.open_connection("127.0.0.1", target)
    await asyncio.gather(copy(reader, other_writer), copy(other_reader, writer))

async def run():
    server = await asyncio.start_server(serve, "127.0.0.1", port)
    await server.serve_forever()

asyncio.run(run())
"""


def service(name="justitia-scheduler", release="justitia", *, headless=False, annotations=None):
    return {
        "metadata": {
            "name": name,
            "namespace": "llm",
            "labels": {"app.kubernetes.io/instance": release},
            "annotations": annotations or {},
        },
        "spec": {"clusterIP": "None" if headless else "10.0.0.1"},
    }


@pytest.fixture
def cluster(tmp_path, monkeypatch):
    """A folder with the answers of the script; returns a function that adds one."""
    folder = tmp_path / "kubectl"
    folder.mkdir()
    program = folder / "kubectl"
    program.write_text(f"#!{sys.executable}\n{textwrap.dedent(KUBECTL)}")
    program.chmod(0o755)
    monkeypatch.setenv("PATH", f"{folder}{os.pathsep}{os.environ['PATH']}")

    def answer(name, value):
        (folder / name).write_text(value if isinstance(value, str) else json.dumps(value))
        return folder

    answer("services", {"items": [service(), service("justitia-scheduler-pod", headless=True)]})
    return answer


@pytest.fixture
def kubectl_justitia(in_process):
    """Run the plugin in this process; returns (exit status, stdout, stderr)."""
    return in_process("kubectl-justitia", main)


async def test_top_and_explain_reach_the_service_through_kubectl(
    cluster, kubectl_justitia, tmp_path
):
    async with SchedulerService(log_path=tmp_path / "log") as service:
        folder = cluster("target", service.address.rpartition(":")[2])
        with connect(service.address) as client:
            client.start_run(run_id="r-1")
        status, shown, error = kubectl_justitia("top", "-n", "llm", "--context", "prod")
        assert (status, error) == (0, "")
        assert "pool default (enforce): 1 open runs" in shown
        assert "no engine is connected" in shown
        status, shown, _ = kubectl_justitia("explain", "r-1", "-n", "llm")
        assert status == 0
        assert "no engine of this pool is connected" in shown
        status, _, error = kubectl_justitia("explain", "r-2", "-n", "llm")
        assert status == 1
        assert "r-2" in error
    calls = (folder / "calls").read_text()
    assert "port-forward service/justitia-scheduler" in calls
    assert all("--namespace=llm" in call for call in calls.splitlines())
    assert "--context=prod" in calls
    # Nothing is left running: the forwarded ports are closed with the commands.
    assert str(folder / "kubectl") not in processes()


def processes():
    listed = subprocess.run(
        ["ps", "-ww", "-eo", "args"], capture_output=True, text=True, check=True
    )
    return listed.stdout


async def test_an_address_needs_no_kubectl(kubectl_justitia, monkeypatch, tmp_path):
    monkeypatch.setenv("PATH", "/nowhere")
    async with SchedulerService(log_path=tmp_path / "log") as service:
        status, shown, _ = kubectl_justitia("top", "--address", service.address)
    assert status == 0
    assert "pool default" in shown


def test_a_missing_kubectl_is_said(kubectl_justitia, monkeypatch):
    monkeypatch.setenv("PATH", "/nowhere")
    status, _, error = kubectl_justitia("top")
    assert (status, error) == (1, "error: kubectl is not installed; use --address without it\n")


def test_kubectls_own_words_are_passed_on(cluster, kubectl_justitia):
    (cluster("x", "") / "services").unlink()
    status, _, error = kubectl_justitia("top")
    assert (status, error) == (1, "error: services not found\n")


def test_the_release_is_found_or_asked_for(cluster):
    kubectl = Kubectl(namespace="llm")
    assert find_scheduler(kubectl).name == "justitia-scheduler"
    cluster("services", {"items": []})
    with pytest.raises(KubectlError, match="no Justitia in namespace llm; name its namespace"):
        find_scheduler(kubectl)
    cluster("services", {"items": [service("a-scheduler", "a"), service("b-scheduler", "b")]})
    with pytest.raises(KubectlError, match="several releases in namespace llm, a, b: choose"):
        find_scheduler(kubectl)
    assert find_scheduler(kubectl, "b").name == "b-scheduler"


def test_a_pools_name_gets_the_releases_namespace(cluster, kubectl_justitia, monkeypatch):
    asked = {}
    cluster("target", str(free_port()))
    monkeypatch.setattr("justitia.cli.top.top", lambda **options: asked.update(options))
    assert kubectl_justitia("top", "--pool", "chat")[0] == 0
    assert asked["pool"] == "llm/chat"
    assert kubectl_justitia("top", "--pool", "other/chat")[0] == 0
    assert asked["pool"] == "other/chat"
    assert asked["tls_ca"] is None


def test_client_files_come_from_the_cluster_and_stay_private(cluster):
    names = ("ca.crt", "tls.crt", "tls.key")
    data = {name: base64.b64encode(name.encode()).decode() for name in names}
    cluster("secret.justitia-client-tls", {"data": data})
    annotations = {"justitia.dev/client-secret": "justitia-client-tls"}
    cluster("services", {"items": [service(annotations=annotations)]})
    cluster("target", str(free_port()))
    kubectl = Kubectl()
    with forwarded(kubectl, find_scheduler(kubectl)) as (_, tls):
        paths = (tls.ca, tls.cert, tls.key)
        assert [path.read_text() for path in paths] == list(names)
        assert {stat.S_IMODE(path.stat().st_mode) for path in paths} == {0o600}
        assert stat.S_IMODE(tls.ca.parent.stat().st_mode) == 0o700
    assert not tls.ca.parent.exists()


def test_a_secret_without_an_authority_is_refused(cluster):
    cluster("secret.s", {"data": {}})
    scheduler = SchedulerRef(namespace="llm", name="x", client_secret="s")
    with (
        pytest.raises(KubectlError, match=r"Secret s has no ca\.crt"),
        forwarded(Kubectl(), scheduler),
    ):
        pass


def test_training_without_torch_says_what_to_install(kubectl_justitia, monkeypatch):
    def train(**_):
        raise ModuleNotFoundError("No module named 'torch'", name="torch")

    monkeypatch.setattr("justitia.cli.train.train", train)
    status, _, error = kubectl_justitia("train", "summaries", "--address", "127.0.0.1:1")
    assert status == 1
    assert "torch is not installed; training needs: pip install 'justitia[predictor]'" in error


def test_a_training_by_the_cluster_is_asked_for_with_an_annotation(cluster, kubectl_justitia):
    spec = {"predictor": {"profileRef": {"name": "default"}}}
    folder = cluster("llmapplications.justitia.dev.summaries", {"spec": spec})
    status, said, _ = kubectl_justitia("train", "summaries", "--job", "-n", "team-a")
    assert status == 0
    assert "kubectl get predprof default" in said
    asked = (folder / "calls").read_text().splitlines()[-1]
    assert asked.startswith(
        "annotate llmapplications.justitia.dev summaries justitia.dev/training-"
    )
    assert "--namespace=team-a" in asked


def test_a_training_by_the_cluster_needs_a_profile(cluster, kubectl_justitia):
    cluster("llmapplications.justitia.dev.summaries", {"spec": {}})
    status, _, error = kubectl_justitia("train", "summaries", "--job")
    assert status != 0
    assert "names no PredictorProfile (spec.predictor.profileRef)" in error


def test_a_training_by_the_cluster_takes_no_options_of_one_here(kubectl_justitia):
    status, _, error = kubectl_justitia("train", "summaries", "--job", "--publish")
    assert status == 2
    assert "--job takes neither --publish nor" in error


APPLICATION = "llmapplications.justitia.dev.summaries"
PROFILE = {
    "apiVersion": "justitia.dev/v1alpha1",
    "kind": "PredictorProfile",
    "metadata": {"name": "default", "namespace": "llm", "uid": "1", "generation": 3},
    "spec": {"training": {"minSamples": 7}},
}


@pytest.fixture
def trained_by(cluster, kubectl_justitia, monkeypatch):
    """Train; returns the exit status, the profile that training was given, and stderr."""
    given = {}
    cluster("target", str(free_port()))

    def train(*, profile, **_):
        given["profile"] = None if profile is None else read_profile(profile)

    monkeypatch.setattr("justitia.cli.train.train", train)

    def train_as(name, *options):
        status, _, error = kubectl_justitia("train", name, *options)
        return status, given["profile"], error

    return train_as


def test_a_training_here_is_by_the_profile_that_the_application_names(cluster, trained_by):
    cluster(APPLICATION, {"spec": {"predictor": {"profileRef": {"name": "default"}}}})
    folder = cluster("predictorprofiles.justitia.dev.default", PROFILE)
    status, profile, error = trained_by("team-a/summaries", "-n", "llm")
    assert (status, error) == (0, "by PredictorProfile default\n")
    assert profile.spec.training.min_samples == 7
    asked = [line for line in (folder / "calls").read_text().splitlines() if ".dev " in line]
    assert len(asked) == 2
    assert all("--namespace=team-a" in line for line in asked)


@pytest.mark.parametrize("spec", [None, {}, {"predictor": {"privacy": "Hashed"}}])
def test_without_a_profile_in_the_cluster_a_training_here_is_by_the_defaults(
    cluster, trained_by, spec
):
    if spec is not None:
        cluster(APPLICATION, {"spec": spec})
    assert trained_by("summaries") == (0, None, "")


def test_a_profile_that_cannot_be_had_is_said(cluster, trained_by):
    cluster(APPLICATION, {"spec": {"predictor": {"profileRef": {"name": "default"}}}})
    status, profile, error = trained_by("summaries")
    assert (status, profile) == (0, None)
    assert error.startswith("warning: the defaults are trained by")
    assert "names PredictorProfile default, not there" in error


def test_a_profiles_file_wins_over_that_in_the_cluster(cluster, trained_by, tmp_path):
    folder = cluster(APPLICATION, {"spec": {"predictor": {"profileRef": {"name": "default"}}}})
    path = tmp_path / "profile.json"
    path.write_text(json.dumps(PROFILE))
    assert trained_by("summaries", "--profile", str(path))[1].spec.training.min_samples == 7
    assert "llmapplications" not in (folder / "calls").read_text()


def test_operator_and_command_name_the_same_annotation():
    assert training_request.ANNOTATION == REQUEST_ANNOTATION
