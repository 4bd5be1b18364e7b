import functools
import json
import re
import subprocess
from collections import defaultdict
from pathlib import Path

import pytest
import yaml
from prometheus_client import generate_latest
from prometheus_client.parser import text_string_to_metric_families

from justitia_scheduler.metrics import Metrics

ROOT = Path(__file__).resolve().parents[2]
CHART = ROOT / "charts" / "justitia"
RELEASE, NAMESPACE = "justitia", "justitia-system"

#: Labels of targets as the Prometheus operator sets them. Tests write @scheduler for them, and
#: @operator_honouring where a sample has a label `namespace` of its own and keeps it.
TARGETS = {
    "scheduler": (NAMESPACE, f"{RELEASE}-scheduler", f"{RELEASE}-scheduler-0", "10.0.0.1:9090"),
    "restarted": (NAMESPACE, f"{RELEASE}-scheduler", f"{RELEASE}-scheduler-0", "10.0.0.9:9090"),
    "stranger": ("elsewhere", f"{RELEASE}-scheduler", f"{RELEASE}-scheduler-0", "10.0.0.5:9090"),
    "operator": (
        NAMESPACE,
        f"{RELEASE}-operator",
        f"{RELEASE}-operator-6d4cf56db6-x2x2x",
        "10.0.0.2:8080",
    ),
}


def target_labels(target, *, is_honouring):
    """Write a target's labels; a sample's own `namespace` wins where the scrape honours labels."""
    namespace, service, pod, instance = TARGETS[target]
    own = "" if is_honouring else f'namespace="{namespace}",'
    return (
        f'{own}service="{service}",job="{service}",pod="{pod}",'
        f'instance="{instance}",endpoint="metrics"'
    )


#: What the rules read of the operator; test_exposition holds the operator to it.
OF_OPERATOR = {
    "justitia_resource_condition": {"kind", "namespace", "name", "type", "status"},
    "justitia_operator_scheduler_up": set(),
}


@pytest.fixture(scope="session")
def exported():
    """Read labels by sample name off a page on which every metric has a series."""
    metrics = Metrics()
    for collector in set(metrics.registry._collector_to_names):
        if collector._labelnames:
            collector.labels(*["x"] * len(collector._labelnames))
    labels = defaultdict(set)
    for family in text_string_to_metric_families(generate_latest(metrics.registry).decode()):
        for sample in family.samples:
            labels[sample.name] |= sample.labels.keys()
    return {**labels, **OF_OPERATOR}


@pytest.fixture(scope="session")
def helm(find_tool):
    return find_tool("helm")


@pytest.fixture(scope="session")
def promtool(find_tool):
    return find_tool("promtool")


@pytest.fixture(scope="session")
def render(helm, tmp_path_factory):
    """Render one template of the chart with values; returns its documents.

    Renderings are kept: each costs a process.
    """

    @functools.cache
    def output(template, values):
        path = tmp_path_factory.mktemp("values") / "values.yaml"
        path.write_text(values)
        done = subprocess.run(
            [
                *(helm, "template", RELEASE, CHART, "--namespace", NAMESPACE),
                *("--values", path, "--show-only", f"templates/{template}"),
            ],
            capture_output=True,
            text=True,
            check=False,
        )
        if done.returncode and "could not find template" in done.stderr:
            return ""
        assert done.returncode == 0, done.stderr
        return done.stdout

    def rendered(template, values):
        text = output(template, json.dumps(values, sort_keys=True))
        return [document for document in yaml.load_all(text, Loader=yaml.CSafeLoader) if document]

    return rendered


@pytest.fixture(scope="session")
def rules(render):
    """Render the groups of rules with values for the alerts."""

    def groups(alerts=None, **settings):
        values = {"prometheusRule": {"enabled": True, **settings}, "alerts": alerts or {}}
        (document,) = render("prometheusrule.yaml", values)
        return document["spec"]

    return groups


def narrowed(spec, text, *, with_annotations):
    """Leave out alerts that a test does not name: promtool evaluates every rule every minute."""
    hidden = set() if with_annotations else {"annotations"}
    return {
        "groups": [
            {
                **group,
                "rules": [
                    {key: value for key, value in rule.items() if key not in hidden}
                    for rule in group["rules"]
                    if "record" in rule or rule["alert"] in text
                ],
            }
            for group in spec["groups"]
        ]
    }


@pytest.fixture
def run_tests(promtool, tmp_path):
    """Run promtool's unit tests on rules; returns its exit status and what it said.

    Unless asked for, annotations are left out, so that tests need not repeat them.
    """

    def run(spec, text, *, with_annotations=False):
        shown = narrowed(spec, text, with_annotations=with_annotations)
        (tmp_path / "rules.yml").write_text(yaml.safe_dump(shown))
        text = re.sub(
            rf"@({'|'.join(TARGETS)})(_honouring)?\b",
            lambda match: target_labels(match[1], is_honouring=bool(match[2])),
            text,
        )
        (tmp_path / "unit.test.yaml").write_text(text)
        done = subprocess.run(
            [promtool, "test", "rules", "unit.test.yaml"],
            cwd=tmp_path,
            capture_output=True,
            text=True,
            check=False,
        )
        return done.returncode, done.stdout + done.stderr

    return run
