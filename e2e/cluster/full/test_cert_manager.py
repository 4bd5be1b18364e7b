"""Certificates from cert-manager, renewed: its real resource definitions, the test as the issuer.

Everything here happens while the same processes run: a restart would hide that one of them goes on
with files that it has read once.
"""

import datetime as dt
import json
import time
from concurrent.futures import ThreadPoolExecutor

import pytest
from kube.daemon import wait_until
from kube.errors import CommandError
from kube.issuer import ISSUER, Issuer
from kube.neighbours import CERT_MANAGER, definitions
from kube.release import RELEASE

SERVER, CLIENT = f"{RELEASE}-scheduler-tls", f"{RELEASE}-client-tls"
FILES = "/etc/justitia/tls"
LONG = dt.timedelta(hours=1)
#: Long enough for a renewal to reach the pods twice.
SHORT = dt.timedelta(seconds=90)
PROPAGATION_S = 60.0
NUM_ENGINES = 2
CLIENTS = ("operator", "engine")
ALL = ("scheduler", *CLIENTS)

#: Calls the scheduler service with files of its own, as a client of ours does.
CALL = """
import json, pathlib, socket, ssl, sys, tempfile
from justitia.client import SchedulerError, TlsFiles, connect

given = json.load(sys.stdin)
folder = pathlib.Path(tempfile.mkdtemp())
paths = {name: folder / name for name in given["files"]}
for name, path in paths.items():
    path.write_text(given["files"][name])
answer = {}
try:
    context = ssl.create_default_context(cafile=paths["ca"])
    context.set_alpn_protocols(["h2"])
    if "cert" in paths:
        context.load_cert_chain(paths["cert"], paths["key"])
    address = (given["host"], 50051)
    with socket.create_connection(address, timeout=10) as raw:
        with context.wrap_socket(raw, server_hostname=given["host"]) as connection:
            answer["serial"] = connection.getpeercert()["serialNumber"]
    with connect(f"{given['host']}:50051", tls=TlsFiles(**paths), timeout_s=10) as client:
        answer["applications"] = len(client.list_applications())
except (OSError, SchedulerError) as error:
    answer["error"] = str(error)
print(json.dumps(answer))
"""


@pytest.fixture(scope="module", autouse=True)
def certificate_definitions(own_cluster, progress):
    """There before the release and after it: Helm must know the kinds that it removes."""
    with definitions(CERT_MANAGER, own_cluster.commands, progress=progress):
        yield


@pytest.fixture(scope="module")
def issuer(own_cluster, namespace, tmp_path_factory):
    return Issuer(own_cluster.commands, namespace, tmp_path_factory.mktemp("issuer"))


@pytest.fixture(scope="module")
def served(own_cluster, release, issuer):
    """The release is installed, while the issuer does its work; what it issued last, by name."""
    tls = {
        "mode": "cert-manager",
        "certManager": {
            "issuerRef": {"group": "cert-manager.io", "kind": "Issuer", "name": ISSUER},
            "duration": "1h",
            "renewBefore": "20m",
        },
    }
    with (
        own_cluster.phase("install with cert-manager's certificates"),
        ThreadPoolExecutor(max_workers=1) as background,
    ):
        installing = background.submit(release.install, tls=tls)
        wait_until(
            "the chart asks for certificates",
            lambda: installing.done() or len(issuer.asked()) == 2,
            timeout_s=60,
        )
        issued = {} if installing.done() else issue_both(issuer, LONG)
        installing.result()
    release.start_client()
    return issued


def issue_both(issuer, lifetime):
    return {name: issuer.issue(name, lifetime=lifetime) for name in (SERVER, CLIENT)}


def call(release, client):
    """Call the service as a client with an issue's files; returns what came of it."""
    files = {"ca": client.ca, "cert": client.certificate, "key": client.key}
    return call_with(release, files)


def call_with(release, files):
    host = f"{RELEASE}-scheduler.{release.namespace}.svc"
    given = json.dumps({"host": host, "files": files})
    return json.loads(
        release.kubectl("exec", "-i", "client", "--", "python3", "-c", CALL, text=given)
    )


def apply_application(release, name):
    """An application that becomes Ready only by a call of the operator's to the service."""
    manifest = {
        "apiVersion": "justitia.dev/v1alpha1",
        "kind": "LLMApplication",
        "metadata": {"name": name},
        "spec": {"run": {"idleTimeout": "2s"}},
    }
    release.kubectl("apply", "-f", "-", text=json.dumps(manifest))
    release.kubectl("wait", "--for=condition=Ready", f"llmapp/{name}", "--timeout=60s")


def pods(release, *components):
    """Identity and restarts of the product's pods."""
    selector = f"app.kubernetes.io/component in ({','.join(components)})"
    listed = json.loads(release.kubectl("get", "pods", "-l", selector, "-o", "json"))["items"]
    return {
        (
            pod["metadata"]["name"],
            pod["metadata"]["uid"],
            pod["status"]["containerStatuses"][0]["restartCount"],
        )
        for pod in listed
    }


def has_files(release, component, issued):
    """Whether each pod of a component has an issue's certificate in its volume."""
    texts = [
        release.kubectl("exec", name, "--", "cat", f"{FILES}/tls.crt")
        for name, _, _ in pods(release, component)
    ]
    return bool(texts) and set(texts) == {issued.certificate}


