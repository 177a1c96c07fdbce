"""ChaosExperiments and ChaosSchedules as a real API server takes them: every scenario as it is, and what it refuses."""

from __future__ import annotations

import copy
import json
from pathlib import Path
from typing import Any

import pytest
from minikafka_chaos.controller.admission import scenario_of
from minikafka_chaos.scenario.scenario import load_scenario

from tests.apiserver.control_plane import ControlPlane

SCENARIOS = sorted((Path(__file__).parents[2] / "chaos/scenarios").glob("*.yaml"))
API = "/apis/minikafka.dev/v1alpha1/namespaces"

SPEC: dict[str, Any] = {
    "clusterRef": {"name": "shop"},
    "topics": [{"name": "bank"}],
    "workload": {"topic": "bank"},
    "steps": [{"name": "kill", "fault": {"verb": "Kill", "target": {"type": "Leader", "topic": "bank"}}}],
}


def apply(plane: ControlPlane, namespace: str, spec: Any, kind: str = "ChaosExperiment", name: str = "x") -> str:
    """kubectl apply; what it complained about."""
    document = {"apiVersion": "minikafka.dev/v1alpha1", "kind": kind, "metadata": {"name": name}, "spec": spec}
    done = plane.kubectl("apply", "--server-side", "-n", namespace, "-f", "-", stdin=json.dumps(document))
    assert (done.returncode == 0) == (not done.stderr), done
    return done.stderr


@pytest.mark.parametrize(
    "path",
    [pytest.param(path, marks=[pytest.mark.full] if "." in path.stem else []) for path in SCENARIOS],  # a variant
    ids=lambda path: path.stem,
)
def test_every_scenario_is_an_experiment_as_it_is(plane: ControlPlane, namespace: str, path: Path) -> None:
    """What the API server has filled in means nothing else: it is the same scenario to the runner."""
    done = plane.kubectl("apply", "--server-side", "-n", namespace, "-f", str(path))
    assert done.returncode == 0, done.stderr
    ours = load_scenario(path)
    kept = plane.request("GET", f"{API}/{namespace}/chaosexperiments/{ours.name}")
    found = scenario_of(kept)
    assert (found.name, found.spec) == (ours.name, ours.spec)
    spelt_out = {**ours.as_json(), "apiVersion": kept["apiVersion"], "kind": kept["kind"]}
    done = plane.kubectl(
        "apply", "--server-side", "--dry-run=server", "-n", namespace, "-f", "-", stdin=json.dumps(spelt_out)
    )
    assert done.returncode == 0, done.stderr


def _with(change: dict[str, Any]) -> dict[str, Any]:
    made = {**copy.deepcopy(SPEC), **change}
    return {name: value for name, value in made.items() if value is not None}


def _condition(**condition: Any) -> dict[str, Any]:
    return {"steps": [{"name": "w", "wait": {"conditions": [condition]}}]}


@pytest.mark.parametrize(
    ("change", "says"),
    [
        ({"cluster": {"brokers": 3}}, "give exactly one of clusterRef (a cluster that is there) and cluster"),
        ({"clusterRef": None}, "give exactly one of clusterRef"),
        ({"topics": None}, "spec.topics: Required value"),
        ({"stepps": []}, ".spec.stepps: field not declared in schema"),
        ({"seed": -1}, "spec.seed: Invalid value"),
        ({"workload": {"topic": "bank", "acks": "Some"}}, 'spec.workload.acks: Unsupported value: "Some"'),
        ({"steps": [{"name": "s"}]}, "each step has exactly one of wait, send, fault"),
        (
            {"steps": [{"name": "s", "fault": {"target": {"type": "All"}}}]},
            "give exactly one of verb and oneOf",
        ),
        (
            {"steps": [{"name": "s", "fault": {"verb": "Explode", "target": {"type": "All"}}}]},
            "fault.verb: Unsupported value",
        ),
        (_condition(type="Elapsed"), "seconds is needed by Elapsed"),
        (_condition(type="FullIsr", topic="bank", seconds=3), "seconds is for Elapsed only"),
        (_condition(type="Moon"), 'type: Unsupported value: "Moon"'),
        ({"safety": {"brokersOutMax": 0}}, "spec.safety.brokersOutMax: Invalid value: 0"),
        ({"activeDeadlineSeconds": 0}, "spec.activeDeadlineSeconds: Invalid value"),
    ],
    ids=lambda value: json.dumps(value)[:40] if isinstance(value, dict) else "",
)
def test_refused(plane: ControlPlane, namespace: str, change: dict[str, Any], says: str) -> None:
    assert says in apply(plane, namespace, _with(change))


