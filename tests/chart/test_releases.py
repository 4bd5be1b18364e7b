"""One release after another, beside another, and inside another chart (FK9, FK10)."""

import base64
import contextlib
import http.server
import json
import re
import shutil
import threading
from typing import ClassVar

import pytest
import yaml

IMMUTABLE = {
    "StatefulSet": ("selector", "serviceName", "volumeClaimTemplates", "podManagementPolicy"),
    "Deployment": ("selector",),
    "Service": ("clusterIP",),
}


# -- upgrades --------------------------------------------------------------------------------------


def test_a_new_version_changes_no_immutable_field_and_restarts_no_engine(helm, chart_dir, tmp_path):
    newer = tmp_path / "justitia"
    shutil.copytree(chart_dir, newer)
    about = newer / "Chart.yaml"
    about.write_text(about.read_text().replace("0.1.0", "0.2.0"))
    before, after = helm.case("a100"), helm.case("a100", chart=newer)
    assert before.keys() == after.keys()
    for old, new in zip(before.objects, after.objects, strict=True):
        for field in IMMUTABLE.get(old["kind"], ()):
            assert old["spec"].get(field) == new["spec"].get(field), old["metadata"]["name"]
    # The image's tag is the version's; apart from it the pod is the same.
    old, new = (r.one("Deployment", "justitia-chat")["spec"]["template"] for r in (before, after))
    assert json.dumps(new).replace("0.2.0", "0.1.0") == json.dumps(old)
    assert new["metadata"] == old["metadata"]


def test_pools_come_and_go_without_a_change_of_the_others(helm):
    chat, more = ({"name": name, "model": "m"} for name in ("chat", "more"))
    manual = {"mode": "manual", "manual": {"serverSecret": "s", "clientSecret": "c"}}
    one = helm.render({"pools": [chat], "tls": manual})
    two = helm.render({"pools": [chat, more], "tls": manual})
    for o in one.of("Deployment", "StatefulSet", "Service"):
        assert o == two.one(o["kind"], o["metadata"]["name"])


def test_the_journal_has_one_writer_and_one_operator_decides(helm, case):
    rendered = helm.case(case)
    (scheduler,) = rendered.of("StatefulSet")
    assert scheduler["spec"]["replicas"] == 1
    for o in rendered.of("Deployment"):
        if o["metadata"]["labels"]["app.kubernetes.io/component"] == "operator":
            assert o["spec"]["replicas"] == 1
            assert o["spec"]["strategy"] == {"type": "Recreate"}


class Cluster(http.server.BaseHTTPRequestHandler):
    """As much of an API server as Helm's `lookup` asks for."""

    objects: ClassVar[dict[str, dict]] = {}

    def do_GET(self):
        path = self.path.partition("?")[0].rstrip("/")
        body = self.objects.get(path) or discovery(path)
        self.send_response(200 if body else 404)
        self.send_header("Content-Type", "application/json")
        self.end_headers()
        self.wfile.write(
            json.dumps(body or {"kind": "Status", "code": 404, "reason": "NotFound"}).encode()
        )

    def log_message(self, *_):
        pass


#: Group and version of the kinds that are rendered, with whether they have a namespace.
SERVED = {
    "v1": {"ConfigMap": True, "Pod": True, "Secret": True, "Service": True, "ServiceAccount": True},
    "apps/v1": {"Deployment": True, "StatefulSet": True},
    "networking.k8s.io/v1": {"NetworkPolicy": True},
    "apiextensions.k8s.io/v1": {"CustomResourceDefinition": False},
    "rbac.authorization.k8s.io/v1": {
        "ClusterRole": False,
        "ClusterRoleBinding": False,
        "Role": True,
        "RoleBinding": True,
    },
}


def discovery(path):
    """Answer what a client asks first: which kinds there are."""
    versions = [{"groupVersion": v, "version": "v1"} for v in SERVED if "/" in v]
    groups = [
        {"name": v["groupVersion"].partition("/")[0], "versions": [v], "preferredVersion": v}
        for v in versions
    ]
    version = path.removeprefix("/apis/").removeprefix("/api/")
    if version in SERVED:
        return {
            "kind": "APIResourceList",
            "groupVersion": version,
            "resources": [
                {"name": plural(k), "kind": k, "namespaced": n, "verbs": ["get", "list"]}
                for k, n in SERVED[version].items()
            ],
        }
    return {
        "/version": {"major": "1", "minor": "37", "gitVersion": "v1.37.0"},
        "/api": {"kind": "APIVersions", "versions": ["v1"]},
        "/apis": {"kind": "APIGroupList", "apiVersion": "v1", "groups": groups},
        "/apis/rbac.authorization.k8s.io/v1/clusterroles": roles([]),
    }.get(path)


