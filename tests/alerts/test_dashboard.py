"""The Grafana dashboard: well formed, laid out, and every query is PromQL."""

import itertools
import json
import re
import subprocess
from pathlib import Path

import yaml

ROOT = Path(__file__).resolve().parents[2]
DASHBOARD = json.loads((ROOT / "charts" / "justitia" / "files" / "dashboard.json").read_text())
PANELS = [panel for panel in DASHBOARD["panels"] if panel["type"] != "row"]
VARIABLES = {variable["name"] for variable in DASHBOARD["templating"]["list"]}


def test_panels_do_not_overlap_and_stay_in_the_grid():
    cells = set()
    for panel in DASHBOARD["panels"]:
        grid = panel["gridPos"]
        own = set(
            itertools.product(
                range(grid["x"], grid["x"] + grid["w"]), range(grid["y"], grid["y"] + grid["h"])
            )
        )
        assert not own & cells, panel["title"]
        assert grid["x"] + grid["w"] <= 24, panel["title"]
        cells |= own


def test_panels_have_ids_titles_and_descriptions_of_their_own():
    for key in ("id", "title"):
        values = [panel[key] for panel in DASHBOARD["panels"]]
        assert len(values) == len(set(values))
    assert all(panel["description"] for panel in PANELS)


def test_every_query_goes_to_the_chosen_data_source_and_knows_its_variables():
    assert {"datasource", "pool", "application", "window"} == VARIABLES
    for panel in PANELS:
        for target in panel["targets"]:
            assert target["datasource"]["uid"] == "${datasource}", panel["title"]
            used = set(re.findall(r"\$\{?([a-z_]+)", target["expr"]))
            assert used <= VARIABLES, panel["title"]


def test_every_legend_names_labels_that_the_query_keeps():
    for panel in PANELS:
        for target in panel["targets"]:
            kept = {
                label.strip()
                for clause in re.findall(r"\bby \(([^)]*)\)", target["expr"])
                for label in clause.split(",")
            }
            named = set(re.findall(r"\{\{([a-z_]+)\}\}", target["legendFormat"]))
            assert named <= kept, panel["title"]


def test_every_query_is_promql(promtool, tmp_path):
    rules = []
    for number, target in enumerate(t for panel in PANELS for t in panel["targets"]):
        expr = target["expr"].replace("$window", "5m")
        expr = expr.replace("$pool", ".*").replace("$application", ".*")
        rules.append({"record": f"panel:{number}", "expr": expr})
    path = tmp_path / "rules.yml"
    path.write_text(yaml.safe_dump({"groups": [{"name": "dashboard", "rules": rules}]}))
    done = subprocess.run(
        [promtool, "check", "rules", path], capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stdout + done.stderr


def series_of(exported):
    """Give every metric a series that grows, in every kind that queries tell apart."""
    kinds = {
        "kind": ("useful", "wasted", "expected", "recent"),
        "state": ("idle", "waiting"),
        "le": ("1", "+Inf"),
    }
    for name, labels in exported.items():
        for values in itertools.product(*(kinds.get(label, ("x",)) for label in labels)):
            pairs = ",".join(f'{label}="{v}"' for label, v in zip(labels, values, strict=True))
            yield {"series": f"{name}{{{pairs}}}", "values": "0+3x40"}


def test_every_query_finds_something_where_everything_is_exported(exported, run_tests):
    queries = [target["expr"] for panel in PANELS for target in panel["targets"]]
    for variable, value in (("$window", "5m"), ("$pool", "x"), ("$application", "x|y")):
        queries = [query.replace(variable, value) for query in queries]
    expectations = [
        {
            "expr": f"count(({query}) >= 0) > bool 0",  # NaN is not >= 0
            "eval_time": "30m",
            "exp_samples": [{"labels": "{}", "value": 1}],
        }
        for query in queries
    ]
    test = {
        "interval": "1m",
        "input_series": list(series_of(exported)),
        "promql_expr_test": expectations,
    }
    rules = {"groups": [{"name": "none", "rules": []}]}
    text = yaml.safe_dump({"rule_files": ["rules.yml"], "tests": [test]}, width=10_000)
    status, said = run_tests(rules, text)
    assert status == 0, said


def test_the_config_map_carries_the_dashboard_for_grafanas_sidecar(render):
    settings = {
        "enabled": True,
        "labels": {"team": "ml"},
        "annotations": {"grafana_folder": "LLM"},
        "namespace": "monitoring",
    }
    (document,) = render("dashboard-configmap.yaml", {"dashboard": settings})
    metadata = document["metadata"]
    assert json.loads(document["data"]["justitia.json"]) == DASHBOARD
    assert metadata["namespace"] == "monitoring"
    assert metadata["labels"]["grafana_dashboard"] == "1"
    assert metadata["labels"]["team"] == "ml"
    assert metadata["annotations"]["grafana_folder"] == "LLM"
