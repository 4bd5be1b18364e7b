"""What is derived is current, and says the same as its source."""

import json
import os
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest
import yaml

ROOT = Path(__file__).resolve().parent.parent.parent
GOLDEN = Path(__file__).parent / "golden"
MARKS = {
    "annotations": ("helm.sh/resource-policy", "keep"),
    "labels": ("app.kubernetes.io/part-of", "justitia"),
}


@pytest.mark.parametrize("source", sorted((ROOT / "crds").glob("*.yaml")), ids=lambda p: p.stem)
def test_the_charts_crds_are_the_projects_and_are_kept(helm, chart_dir, source):
    crd = yaml.safe_load(source.read_text())
    copy = yaml.safe_load((chart_dir / "files" / "crds" / source.name).read_text())
    rendered = helm.render().one("CustomResourceDefinition", crd["metadata"]["name"])
    assert rendered == copy
    for part, (key, value) in MARKS.items():
        marks = dict(copy["metadata"][part])
        assert marks.pop(key) == value
        assert marks == crd["metadata"].get(part, {})
    assert copy["spec"] == crd["spec"]


def test_no_crd_is_left_behind_in_the_chart(chart_dir):
    copies, sources = (
        {path.name for path in folder.glob("*.yaml")}
        for folder in (chart_dir / "files" / "crds", ROOT / "crds")
    )
    assert copies == sources != set()


def test_crds_can_be_left_to_another_release(helm):
    assert helm.render({"crds": {"install": False}}).of("CustomResourceDefinition") == []


@pytest.mark.parametrize("tool", ["chart", "chart_schema"])
def test_generated_files_are_current(chart_dir, tool):
    files = [
        "README.md",
        "values.schema.json",
        *(p.relative_to(chart_dir) for p in chart_dir.glob("files/crds/*")),
    ]
    before = {name: (chart_dir / name).read_text() for name in files}
    subprocess.run([sys.executable, ROOT / "tools" / tool], check=True)
    assert {name: (chart_dir / name).read_text() for name in files} == before


def test_the_charts_version_is_the_projects(chart_dir):
    version = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["version"]
    about = yaml.safe_load((chart_dir / "Chart.yaml").read_text())
    assert (about["version"], about["appVersion"]) == (version, version)


@pytest.mark.parametrize("golden", ["default", "a100"])
def test_the_rendered_chart_is_the_reviewed_one(helm, golden):
    shown = golden_text(helm.case(golden))
    path = GOLDEN / f"{golden}.yaml"
    if os.environ.get("JUSTITIA_UPDATE_GOLDEN"):
        path.write_text(shown)
    assert shown == path.read_text(), "review the difference, then set JUSTITIA_UPDATE_GOLDEN=1"


def golden_text(rendered):
    """All but CRDs, and but what is random; one object after another."""
    shown = [shortened(o) for o in rendered.objects if o["kind"] != "CustomResourceDefinition"]
    return yaml.safe_dump_all(shown, sort_keys=False, width=100)


def shortened(o):
    copy = json.loads(json.dumps(o))
    if o["kind"] in {"Secret", "ConfigMap"}:
        copy["data"] = sorted(copy["data"])
    pod = copy.get("spec", {}).get("template", {}).get("metadata", {})
    if "justitia.dev/certificates" in pod.get("annotations", {}):
        pod["annotations"]["justitia.dev/certificates"] = "(checksum)"
    return copy


def test_helm_finds_nothing_to_complain_about(helm, chart_dir, case, tmp_path, values_of):
    values = tmp_path / "values.yaml"
    values.write_text(yaml.safe_dump(values_of(case)))
    done = subprocess.run(
        [helm.program, "lint", "--strict", str(chart_dir), "-f", values],
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr


def test_notes_tell_the_next_step(helm, chart_dir, tmp_path, values_of):
    values = tmp_path / "values.yaml"
    values.write_text(yaml.safe_dump(values_of("cpu")))
    command = [helm.program, "install", "justitia", chart_dir, "-n", "llm", "--dry-run=client"]
    done = subprocess.run(
        [*command, "-f", values], capture_output=True, text=True, check=False, env=no_cluster()
    )
    assert done.returncode == 0, done.stderr
    notes = done.stdout.partition("NOTES:")[2]
    assert "scheduler service  justitia-scheduler.llm.svc:50051 (not encrypted)" in notes
    assert "pool small  https://small.llm.svc:443/v1" in notes
    assert "helm test justitia -n llm" in notes
    assert "WARNING: scheduler.persistence.enabled is false" in notes
    application = yaml.safe_load(notes.partition("<<END")[2].partition("END")[0])
    assert application["spec"]["poolRef"]["name"] == "small"


def no_cluster():
    return os.environ | {"KUBECONFIG": os.devnull}


def test_there_is_one_crd_for_each_kind_that_the_notes_and_roles_name(helm):
    plurals = {c["spec"]["names"]["plural"] for c in helm.render().of("CustomResourceDefinition")}
    assert plurals == {"llmapplications", "predictorprofiles"}
