"""Values: closed, documented, refused in one sentence."""

import json

import pytest
import yaml

POOL = {"name": "chat", "model": "m"}


def pool(**settings):
    return {"pools": [POOL | settings]}


@pytest.mark.parametrize(
    ("values", "message"),
    [
        ({"pool": []}, "additional properties 'pool' not allowed"),
        (pool(tensorParallel=2), "at '/pools/0': additional properties 'tensorParallel'"),
        (pool(tensorParallelSize=0), "at '/pools/0/tensorParallelSize': minimum: got 0, want 1"),
        (
            pool(tensorParallelSize="4"),
            "at '/pools/0/tensorParallelSize': got string, want integer",
        ),
        (pool(replicas=1.5), "at '/pools/0/replicas': got number, want null or integer"),
        (pool(name="Chat"), "at '/pools/0/name': 'Chat' does not match pattern"),
        (pool(name="a" * 41), "at '/pools/0/name': maxLength: got 41, want 40"),
        ({"pools": [{"model": "m"}]}, "at '/pools/0': missing property 'name'"),
        (pool(policy="lottery"), "at '/pools/0/policy': value must be one of 'justitia', 'fcfs'"),
        (
            pool(accelerator={"products": ["NVIDIA A100"]}),
            "at '/pools/0/accelerator/products/0': 'NVIDIA A100' does not match pattern",
        ),
        (
            pool(defaultCostKvtt=1e15),
            "at '/pools/0/defaultCostKvtt': maximum: got 1×10¹⁵, want 9.99",
        ),
        ({"tls": {"mode": "off"}}, "at '/tls/mode': value must be one of 'auto'"),
        ({"scheduler": {"learning": "on"}}, "at '/scheduler/learning': got string, want boolean"),
        (
            {"scheduler": {"sampleRetentionSeconds": "90d"}},
            "at '/scheduler/sampleRetentionSeconds': got string, want integer",
        ),
        (
            {"scheduler": {"sampleRetentionSeconds": -1}},
            "at '/scheduler/sampleRetentionSeconds': minimum: got -1, want 0",
        ),
        (
            {"scheduler": {"persistence": {"accessModes": ["ReadWriteMany"]}}},
            "at '/scheduler/persistence/accessModes/0': value must be one of 'ReadWriteOnce'",
        ),
        ({"listenHost": "localhost"}, "at '/listenHost': 'localhost' does not match pattern"),
        ({"commonLabels": {"team": "a b"}}, "at '/commonLabels/team': 'a b' does not match"),
    ],
)
def test_the_schema_names_field_and_value(helm, values, message):
    told = [line for line in helm.refusal(values).splitlines() if line.startswith("- ")]
    assert len(told) == 1
    assert message in told[0]


@pytest.mark.parametrize(
    ("values", "message"),
    [
        ({"pools": [{"name": "chat"}]}, 'pools: pool "chat" needs a model'),
        (
            {"pools": [POOL, POOL]},
            'pools[1].name: "chat" is taken by pools[0]\'s Service',
        ),
        (
            pool(name="justitia-scheduler"),
            'pools[0].name: "justitia-scheduler" is taken by the chart\'s own Service',
        ),
        (
            pool(name="operator"),
            'pools[0].name: "operator" would give its objects the name of another component',
        ),
        (
            pool(tensorParallelSize=4, pipelineParallelSize=2, accelerator={"count": 4}),
            'pool "chat" has accelerator.count 4, less than tensorParallelSize x pipelineParalle',
        ),
        (
            pool(extraArgs=["--scheduler_cls=mine"]),
            'pool "chat" has --scheduler-cls in extraArgs, which the chart sets',
        ),
        (
            pool(extraEnv=[{"name": "JUSTITIA_POOL", "value": "x"}]),
            'pool "chat" has JUSTITIA_POOL in extraEnv, which is set already',
        ),
        (
            pool(accelerator={"deviceClassName": "a", "resourceClaimTemplateName": "b"}),
            'pool "chat" names both accelerator.deviceClassName and',
        ),
        (
            {"tls": {"mode": "cert-manager"}},
            "tls.certManager.issuerRef.name: must name the Issuer that signs",
        ),
        ({"tls": {"mode": "manual"}}, "tls.manual.serverSecret: must name the Secret"),
    ],
)
def test_what_cannot_work_is_refused_in_one_sentence(helm, values, message):
    (told,) = [line for line in helm.refusal(values).splitlines() if line.startswith("Error: ")]
    assert message in told


def test_every_object_of_the_schema_is_closed_but_global(chart_dir):
    schema = json.loads((chart_dir / "values.schema.json").read_text())
    open_objects = [
        path
        for path, node in objects(schema)
        if "properties" in node and node.get("additionalProperties") is not False
    ]
    assert open_objects == ["properties.global"]


def objects(node, path=""):
    if isinstance(node, dict):
        yield path, node
        for key, value in node.items():
            yield from objects(value, f"{path}.{key}".lstrip("."))


def test_schema_and_values_list_the_same_names(chart_dir):
    schema = json.loads((chart_dir / "values.schema.json").read_text())
    values = yaml.safe_load((chart_dir / "values.yaml").read_text())
    differing = list(differences(schema, schema, values, ""))
    # For a parent's condition; it means nothing here, so it has no default.
    assert differing == [".enabled"]


def differences(root, schema, value, path):
    while "$ref" in schema:
        schema = root["definitions"][schema["$ref"].rpartition("/")[2]]
    # Overlays, and what Kubernetes defines, start empty.
    if not isinstance(value, dict) or not value or "properties" not in schema:
        return
    is_partial = path.endswith("SecurityContext")
    for name in sorted(set(schema["properties"]) | set(value)):
        if name not in value or name not in schema["properties"]:
            if not is_partial and not path.endswith(".resources"):
                yield f"{path}.{name}"
            continue
        yield from differences(root, schema["properties"][name], value[name], f"{path}.{name}")


def test_null_takes_a_default_away(helm):
    values = {"podSecurityContext": {"runAsUser": None, "fsGroup": None}}
    for _, spec in helm.render(values).pods():
        assert "runAsUser" not in spec["securityContext"]
        assert spec["securityContext"]["runAsNonRoot"] is True
