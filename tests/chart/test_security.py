"""Rights, pod security, flows and probes: as little as will do, in every case (FK11, FK12)."""

import pytest

RESTRICTED = {
    "allowPrivilegeEscalation": False,
    "readOnlyRootFilesystem": True,
    "capabilities": {"drop": ["ALL"]},
}
WATCH = ["list", "watch"]
READ = ["get", *WATCH]
#: All that the operator may do: (group, resource) -> verbs.
OPERATOR = {
    ("justitia.dev", "llmapplications"): READ,
    ("justitia.dev", "predictorprofiles"): READ,
    ("justitia.dev", "llmapplications/status"): ["patch"],
    ("justitia.dev", "predictorprofiles/status"): ["patch"],
    ("", "services"): READ,
    ("", "pods"): ["list"],
    ("", "events"): ["list"],
    ("batch", "jobs"): [*READ, "create", "delete"],
    ("events.k8s.io", "events"): ["create"],
}
CLUSTER_WIDE = {
    ("apiextensions.k8s.io", "customresourcedefinitions"): WATCH,
}


def rights(role):
    return {
        (group, resource): rule["verbs"]
        for rule in role["rules"]
        for group in rule["apiGroups"]
        for resource in rule["resources"]
    }


def test_the_operators_rights_are_these_and_no_others(helm):
    (role,) = [
        r for r in helm.render().of("ClusterRole") if r["metadata"]["name"].endswith("-operator")
    ]
    assert rights(role) == OPERATOR | CLUSTER_WIDE


def test_named_namespaces_get_roles_and_nothing_is_cluster_wide(helm):
    rendered = helm.case("namespaced")
    assert rendered.of("ClusterRole", "ClusterRoleBinding", "CustomResourceDefinition") == []
    roles = rendered.of("Role")
    assert [r["metadata"]["namespace"] for r in roles] == ["team-a", "team-b", "llm"]
    assert all(rights(role) == OPERATOR for role in roles)
    for binding in rendered.of("RoleBinding"):
        assert binding["subjects"] == [
            {"kind": "ServiceAccount", "name": "justitia-operator", "namespace": "llm"}
        ]


def test_no_rule_has_a_wildcard_or_reads_secrets(helm, case):
    for role in helm.case(case).of("Role", "ClusterRole"):
        for rule in role["rules"]:
            assert "*" not in rule["verbs"] + rule["resources"] + rule["apiGroups"]
            assert "secrets" not in rule["resources"]


def test_the_clusters_own_roles_learn_our_resources(helm):
    label = "rbac.authorization.k8s.io/aggregate-to-{}"
    roles = helm.render().of("ClusterRole")
    for name, may_write in (("admin", True), ("edit", True), ("view", False)):
        found = [r for r in roles if r["metadata"]["labels"].get(label.format(name)) == "true"]
        assert len(found) == 2
        for role in found:
            assert any("create" in rule["verbs"] for rule in role["rules"]) is may_write
            # Statuses are the operator's.
            assert all(
                rule["verbs"] == ["get"]
                for rule in role["rules"]
                if any(resource.endswith("/status") for resource in rule["resources"])
            )


def test_every_pod_meets_the_restricted_level(helm, case):
    for name, spec in helm.case(case).pods():
        context = spec["securityContext"]
        assert context["runAsNonRoot"] is True, name
        assert context["seccompProfile"] == {"type": "RuntimeDefault"}, name
        assert context.get("runAsUser") != 0
        assert not {"hostNetwork", "hostPID", "hostIPC"} & set(spec)
        for container in spec["containers"]:
            assert container["securityContext"] == RESTRICTED, name
        kinds = {kind for volume in spec["volumes"] for kind in volume if kind != "name"}
        assert kinds <= {"emptyDir", "secret", "configMap", "persistentVolumeClaim"}


def test_only_the_operator_gets_a_token(helm, case):
    for name, spec in helm.case(case).pods():
        assert spec["automountServiceAccountToken"] is name.endswith("-operator"), name


def test_no_pod_gets_variables_of_other_services(helm, case):
    for name, spec in helm.case(case).pods():
        assert spec["enableServiceLinks"] is False, name


