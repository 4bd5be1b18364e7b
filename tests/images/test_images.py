"""Images: what the Dockerfiles promise, and that each component finds all that it imports."""

import re
import subprocess
import sys
import tomllib
from importlib import metadata
from pathlib import Path

import pytest
import yaml

ROOT = Path(__file__).resolve().parent.parent.parent
IMAGES = ("operator", "scheduler", "trainer", "vllm", "vllm-cpu")
STDLIB = sys.stdlib_module_names
PIN = re.compile(r"^([a-z0-9._-]+)==([^ ;]+)", re.MULTILINE)


def dockerfile(image):
    return (ROOT / "images" / image / "Dockerfile").read_text()


def pins(path):
    return dict(PIN.findall((ROOT / path).read_text()))


@pytest.mark.parametrize("image", IMAGES)
def test_an_image_runs_as_nobody_in_particular(image):
    users = re.findall(r"^USER (.+)$", dockerfile(image), re.MULTILINE)
    assert users[-1] == "65532:65532"
    assert "HOME=/tmp" in dockerfile(image)


@pytest.mark.parametrize("image", IMAGES)
def test_an_image_builds_on_any_base_without_fetching_a_syntax(image):
    text = dockerfile(image)
    assert "# syntax" not in text
    assert re.search(r"^ARG BASE_IMAGE=[a-z-]+(/[a-z-]+)?:[a-z0-9.-]+$", text, re.MULTILINE)
    sources = re.findall(r"^FROM (\S+)", text, re.MULTILINE)
    assert set(sources) <= {"${BASE_IMAGE}", "${BUILD_IMAGE}"}
    # No address of a registry or an index; an image may be named, as the default of an argument.
    assert not re.search(r"https?://|\.(io|com|org)/", text)


@pytest.mark.parametrize("image", IMAGES)
def test_what_an_image_installs_is_pinned_with_hashes(image):
    installs = re.findall(r"pip install ([^&;]+)", dockerfile(image))
    assert installs != []
    assert all("--require-hashes" in install or "--no-index" in install for install in installs)
    locked = (ROOT / "images" / image / "requirements.txt").read_text()
    entries = re.split(r"^(?=[a-z0-9])", locked, flags=re.MULTILINE)[1:]
    assert all("--hash=sha256:" in entry for entry in entries)
    assert "http" not in re.sub(r"[\w-]*http[\w-]*", "", locked)


@pytest.mark.parametrize("image", IMAGES)
def test_an_image_says_what_it_is(image):
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    text = dockerfile(image)
    assert f'org.opencontainers.image.title="justitia-{image}"' in text
    assert f'org.opencontainers.image.licenses="{project["license"]}"' in text
    assert f"ARG VERSION={project['version']}\n" in text


@pytest.mark.parametrize("image", IMAGES)
def test_the_chart_names_the_image(image):
    values = yaml.safe_load((ROOT / "charts/justitia/values.yaml").read_text())
    assert f"justitia/{image}" in {i["repository"] for i in values["images"].values()}


@pytest.mark.parametrize("image", IMAGES)
def test_images_run_what_was_tested(image):
    tested = pins("requirements/dev.txt")
    installed = pins(f"images/{image}/requirements.txt")
    shared = installed.keys() & tested.keys()
    assert len(shared) >= len(installed) / 2
    assert {name: installed[name] for name in shared} == {name: tested[name] for name in shared}


@pytest.mark.parametrize(
    ("image", "modules"),
    [
        ("scheduler", ["justitia_scheduler.__main__", "justitia.client"]),
        ("operator", ["justitia_operator.__main__"]),
        (
            "trainer",
            [
                "justitia.cli.main",
                "justitia.local.predictors",
                "justitia.local.profiles",
                "justitia.local.publishing",
                "justitia.local.unfinished",
                "justitia.predictor.training",
            ],
        ),
    ],
)
def test_an_image_has_all_that_its_component_imports(image, modules):
    locked = set(pins(f"images/{image}/requirements.txt")) | {"justitia"}
    absent = [
        top
        for top, names in metadata.packages_distributions().items()
        if not {re.sub(r"[-_.]+", "-", name).lower() for name in names} & locked
    ]
    code = IMPORT_WITHOUT.format(absent=sorted(absent), modules=", ".join(modules))
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr


#: Makes what the image does not have look as if it were not installed here either.
IMPORT_WITHOUT = """
import sys

class Without:
    names = set({absent!r})

    def __init__(self, finder):
        self.finder = finder

    def find_spec(self, name, path=None, target=None):
        if name.partition(".")[0] in self.names:
            return None
        return self.finder.find_spec(name, path, target)

sys.meta_path[:] = map(Without, sys.meta_path)
import {modules}
"""


def test_helm_test_imports_what_its_image_has():
    script = (ROOT / "charts/justitia/files/check_release.py").read_text()
    imported = set(re.findall(r"^(?:from|import) ([a-z_.]+)", script, re.MULTILINE))
    ours = {"justitia", "justitia.client"}
    assert imported - ours <= {name for name in imported if name.split(".")[0] in STDLIB}


def test_the_schedulers_image_is_spared_torch():
    assert "torch" not in pins("images/scheduler/requirements.txt")


def test_the_context_is_the_sources_and_no_more():
    lines = (ROOT / ".dockerignore").read_text().splitlines()
    assert "*" in lines
    copied = {
        source.split("/")[0]
        for image in IMAGES
        for line in re.findall(r"^COPY (?!--from)(.+) \S+$", dockerfile(image), re.MULTILINE)
        for source in line.split()
    }
    assert copied == {line.removeprefix("!") for line in lines if line.startswith("!")}
