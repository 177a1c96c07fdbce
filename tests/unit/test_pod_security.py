"""Every pod that the operator, the chaos controller and Spark's driver make is restricted (tests/pod_security.py)."""

from __future__ import annotations

from copy import deepcopy
from typing import Any

from minikafka_analytics.spark.on_kubernetes import executor_pod
from minikafka_chaos.controller.jobs import JobSettings, ReportSettings, job
from minikafka_chaos.controller.reports import report_job
from minikafka_kube.names import RACK_CONTAINER

from tests.pod_security import faults, pods
from tests.unit.operator.test_pods import EVERYTHING, made

EXPERIMENT = {"metadata": {"name": "try", "namespace": "lab", "uid": "0123456789"}, "spec": {}}
REPORT = ReportSettings("minikafka/analytics:1")
SETTINGS = JobSettings("minikafka/chaos:1", report=REPORT, runs_claim="runs")
SECRETS = ({"name": "user", "secret": {"secretName": "try"}}, {"name": "user", "mountPath": "/user"})
NEEDS_A_SHELL = {f"{RACK_CONTAINER}: a shell"}
"""It waits for a file in a loop, within 16 MiB, before each broker that has a rack."""


def all_made() -> list[dict[str, Any]]:
    report = report_job(EXPERIMENT, SETTINGS, REPORT)
    driver = {"metadata": {"name": "driver"}, "spec": report["spec"]["template"]["spec"]}
    return [
        made(),
        made(**EVERYTHING),
        job(EXPERIMENT, "demo", 60, SETTINGS),
        job(EXPERIMENT, "demo", 60, SETTINGS, SECRETS),
        report,
        executor_pod(driver, one_node=True),
    ]


def test_every_pod_is_restricted() -> None:
    found = list(pods(all_made()))
    assert [name.split()[0] for name, _ in found] == ["StatefulSet"] * 2 + ["Job"] * 3 + ["Pod"]
    assert {name: set(faults(pod)) - NEEDS_A_SHELL for name, pod in found} == {name: set() for name, _ in found}


def test_what_is_not_restricted_is_noticed() -> None:
    """Each of what the test above looks at, taken out of a pod that has it."""
    ((_, good),) = pods([job(EXPERIMENT, "demo", 60, SETTINGS)])
    assert faults(good) == []
    for field in ("runAsNonRoot", "seccompProfile"):
        bad = deepcopy(good)
        del bad["securityContext"][field]
        assert len(faults(bad)) == 1, field
    for field in ("allowPrivilegeEscalation", "readOnlyRootFilesystem", "capabilities"):
        bad = deepcopy(good)
        del bad["containers"][0]["securityContext"][field]
        assert len(faults(bad)) == 1, field
    worse = deepcopy(good) | {"hostPID": True}
    worse["volumes"].append({"name": "node", "hostPath": {"path": "/"}})
    worse["containers"][0] |= {"command": ["sh", "-c", "true"]}
    worse["containers"][0]["securityContext"] |= {
        "runAsUser": 0,
        "capabilities": {"drop": ["ALL"], "add": ["SYS_ADMIN"]},
    }
    assert len(faults(worse)) == 5
