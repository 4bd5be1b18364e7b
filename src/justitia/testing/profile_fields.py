"""Every field of ``PredictorProfile.spec``, with two specs that differ in it alone.

Whoever reads the resource must make something else of the two, or say that the field has no effect.
"""

from collections.abc import Iterator, Mapping
from typing import Any, Final, NamedTuple

Spec = dict[str, Any]


class FieldCase(NamedTuple):
    """Two specs; ``path`` is written as the schema's nodes: ``[]`` is an item, ``{}`` a value."""

    path: str
    one: Spec
    other: Spec


def leaves(schema: Mapping[str, Any], path: str = "") -> Iterator[str]:
    """List the fields of an OpenAPI schema that have a value of their own."""
    inner = [
        *((f".{name}", field) for name, field in schema.get("properties", {}).items()),
        *(("[]", schema[key]) for key in ("items",) if key in schema),
        *(("{}", schema[key]) for key in ("additionalProperties",) if key in schema),
    ]
    if not inner:
        yield path.removeprefix(".")
    for step, field in inner:
        yield from leaves(field, path + step)


def _nested(path: str, value: Any) -> Spec:
    spec: Any = value
    for name in reversed(path.split(".")):
        spec = {name: spec}
    return dict(spec)


def _pair(path: str, one: Any, other: Any, *, at: str = "") -> FieldCase:
    """Set ``at`` (or the path itself) to two values."""
    return FieldCase(path, _nested(at or path, one), _nested(at or path, other))


def _in_list(path: str, name: str, one: Any, other: Any, /, **rest: Any) -> FieldCase:
    """Set a field of a list's only item, beside other fields of it."""
    item = f"{path}[].{name}"
    return _pair(item, [rest | {name: one}], [rest | {name: other}], at=path)


def _claiming(name: str, *, request: str = "one") -> Spec:
    """Let the container use one of two device claims."""
    claims = [{"name": each, "resourceClaimName": each} for each in ("a", "b")]
    used = {"claims": [{"name": name, "request": request}]}
    return {"job": {"resourceClaims": claims, "resources": used}}


_POD: Final = "job.resourceClaims"
_TAINT: Final = {"key": "k", "effect": "NoExecute"}

FIELD_CASES: Final = (
    _pair("features.maxTerms", 512, 513),
    _pair("features.selectedTerms", 7, 8),
    _pair("model.kind", "Network", "GaussianProcess"),
    FieldCase(
        "model.hiddenLayers[]",
        {"model": {"kind": "Network", "hiddenLayers": [8, 4, 2]}},
        {"model": {"kind": "Network", "hiddenLayers": [8, 4, 3]}},
    ),
    _pair("training.minSamples", 30, 60),
    _pair("training.maxSamples", 70, 80),
    _pair("training.validationFraction", 0.3, 0.4),
    _pair("training.seed", 5, 6),
    _pair("training.schedule", "0 11 * * *", "0 13 * * *"),
    _pair("training.retrainWhen.newSamples", 20, 60),
    _pair("training.retrainWhen.relativeErrorAbove", "0.4", "0.6"),
    FieldCase(
        "samples.recorded",
        {"samples": {"recorded": {}}},
        {"samples": {"configMap": {"name": "runs"}}},
    ),
    _pair("samples.configMap.name", "one", "other"),
    FieldCase(
        "samples.configMap.key",
        {"samples": {"configMap": {"name": "runs", "key": "one.jsonl"}}},
        {"samples": {"configMap": {"name": "runs", "key": "other.jsonl"}}},
    ),
    _pair("samples.persistentVolumeClaim.claimName", "one", "other"),
    FieldCase(
        "samples.persistentVolumeClaim.path",
        {"samples": {"persistentVolumeClaim": {"claimName": "runs", "path": "a/one.jsonl"}}},
        {"samples": {"persistentVolumeClaim": {"claimName": "runs", "path": "a/other.jsonl"}}},
    ),
    _pair("job.image", "registry/one", "registry/other"),
    _pair("job.imagePullPolicy", "Always", "Never"),
    _in_list("job.imagePullSecrets", "name", "one", "other"),
    _pair("job.resources.requests{}", {"cpu": "1"}, {"cpu": "2"}, at="job.resources.requests"),
    _pair("job.resources.limits{}", {"cpu": "1"}, {"cpu": "2"}, at="job.resources.limits"),
    FieldCase("job.resources.claims[].name", _claiming("a"), _claiming("b")),
    FieldCase(
        "job.resources.claims[].request",
        _claiming("a", request="one"),
        _claiming("a", request="other"),
    ),
    _in_list(_POD, "name", "one", "other", resourceClaimName="gpu"),
    _in_list(_POD, "resourceClaimName", "one", "other", name="gpu"),
    _in_list(_POD, "resourceClaimTemplateName", "one", "other", name="gpu"),
    _pair("job.nodeSelector{}", {"zone": "one"}, {"zone": "other"}, at="job.nodeSelector"),
    _in_list("job.tolerations", "key", "one", "other", operator="Exists"),
    _in_list("job.tolerations", "operator", "Equal", "Exists", **_TAINT),
    _in_list("job.tolerations", "value", "one", "other", **_TAINT),
    _in_list("job.tolerations", "effect", "NoSchedule", "NoExecute", key="k"),
    _in_list("job.tolerations", "tolerationSeconds", 30, 60, **_TAINT),
    _pair("job.priorityClassName", "one", "other"),
    _pair("job.runtimeClassName", "one", "other"),
    _pair("job.ttl", "1h", "2h"),
    _pair("job.backoffLimit", 1, 3),
    _pair("job.activeDeadline", "1h", "2h"),
)
