"""Holds a custom resource's schema against the pydantic model that reads the same resource.

Both are walked side by side: names of fields, types, what is required, defaults, enums, bounds,
patterns and the rules of single fields. Descriptions, list types and rules that join several
fields are the schema's own.
"""

from collections.abc import Iterator, Mapping
from typing import Annotated, Any, Final, get_args

from pydantic import BaseModel, TypeAdapter, ValidationError
from pydantic.fields import FieldInfo

Schema = Mapping[str, Any]

#: What both sides must agree on at every field, in the schema's words.
_COMPARED: Final = (
    "type",
    "format",
    "enum",
    "minimum",
    "maximum",
    "minLength",
    "maxLength",
    "pattern",
    "minItems",
    "maxItems",
    "maxProperties",
    "required",
    "anyOf",
    "x-kubernetes-int-or-string",
)
_UNORDERED: Final = frozenset({"enum", "required"})
#: Widths of integers are told by the bounds.
_WIDTHS: Final = frozenset({"int32", "int64"})


def differences(model: type[BaseModel], schema: Schema) -> list[str]:
    """Name every field in which the model and the schema differ, and how; empty where none does."""
    expected = model.model_json_schema(by_alias=True)
    found = list(_compare("", _plain(expected, expected.get("$defs", {})), schema))
    return found + list(_compare_defaults("", model, schema))


def _plain(schema: Schema, definitions: Schema) -> dict[str, Any]:
    """Write pydantic's schema as an API server would: references resolved, null left out."""
    plain = dict(schema)
    if "$ref" in plain:
        plain = {**definitions[plain.pop("$ref").rsplit("/", 1)[-1]], **plain}
    options = [option for option in plain.get("anyOf", ()) if option != {"type": "null"}]
    if len(options) == 1:
        del plain["anyOf"]
        plain = {**plain, **_plain(options[0], definitions)}
    if "const" in plain:
        plain["enum"] = [plain.pop("const")]
    if "properties" in plain:
        plain["properties"] = {
            name: _plain(field, definitions) for name, field in plain["properties"].items()
        }
    for key in ("items", "additionalProperties"):
        if isinstance(plain.get(key), dict):
            plain[key] = _plain(plain[key], definitions)
    return plain


def _compare(path: str, expected: Schema, actual: Schema) -> Iterator[str]:
    for key in _COMPARED:
        ours, theirs = _value(expected, key), _value(actual, key)
        if ours != theirs:
            yield f"{path or '.'}: {key} is {ours!r} in the model, {theirs!r} in the schema"
    if not {"properties", "items"} & set(expected):
        yield from _compare_rules(path, expected, actual)
    fields, properties = expected.get("properties", {}), actual.get("properties", {})
    for name in sorted(fields.keys() ^ properties.keys()):
        where = "model" if name in fields else "schema"
        yield f"{path}.{name}: is in the {where} alone"
    for name in sorted(fields.keys() & properties.keys()):
        yield from _compare(f"{path}.{name}", fields[name], properties[name])
    for key, mark in (("items", "[]"), ("additionalProperties", "{}")):
        inner = expected.get(key)
        if isinstance(inner, dict):
            yield from _compare(f"{path}{mark}", inner, actual.get(key, {}))


def _value(schema: Schema, key: str) -> Any:
    value = schema.get(key)
    if key in _UNORDERED and value is not None:
        return sorted(value)
    return None if key == "format" and value in _WIDTHS else value


def _compare_rules(path: str, expected: Schema, actual: Schema) -> Iterator[str]:
    key = "x-kubernetes-validations"
    ours, theirs = expected.get(key, []), actual.get(key, [])
    if ours != theirs:
        yield f"{path or '.'}: the rule is {ours!r} in the model, {theirs!r} in the schema"


def _compare_defaults(path: str, model: type[BaseModel], schema: Schema) -> Iterator[str]:
    for field in model.model_fields.values():
        name = f"{path}.{field.alias}"
        node = schema.get("properties", {}).get(field.alias)
        if node is None:
            continue  # said already
        yield from _compare_default(name, field, node)
        part = _part_in(field.annotation)
        if part is not None:
            yield from _compare_defaults(name, part, node.get("items", node))


def _compare_default(path: str, field: FieldInfo, node: Schema) -> Iterator[str]:
    ours = None if field.is_required() else field.get_default(call_default_factory=True)
    if "default" not in node:
        if not _is_nothing(ours):
            yield f"{path}: the default is {ours!r} in the model, none in the schema"
        return
    theirs = node["default"]
    if field.is_required() or not _means(field, theirs, ours):
        yield f"{path}: the default is {ours!r} in the model, {theirs!r} in the schema"


def _means(field: FieldInfo, written: object, value: object) -> bool:
    """Whether the field reads what is written as that value."""
    annotation: Any = field.annotation
    for item in field.metadata:
        annotation = Annotated[annotation, item]
    adapter: TypeAdapter[Any] = TypeAdapter(annotation)
    try:
        return bool(adapter.validate_python(written) == value)
    except ValidationError:
        return False


def _is_nothing(value: object) -> bool:
    """Whether a default says no more than that the field is absent."""
    if isinstance(value, BaseModel):
        return all(_is_nothing(getattr(value, name)) for name in type(value).model_fields)
    return value is None or value in ((), {})


def _part_in(annotation: Any) -> type[BaseModel] | None:
    """Find the model inside ``X``, ``X | None``, ``Annotated[X, ...]`` or ``tuple[X, ...]``."""
    if isinstance(annotation, type) and issubclass(annotation, BaseModel):
        return annotation
    inner = (_part_in(argument) for argument in get_args(annotation))
    return next((part for part in inner if part is not None), None)
