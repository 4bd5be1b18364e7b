"""The chart's alerts, run by promtool on scrapes as the Prometheus operator makes them (FK14)."""

import functools
import subprocess
from pathlib import Path

import pytest
import yaml

ROOT = Path(__file__).resolve().parents[2]
SOURCE = ROOT / "charts" / "justitia" / "files" / "alerts.yaml"
CASES = sorted(Path(__file__).parent.glob("*.test.yaml"))
ALERTS = sorted(yaml.safe_load(SOURCE.read_text())["alerts"])
OF_OPERATOR = {
    "JustitiaOperatorDown",
    "JustitiaSchedulerUnreachable",
    "JustitiaPolicyNotEffective",
    "JustitiaResourceNotReady",
}


@functools.cache
def parts_of(case):
    return yaml.load(case.read_text(), Loader=yaml.CSafeLoader)["tests"]


def alerts_of(spec):
    rules = [rule for group in spec["groups"] for rule in group["rules"]]
    return {rule["alert"]: rule for rule in rules if "alert" in rule}


@pytest.mark.parametrize("case", CASES, ids=[path.name.split(".")[0] for path in CASES])
def test_alerts_fire_when_they_should_and_only_then(rules, run_tests, case):
    status, said = run_tests(rules(), case.read_text())
    assert status == 0, said


def test_promtool_finds_nothing_wrong_with_the_rules(rules, promtool, tmp_path):
    path = tmp_path / "rules.yml"
    path.write_text(yaml.safe_dump(rules()))
    done = subprocess.run(
        [promtool, "check", "rules", "--lint=all", "--lint-fatal", path],
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr


@pytest.mark.parametrize("alert", ALERTS)
def test_every_alert_is_seen_firing_and_silent(alert):
    """An alert that no test fires could be one that cannot fire."""
    expected = [
        bool(check["exp_alerts"])
        for case in CASES
        for test in parts_of(case)
        for check in test.get("alert_rule_test", ())
        if check["alertname"] == alert
    ]
    assert True in expected
    assert False in expected


@pytest.mark.parametrize("alert", ALERTS)
def test_every_alert_has_a_runbook(alert):
    text = (ROOT / "docs" / "runbooks" / f"{alert}.md").read_text()
    assert text.startswith(f"# {alert}\n")
    for part in ("## What it means", "## Look", "## Do", "kubectl"):
        assert part in text, part


def test_alerts_link_to_their_runbooks(rules):
    spec = rules(runbookBaseUrl="https://docs.example/runbooks/")
    for alert, rule in alerts_of(spec).items():
        assert rule["annotations"]["runbook_url"] == f"https://docs.example/runbooks/{alert}.md"


def test_no_runbook_is_about_an_alert_that_is_not_there():
    pages = {page.stem for page in (ROOT / "docs" / "runbooks").glob("Justitia*.md")}
    assert pages == set(ALERTS)


@pytest.mark.parametrize("half", [ALERTS[::2], ALERTS[1::2]], ids=["even", "odd"])
def test_alerts_can_be_switched_off_and_the_others_stay(rules, half):
    names = alerts_of(rules({alert: {"enabled": False} for alert in half})).keys()
    assert names == set(ALERTS) - set(half)


def test_time_severity_and_labels_are_values(rules):
    settings = {"for": "7m", "severity": "page", "labels": {"team": "ml", "severity": "no"}}
    of_name = alerts_of(rules(dict.fromkeys(ALERTS, settings)))
    assert of_name.keys() == set(ALERTS)
    for rule in of_name.values():
        assert rule["for"] == "7m"
        assert rule["labels"] == {
            "team": "ml",
            "severity": "page",
            "installation": "justitia-system/justitia",
        }


def test_without_an_operator_nothing_is_said_of_it(render):
    values = {"prometheusRule": {"enabled": True}, "operator": {"enabled": False}}
    (document,) = render("prometheusrule.yaml", values)
    assert alerts_of(document["spec"]).keys() == set(ALERTS) - OF_OPERATOR
    assert "operator" not in yaml.safe_dump(document["spec"]).replace("runbook", "")


def test_nothing_is_made_unless_asked_for(render):
    assert render("prometheusrule.yaml", {}) == []
    assert render("dashboard-configmap.yaml", {}) == []


def test_targets_with_other_labels_can_be_selected(rules):
    spec = rules(schedulerSelector='app="sched"', operatorSelector='app="op"')
    text = " ".join(rule["expr"] for group in spec["groups"] for rule in group["rules"])
    assert 'justitia_journal_healthy{app="sched"}' in text
    assert 'up{app="op"}' in text
    assert "pod=~" not in text


BACKLOG = """
rule_files: [rules.yml]
evaluation_interval: 1m
tests:
  - interval: 1m
    input_series:
      - {series: 'justitia_open_runs{@scheduler,pool="a/b",application="c",state="waiting"}',
         values: '0+%(step)sx90'}
    promql_expr_test:
      - expr: count(ALERTS{alertname="JustitiaBacklogGrowing",alertstate="firing"}) or vector(0)
        eval_time: 80m
        exp_samples: [{labels: '{}', value: %(firing)d}]
"""


@pytest.mark.parametrize(
    ("threshold", "step", "is_firing"),
    [
        pytest.param(0, 1, True, id="zero"),
        pytest.param(0.5, 1, True, id="a fraction"),
        pytest.param(30, 1, False, id="exactly reached is not above"),
        pytest.param(29.999, 1, True, id="just above"),
        pytest.param(1_000_000, 30_000, False, id="a million, not yet"),
        pytest.param(1_000_000, 40_000, True, id="a million, passed"),
        pytest.param(12345678901, 411522631, True, id="a large whole number keeps its digits"),
        pytest.param(12345678901, 411522629, False, id="and is not rounded up"),
        pytest.param(1e-9, 1, True, id="tiny"),
    ],
)
def test_any_legal_threshold_is_compared_as_it_was_written(
    rules, run_tests, threshold, step, is_firing
):
    spec = rules({"JustitiaBacklogGrowing": {"threshold": threshold}})
    status, said = run_tests(spec, BACKLOG % {"step": step, "firing": is_firing})
    assert status == 0, said


def first_firing(alert):
    """Find the series and the moment at which a test expects an alert; expect none there."""
    for case in CASES:
        for test in parts_of(case):
            for check in test.get("alert_rule_test", ()):
                if check["alertname"] == alert and check["exp_alerts"]:
                    return {
                        "name": alert,
                        "interval": test["interval"],
                        "input_series": test["input_series"],
                        "alert_rule_test": [{**check, "exp_alerts": []}],
                    }
    raise AssertionError(alert)


def test_annotations_are_sentences_with_every_placeholder_filled(rules, run_tests):
    tests = [first_firing(alert) for alert in ALERTS]
    text = yaml.safe_dump(
        {"rule_files": ["rules.yml"], "evaluation_interval": "1m", "tests": tests}, width=10_000
    )
    status, said = run_tests(rules(), text, with_annotations=True)
    assert status != 0  # no alert was expected, so that promtool prints those that it got
    for trace in ("error expanding", "<no value>", "{{", "${", "%!"):
        assert trace not in said, said
    for alert in ALERTS:
        assert f'alertname="{alert}"' in said
        assert f"runbooks/{alert}.md" in said
    for sentence in (
        "took up to 3.50 times as long as under weighted fair sharing; promised: 2.00.",
        "1 engines of pool ml/llama are no longer connected",
        "seen last: llama-1-0",
        "were off by 150% on average; training had measured 40%.",
        "LLMApplication team-a/chat is not served by the policy",
    ):
        assert sentence in said, said
