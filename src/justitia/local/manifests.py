"""Manifests as files: local mode and the CLI read the same ones that go to a cluster.

Needs the extra ``cli``. What a manifest may say is in ``justitia.resources``.
"""

import re
from collections.abc import Hashable, Iterator
from pathlib import Path
from typing import Any, Final

import yaml

from justitia.local.errors import LocalModeError
from justitia.resources.errors import ResourceError
from justitia.resources.reading import Resource, read_resource

_INT: Final = "tag:yaml.org,2002:int"
_FLOAT: Final = "tag:yaml.org,2002:float"
_READ_OTHERWISE: Final = frozenset({_INT, _FLOAT, "tag:yaml.org,2002:timestamp"})


class ManifestError(LocalModeError):
    """A manifest is refused; the message names the file, the field and the value."""


class _Loader(yaml.SafeLoader):
    """Reads YAML as kubectl does, where PyYAML reads it otherwise.

    ``1e6`` is a number, ``1:30`` and dates are strings, and no key may be there twice.
    """

    def construct_mapping(self, node: yaml.MappingNode, deep: bool = False) -> dict[Hashable, Any]:
        seen: set[str] = set()
        for key, _ in node.value:
            if isinstance(key, yaml.ScalarNode) and key.tag != "tag:yaml.org,2002:merge":
                if key.value in seen:
                    raise yaml.constructor.ConstructorError(
                        None, None, f"{key.value!r} is there twice", key.start_mark
                    )
                seen.add(key.value)
        return super().construct_mapping(node, deep=deep)


_Loader.yaml_implicit_resolvers = {
    first: [(tag, pattern) for tag, pattern in resolvers if tag not in _READ_OTHERWISE]
    for first, resolvers in yaml.SafeLoader.yaml_implicit_resolvers.items()
}
_Loader.add_implicit_resolver(
    _INT,
    re.compile(r"[-+]?(?:0b[01_]+|0o?[0-7_]+|0|[1-9][0-9_]*|0x[0-9a-fA-F_]+)$"),
    list("-+0123456789"),
)
_Loader.add_implicit_resolver(
    _FLOAT,
    re.compile(
        r"[-+]?(?:\.[0-9]+|[0-9]+(?:\.[0-9]*)?)(?:[eE][-+]?[0-9]+)?$"
        r"|[-+]?\.(?:inf|Inf|INF)$|\.(?:nan|NaN|NAN)$"
    ),
    list("-+0123456789."),
)


def read_manifests(path: Path) -> list[Resource]:
    """Read every manifest of a YAML file, or of all ``*.yaml`` below a folder in order of name.

    Raises:
        ManifestError: nothing is there, the YAML is broken, or a field is refused.
    """
    files = sorted(path.rglob("*.yaml")) if path.is_dir() else [path]
    manifests = [manifest for file in files for manifest in _read_file(file)]
    if not manifests:
        raise ManifestError(f"{path}: no manifest found")
    seen: set[tuple[str, str, str]] = set()
    for manifest in manifests:
        key = (manifest.kind, manifest.metadata.namespace, manifest.metadata.name)
        if key in seen:
            raise ManifestError(f"{path}: {key[0]} {key[1]}/{key[2]} is there twice")
        seen.add(key)
    return manifests


def _read_file(file: Path) -> Iterator[Resource]:
    try:
        text = file.read_text(encoding="utf-8")
        documents = list(yaml.load_all(text, Loader=_Loader))
    except FileNotFoundError:
        raise ManifestError(f"{file}: no such file") from None
    except (OSError, UnicodeDecodeError, yaml.YAMLError) as error:
        raise ManifestError(f"{file}: cannot be read: {error}") from None
    for document in documents:
        if document is not None:
            yield _read_document(file, document)


def _read_document(file: Path, document: object) -> Resource:
    try:
        return read_resource(document)
    except ResourceError as error:
        raise ManifestError(f"{file}: {error}") from None
