"""The rules and dashboards of charts/minikafka-monitoring: each alert has a test and a runbook, and all ask for what is there."""

from __future__ import annotations

import json
import re
import subprocess
from pathlib import Path
from typing import Any

import pytest
import yaml
from minikafka.telemetry.metric import HISTOGRAM
from minikafka.telemetry.metrics import METRICS
from minikafka.telemetry.process import process_samples
from minikafka_chaos.controller.telemetry import ControllerTelemetry
from minikafka_operator.telemetry import OperatorTelemetry

from tests.integration.monitoring.prometheus import ROOT, RULES, expressions, programs

HERE = Path(__file__).parent
RUNBOOKS = ROOT / "docs/guide/runbooks.md"
DASHBOARDS = sorted((ROOT / "charts/minikafka-monitoring/files/dashboards").glob("*.json"))
GROUPS = [
    group
    for path in sorted(RULES.glob("*.yaml"))
    for group in yaml.safe_load(path.read_text(encoding="utf-8"))["groups"]
]
ALERTS = [rule for group in GROUPS for rule in group["rules"] if "alert" in rule]


def promtool(*arguments: str | Path) -> None:
    done = subprocess.run([programs() / "promtool", *arguments], capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr


def declared() -> set[str]:
    """The names of all samples that somebody makes: brokers, operator, chaos controller, recording rules."""
    names = {sample.name for sample in process_samples()} | {"up"}
    for metric in METRICS:
        suffixes = ("_bucket", "_sum", "_count") if metric.kind == HISTOGRAM else ("",)
        names |= {metric.name + suffix for suffix in suffixes}
    for told in (OperatorTelemetry(), ControllerTelemetry()):
        for family in told.registry.collect():
            suffixes = ("_bucket", "_sum", "_count") if family.type == "histogram" else ("", "_total")
            names |= {family.name + suffix for suffix in suffixes}
    return names | {rule["record"] for group in GROUPS for rule in group["rules"] if "record" in rule}


def asked(expression: str) -> set[str]:
    """The names of metrics in an expression."""
    bare = re.sub(r'"[^"]*"', "", expression)
    return set(
        re.findall(
            r"\b(?:minikafka[\w:]*|kafka_\w+|process_\w+|kubelet_\w+|container_\w+|up)\b(?=\s*[{\[\s),]|$)", bare
        )
    )


def test_the_rules_are_understood() -> None:
    promtool("check", "rules", *sorted(RULES.glob("*.yaml")))


def test_each_alert_fires_when_it_should_and_not_before(tmp_path: Path) -> None:
    """promtool compares annotations word for word, which are prose; so they are left out here."""
    for path in RULES.glob("*.yaml"):
        document = yaml.safe_load(path.read_text(encoding="utf-8"))
        for group in document["groups"]:
            for rule in group["rules"]:
                rule.pop("annotations", None)
        (tmp_path / path.name).write_text(yaml.safe_dump(document))
    tests = tmp_path / "alerts.yaml"
    tests.write_text((HERE / "alerts.yaml").read_text(encoding="utf-8").replace("RULES/", ""))
    promtool("test", "rules", tests)


@pytest.mark.parametrize("alert", ALERTS, ids=lambda alert: alert["alert"])
def test_each_alert_has_a_test_and_a_runbook(alert: dict[str, Any]) -> None:
    name = alert["alert"]
    tests = yaml.safe_load((HERE / "alerts.yaml").read_text(encoding="utf-8"))["tests"]
    fired = [case for test in tests for case in test.get("alert_rule_test", []) if case["alertname"] == name]
    assert any(case.get("exp_alerts") for case in fired), "no test sees it fire"
    assert alert["labels"]["severity"] in ("critical", "warning", "info")
    assert alert["annotations"]["runbook_url"].endswith(f"docs/guide/runbooks.md#{name.lower()}")
    assert f"\n## {name}\n" in RUNBOOKS.read_text(encoding="utf-8")


def test_no_runbook_is_left_over() -> None:
    found = re.findall(r"^## (Minikafka\w+)$", RUNBOOKS.read_text(encoding="utf-8"), re.MULTILINE)
    assert found == [alert["alert"] for alert in ALERTS]


@pytest.mark.parametrize("group", GROUPS, ids=lambda group: group["name"])
def test_rules_ask_for_what_is_there(group: dict[str, Any]) -> None:
    for rule in group["rules"]:
        assert asked(rule["expr"])
        assert asked(rule["expr"]) <= declared(), rule


@pytest.mark.parametrize("path", DASHBOARDS, ids=lambda path: path.stem)
def test_dashboards_ask_for_what_is_there(path: Path) -> None:
    found = expressions(json.loads(path.read_text(encoding="utf-8")))
    assert len(found) > 10
    for expression in found:
        assert asked(expression)
        assert asked(expression) <= declared(), expression
