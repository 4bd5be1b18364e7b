"""Builds the product's images for the tests and puts them onto the node."""

import re
import shutil
import tomllib
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Final

from kube.builder import ImageBuilder
from kube.cluster import Cluster
from kube.errors import Progress

#: The images that a release without GPU drivers consists of.
COMPONENTS: Final = ("operator", "scheduler", "trainer", "vllm-cpu")

_ROOT: Final = Path(__file__).resolve().parents[3]
_SOURCES: Final = ("pyproject.toml", "README.md", "LICENSE", "src", "scheduler_service", "operator")
_TOO_BIG: Final = re.compile(r"(torch|triton|nvidia-.*|cuda-.*|scikit-learn|scipy|sympy|networkx)$")


def version() -> str:
    """Version of the project, which is the images' tag and the chart's appVersion."""
    project = tomllib.loads((_ROOT / "pyproject.toml").read_text())["project"]
    return str(project["version"])


def build_images(
    cluster: Cluster,
    components: Sequence[str] = COMPONENTS,
    *,
    log_folder: Path,
    progress: Progress,
) -> dict[str, int]:
    """Build ``images/<component>/Dockerfile`` each, and import them all at once.

    Returns the size of each in bytes; what ``kube.environment`` mounts is not in it.
    """
    tags = {component: f"justitia/{component}:{version()}" for component in components}
    archive = cluster.sandbox.folder / "images.tar"
    context = cluster.sandbox.folder / "build-context"
    _stage(context)
    with ImageBuilder(log_folder=log_folder, progress=progress) as builder:
        for component, tag in tags.items():
            with cluster.phase(f"build image {component}"):
                dockerfile = context / "images" / component / "Dockerfile"
                builder.build(tag, dockerfile=dockerfile, context=context)
        with cluster.phase("save images"):
            builder.save(list(tags.values()), archive)
        sizes = {component: builder.size_bytes(tag) for component, tag in tags.items()}
    cluster.load(archive)
    archive.unlink()
    shutil.rmtree(context)
    return sizes


def _stage(context: Path) -> None:
    """Copy what images are built from, without what is mounted into their pods."""
    for name in (*_SOURCES, "images"):
        source = _ROOT / name
        if source.is_dir():
            shutil.copytree(source, context / name, ignore=shutil.ignore_patterns("__pycache__"))
        else:
            context.mkdir(exist_ok=True)
            shutil.copy2(source, context / name)
    trainer = context / "images" / "trainer" / "requirements.txt"
    trainer.write_text(select_packages(trainer.read_text(), lambda name: not _TOO_BIG.match(name)))
    # vLLM comes with the whole environment; the plugin's own need is gRPC.
    vllm = context / "images" / "vllm-cpu" / "requirements.txt"
    vllm.write_text(select_packages(vllm.read_text(), lambda name: name == "grpcio"))


def select_packages(requirements: str, keeps: Callable[[str], bool]) -> str:
    """Keep some packages of a pinned file, with their hashes."""
    kept: list[str] = []
    is_kept = True
    for line in requirements.splitlines():
        if line and not line[0].isspace() and not line.startswith("#"):
            is_kept = keeps(line.split("==")[0].split("[")[0])
        if is_kept:
            kept.append(line)
    return "\n".join(kept) + "\n"