def test_what_a_container_writes_to_is_a_volume(helm, case):
    needed = {"vllm": {"/tmp", "/cache", "/dev/shm"}, "scheduler": {"/tmp", "/var/lib/justitia"}}
    for _, spec in helm.case(case).pods():
        for container in spec["containers"]:
            mounts = {m["mountPath"] for m in container["volumeMounts"] if not m.get("readOnly")}
            assert needed.get(container["name"], {"/tmp"}) <= mounts


def test_an_engine_needs_no_entry_in_the_password_file(helm):
    env = {e["name"]: e.get("value") for e in helm.case("a100").engine()["env"]}
    assert env["USER"] == "vllm"
    assert env["HOME"] == "/cache"
    caches = ("HF_HOME", "VLLM_CACHE_ROOT", "TORCHINDUCTOR_CACHE_DIR", "TRITON_CACHE_DIR")
    assert all(env[name].startswith("/cache/") for name in caches)


def test_openshift_chooses_the_ids_itself(helm):
    rendered = helm.case("a100", flags=("--api-versions", "security.openshift.io/v1"))
    for _, spec in rendered.pods():
        assert not {"runAsUser", "runAsGroup", "fsGroup"} & set(spec["securityContext"])
        assert spec["securityContext"]["runAsNonRoot"] is True


@pytest.mark.parametrize("tls", [True, False])
def test_the_schedulers_probes_do_not_depend_on_encryption(helm, tls):
    spec = helm.render({"tls": {"enabled": tls}}).one("StatefulSet", "justitia-scheduler")["spec"]
    container = spec["template"]["spec"]["containers"][0]
    env = {e["name"]: e["value"] for e in container["env"]}
    assert env["JUSTITIA_SCHEDULER_HEALTH_ADDRESS"] == "[::]:50052"
    assert container["startupProbe"]["grpc"] == {"port": 50052, "service": "liveness"}
    assert container["livenessProbe"]["grpc"] == {"port": 50052, "service": "liveness"}
    assert container["readinessProbe"]["grpc"] == {"port": 50052, "service": "readiness"}


def test_the_schedulers_variables_are_settings_of_the_service(helm, case):
    from justitia_scheduler.settings import read_settings

    (scheduler,) = helm.case(case).of("StatefulSet")
    container = scheduler["spec"]["template"]["spec"]["containers"][0]
    env = {e["name"]: e["value"] for e in container["env"] if e["name"].startswith("JUSTITIA_")}
    with pytest.MonkeyPatch.context() as patch:
        for name, value in env.items():
            patch.setenv(name, value)
        assert read_settings([], env).journal_path is not None


@pytest.mark.parametrize(
    ("values", "learning", "retention_s"),
    [({}, "on", 90 * 86_400), ({"learning": False, "sampleRetentionSeconds": 0}, "off", 0)],
)
def test_the_service_reads_learning_and_retention_as_the_values_mean_them(
    helm, monkeypatch, values, learning, retention_s
):
    from justitia_scheduler.settings import read_settings

    defaults = read_settings([], {})
    variables = scheduler_env(helm.render({"scheduler": values}), "justitia")
    # Kubernetes refuses a variable whose value is no text, such as YAML's bare `on`.
    assert all(isinstance(variable["value"], str) for variable in variables)
    env = {variable["name"]: variable["value"] for variable in variables}
    for name, value in env.items():
        monkeypatch.setenv(name, value)
    settings = read_settings([], env)
    assert (settings.learning, settings.sample_retention_s) == (learning, retention_s)
    if not values:
        assert (defaults.learning, defaults.sample_retention_s) == (learning, retention_s)


def test_the_operators_variables_are_settings_of_the_operator(helm, case):
    settings = pytest.importorskip("justitia_operator.settings")
    for deployment in helm.case(case).of("Deployment"):
        container = deployment["spec"]["template"]["spec"]["containers"][0]
        if container["name"] != "operator":
            continue
        env = {e["name"]: e["value"] for e in container["env"] if e["name"].startswith("JUSTITIA_")}
        with pytest.MonkeyPatch.context() as patch:
            for name, value in env.items():
                patch.setenv(name, value)
            read = settings.read_settings([], env)
        assert read.scheduler_address.endswith(":50051")
        assert read.namespaces == (("team-a", "team-b", "llm") if case == "namespaced" else ())


def test_an_https_pool_is_probed_with_https(helm):
    engine = helm.case("cpu").engine("justitia-small")
    for probe in ("startupProbe", "livenessProbe", "readinessProbe"):
        assert engine[probe]["httpGet"]["scheme"] == "HTTPS"
    assert "--ssl-certfile=/etc/justitia/api-tls/tls.crt" in engine["args"]


