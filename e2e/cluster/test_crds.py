"""The schemas on a real API server: accepted, defaults filled in, each rule told in its words.

Needs an API server and nothing else of a cluster.
"""

import copy
import json
from datetime import UTC, datetime
from pathlib import Path

import pytest
import yaml
from kube.errors import CommandError

from justitia.local.manifests import read_manifests
from justitia.resources.application_status import (
    ApplicationStatus,
    EffectivePolicy,
    Prediction,
    PredictionSource,
    RatioQuantiles,
    RunCounts,
)
from justitia.resources.conditions import Condition, ConditionStatus
from justitia.resources.numbers import decimal_text
from justitia.resources.reading import read_resource
from justitia.testing.bad_manifests import BAD_CHANGES, BAD_MANIFESTS, EXTREMES

CRDS = Path(__file__).resolve().parents[2] / "crds"
EXAMPLES = CRDS.parent / "examples/applications"
#: A group of the tests' own, whose schema may be changed.
OTHER_GROUP = "tightened.justitia.dev"


def document(kind, name, spec, **parts):
    return {
        "apiVersion": "justitia.dev/v1alpha1",
        "kind": kind,
        "metadata": {"name": name},
        "spec": spec,
        **parts,
    }


@pytest.fixture(scope="module", autouse=True)
def crds(kubectl):
    """Both kinds are known; what was not there before is gone afterwards."""
    before = kubectl("get", "crd", "-o", "name")
    said = kubectl("apply", "--server-side", "--force-conflicts", "-f", str(CRDS))
    kubectl("wait", "--for=condition=Established", "--timeout=30s", "-f", str(CRDS))
    yield said
    if "llmapplications.justitia.dev" not in before:
        kubectl("delete", "--wait=false", "-f", str(CRDS))


@pytest.fixture
def create(kubectl, namespace):
    """``create(document)`` stores a resource and returns what is stored."""

    def store(manifest):
        text = json.dumps(manifest)
        return json.loads(kubectl("create", "-n", namespace, "-f", "-", "-o", "json", text=text))

    return store


@pytest.fixture
def dry_run(kubectl, namespace):
    """``dry_run(document)`` returns what would be stored."""

    def store(manifest):
        arguments = ("create", "--dry-run=server", "-n", namespace, "-f", "-", "-o", "json")
        return json.loads(kubectl(*arguments, text=json.dumps(manifest)))

    return store


@pytest.mark.parametrize("bad", BAD_MANIFESTS, ids=lambda bad: bad.title)
def test_a_bad_manifest_is_refused_with_the_message_that_people_need(dry_run, bad):
    with pytest.raises(CommandError) as refused:
        dry_run(bad.document)
    assert bad.path in refused.value.output
    assert bad.server_message in refused.value.output


@pytest.mark.parametrize("change", BAD_CHANGES, ids=lambda change: change.path)
def test_a_bad_change_is_refused(create, kubectl, namespace, change):
    create(document(change.kind, "changed", change.before))
    after = json.dumps(document(change.kind, "changed", change.after))
    force = ("--server-side", "--force-conflicts")
    with pytest.raises(CommandError) as refused:
        kubectl("apply", *force, "-n", namespace, "-f", "-", text=after)
    assert change.path in refused.value.output
    assert change.message in refused.value.output


@pytest.mark.parametrize(("kind", "spec"), EXTREMES)
def test_what_the_server_stores_means_what_was_written(dry_run, kind, spec):
    written = document(kind, "extreme", spec)
    stored = dry_run(written)
    assert read_resource(stored).spec == read_resource(written).spec


@pytest.mark.parametrize(
    "written", ["2e6", "1e+06", "1E18", "2.0", "0777", "0o17", "0x1f", "1_000", '"2M"', "2M"]
)
def test_a_number_in_a_file_means_the_same_to_kubectl_and_to_local_mode(
    kubectl, namespace, tmp_path, written
):
    head = "apiVersion: justitia.dev/v1alpha1\nkind: LLMApplication\nmetadata: {name: numbers}\n"
    file = tmp_path / "numbers.yaml"
    file.write_text(head + f"spec: {{fallbackCost: {{kvTokenTime: {written}}}}}\n")
    arguments = ("create", "--dry-run=server", "-n", namespace, "-f", str(file), "-o", "json")
    stored = read_resource(json.loads(kubectl(*arguments)))
    (local,) = read_manifests(file)
    assert stored.spec == local.spec


def test_defaults_are_filled_in(dry_run):
    application = dry_run(document("LLMApplication", "plain", {}))["spec"]
    assert application == {
        "poolRef": {"group": "", "kind": "Service", "name": "default"},
        "weight": 1,
        "predictor": {"privacy": "Text"},
        "run": {"idleTimeout": "60s"},
        "failureMode": "FailOpen",
        "mode": "Enforce",
    }
    profile = dry_run(document("PredictorProfile", "plain", {}))["spec"]
    assert profile["samples"] == {"recorded": {}}
    assert profile["model"] == {"kind": "GaussianProcess", "hiddenLayers": [64, 32, 16]}
    assert profile["job"]["ttl"] == "24h"


