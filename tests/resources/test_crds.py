"""The schemas of ``crds/``: one word with the models, complete, bounded, small."""

import copy
import json
import re
from pathlib import Path

import jsonschema
import pytest
import yaml

from justitia.resources.application import ApplicationSpec
from justitia.resources.application_status import ApplicationStatus
from justitia.resources.conditions import ApplicationCondition, ProfileCondition
from justitia.resources.profile import ProfileSpec
from justitia.resources.profile_status import ProfileStatus
from justitia.resources.reading import read_resource
from justitia.testing.bad_manifests import BAD_CHANGES, BAD_MANIFESTS, EXTREMES
from justitia.testing.crd_parity import differences

ROOT = Path(__file__).resolve().parents[2]
CRDS = {
    crd["spec"]["names"]["kind"]: crd
    for crd in (yaml.safe_load(path.read_text()) for path in sorted((ROOT / "crds").glob("*.yaml")))
}
MODELS = [
    ("LLMApplication", "spec", ApplicationSpec),
    ("LLMApplication", "status", ApplicationStatus),
    ("PredictorProfile", "spec", ProfileSpec),
    ("PredictorProfile", "status", ProfileStatus),
]
EXAMPLES = sorted((ROOT / "examples/applications").glob("*.yaml"))
#: What `kubectl apply` on the client's side can keep in an annotation, bytes.
MAX_ANNOTATION = 262_144
RULES = "x-kubernetes-validations"


def schema_of(kind):
    (version,) = CRDS[kind]["spec"]["versions"]
    return version["schema"]["openAPIV3Schema"]


def nodes(schema, path=""):
    yield path, schema
    for name, field in schema.get("properties", {}).items():
        yield from nodes(field, f"{path}.{name}")
    for key, mark in (("items", "[]"), ("additionalProperties", "{}")):
        if key in schema:
            yield from nodes(schema[key], path + mark)


ALL_NODES = [
    pytest.param(node, id=f"{kind}{path}")
    for kind in CRDS
    for path, node in nodes(schema_of(kind))
    if not path.startswith((".apiVersion", ".kind", ".metadata"))
]


@pytest.mark.parametrize(("kind", "part", "model"), MODELS)
def test_schema_and_model_agree_in_every_field(kind, part, model):
    assert differences(model, schema_of(kind)["properties"][part]) == []


def _plant(schema, path, key, value):
    node = schema
    for name in path:
        node = node[name]
    if value is None:
        del node[key]
    else:
        node[key] = value


@pytest.mark.parametrize(
    ("kind", "part", "path", "key", "value"),
    [
        ("LLMApplication", "spec", "properties.weight", "default", 2),
        ("LLMApplication", "spec", "properties.weight", "default", None),
        ("LLMApplication", "spec", "properties.weight", "maxLength", 64),
        ("LLMApplication", "spec", "properties.weight", RULES, None),
        ("LLMApplication", "spec", "properties.mode", "enum", ["Enforce"]),
        ("LLMApplication", "spec", "properties", "mode", None),
        ("LLMApplication", "spec", "properties", "extra", {"type": "string"}),
        ("LLMApplication", "spec", "properties.run", "default", None),
        ("LLMApplication", "spec", "properties.run.properties.maxConcurrent", "maximum", 8),
        ("LLMApplication", "spec", "properties.run.properties.idleTimeout", "default", "30s"),
        ("LLMApplication", "spec", "properties.fallbackCost", "required", None),
        ("LLMApplication", "spec", "properties.identity.properties.credentials", "maxItems", 17),
        ("LLMApplication", "spec", "properties.poolRef.properties.name", "pattern", "^.*$"),
        ("LLMApplication", "status", "properties.conditions.items", "required", ["type"]),
        ("LLMApplication", "status", "properties.weightedShare", "type", "number"),
        ("PredictorProfile", "spec", "properties.job.properties.ttl", "default", "1h"),
        ("PredictorProfile", "spec", "properties.job.properties.backoffLimit", "minimum", 1),
        (
            "PredictorProfile",
            "spec",
            "properties.job.properties.tolerations.items.properties.operator",
            "default",
            None,
        ),
        ("PredictorProfile", "spec", "properties.model.properties.hiddenLayers", "default", [1]),
        ("PredictorProfile", "spec", "properties.samples", "default", {"configMap": {"name": "a"}}),
        ("PredictorProfile", "spec", "properties.training.properties.seed", "type", "string"),
    ],
)
def test_a_planted_difference_is_found(kind, part, path, key, value):
    schema = copy.deepcopy(schema_of(kind)["properties"][part])
    _plant(schema, path.split("."), key, value)
    model = next(model for k, p, model in MODELS if (k, p) == (kind, part))
    assert len(differences(model, schema)) == 1


