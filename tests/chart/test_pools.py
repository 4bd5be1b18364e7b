"""Pools: what the engine is told, where it runs, and that numbers arrive as they were meant."""

import pytest

POOL = {"name": "chat", "model": "m"}


def pool(**settings):
    return {"pools": [POOL | settings]}


def env_of(container):
    return {item["name"]: item.get("value") for item in container["env"]}


def expressions(rendered, name="justitia-chat"):
    spec = rendered.one("Deployment", name)["spec"]["template"]["spec"]
    required = spec["affinity"]["nodeAffinity"]["requiredDuringSchedulingIgnoredDuringExecution"]
    return [term["matchExpressions"] for term in required["nodeSelectorTerms"]]


def test_the_engine_gets_justitias_two_flags_and_its_identity(helm):
    engine = helm.render(pool()).engine()
    assert "--scheduler-cls=justitia.vllm_plugin.JustitiaScheduler" in engine["args"]
    assert "--middleware=justitia.vllm_plugin.RunIdentity" in engine["args"]
    env = env_of(engine)
    assert env["JUSTITIA_POOL"] == "$(POD_NAMESPACE)/chat"
    assert env["JUSTITIA_ENGINE_ID"] == "$(POD_NAME)"
    assert env["JUSTITIA_SCHEDULER_ADDRESS"] == "justitia-scheduler.llm.svc:50051"
    # A variable is expanded in those that stand after it.
    names = [item["name"] for item in engine["env"]]
    assert names.index("POD_NAMESPACE") < names.index("JUSTITIA_POOL")


def test_every_plugin_variable_is_one_that_the_plugin_reads(helm, case):
    from justitia.vllm_plugin.settings import load_settings

    known = {
        "JUSTITIA_SCHEDULER_ADDRESS",
        "JUSTITIA_TLS_CA",
        "JUSTITIA_TLS_CERT",
        "JUSTITIA_TLS_KEY",
    }
    known |= {"JUSTITIA_POOL", "JUSTITIA_ENGINE_ID", "JUSTITIA_POLICY", "JUSTITIA_MODE"}
    known |= {"JUSTITIA_DEFAULT_COST_KVTT"}
    for deployment in helm.case(case).of("Deployment"):
        container = deployment["spec"]["template"]["spec"]["containers"][0]
        if container["name"] != "vllm":
            continue
        env = {k: v for k, v in env_of(container).items() if k.startswith("JUSTITIA_")}
        assert set(env) <= known
        readable = {k: v for k, v in env.items() if "TLS" not in k}
        assert load_settings(readable).pool.endswith(
            f"/{deployment['metadata']['labels']['justitia.dev/pool']}"
        )


def test_gpus_are_as_many_as_the_engine_splits_over(helm):
    engine = helm.render(pool(tensorParallelSize=4, pipelineParallelSize=2)).engine()
    assert engine["resources"] == {"limits": {"nvidia.com/gpu": 8}}
    engine = helm.render(pool(accelerator={"resource": "nvidia.com/mig-3g.40gb"})).engine()
    assert engine["resources"] == {"limits": {"nvidia.com/mig-3g.40gb": 1}}


def test_products_match_with_and_without_the_vendors_prefix(helm):
    rendered = helm.render(pool(accelerator={"products": ["NVIDIA-A100-SXM4-80GB", "H100-PCIE"]}))
    values = ["NVIDIA-A100-SXM4-80GB", "A100-SXM4-80GB", "H100-PCIE", "NVIDIA-H100-PCIE"]
    assert expressions(rendered) == [
        [{"key": "nvidia.com/gpu.product", "operator": "In", "values": values}]
    ]
    rendered = helm.case("v100")
    assert expressions(rendered)[0][0]["values"] == ["Tesla-V100-SXM2-32GB"]