def test_all_examples_are_accepted_by_client_side_apply(kubectl, namespace):
    for _ in range(2):
        said = kubectl("apply", "-n", namespace, "-f", str(EXAMPLES))
    assert said.count("unchanged") == len(list(EXAMPLES.glob("*.yaml")))
    assert "llmapplication.justitia.dev/code-checking" in said


def a_status():
    condition = Condition(
        type="Ready",
        status=ConditionStatus.TRUE,
        observed_generation=1,
        last_transition_time=datetime(2026, 1, 2, 3, 4, 5, tzinfo=UTC),
        reason="Programmed",
        message="In service.",
    )
    return ApplicationStatus(
        observed_generation=1,
        conditions=(condition,),
        application_name="shown",
        pool="team/default",
        effective_policy=EffectivePolicy.JUSTITIA,
        runs=RunCounts(active=2, completed=40),
        weighted_share=decimal_text(1 / 3),
        fairness_ratio=RatioQuantiles(p50=decimal_text(0.9), p99=decimal_text(1.234)),
        prediction=Prediction(source=PredictionSource.MODEL, relative_error=decimal_text(0.25)),
    )


def test_a_status_of_the_models_is_accepted_and_shown_in_columns(create, kubectl, namespace):
    stored = create(document("LLMApplication", "shown", {"weight": "1.5"}, status={"pool": "no"}))
    assert "status" not in stored
    patch = json.dumps({"status": a_status().to_object()})
    arguments = ("-n", namespace, "--subresource=status", "--type=merge", "-p", patch)
    kubectl("patch", "llmapp", "shown", *arguments)
    shown = kubectl("get", "justitia", "-n", namespace, "-o", "wide")
    (row,) = [line.split() for line in shown.splitlines() if "/shown" in line]
    assert row[1:8] == ["True", "Programmed", "default", "1.5", "0.333", "1.23", "2"]
    assert row[8:11] == ["Justitia", "Model", "0.25"]


def test_a_status_that_breaks_the_conventions_is_refused(create, kubectl, namespace):
    create(document("LLMApplication", "told", {}))
    for field, value in (("reason", ""), ("status", "Yes"), ("lastTransitionTime", "now")):
        status = a_status().to_object()
        status["conditions"][0][field] = value
        patch = json.dumps({"status": status})
        arguments = ("-n", namespace, "--subresource=status", "--type=merge", "-p", patch)
        with pytest.raises(CommandError, match=rf"status\.conditions\[0\]\.{field}"):
            kubectl("patch", "llmapp", "told", *arguments)


def test_applications_of_a_pool_are_found_by_field(create, kubectl, namespace):
    create(document("LLMApplication", "elsewhere", {"poolRef": {"name": "other"}}))
    selector = ("--field-selector", "spec.poolRef.name=other", "-o", "name")
    found = kubectl("get", "llmapp", "-n", namespace, *selector)
    assert found.split() == ["llmapplication.justitia.dev/elsewhere"]


@pytest.fixture
def other_crd(kubectl):
    """``other_crd(largest)`` defines the kind in a group of the tests' own, weights up to it."""

    def define(largest):
        crd = copy.deepcopy(yaml.safe_load((CRDS / "llmapplications.yaml").read_text()))
        crd["metadata"]["name"] = f"llmapplications.{OTHER_GROUP}"
        crd["spec"]["group"] = OTHER_GROUP
        crd["spec"]["names"] = {"kind": "LLMApplication", "plural": "llmapplications"}
        schema = crd["spec"]["versions"][0]["schema"]["openAPIV3Schema"]
        (rule,) = schema["properties"]["spec"]["properties"]["weight"]["x-kubernetes-validations"]
        rule["rule"] = rule["rule"].replace("quantity('1G')", f"quantity('{largest}')")
        kubectl("apply", "--server-side", "-f", "-", text=json.dumps(crd))
        name = f"crd/llmapplications.{OTHER_GROUP}"
        kubectl("wait", "--for=condition=Established", "--timeout=30s", name)

    yield define
    kubectl("delete", "crd", f"llmapplications.{OTHER_GROUP}")


def test_a_tighter_schema_does_not_trap_what_is_stored(other_crd, kubectl, namespace):
    other_crd("1G")
    stored = document("LLMApplication", "heavy", {"weight": 100})
    stored["apiVersion"] = f"{OTHER_GROUP}/v1alpha1"
    kubectl("create", "-n", namespace, "-f", "-", text=json.dumps(stored))
    other_crd("10")
    kind = f"llmapplications.{OTHER_GROUP}"

    def patch(change):
        return kubectl("patch", kind, "heavy", "-n", namespace, "--type=merge", "-p", change)

    _until_refused(lambda: patch('{"spec": {"weight": 101}}'))
    patch('{"metadata": {"labels": {"seen": "yes"}}}')
    patch('{"spec": {"mode": "Shadow"}}')
    kubectl("delete", kind, "heavy", "-n", namespace, "--timeout=10s")


def _until_refused(change, attempts=50):
    """The API server takes up a changed schema within a moment, not at once."""
    for _ in range(attempts):
        try:
            change()
        except CommandError as refused:
            assert "spec.weight" in refused.output  # noqa: PT017 - the loop ends here
            return
    pytest.fail("the tighter schema was never in force")
