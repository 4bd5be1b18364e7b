"""Helm as the chart's tests use it. Renderings are kept: each costs a process."""

import functools
import json
import subprocess
from dataclasses import dataclass, field
from pathlib import Path

import pytest
import yaml

ROOT = Path(__file__).resolve().parent.parent.parent
CHART = ROOT / "charts" / "justitia"
CASES = Path(__file__).parent / "cases"
WORKLOADS = ("Deployment", "StatefulSet")


@dataclass(frozen=True)
class Rendered:
    """The objects of one rendering, in Helm's order."""

    objects: list[dict] = field(default_factory=list)

    def of(self, *kinds):
        return [o for o in self.objects if o["kind"] in kinds]

    def one(self, kind, name):
        found = [o for o in self.of(kind) if o["metadata"]["name"] == name]
        assert len(found) == 1, f"{kind} {name}: {len(found)} of {self.names(kind)}"
        return found[0]

    def names(self, *kinds):
        return [o["metadata"]["name"] for o in self.of(*kinds)]

    def keys(self):
        return [
            (o["kind"], o["metadata"].get("namespace", ""), o["metadata"]["name"])
            for o in self.objects
        ]

    def pods(self):
        """Name and spec of every pod: those of workloads, and the test's."""
        for o in self.of(*WORKLOADS):
            yield o["metadata"]["name"], o["spec"]["template"]["spec"]
        for o in self.of("Pod"):
            yield o["metadata"]["name"], o["spec"]

    def engine(self, name="justitia-chat"):
        """Give the container of a pool's engine."""
        return self.one("Deployment", name)["spec"]["template"]["spec"]["containers"][0]


class Helm:
    """`helm template` with values as Python has them."""

    def __init__(self, program):
        self.program = program
        self.template = functools.cache(self._template)

    def render(self, values=None, *, release="justitia", namespace="llm", chart=CHART, flags=()):
        """Render; fails the test where Helm refuses."""
        status, out, error = self.template(
            json.dumps(values or {}), release, namespace, chart, tuple(flags)
        )
        assert status == 0, error
        return Rendered([o for o in yaml.load_all(out, Loader=yaml.CSafeLoader) if o])

    def case(self, name, **options):
        """Render one of the cases of this folder."""
        return self.render(read_case(name), **options)

    def refusal(self, values, **options):
        """Give Helm's message for values that are refused."""
        options = {"release": "justitia", "namespace": "llm", "chart": CHART, "flags": ()} | options
        status, _, error = self.template(json.dumps(values), *options.values())
        assert status != 0, "was not refused"
        return error

    def _template(self, values, release, namespace, chart, flags):
        command = [self.program, "template", release, str(chart), "-n", namespace, "-f", "-"]
        done = subprocess.run(
            [*command, "--kube-version", "1.37.0", *flags],
            input=values,
            capture_output=True,
            text=True,
            check=False,
        )
        return done.returncode, done.stdout, done.stderr


def read_case(name):
    return yaml.safe_load((CASES / f"{name}.yaml").read_text())


def case_names():
    return sorted(path.stem for path in CASES.glob("*.yaml"))


def pytest_generate_tests(metafunc):
    if "case" in metafunc.fixturenames:
        metafunc.parametrize("case", case_names())


@pytest.fixture(scope="session")
def helm(find_tool):
    return Helm(find_tool("helm"))


@pytest.fixture(scope="session")
def cases():
    return case_names()


@pytest.fixture(scope="session")
def chart_dir():
    return CHART


@pytest.fixture(scope="session")
def values_of():
    return read_case