@pytest.mark.parametrize("kind", CRDS)
def test_names_are_those_that_people_type(kind):
    spec = CRDS[kind]["spec"]
    names = spec["names"]
    assert CRDS[kind]["metadata"]["name"] == f"{names['plural']}.{spec['group']}"
    assert spec["scope"] == "Namespaced"
    assert names["categories"] == ["justitia"]
    assert names["shortNames"] == [{"LLMApplication": "llmapp"}.get(kind, "predprof")]
    (version,) = spec["versions"]
    assert version["subresources"] == {"status": {}}


@pytest.mark.parametrize("kind", CRDS)
def test_columns_show_fields_that_exist(kind):
    (version,) = CRDS[kind]["spec"]["versions"]
    paths = {path for path, _ in nodes(schema_of(kind))}
    for column in version["additionalPrinterColumns"]:
        path = column["jsonPath"]
        if path.startswith(".status.conditions[?(@.type=="):
            types = ApplicationCondition if kind == "LLMApplication" else ProfileCondition
            assert path.split('"')[1] in set(types)
        elif path != ".metadata.creationTimestamp":
            assert path in paths


@pytest.mark.parametrize("node", ALL_NODES)
def test_every_field_is_described_and_bounded(node):
    if "x-kubernetes-int-or-string" not in node and node["type"] in {"object", "array"}:
        assert node["type"] == "object" or {"maxItems", "x-kubernetes-list-type"} <= node.keys()
        assert "additionalProperties" not in node or "maxProperties" in node
    elif node.get("type") in {"integer", "number"}:
        assert {"minimum", "maximum"} <= node.keys()
    else:
        assert {"maxLength", "enum", "format"} & node.keys()
    assert all({"rule", "message"} <= rule.keys() for rule in node.get(RULES, ()))


@pytest.mark.parametrize("kind", CRDS)
def test_every_named_field_has_a_description(kind):
    bare = [
        path
        for path, node in nodes(schema_of(kind))
        if path != ".metadata" and path[-1:] not in {"]", "}"} and not node.get("description")
    ]
    assert bare == []


@pytest.mark.parametrize("kind", CRDS)
def test_the_whole_fits_into_the_annotation_of_client_side_apply(kind):
    assert len(json.dumps(CRDS[kind])) < MAX_ANNOTATION / 4


def _told(case):
    """Where the schema's rule is that a case breaks, and what the API server says."""
    path = "" if case.path == "metadata.name" else "." + re.sub(r"\[\d+\]", "[]", case.path)
    return case.kind, path, getattr(case, "server_message", case.message)


TOLD = [_told(case) for case in (*BAD_MANIFESTS, *BAD_CHANGES)]
ALL_RULES = [
    (kind, path, rule["message"])
    for kind in CRDS
    for path, node in nodes(schema_of(kind))
    for rule in node.get(RULES, ())
]


@pytest.mark.parametrize(("kind", "path", "message"), ALL_RULES)
def test_every_rule_is_broken_by_a_bad_manifest(kind, path, message):
    said = [text for *where, text in TOLD if where == [kind, path]]
    assert any(text.startswith(message) or message.startswith(text) for text in said)


def validator_of(kind):
    """Build an offline validator that also refuses unknown fields, as strict validation does."""
    schema = copy.deepcopy(schema_of(kind))
    for path, node in list(nodes(schema)):
        if node.get("properties") and path != ".metadata":
            node["additionalProperties"] = False
    return jsonschema.Draft202012Validator(schema)


@pytest.mark.parametrize("path", EXAMPLES, ids=lambda path: path.stem)
def test_examples_pass_the_schema_and_the_models(path):
    for document in yaml.safe_load_all(path.read_text()):
        read_resource(document)
        validator_of(document["kind"]).validate(document)


@pytest.mark.parametrize(("kind", "spec"), EXTREMES)
def test_extremes_pass_the_schema(kind, spec):
    present = {name: value for name, value in spec.items() if value is not None}
    validator_of(kind).validate(
        {"apiVersion": "justitia.dev/v1alpha1", "kind": kind, "metadata": {}, "spec": present}
    )
