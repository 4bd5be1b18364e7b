"""Builds programs from Go modules, each module apart from every other, into the cache.

The module proxy serves sources only, so that nothing is run that was not compiled here; Go's own
caches make a second build of the same version quick.
"""

import json
import os
import shutil
import subprocess
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from kube.cache import exclusive
from kube.errors import ClusterError, NoClusterError, Progress

_ERROR_LINES: Final = 20
_PACKAGES_PER_REPORT: Final = 100


@dataclass(frozen=True, kw_only=True, slots=True)
class GoModule:
    """Programs of one version of one module; ``name`` is for folders and messages."""

    name: str
    path: str
    version: str
    #: Name of each program -> its Go package.
    programs: Mapping[str, str]
    #: Values that the linker puts into variables.
    variables: Mapping[str, str] = field(default_factory=dict)
    #: Build tags.
    tags: Sequence[str] = ()
    #: Version that replaces the parts which the module keeps in its own tree ("" if it has none).
    staging_version: str = ""

    @property
    def release(self) -> str:
        """Name and version."""
        return f"{self.name}-{self.version}"


def ensure_built(module: GoModule, cache: Path, *, progress: Progress) -> Path:
    """Return the folder that holds the module's programs; build them if it is not there.

    Raises:
        NoClusterError: there is no Go.
        ClusterError: the build failed; the message has the end of what Go said.
    """
    programs = cache / "bin" / module.release
    if programs.is_dir():
        return programs
    _require_go(module)
    with exclusive(cache / "bin" / f"{module.release}.lock", progress=progress):
        if not programs.is_dir():
            _build(module, cache / "src" / module.release, programs, progress)
    return programs


def ensure_sources(module: GoModule, folder: str, cache: Path, *, progress: Progress) -> Path:
    """Return a copy of one folder of the module's sources, such as its resource definitions.

    Raises:
        NoClusterError: there is no Go.
        ClusterError: the module cannot be had; the message has the end of what Go said.
    """
    copy = cache / "sources" / module.release / folder
    if copy.is_dir():
        return copy
    _require_go(module)
    with exclusive(cache / "sources" / f"{module.release}.lock", progress=progress):
        if not copy.is_dir():
            progress(f"fetching {module.release}")
            partial = copy.with_suffix(".partial")
            shutil.rmtree(partial, ignore_errors=True)
            source = Path(_download(module, cache)["Dir"]) / folder
            shutil.copytree(source, partial, copy_function=shutil.copyfile)
            partial.chmod(0o755)  # Go's own copy is read-only
            partial.rename(copy)
    return copy


def _require_go(module: GoModule) -> None:
    if shutil.which("go") is None:
        raise NoClusterError(
            f"no Go to build {module.release} with: install it from https://go.dev/dl "
            "or give the programs in JUSTITIA_E2E_BIN"
        )


def _build(module: GoModule, source: Path, programs: Path, progress: Progress) -> None:
    progress(f"building {module.release} (minutes if Go's cache is cold)")
    shutil.rmtree(source, ignore_errors=True)
    source.mkdir(parents=True)
    _go(source, "mod", "init", f"programs/{module.name}")
    for old, new in _replacements(module, source).items():
        _go(source, "mod", "edit", f"-replace={old}={new}")
    packages = list(module.programs.values())
    tags = f"-tags={','.join(module.tags)}"
    _go(source, "get", tags, "-tool", *(f"{package}@{module.version}" for package in packages))
    partial = programs.with_suffix(".partial")
    shutil.rmtree(partial, ignore_errors=True)
    partial.mkdir(parents=True)
    linker = " ".join(
        ["-s -w", *(f"-X {name}={value}" for name, value in module.variables.items())]
    )
    arguments = ["-trimpath", tags, "-ldflags", linker, "-o", f"{partial}/", *packages]
    _compile(source, arguments, module.release, progress)
    for program, package in module.programs.items():
        (partial / _default_name(package)).rename(partial / program)
    partial.rename(programs)
    progress(f"built {module.release}")


def _replacements(module: GoModule, source: Path) -> dict[str, str]:
    """Point parts that the module's go.mod expects in its own tree at their releases."""
    if not module.staging_version:
        return {}
    go_mod = _download(module, source)["GoMod"]
    replaced = json.loads(_go(source, "mod", "edit", "-json", go_mod))["Replace"]
    return {
        each["Old"]["Path"]: f"{each['Old']['Path']}@{module.staging_version}"
        for each in replaced
        if each["New"]["Path"].startswith("./")
    }


def _download(module: GoModule, folder: Path) -> dict[str, str]:
    """Have Go fetch the module; returns where its parts lie. ``folder``: any."""
    name = f"{module.path}@{module.version}"
    found: dict[str, str] = json.loads(_go(folder, "mod", "download", "-json", name))
    return found


def _compile(source: Path, arguments: list[str], name: str, progress: Progress) -> None:
    command = ["go", "build", "-v", *arguments]
    said: list[str] = []
    with subprocess.Popen(
        command, cwd=source, env=_go_env(), stderr=subprocess.PIPE, text=True
    ) as build:
        assert build.stderr is not None
        for line in build.stderr:  # one package in each line
            said.append(line)
            if len(said) % _PACKAGES_PER_REPORT == 0:
                progress(f"building {name}: {len(said)} packages compiled")
    if build.returncode != 0:
        raise ClusterError(f"{name} does not build:\n{''.join(said[-_ERROR_LINES:])}")


def _go(source: Path, *arguments: str) -> str:
    done = subprocess.run(
        ["go", *arguments], cwd=source, env=_go_env(), capture_output=True, text=True, check=False
    )
    if done.returncode != 0:
        end = "\n".join(done.stderr.splitlines()[-_ERROR_LINES:])
        raise ClusterError(f"go {' '.join(arguments)[:200]} failed:\n{end}")
    return done.stdout


def _go_env() -> dict[str, str]:
    """Give programs that need no C library, built alike on every machine."""
    return {**os.environ, "CGO_ENABLED": "0", "GOWORK": "off"}


def _default_name(package: str) -> str:
    """Name that ``go build`` gives a program: the last part that is no major version."""
    *_, before, last = package.split("/")
    return before if last.startswith("v") and last[1:].isdigit() else last