def test_loading_a_model_may_take_as_long_as_the_values_say(helm):
    values = {"pools": [{"name": "chat", "model": "m", "startupSeconds": 3602}]}
    deployment = helm.render(values).one("Deployment", "justitia-chat")["spec"]
    probe = deployment["template"]["spec"]["containers"][0]["startupProbe"]
    assert probe["failureThreshold"] * probe["periodSeconds"] >= 3602
    assert deployment["progressDeadlineSeconds"] > 3602


def ports(rule):
    return [port["port"] for port in rule["ports"]]


def test_the_scheduler_is_reached_by_its_clients_alone_and_calls_nobody(helm):
    policy = helm.render().one("NetworkPolicy", "justitia-scheduler")["spec"]
    assert policy["policyTypes"] == ["Ingress", "Egress"]
    assert policy["egress"] == []
    grpc, metrics = policy["ingress"]
    assert (ports(grpc), ports(metrics)) == (["grpc"], ["metrics"])
    assert [peer["podSelector"]["matchLabels"] for peer in grpc["from"]] == [
        {"app.kubernetes.io/instance": "justitia", "app.kubernetes.io/part-of": "justitia"},
        {"app.kubernetes.io/managed-by": "justitia-operator"},
        {"justitia.dev/scheduler-client": "true"},
    ]


def test_every_workload_has_a_policy_that_selects_it(helm, case):
    rendered = helm.case(case)
    policies = [p["spec"]["podSelector"]["matchLabels"] for p in rendered.of("NetworkPolicy")]
    if case == "engines-only":
        assert policies == []
        return
    for o in rendered.of("Deployment", "StatefulSet"):
        labels = o["spec"]["template"]["metadata"]["labels"].items()
        assert [selector for selector in policies if selector.items() <= labels] != []


def test_restricted_egress_leaves_dns_the_scheduler_and_what_was_allowed(helm):
    engine = helm.case("everything").one("NetworkPolicy", "prod-chat")["spec"]
    assert engine["policyTypes"] == ["Ingress", "Egress"]
    assert [ports(rule) for rule in engine["egress"]] == [[53, 53], [50051], [443]]
    operator = helm.case("everything").one("NetworkPolicy", "prod-operator")["spec"]
    assert [ports(rule) for rule in operator["egress"]] == [[53, 53], [50051], [443, 6443]]


def test_selected_clients_do_not_shut_out_prometheus_and_helm_test(helm):
    (rule,) = helm.case("everything").one("NetworkPolicy", "prod-chat")["spec"]["ingress"]
    (test,) = helm.case("everything").of("Pod")
    *chosen, own = rule["from"]
    assert len(chosen) == 2
    assert own["podSelector"]["matchLabels"].items() <= test["metadata"]["labels"].items()
    # A load balancer's clients are no pods.
    (rule,) = helm.case("cpu").one("NetworkPolicy", "justitia-small")["spec"]["ingress"]
    assert "from" not in rule


def test_ports_listen_on_both_families_or_as_told(helm):
    env = {e["name"]: e.get("value") for e in scheduler_env(helm.render(), "justitia")}
    assert env["JUSTITIA_SCHEDULER_LISTEN_ADDRESS"] == "[::]:50051"
    env = {e["name"]: e.get("value") for e in scheduler_env(helm.case("everything"), "prod")}
    assert env["JUSTITIA_SCHEDULER_LISTEN_ADDRESS"] == "0.0.0.0:50051"
    assert "--host=::" in helm.case("a100").engine()["args"]


def test_the_operator_listens_on_both_families(helm):
    def address(rendered, name):
        spec = rendered.one("Deployment", f"{name}-operator")["spec"]["template"]["spec"]
        env = {e["name"]: e.get("value") for e in spec["containers"][0]["env"]}
        return env["JUSTITIA_OPERATOR_HTTP_ADDRESS"]

    # aiohttp's servers are asyncio's, which make an IPv6 socket deaf to IPv4.
    assert address(helm.render(), "justitia") == ":9090"
    assert address(helm.case("everything"), "prod") == "0.0.0.0:9090"


def scheduler_env(rendered, name):
    spec = rendered.one("StatefulSet", f"{name}-scheduler")["spec"]["template"]["spec"]
    return spec["containers"][0]["env"]
