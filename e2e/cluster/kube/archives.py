"""Small container images made of files of this machine, with no image builder."""

import hashlib
import io
import json
import platform
import tarfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Final

_ARCHITECTURES: Final = {"x86_64": "amd64", "aarch64": "arm64"}


def write_image(
    path: Path,
    name: str,
    *,
    programs: Mapping[str, Path],
    links: Mapping[str, str] | None = None,
    entrypoint: Sequence[str],
) -> None:
    """Write a one-layer image in the form of ``docker save``.

    ``programs``: path in the image -> file here; ``links``: path in the image -> target.
    """
    layer = _layer(programs, links or {})
    digest = hashlib.sha256(layer).hexdigest()
    config = json.dumps(
        {
            "architecture": _ARCHITECTURES.get(platform.machine(), platform.machine()),
            "os": "linux",
            "config": {"Entrypoint": list(entrypoint), "Env": ["PATH=/bin"], "WorkingDir": "/"},
            "rootfs": {"type": "layers", "diff_ids": [f"sha256:{digest}"]},
        }
    ).encode()
    manifest = [{"Config": "config.json", "RepoTags": [name], "Layers": ["layer.tar"]}]
    with tarfile.open(path, "w") as archive:
        _add(archive, "layer.tar", layer)
        _add(archive, "config.json", config)
        _add(archive, "manifest.json", json.dumps(manifest).encode())


def _layer(programs: Mapping[str, Path], links: Mapping[str, str]) -> bytes:
    content = io.BytesIO()
    with tarfile.open(fileobj=content, mode="w") as layer:
        for folder in ("bin", "etc", "tmp"):
            entry = tarfile.TarInfo(folder)
            entry.type, entry.mode = tarfile.DIRTYPE, 0o1777 if folder == "tmp" else 0o755
            layer.addfile(entry)
        for inside, source in programs.items():
            _add(layer, inside.lstrip("/"), source.read_bytes(), mode=0o755)
        for inside, target in links.items():
            entry = tarfile.TarInfo(inside.lstrip("/"))
            entry.type, entry.linkname = tarfile.SYMTYPE, target
            layer.addfile(entry)
    return content.getvalue()


def _add(archive: tarfile.TarFile, name: str, content: bytes, *, mode: int = 0o644) -> None:
    entry = tarfile.TarInfo(name)
    entry.size, entry.mode = len(content), mode
    archive.addfile(entry, io.BytesIO(content))