def test_products_join_every_term_of_the_pools_own_affinity(helm):
    own = [{"matchExpressions": [{"key": k, "operator": "Exists"}]} for k in ("a", "b")]
    required = {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": own}}
    affinity = {"nodeAffinity": required, "podAffinity": {}}
    rendered = helm.render(pool(affinity=affinity, accelerator={"products": ["A100"]}))
    terms = expressions(rendered)
    assert [[e["key"] for e in term] for term in terms] == [
        ["a", "nvidia.com/gpu.product"],
        ["b", "nvidia.com/gpu.product"],
    ]


@pytest.mark.parametrize(
    ("resource", "key"),
    [
        ("nvidia.com/gpu", "nvidia.com/gpu"),
        ("nvidia.com/mig-3g.40gb", "nvidia.com/gpu"),
        ("amd.com/gpu", "amd.com/gpu"),
    ],
)
def test_the_taint_of_gpu_nodes_is_tolerated(helm, resource, key):
    spec = helm.render(pool(accelerator={"resource": resource})).one("Deployment", "justitia-chat")
    tolerations = spec["spec"]["template"]["spec"]["tolerations"]
    assert tolerations == [{"key": key, "operator": "Exists", "effect": "NoSchedule"}]


def test_claims_stand_in_for_the_extended_resource(helm):
    rendered = helm.case("dra")
    engine = rendered.engine()
    assert engine["resources"] == {"claims": [{"name": "gpu"}]}
    claims = rendered.one("Deployment", "justitia-chat")["spec"]["template"]["spec"][
        "resourceClaims"
    ]
    (template,) = rendered.of("ResourceClaimTemplate")
    assert claims == [{"name": "gpu", "resourceClaimTemplateName": template["metadata"]["name"]}]
    request = template["spec"]["spec"]["devices"]["requests"][0]["exactly"]
    assert (request["deviceClassName"], request["count"]) == ("gpu.nvidia.com", 2)
    own = rendered.one("Deployment", "justitia-own-claim")["spec"]["template"]["spec"]
    assert own["resourceClaims"][0]["resourceClaimTemplateName"] == "team-gpus"


def test_a_changed_claim_is_a_new_template_since_the_old_one_cannot_change(helm):
    def template(**accelerator):
        accelerator = {"deviceClassName": "gpu.nvidia.com"} | accelerator
        (found,) = helm.render(pool(accelerator=accelerator)).of("ResourceClaimTemplate")
        return found

    plain, larger = template(), template(count=2)
    assert plain["spec"] != larger["spec"]
    assert plain["metadata"]["name"] != larger["metadata"]["name"]
    assert template(runtimeClassName="nvidia") == plain


def test_a_pool_without_accelerator_runs_the_cpu_image(helm):
    engine = helm.case("cpu").engine("justitia-small")
    assert engine["image"].startswith("justitia/vllm-cpu:")
    assert engine["resources"] == {}
    # 64 blocks, and vLLM's null block.
    assert "--num-gpu-blocks-override=65" in engine["args"]


def test_fk4_large_numbers_arrive_as_they_were_meant(helm):
    rendered = helm.case("everything")
    engine = rendered.engine("prod-chat")
    assert "--max-model-len=10000000" in engine["args"]
    assert "--max-num-batched-tokens=1048576" in engine["args"]
    assert "--num-gpu-blocks-override=12345679" in engine["args"]
    assert env_of(engine)["JUSTITIA_DEFAULT_COST_KVTT"] == "999999999999999"
    scheduler = rendered.one("StatefulSet", "prod-scheduler")["spec"]
    env = env_of(scheduler["template"]["spec"]["containers"][0])
    assert env["JUSTITIA_SCHEDULER_DEFAULT_COST_KVTT"] == "123456789012345678"
    assert env["JUSTITIA_SCHEDULER_MAX_OPEN_RUNS"] == "10000000"
    spec = scheduler["template"]["spec"]
    assert spec["securityContext"]["runAsUser"] == 1_000_680_000
    assert spec["tolerations"][0]["tolerationSeconds"] == 3_600_000
    assert (
        str(scheduler["volumeClaimTemplates"][0]["spec"]["resources"]["requests"]["storage"])
        == "107374182400"
    )


@pytest.mark.parametrize("cost", ["1000000", 1_000_000, 123_456_789_012, "999999999999999999"])
def test_fk4_a_cost_is_the_same_number_in_service_and_plugin(helm, cost):
    rendered = helm.render(pool(defaultCostKvtt=cost) | {"scheduler": {"defaultCostKvtt": cost}})
    engine = env_of(rendered.engine())["JUSTITIA_DEFAULT_COST_KVTT"]
    scheduler = rendered.one("StatefulSet", "justitia-scheduler")["spec"]["template"]["spec"]
    env = env_of(scheduler["containers"][0])
    assert engine == env["JUSTITIA_SCHEDULER_DEFAULT_COST_KVTT"] == str(cost)


def test_zero_and_false_override_the_defaults(helm):
    values = pool(replicas=0, drainSeconds=0, accelerator={"tolerateTaint": False})
    deployment = helm.render(values).one("Deployment", "justitia-chat")["spec"]
    assert deployment["replicas"] == 0
    spec = deployment["template"]["spec"]
    assert spec["terminationGracePeriodSeconds"] == 30
    assert "tolerations" not in spec


def test_an_autoscaled_pool_leaves_the_number_to_its_scaler(helm):
    rendered = helm.case("engines-only")
    assert "replicas" not in rendered.one("Deployment", "justitia-chat")["spec"]
    assert len(rendered.of("PodDisruptionBudget")) == 1


def test_fk13_a_pool_is_replaced_and_drained_without_spare_gpus(helm):
    rendered = helm.case("a100")
    strategy = rendered.one("Deployment", "justitia-chat")["spec"]["strategy"]["rollingUpdate"]
    assert strategy == {"maxSurge": 0, "maxUnavailable": 1}
    budget = rendered.one("PodDisruptionBudget", "justitia-chat")["spec"]
    assert budget["maxUnavailable"] == 1
    assert "minAvailable" not in budget
    # One engine alone must not hold up a drain.
    assert helm.render(pool(replicas=1)).of("PodDisruptionBudget") == []


def test_a_pool_grants_other_namespaces_by_its_service(helm):
    service = helm.case("a100").one("Service", "chat")
    assert service["metadata"]["annotations"]["justitia.dev/allowed-namespaces"] == "team-a,team-b"
    assert "annotations" not in helm.render(pool()).one("Service", "chat")["metadata"]


def test_fk13_a_drained_engine_gets_time_for_what_it_computes(helm):
    deployment = helm.render(pool(drainSeconds=300)).one("Deployment", "justitia-chat")
    spec = deployment["spec"]["template"]["spec"]
    assert "--shutdown-timeout=300" in spec["containers"][0]["args"]
    assert spec["terminationGracePeriodSeconds"] == 330


def test_pool_defaults_are_shared_and_each_pool_may_differ(helm):
    values = {
        "poolDefaults": {"maxNumSeqs": 64, "accelerator": {"products": ["A"]}},
        "pools": [POOL, POOL | {"name": "other", "maxNumSeqs": 8, "accelerator": {"count": 2}}],
    }
    rendered = helm.render(values)
    assert "--max-num-seqs=64" in rendered.engine()["args"]
    other = rendered.engine("justitia-other")
    assert "--max-num-seqs=8" in other["args"]
    assert other["resources"]["limits"] == {"nvidia.com/gpu": 2}
    assert expressions(rendered, "justitia-other")[0][0]["values"] == ["A", "NVIDIA-A"]


def test_prometheus_scrapes_each_pool_as_it_serves(helm):
    pools = [POOL, POOL | {"name": "secure", "tlsSecretName": "api-tls"}]
    rendered = helm.render({"pools": pools, "metrics": {"podMonitor": {"enabled": True}}})
    endpoints = {
        m["spec"]["selector"]["matchLabels"]["justitia.dev/pool"]: m["spec"]["podMetricsEndpoints"]
        for m in rendered.of("PodMonitor")
    }
    assert endpoints["chat"] == [{"port": "http", "path": "/metrics"}]
    assert endpoints["secure"][0]["scheme"] == "https"


def test_prometheus_finds_the_metrics_ports_of_the_services(helm):
    rendered = helm.case("everything")
    (monitor,) = rendered.of("ServiceMonitor")
    selector = monitor["spec"]["selector"]
    found = [
        s["metadata"]["name"]
        for s in rendered.of("Service")
        if selector["matchLabels"].items() <= s["metadata"]["labels"].items()
        and s["metadata"]["labels"]["app.kubernetes.io/component"]
        in selector["matchExpressions"][0]["values"]
        and any(port["name"] == "metrics" for port in s["spec"]["ports"])
    ]
    assert found == ["prod-operator", "prod-scheduler"]
    assert monitor["metadata"]["labels"]["release"] == "prometheus"
    assert monitor["spec"]["endpoints"][0]["interval"] == "15s"
