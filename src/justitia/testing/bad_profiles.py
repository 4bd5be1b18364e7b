"""Profiles that must be refused; see ``bad_manifests``."""

from typing import Any, Final

from justitia.testing.manifest_cases import PROFILE, BadManifest

_CRON: Final = "must be a cron expression of five fields such as 0 3 * * 1"


def _profile(path: str, message: str, spec: dict[str, Any], *, server: str = "") -> BadManifest:
    return BadManifest(kind=PROFILE, path=path, message=message, spec=spec, server=server)


def _job(path: str, message: str, job: dict[str, Any], *, server: str = "") -> BadManifest:
    return _profile(f"spec.job{path}", message, {"job": job}, server=server)


BAD_PROFILES: Final = (
    BadManifest(
        kind=PROFILE,
        path="metadata.name",
        message="should have at most 63 characters",
        server="metadata.name must have at most 63 characters",
        name="a" * 64,
    ),
    _profile(
        "spec.features",
        "selectedTerms must not exceed maxTerms",
        {"features": {"maxTerms": 100, "selectedTerms": 200}},
    ),
    _profile(
        "spec.features.maxTerms",
        "should be less than or equal to 8192",
        {"features": {"maxTerms": 10000}},
    ),
    _profile(
        "spec.model.kind",
        "should be 'GaussianProcess' or 'Network'",
        {"model": {"kind": "Tree"}},
        server='supported values: "GaussianProcess", "Network"',
    ),
    _profile(
        "spec.model.hiddenLayers", "should have at least 3 items", {"model": {"hiddenLayers": [64]}}
    ),
    _profile(
        "spec.model.hiddenLayers",
        "must have at most 3 items",
        {"model": {"hiddenLayers": [64, 64, 64, 64]}},
    ),
    _profile(
        "spec.model.hiddenLayers[1]",
        "should be less than or equal to 512",
        {"model": {"hiddenLayers": [64, 1024, 64]}},
    ),
    _profile(
        "spec.training",
        "minSamples must not exceed maxSamples",
        {"training": {"minSamples": 6000}},
    ),
    _profile(
        "spec.training.validationFraction",
        "should be less than or equal to 0.5",
        {"training": {"validationFraction": 0.9}},
    ),
    _profile(
        "spec.training.seed",
        "should be greater than or equal to 0",
        {"training": {"seed": -1}},
    ),
    _profile("spec.training.schedule", _CRON, {"training": {"schedule": "61 * * * *"}}),
    _profile("spec.training.schedule", _CRON, {"training": {"schedule": "every night"}}),
    _profile("spec.training.schedule", _CRON, {"training": {"schedule": "0 0 3 * * *"}}),
    _profile(
        "spec.training.retrainWhen.newSamples",
        "should be less than or equal to 20000",
        {"training": {"retrainWhen": {"newSamples": 20_001}}},
    ),
    _profile(
        "spec.training.retrainWhen",
        "one of newSamples and relativeErrorAbove must be set",
        {"training": {"retrainWhen": {}}},
    ),
    _profile(
        "spec.training.retrainWhen.relativeErrorAbove",
        "must be a quantity greater than 0 and at most 1k",
        {"training": {"retrainWhen": {"relativeErrorAbove": 0}}},
    ),
    _profile(
        "spec.samples",
        "exactly one of recorded, configMap and persistentVolumeClaim must be set",
        {"samples": {}},
    ),
    _profile(
        "spec.samples",
        "exactly one of recorded, configMap and persistentVolumeClaim must be set",
        {"samples": {"recorded": {}, "configMap": {"name": "runs"}}},
    ),
    _profile(
        "spec.samples.persistentVolumeClaim.path",
        "must be a path relative to the volume and without ..",
        {"samples": {"persistentVolumeClaim": {"claimName": "runs", "path": "a/../../etc"}}},
    ),
    _profile(
        "spec.samples.persistentVolumeClaim.path",
        "must be a path relative to the volume and without ..",
        {"samples": {"persistentVolumeClaim": {"claimName": "runs", "path": "/etc/passwd"}}},
    ),
    _job(
        "",
        "resources.claims must name entries of resourceClaims",
        {"resources": {"claims": [{"name": "gpu"}]}},
    ),
    _job(
        ".resources.limits.cpu",
        "must be a quantity of at least 0",
        {"resources": {"limits": {"cpu": "two"}}},
        server="should match '^([0-9]+",
    ),
    _job(
        ".resources.limits.cpu",
        "must be a quantity of at least 0",
        {"resources": {"limits": {"cpu": -1}}},
        server="should be greater than or equal to 0",
    ),
    _job(
        ".resourceClaims[0]",
        "exactly one of resourceClaimName and resourceClaimTemplateName must be set",
        {"resourceClaims": [{"name": "gpu"}]},
    ),
    _job(
        "",
        "resourceClaims must not have the same name twice",
        {"resourceClaims": [{"name": "gpu", "resourceClaimName": "a"}] * 2},
        server="Duplicate value",
    ),
    _job(
        ".tolerations[0]",
        "value must be empty when operator is Exists",
        {"tolerations": [{"key": "gpu", "operator": "Exists", "value": "yes"}]},
    ),
    _job(
        ".tolerations[0]",
        "operator must be Exists when key is empty",
        {"tolerations": [{"effect": "NoSchedule"}]},
    ),
    _job(
        ".tolerations[0]",
        "effect must be NoExecute when tolerationSeconds is set",
        {"tolerations": [{"operator": "Exists", "tolerationSeconds": 5}]},
    ),
    _job(".ttl", "must be a duration from 0s to 8784h", {"ttl": "1w"}),
    _job(".activeDeadline", "must be a duration from 10s to 168h", {"activeDeadline": "5s"}),
    _job(".backoffLimit", "should be less than or equal to 10", {"backoffLimit": 100}),
    _job(".nodeSelector.zone", "should match '^([A-Za-z0-9]", {"nodeSelector": {"zone": "a b"}}),
)
