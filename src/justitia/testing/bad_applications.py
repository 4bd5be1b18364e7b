"""Applications that must be refused; see ``bad_manifests``."""

from typing import Any, Final

from justitia.testing.manifest_cases import APPLICATION, BadManifest

_QUANTITY: Final = 'must be a quantity greater than 0 and at most 1G, such as 2, 500m or "1.5"'
_COST: Final = "must be a quantity from 1 to 1E"
_RATIO: Final = "must be a quantity from 1 to 1k"
_RUN_DURATION: Final = "must be a duration from 1s to 8784h, such as 90s or 1h30m"
_SECRET: Final = {"secretRef": {"name": "keys", "key": "token"}}


def _weight(weight: object) -> BadManifest:
    return BadManifest(
        kind=APPLICATION, path="spec.weight", message=_QUANTITY, spec={"weight": weight}
    )


def _application(path: str, message: str, spec: dict[str, Any], *, server: str = "") -> BadManifest:
    return BadManifest(kind=APPLICATION, path=path, message=message, spec=spec, server=server)


BAD_APPLICATIONS: Final = (
    _weight(0),
    _weight(-1),
    _weight("-500m"),
    _weight("1001M"),
    _weight("2 apples"),
    _weight(""),
    _weight("nan"),
    _weight("1e9999"),
    BadManifest(
        kind=APPLICATION,
        path="spec.weight",
        message=_QUANTITY,
        spec={"weight": 0.5},
        server="must be of type integer,string",
    ),
    BadManifest(
        kind=APPLICATION,
        path="spec.weight",
        message=_QUANTITY,
        spec={"weight": True},
        server="must be of type integer,string",
    ),
    BadManifest(
        kind=APPLICATION,
        path="spec.weight",
        message=_QUANTITY,
        spec={"weight": "1" * 33},
        server="Too long",
    ),
    _application(
        "spec.weigth", "is not a known field", {"weigth": 1}, server='unknown field "spec.weigth"'
    ),
    _application(
        "spec.poolRef.kind",
        "should be 'Service'",
        {"poolRef": {"kind": "InferencePool", "name": "a"}},
        server='supported values: "Service"',
    ),
    _application("spec.poolRef.name", "should match '^[a-z0-9]", {"poolRef": {"name": "My pool"}}),
    _application(
        "spec.poolRef.namespace", "should match '^[a-z0-9]", {"poolRef": {"namespace": "a/b"}}
    ),
    _application(
        "spec.predictor.privacy",
        "should be 'Text', 'Hashed' or 'None'",
        {"predictor": {"privacy": "Secret"}},
        server='supported values: "Text", "Hashed", "None"',
    ),
    _application(
        "spec.predictor.profileRef.name",
        "is required",
        {"predictor": {"profileRef": {}}},
        server="Required value",
    ),
    _application("spec.fallbackCost.kvTokenTime", _COST, {"fallbackCost": {"kvTokenTime": "500m"}}),
    _application("spec.fallbackCost.kvTokenTime", _COST, {"fallbackCost": {"kvTokenTime": "2E"}}),
    _application(
        "spec.identity.credentials",
        "must not name the same key of a Secret twice",
        {"identity": {"credentials": [_SECRET, _SECRET]}},
    ),
    _application(
        "spec.identity.credentials[0].secretRef.key",
        "is required",
        {"identity": {"credentials": [{"secretRef": {"name": "keys"}}]}},
        server="Required value",
    ),
    _application(
        "spec.identity.credentials",
        "must have at most 16 items",
        {
            "identity": {
                "credentials": [{"secretRef": {"name": "keys", "key": f"k{n}"}} for n in range(17)]
            }
        },
    ),
    _application("spec.run.idleTimeout", _RUN_DURATION, {"run": {"idleTimeout": "90"}}),
    _application("spec.run.idleTimeout", _RUN_DURATION, {"run": {"idleTimeout": "0s"}}),
    _application("spec.run.idleTimeout", _RUN_DURATION, {"run": {"idleTimeout": "-5s"}}),
    _application("spec.run.idleTimeout", _RUN_DURATION, {"run": {"idleTimeout": "8785h"}}),
    _application("spec.run.maxDuration", _RUN_DURATION, {"run": {"maxDuration": "1 day"}}),
    _application(
        "spec.run.maxDuration",
        _RUN_DURATION,
        {"run": {"maxDuration": 60}},
        server="must be of type string",
    ),
    _application(
        "spec.run.maxConcurrent",
        "should be greater than or equal to 1",
        {"run": {"maxConcurrent": 0}},
    ),
    _application(
        "spec.run.maxConcurrent",
        "should be less than or equal to 1000000",
        {"run": {"maxConcurrent": 2**31}},
        server="spec.run.maxConcurrent",
    ),
    _application(
        "spec.run.maxConcurrent",
        "must be a whole number",
        {"run": {"maxConcurrent": "8"}},
        server="must be of type integer",
    ),
    _application(
        "spec.failureMode",
        "should be 'FailOpen' or 'FailClose'",
        {"failureMode": "FailClosed"},
        server='supported values: "FailOpen", "FailClose"',
    ),
    _application(
        "spec.mode",
        "should be 'Enforce' or 'Shadow'",
        {"mode": "enforce"},
        server='supported values: "Enforce", "Shadow"',
    ),
    _application(
        "spec.fairness.objective.maxRatio",
        "is required",
        {"fairness": {"objective": {"for": "1m"}}},
        server="Required value",
    ),
    _application(
        "spec.fairness.objective.maxRatio",
        _RATIO,
        {"fairness": {"objective": {"maxRatio": "900m"}}},
    ),
    _application(
        "spec.fairness.objective.for",
        "must be a duration from 0s to 168h",
        {"fairness": {"objective": {"maxRatio": 2, "for": "8d"}}},
    ),
    BadManifest(
        kind=APPLICATION,
        path="metadata.name",
        message="should have at most 63 characters",
        server="metadata.name must have at most 63 characters",
        name="a" * 64,
    ),
)
