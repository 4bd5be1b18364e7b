"""Manifests that must be refused, by the API server and by everything that reads manifests here.

Each names the field and what people are told. Tests without a cluster put them through the models;
tests on a real API server apply them. Every rule of the schemas in ``crds/`` is broken once.
"""

from typing import Any, Final

from justitia.testing.bad_applications import BAD_APPLICATIONS
from justitia.testing.bad_profiles import BAD_PROFILES
from justitia.testing.manifest_cases import APPLICATION, PROFILE, BadChange

BAD_MANIFESTS: Final = (*BAD_APPLICATIONS, *BAD_PROFILES)

BAD_CHANGES: Final = (
    BadChange(
        kind=APPLICATION,
        before={"poolRef": {"name": "one"}},
        after={"poolRef": {"name": "two"}},
        path="spec.poolRef",
        message="is immutable, because history, samples and models of an application live in its"
        " pool; create another application instead",
    ),
)

#: Extremes that must be admitted, with the same meaning everywhere.
EXTREMES: Final[tuple[tuple[str, dict[str, Any]], ...]] = (
    (APPLICATION, {}),
    (APPLICATION, {"weight": "1n"}),
    (APPLICATION, {"weight": "0.0000000001"}),
    (APPLICATION, {"weight": "1G"}),
    (APPLICATION, {"weight": 1_000_000_000}),
    (APPLICATION, {"weight": "1e-1000"}),
    (APPLICATION, {"weight": "+.5"}),
    (APPLICATION, {"weight": "5."}),
    (APPLICATION, {"weight": "1.5Ki"}),
    (APPLICATION, {"weight": "1E-3"}),
    (APPLICATION, {"weight": None, "run": None}),
    (APPLICATION, {"fallbackCost": {"kvTokenTime": "1E"}}),
    (APPLICATION, {"fallbackCost": {"kvTokenTime": 10**18}}),
    (APPLICATION, {"fallbackCost": {"kvTokenTime": "1e18"}}),
    (
        APPLICATION,
        {"run": {"idleTimeout": "8784h", "maxDuration": "0.5m500ms", "maxConcurrent": 10**6}},
    ),
    (APPLICATION, {"run": {"idleTimeout": "1000ms", "maxConcurrent": 8.0}}),
    (APPLICATION, {"fairness": {"objective": {"maxRatio": 1, "for": "0s"}}}),
    (PROFILE, {}),
    (PROFILE, {"training": {"minSamples": 20000, "maxSamples": 20000, "seed": 2**53 - 1}}),
    (PROFILE, {"training": {"schedule": "*/5 0-6,22 1,15 JAN-MAR 7", "validationFraction": 0.5}}),
    (PROFILE, {"training": {"schedule": "@daily", "retrainWhen": {"relativeErrorAbove": "1n"}}}),
    (PROFILE, {"training": {"retrainWhen": {"newSamples": 20_000}}}),
    (PROFILE, {"samples": {"configMap": {"name": "runs"}}}),
    (PROFILE, {"samples": {"persistentVolumeClaim": {"claimName": "runs", "path": "a..b/..c"}}}),
    (
        PROFILE,
        {
            "job": {
                "image": "registry.example/trainer@sha256:0",
                "imagePullSecrets": [{"name": "registry"}],
                "resources": {
                    "requests": {"cpu": "500m", "memory": "1.5Gi", "nvidia.com/gpu": 1},
                    "limits": {"memory": 2**40, "nvidia.com/gpu": 1},
                    "claims": [{"name": "gpu", "request": "one"}],
                },
                "resourceClaims": [{"name": "gpu", "resourceClaimTemplateName": "a100"}],
                "nodeSelector": {"nvidia.com/gpu.product": "NVIDIA-A100-SXM4-80GB", "empty": ""},
                "tolerations": [
                    {"operator": "Exists"},
                    {"key": "nvidia.com/gpu", "value": "true", "effect": "NoSchedule"},
                    {
                        "key": "spot",
                        "operator": "Exists",
                        "effect": "NoExecute",
                        "tolerationSeconds": 2**53 - 1,
                    },
                ],
                "ttl": "0s",
                "backoffLimit": 0,
                "activeDeadline": "168h",
            }
        },
    ),
)
