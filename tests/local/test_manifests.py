"""Manifests: what people write is read, what is wrong is refused by name."""

from decimal import Decimal
from textwrap import dedent

import pytest

from justitia.core.privacy import Privacy
from justitia.local.manifests import ManifestError, read_manifests
from justitia.resources.application import LLMApplication
from justitia.resources.profile import PredictorProfile

APPLICATION = """
apiVersion: justitia.dev/v1alpha1
kind: LLMApplication
metadata: {name: summaries}
spec:
  weight: 500m
  predictor: {profileRef: {name: default}, privacy: Hashed}
  fallbackCost: {kvTokenTime: 2e5}
  run: {idleTimeout: 1m30s, maxConcurrent: 8}
  fairness: {objective: {maxRatio: "1.2", for: 5m}}
"""


def write(tmp_path, text, name="one.yaml"):
    path = tmp_path / name
    path.write_text(dedent(text))
    return path


def test_an_application_is_read_with_its_quantities_and_durations(tmp_path):
    (application,) = read_manifests(write(tmp_path, APPLICATION))
    assert isinstance(application, LLMApplication)
    spec = application.spec
    assert (spec.weight, spec.run.idle_timeout_s, spec.run.max_concurrent) == (
        Decimal("0.5"),
        90.0,
        8,
    )
    assert spec.predictor.privacy is Privacy.HASHED
    assert spec.fallback_cost is not None
    assert spec.fallback_cost.kv_token_time == 200_000
    assert spec.fairness.objective is not None
    assert spec.fairness.objective.for_s == 300.0


def test_defaults_are_those_of_the_schema(tmp_path):
    text = "apiVersion: justitia.dev/v1alpha1\nkind: LLMApplication\nmetadata: {name: a}\n"
    (application,) = read_manifests(write(tmp_path, text))
    assert application.spec.weight == 1
    assert application.spec.failure_mode == "FailOpen"
    assert application.spec.pool_ref.name == "default"


def test_a_folder_is_read_whole_and_in_order_of_name(tmp_path):
    write(tmp_path, APPLICATION.replace("summaries", "b"), "2.yaml")
    profile = APPLICATION[: APPLICATION.index("spec:")].replace(
        "LLMApplication", "PredictorProfile"
    )
    write(tmp_path, APPLICATION.replace("summaries", "a") + "---\n" + profile, "1.yaml")
    kinds = [(type(m), m.metadata.name) for m in read_manifests(tmp_path)]
    assert kinds == [(LLMApplication, "a"), (PredictorProfile, "summaries"), (LLMApplication, "b")]


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ("weight: 500m", "weight: 0", r"spec\.weight: must be a quantity greater .*, got 0"),
        ("weight: 500m", "weight: .nan", r"spec\.weight: must be a quantity .*, got nan"),
        ("weight: 500m", "weight: 0.5", r"spec\.weight: must be a quantity .*, got 0\.5"),
        ("weight: 500m", "weigth: 1", r"spec\.weigth: is not a known field"),
        ("Hashed", "Secret", r"spec\.predictor\.privacy: should be 'Text', .*got 'Secret'"),
        ("1m30s", "1:30", r"spec\.run\.idleTimeout: must be a duration .*, got '1:30'"),
        ("weight: 500m", "mode: 2026-01-01", r"spec\.mode: should be .*, got '2026-01-01'"),
        ("weight: 500m", "weight: 1\n  weight: 2", r"cannot be read: 'weight' is there twice"),
        ("kind: LLMApplication", "kind: LLMApp", r"kind: must be one of .*, got 'LLMApp'"),
        ("v1alpha1", "v2", r"apiVersion: should be 'justitia\.dev/v1alpha1'"),
        ("{name: summaries}", "{name: Summaries!}", r"metadata\.name: should match"),
        ("metadata:", "metadata: [", r"cannot be read"),
    ],
)
def test_what_is_wrong_is_refused_with_file_field_and_value(tmp_path, old, new, message):
    path = write(tmp_path, APPLICATION.replace(old, new))
    with pytest.raises(ManifestError, match=message) as refused:
        read_manifests(path)
    assert str(path) in str(refused.value)


def test_the_same_resource_twice_is_refused(tmp_path):
    with pytest.raises(ManifestError, match="LLMApplication default/summaries is there twice"):
        read_manifests(write(tmp_path, APPLICATION + "---" + APPLICATION))


def test_nothing_to_read_is_said(tmp_path):
    with pytest.raises(ManifestError, match="no such file"):
        read_manifests(tmp_path / "absent.yaml")
    with pytest.raises(ManifestError, match="no manifest found"):
        read_manifests(tmp_path)


@pytest.mark.parametrize("written", ["2000000", "2e6", "2e+06", "2.0E6", '"2M"', "2_000_000"])
def test_numbers_are_read_as_kubectl_reads_them(tmp_path, written):
    text = APPLICATION.replace("2e5", written).replace("maxConcurrent: 8", "maxConcurrent: 8e0")
    (application,) = read_manifests(write(tmp_path, text))
    assert application.spec.fallback_cost.kv_token_time == 2_000_000
    assert application.spec.run.max_concurrent == 8