def test_the_largest_one_passes(plane: ControlPlane, namespace: str) -> None:
    """The rules stay within the cost limits of the API server also at run time."""
    conditions = [{"type": "Isr", "topic": "bank", "partition": 0, "brokers": [1, 2, 3]}] * 20
    steps = [{"name": f"s-{n}", "wait": {"conditions": conditions}} for n in range(100)]
    assert apply(plane, namespace, _with({"steps": steps})) == ""
    labelled = plane.kubectl("label", "mkx", "x", "-n", namespace, "a=b")
    assert labelled.returncode == 0, labelled.stderr


def test_the_spec_stays_as_it_is_once_it_has_begun(plane: ControlPlane, namespace: str) -> None:
    assert apply(plane, namespace, SPEC) == ""
    path = f"{API}/{namespace}/chaosexperiments/x"
    for phase, says in (("Pending", ""), ("Running", "spec cannot be changed once the experiment has begun")):
        plane.request("PATCH", f"{path}/status", {"status": {"phase": phase}})
        assert says in apply(plane, namespace, _with({"seed": 7 if phase == "Pending" else 8}))
    plane.request("PATCH", path, {"metadata": {"annotations": {"minikafka.dev/abort": "true"}}})
    assert plane.request("GET", path)["spec"]["seed"] == 7


def test_what_kubectl_get_shows(plane: ControlPlane, namespace: str) -> None:
    assert apply(plane, namespace, SPEC) == ""
    status = {
        "phase": "Completed",
        "faultNow": "",
        "verdict": "Failed",
        "lost": 3,
        "worstGap": "0.31 s",
        "runsClaim": "runs",
        "report": {"claim": "runs", "path": "x-1/report.html", "verdict": "Failed", "copy": "kubectl exec ..."},
    }
    plane.request("PATCH", f"{API}/{namespace}/chaosexperiments/x/status", {"status": status})
    header, row = plane.kubectl("get", "mkx", "-n", namespace).stdout.splitlines()
    assert header.split() == ["NAME", "PHASE", "FAULT", "VERDICT", "LOST", "WORST", "GAP", "REPORT", "AGE"]
    assert row.split()[:4] == ["x", "Completed", "Failed", "3"]
    assert " x-1/report.html " in row
    wide = plane.kubectl("get", "mkx", "-n", namespace, "-o", "wide").stdout.splitlines()
    assert "CLAIM" in wide[0] and " runs " in wide[1]


class TestSchedules:
    TEMPLATES = ({"name": "kill", "spec": SPEC},)

    @pytest.mark.parametrize(
        ("spec", "says"),
        [
            ({"templates": TEMPLATES}, "give exactly one of cron and interval"),
            (
                {"cron": "* * * * *", "interval": {"seconds": 60}, "templates": TEMPLATES},
                "give exactly one of cron and interval",
            ),
            (
                {"interval": {"seconds": 60}, "timeZone": "UTC", "templates": TEMPLATES},
                "spec.timeZone is for spec.cron only",
            ),
            ({"interval": {"seconds": 60}, "templates": []}, "spec.templates"),
            (
                {"cron": "* * * * *", "concurrencyPolicy": "Replace", "templates": TEMPLATES},
                "concurrencyPolicy: Unsupported value",
            ),
        ],
        ids=lambda value: value if isinstance(value, str) else "",
    )
    def test_refused(self, plane: ControlPlane, namespace: str, spec: Any, says: str) -> None:
        assert says in apply(plane, namespace, spec, "ChaosSchedule")

    def test_accepted(self, plane: ControlPlane, namespace: str) -> None:
        spec = {"cron": "0 2 * * *", "timeZone": "Europe/Berlin", "templates": self.TEMPLATES}
        assert apply(plane, namespace, spec, "ChaosSchedule") == ""
        kept = plane.request("GET", f"{API}/{namespace}/chaosschedules/x")["spec"]
        assert (kept["successfulHistoryLimit"], kept["templates"][0]["weight"]) == (3, 1)


def test_explain(plane: ControlPlane) -> None:
    assert (
        "How many brokers may be out at one moment" in plane.kubectl("explain", "mkx.spec.safety.brokersOutMax").stdout
    )