def wait_for_files(release, issued):
    """Wait until kubelet has brought renewed files into all pods."""
    by_component = {"scheduler": issued[SERVER], **dict.fromkeys(CLIENTS, issued[CLIENT])}
    for component, each in by_component.items():
        wait_until(
            f"{component} has the renewed files",
            lambda component=component, each=each: has_files(release, component, each),
            timeout_s=PROPAGATION_S,
            period_s=1,
        )


def wait_served_by(release, issued):
    """Wait until the service shows a certificate to a client with the other."""
    wait_until(
        "the service shows the renewed certificate",
        lambda: int(call(release, issued[CLIENT]).get("serial", "0"), 16) == issued[SERVER].serial,
        timeout_s=PROPAGATION_S,
        period_s=1,
    )


def restart_service(release):
    """Have every client connect anew, and wait until the engines are back."""
    release.kubectl("delete", "pod", f"{RELEASE}-scheduler-0")
    release.kubectl("rollout", "status", f"statefulset/{RELEASE}-scheduler", "--timeout=120s")

    def num_connected():
        try:
            lines = release.metrics(f"{RELEASE}-scheduler").splitlines()
        except CommandError:  # its address is not known yet
            return 0
        up = [line for line in lines if line.startswith("justitia_engine_up{")]
        return sum(line.endswith(" 1.0") for line in up)

    wait_until(
        "all engines are connected",
        lambda: num_connected() == NUM_ENGINES,
        timeout_s=60,
        period_s=1,
    )


def test_cert_managers_definitions_take_what_the_chart_asks_for(release, served, issuer):
    assert issuer.asked() == sorted(served)

    release.kubectl("wait", "--for=condition=Ready", "certificate", "--all", "--timeout=5s")
    server = json.loads(release.kubectl("get", "certificate", SERVER, "-o", "json"))["spec"]
    assert f"{RELEASE}-scheduler.{release.namespace}.svc" in server["dnsNames"]
    assert (server["duration"], server["renewBefore"]) == ("1h", "20m")
    assert server["privateKey"]["rotationPolicy"] == "Always"


def test_operator_engines_and_clients_are_served_over_mtls(release, served):
    assert "error" not in call(release, served[CLIENT])

    apply_application(release, "first")
    assert release.serve_runs("first", prefix="first", num_runs=4) == [32] * 4


def test_who_has_no_certificate_of_the_issuer_is_refused(release, served, tmp_path):
    stranger = Issuer(release.commands, release.namespace, tmp_path)
    spec = json.loads(release.kubectl("get", "certificate", CLIENT, "-o", "json"))["spec"]
    forged = stranger.sign(spec, lifetime=LONG)
    ca = served[CLIENT].ca

    assert "applications" in call(release, served[CLIENT])
    assert "applications" not in call_with(release, {"ca": ca})
    strange = {"ca": ca, "cert": forged.certificate, "key": forged.key}
    assert "applications" not in call_with(release, strange)


def test_renewed_certificates_serve_after_the_old_ones_have_expired(release, served, issuer):
    del served
    before = pods(release, *ALL)
    issuer.change_authority()  # nobody gets far with what was issued before
    expiring = issue_both(issuer, SHORT)
    wait_for_files(release, expiring)
    wait_served_by(release, expiring)
    renewed = issue_both(issuer, LONG)
    wait_for_files(release, renewed)
    wait_served_by(release, renewed)
    assert pods(release, *ALL) == before  # the same process shows them

    left_s = (expiring[CLIENT].expires_at - dt.datetime.now(dt.UTC)).total_seconds()
    time.sleep(max(0.0, left_s + 1))

    assert "applications" not in call(release, expiring[CLIENT])
    assert "applications" in call(release, renewed[CLIENT])
    apply_application(release, "renewed")
    # Old connections outlive their certificates: only new ones show what a client has read.
    clients = pods(release, *CLIENTS)
    restart_service(release)
    apply_application(release, "reconnected")
    assert release.serve_runs("reconnected", prefix="renewed", num_runs=4) == [32] * 4
    assert pods(release, *CLIENTS) == clients
    assert {restarts for _, _, restarts in clients} == {0}


def test_a_new_authority_takes_over_and_the_old_one_is_trusted_no_more(release, served, issuer):
    former = issue_both(issuer, LONG)
    wait_for_files(release, former)
    apply_application(release, "kept")
    ready_since = release.condition("kept", "Ready")["lastTransitionTime"]
    before = pods(release, *ALL)

    issuer.change_authority()
    renewed = issue_both(issuer, LONG)
    wait_for_files(release, renewed)
    wait_served_by(release, renewed)

    assert "applications" in call(release, renewed[CLIENT])
    # One that trusts the new server and shows what the old authority signed.
    stale = {"ca": renewed[CLIENT].ca, "cert": former[CLIENT].certificate}
    assert "applications" not in call_with(release, stale | {"key": former[CLIENT].key})
    assert "applications" not in call(release, served[CLIENT])
    apply_application(release, "trusted")
    assert release.condition("kept", "Ready")["lastTransitionTime"] == ready_since
    assert pods(release, *ALL) == before
    restart_service(release)
    apply_application(release, "trusted-anew")
    assert release.serve_runs("trusted-anew", prefix="trusted", num_runs=4) == [32] * 4
    assert {restarts for _, _, restarts in pods(release, *ALL)} == {0}