def plural(kind):
    name = kind.lower()
    return f"{name[:-1]}ies" if name.endswith("y") else f"{name}s"


def roles(items):
    return {"kind": "ClusterRoleList", "apiVersion": "v1", "metadata": {}, "items": items}


@pytest.fixture
def cluster(tmp_path):
    """Start one; gives its objects by path, and the flags that make Helm ask it."""
    objects = {}
    handler = type("Handler", (Cluster,), {"objects": objects})
    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), handler)
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
    thread.start()
    kubeconfig = tmp_path / "kubeconfig"
    name, context = "fake", {"cluster": "fake", "user": "fake"}
    kubeconfig.write_text(
        yaml.safe_dump(
            {
                "apiVersion": "v1",
                "kind": "Config",
                "clusters": [
                    {"name": name, "cluster": {"server": f"http://127.0.0.1:{server.server_port}"}}
                ],
                "users": [{"name": name, "user": {}}],
                "contexts": [{"name": name, "context": context}],
                "current-context": name,
            }
        )
    )
    with contextlib.ExitStack() as stack:
        stack.callback(server.server_close)
        stack.callback(thread.join)
        stack.callback(server.shutdown)
        flags = ("--dry-run=server", "--disable-openapi-validation")
        yield objects, (*flags, "--kubeconfig", str(kubeconfig))


def install(objects, rendered):
    """Put what was rendered into the cluster, marked as Helm marks its own."""
    owner = {"meta.helm.sh/release-name": "justitia", "meta.helm.sh/release-namespace": "llm"}
    for o in rendered.of("Secret"):
        annotations = o["metadata"].get("annotations", {}) | owner
        installed = {**o, "metadata": {**o["metadata"], "annotations": annotations}}
        objects[f"/api/v1/namespaces/llm/secrets/{o['metadata']['name']}"] = installed


def test_certificates_are_made_once_and_kept_by_upgrades(helm, cluster):
    objects, flags = cluster
    first = helm.render(flags=flags)
    assert len(first.of("Secret")) == 2
    install(objects, first)
    # Another argument, so that the kept rendering is not given back.
    again = helm.render(flags=(*flags, "--is-upgrade"))
    assert again.of("Secret") == first.of("Secret")
    assert again.of("StatefulSet") == first.of("StatefulSet")


def test_new_names_of_the_service_make_new_certificates(helm, cluster):
    objects, flags = cluster
    first = helm.render(flags=flags)
    install(objects, first)
    values = {"tls": {"extraDnsNames": ["scheduler.example.org"]}}
    changed = helm.render(values, flags=flags)
    assert changed.of("Secret")[0]["data"] != first.of("Secret")[0]["data"]
    # Pods read them at their start, so they start again.
    annotations = [
        r.of("StatefulSet")[0]["spec"]["template"]["metadata"]["annotations"]
        for r in (first, changed)
    ]
    assert annotations[0] != annotations[1]


def test_the_made_certificates_fit_together(helm):
    from cryptography import x509

    rendered = helm.render()
    server, client = (
        {
            key: base64.b64decode(value)
            for key, value in rendered.one("Secret", name)["data"].items()
        }
        for name in ("justitia-scheduler-tls", "justitia-client-tls")
    )
    assert server["ca.crt"] == client["ca.crt"]
    authority = x509.load_pem_x509_certificate(server["ca.crt"])
    for pair in (server, client):
        x509.load_pem_x509_certificate(pair["tls.crt"]).verify_directly_issued_by(authority)
    names = x509.load_pem_x509_certificate(server["tls.crt"]).extensions.get_extension_for_class(
        x509.SubjectAlternativeName
    )
    assert "justitia-scheduler.llm.svc" in names.value.get_values_for_type(x509.DNSName)
    assert "localhost" in names.value.get_values_for_type(x509.DNSName)
    # Nobody keeps the authority's key: what it signed is all that it ever will.
    assert "ca.key" not in server


@pytest.mark.parametrize("mode", ["manual", "cert-manager"])
def test_other_modes_make_no_secret(helm, mode):
    rendered = helm.case({"manual": "a100", "cert-manager": "cert-manager"}[mode])
    assert rendered.of("Secret") == []
    assert len(rendered.of("Certificate")) == (2 if mode == "cert-manager" else 0)


def test_a_certificate_of_cert_manager_goes_where_pods_look_for_it(helm):
    rendered = helm.case("cert-manager")
    made = {c["spec"]["secretName"] for c in rendered.of("Certificate")}
    mounted = {
        volume["secret"]["secretName"]
        for _, spec in rendered.pods()
        for volume in spec["volumes"]
        if volume["name"] == "tls"
    }
    assert made == mounted


# -- neighbours ------------------------------------------------------------------------------------


