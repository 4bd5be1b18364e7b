"""Resources: what people write is read, what is wrong is refused by name."""

from datetime import UTC, datetime
from decimal import Decimal

import pytest

from justitia.core.privacy import Privacy
from justitia.resources.application import LLMApplication, PoolRef
from justitia.resources.application_status import ApplicationStatus, EffectivePolicy, RunCounts
from justitia.resources.conditions import ApplicationCondition, Condition, ConditionStatus
from justitia.resources.errors import ResourceError
from justitia.resources.profile import PredictorProfile
from justitia.resources.reading import read_resource
from justitia.testing.bad_manifests import BAD_MANIFESTS, EXTREMES


def document(spec, kind="LLMApplication", **parts):
    return {
        "apiVersion": "justitia.dev/v1alpha1",
        "kind": kind,
        "metadata": {"name": "a"},
        "spec": spec,
        **parts,
    }


def test_an_application_is_read_with_its_quantities_and_durations():
    application = read_resource(
        document(
            {
                "weight": "500m",
                "predictor": {"profileRef": {"name": "default"}, "privacy": "Hashed"},
                "fallbackCost": {"kvTokenTime": "2e5"},
                "run": {"idleTimeout": "1m30s", "maxConcurrent": 8},
                "fairness": {"objective": {"maxRatio": "1.2"}},
            }
        )
    )
    assert isinstance(application, LLMApplication)
    spec = application.spec
    assert (spec.weight, spec.fallback_cost.kv_token_time) == (Decimal("0.5"), 200_000)
    assert (spec.run.idle_timeout_s, spec.run.max_concurrent) == (90.0, 8)
    assert spec.predictor.privacy is Privacy.HASHED
    assert (spec.fairness.objective.max_ratio, spec.fairness.objective.for_s) == (
        Decimal("1.2"),
        300.0,
    )


def test_without_a_spec_everything_has_its_default():
    application = read_resource({k: v for k, v in document({}).items() if k != "spec"})
    assert application.spec.pool_ref == PoolRef(name="default")
    assert application.spec.weight == 1
    profile = read_resource(document({}, kind="PredictorProfile"))
    assert isinstance(profile, PredictorProfile)
    assert profile.spec.samples.recorded is not None
    assert profile.spec.training.min_samples == 20
    assert profile.spec.job.ttl_s == 86400


@pytest.mark.parametrize("bad", BAD_MANIFESTS, ids=lambda bad: bad.title)
def test_what_is_wrong_is_refused_by_field_and_value(bad):
    with pytest.raises(ResourceError) as refused:
        read_resource(bad.document)
    assert refused.value.field == bad.path
    assert bad.message in str(refused.value)
    assert "\n" not in str(refused.value)


@pytest.mark.parametrize(("kind", "spec"), EXTREMES)
def test_extremes_that_the_api_server_admits_are_read(kind, spec):
    read_resource(document(spec, kind))


@pytest.mark.parametrize("kind", [None, "LLMApp", 7, ["LLMApplication"]])
def test_a_kind_that_is_none_of_ours_is_refused(kind):
    with pytest.raises(ResourceError, match="kind: must be one of LLMApplication, Predictor"):
        read_resource(document({}, kind))
    with pytest.raises(ResourceError, match="kind: must be one of"):
        read_resource([document({})])


def test_another_version_of_the_api_is_refused():
    with pytest.raises(ResourceError, match=r"apiVersion: should be 'justitia\.dev/v1alpha1'"):
        read_resource(document({}, apiVersion="justitia.dev/v2"))


def test_fields_of_a_newer_schema_are_refused_in_manifests_and_ignored_in_stored_objects():
    newer = document({"run": {"maxTools": 3}, "surprise": True})
    with pytest.raises(ResourceError, match=r"spec\.run\.maxTools: is not a known field"):
        read_resource(newer)
    assert read_resource(newer, unknown_fields="ignore") == read_resource(document({"run": {}}))


def test_metadata_and_status_of_a_stored_object_never_stand_in_the_way():
    stored = document(
        {},
        metadata={
            "name": "a",
            "namespace": "team",
            "uid": "u-1",
            "generation": 3,
            "creationTimestamp": "2026-01-01T00:00:00Z",
            "annotations": None,
            "managedFields": [{"manager": "kubectl"}],
        },
        status={"conditions": "of some other version"},
    )
    application = read_resource(stored)
    assert (application.metadata.namespace, application.metadata.uid) == ("team", "u-1")
    assert application.metadata.generation == 3
    assert application.status == {"conditions": "of some other version"}


def test_a_refused_value_is_shortened():
    with pytest.raises(ResourceError) as refused:
        read_resource(document({"mode": "x" * 10_000}))
    assert len(str(refused.value)) < 200


def test_a_status_is_written_as_the_api_wants_it():
    condition = Condition(
        type=ApplicationCondition.READY,
        status=ConditionStatus.TRUE,
        observed_generation=3,
        last_transition_time=datetime(2026, 1, 2, 3, 4, 5, tzinfo=UTC),
        reason="Programmed",
        message="",
    )
    status = ApplicationStatus(
        observed_generation=3,
        conditions=(condition,),
        effective_policy=EffectivePolicy.JUSTITIA,
        runs=RunCounts(active=2, completed=40),
        weighted_share="0.25",
    )
    assert status.to_object() == {
        "observedGeneration": 3,
        "conditions": [
            {
                "type": "Ready",
                "status": "True",
                "observedGeneration": 3,
                "lastTransitionTime": "2026-01-02T03:04:05Z",
                "reason": "Programmed",
                "message": "",
            }
        ],
        "effectivePolicy": "Justitia",
        "runs": {"active": 2, "completed": 40},
        "weightedShare": "0.25",
    }
    assert ApplicationStatus.model_validate(status.to_object()) == status
