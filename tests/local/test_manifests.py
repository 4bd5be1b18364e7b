"""Manifests: what people write is read, what is wrong is refused by name."""

from decimal import Decimal
from textwrap import dedent

import pytest

from justitia.local.manifests import (
    LLMApplication,
    ManifestError,
    PredictorProfile,
    Privacy,
    parse_duration_s,
    parse_quantity,
    read_manifests,
)

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
    assert (spec.weight, spec.run.idle_timeout, spec.run.max_concurrent) == (
        Decimal("0.5"),
        90.0,
        8,
    )
    assert spec.predictor.privacy is Privacy.HASHED
    assert spec.fallback_cost is not None
    assert spec.fallback_cost.kv_token_time == 200_000
    assert spec.fairness.objective is not None
    assert spec.fairness.objective.for_ == 300.0


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
        ("weight: 500m", "weight: 0", r"spec\.weight: must be greater than 0, got 0"),
        ("weight: 500m", "weight: -1", r"spec\.weight: must be greater than 0, got -1"),
        ("weight: 500m", "weight: .nan", r"spec\.weight: must be a quantity"),
        ("weight: 500m", "weight: true", r"spec\.weight: must be a quantity"),
        ("weight: 500m", "weigth: 1", r"spec\.weigth: Extra inputs are not permitted"),
        (
            "Hashed",
            "Secret",
            r"spec\.predictor\.privacy: Input should be 'Text', 'Hashed' or 'None'",
        ),
        ("1m30s", "90", r"spec\.run\.idleTimeout: must be a duration such as 90s"),
        ("kind: LLMApplication", "kind: LLMApp", r"kind: must be one of .*, got 'LLMApp'"),
        ("v1alpha1", "v2", r"apiVersion: Input should be 'justitia.dev/v1alpha1'"),
        ("{name: summaries}", "{name: Summaries!}", r"metadata\.name: String should match"),
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


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("2", 2),
        ("0.5", "0.5"),
        ("500m", "0.5"),
        ("1e6", 10**6),
        ("4Ki", 4096),
        ("3k", 3000),
        (7, 7),
    ],
)
def test_quantities_mean_what_kubernetes_means(text, value):
    assert parse_quantity(text) == Decimal(value)


@pytest.mark.parametrize(
    "text", ["", "x", "1 000", "nan", "inf", "1e9999", "--1", "1mm", "1..2", None]
)
def test_other_quantities_are_refused(text):
    with pytest.raises(ValueError, match="must be a quantity"):
        parse_quantity(text)


@pytest.mark.parametrize(
    ("text", "seconds"), [("90s", 90), ("1h30m", 5400), ("500ms", 0.5), ("1.5h", 5400)]
)
def test_durations_are_read_as_seconds(text, seconds):
    assert parse_duration_s(text) == seconds