def test_two_releases_of_one_namespace_do_not_collide(helm):
    pools = [{"pools": [{"name": name, "model": "m"}]} for name in ("one", "two")]
    first = helm.render(pools[0], release="a")
    second = helm.render(pools[1] | {"crds": {"install": False}}, release="b")
    assert set(first.keys()) & set(second.keys()) == set()
    for o in first.of("Service"):
        selector = o["spec"]["selector"].items()
        for other in second.of("Deployment", "StatefulSet"):
            assert not selector <= other["spec"]["template"]["metadata"]["labels"].items()


def test_releases_of_one_name_in_two_namespaces_share_nothing_cluster_wide(helm):
    wide = [
        {(o["kind"], o["metadata"]["name"]) for o in r.of("ClusterRole", "ClusterRoleBinding")}
        for r in (helm.render(namespace="x"), helm.render(namespace="y"))
    ]
    assert wide[0] & wide[1] == set()


def test_a_second_operator_for_all_namespaces_is_refused(helm, cluster):
    objects, flags = cluster
    role = helm.render(release="first", flags=flags).of("ClusterRole")
    path = "/apis/rbac.authorization.k8s.io/v1/clusterroles"
    objects[path] = roles(role)
    message = helm.refusal({}, release="second", flags=flags)
    assert (
        'the operator of release "first" serves all namespaces of this cluster already' in message
    )
    assert helm.render({"watchNamespaces": ["team-a"]}, release="second", flags=flags).objects
    # Its own upgrade is no second one.
    assert helm.render(release="first", flags=(*flags, "--is-upgrade")).objects


@pytest.mark.parametrize("release", ["r" * 53, "a-" * 26 + "b"])
def test_long_names_are_shortened_and_stay_different(helm, release):
    pools = [{"name": f"{'p' * 39}{n}", "model": "m"} for n in (1, 2)]
    rendered = helm.render({"pools": pools}, release=release)
    keys = rendered.keys()
    assert len(keys) == len(set(keys))
    for kind, _, name in keys:
        limit = {"StatefulSet": 52, "Service": 63, "Deployment": 63}.get(kind, 253)
        assert len(name) <= limit, (kind, name)
        assert re.fullmatch(r"[a-z0-9]([-a-z0-9.]*[a-z0-9])?", name)
    others = helm.render({"pools": pools, "crds": {"install": False}}, release=release[:-1] + "z")
    assert set(keys) & set(others.keys()) == {
        k for k in keys if k[0] == "Service" and k[2].startswith("p")
    }


# -- subcharts -------------------------------------------------------------------------------------


@pytest.fixture(scope="session")
def parent(tmp_path_factory, chart_dir):
    """Make a chart with this one in it twice, once under another name."""
    root = tmp_path_factory.mktemp("parent")
    version = yaml.safe_load((chart_dir / "Chart.yaml").read_text())["version"]
    dependencies = [
        {"name": "justitia", "version": version, "repository": "", "condition": "justitia.enabled"},
        {"name": "justitia", "version": version, "repository": "", "alias": "batch"},
    ]
    about = {
        "apiVersion": "v2",
        "name": "platform",
        "version": "1.0.0",
        "dependencies": dependencies,
    }
    (root / "Chart.yaml").write_text(yaml.safe_dump(about))
    shutil.copytree(chart_dir, root / "charts" / "justitia")
    return root


PARENT_VALUES = {
    "global": {"imageRegistry": "registry.example", "imagePullSecrets": ["pull"], "team": "x"},
    "justitia": {"enabled": True, "pools": [{"name": "chat", "model": "m"}]},
    "batch": {
        "crds": {"install": False},
        "watchNamespaces": ["batch"],
        "pools": [{"name": "bulk", "model": "m"}],
    },
}


def test_the_chart_works_inside_another_also_twice(helm, parent):
    rendered = helm.render(PARENT_VALUES, chart=parent, release="prod")
    keys = rendered.keys()
    assert len(keys) == len(set(keys))
    assert rendered.names("StatefulSet") == ["prod-batch-scheduler", "prod-justitia-scheduler"]
    engine = rendered.engine("prod-justitia-chat")
    assert engine["image"].startswith("registry.example/justitia/vllm:")
    selectors = [s["spec"]["selector"]["matchLabels"] for s in rendered.of("StatefulSet")]
    assert selectors[0] != selectors[1]


def test_a_parent_can_switch_the_chart_off(helm, parent):
    values = PARENT_VALUES | {"justitia": {"enabled": False}}
    rendered = helm.render(values, chart=parent, release="prod")
    assert rendered.names("StatefulSet") == ["prod-batch-scheduler"]


def test_optional_apis_are_not_needed(helm):
    foreign = ("monitoring.coreos.com", "cert-manager.io")
    rendered = helm.render({"pools": [{"name": "chat", "model": "m"}]})
    assert [o for o in rendered.objects if o["apiVersion"].startswith(foreign)] == []
