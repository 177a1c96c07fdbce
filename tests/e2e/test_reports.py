"""Story A by high watermark, applied as in its file, and Spark's report of it: a run on a claim, a Job with an executor.

By high watermark, as before KIP-101, an acknowledged record is lost. The verdict is computed, and found where people look. The
namespace has the restricted Pod Security Standard, and the chaos controller rights in it and nowhere else.
"""

from __future__ import annotations

import json
import shlex
import subprocess
import time
from base64 import b64decode
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.e2e import charts, diagnostics
from tests.e2e.broker_cluster import SMALL, BrokerCluster
from tests.e2e.chaos_lab import A_LEADER_DIES, ENDED, ROOT, Lab, anomalies, conditions, document
from tests.e2e.kubectl import Kubectl, condition, eventually
from tests.e2e.machine import image, say
from tests.e2e.node import Node
from tests.e2e.objects import Object

FILE = ROOT / "chaos/scenarios/kip-101-data-loss.high-watermark.yaml"
STORY = "kip-101-by-high-watermark"
"""Not the file's own name: executors' pods would have its dot in their names, and Spark starts none then."""
CLAIM, DESK = "minikafka-runs", "analytics-desk"
START_SECONDS_MAX = 600
TOLD_SECONDS_MAX = 360
RUN_SECONDS_MAX = 1200
REPORT_SECONDS_MAX = 1800


@pytest.fixture(scope="module")
def reporting_lab(operator: Kubectl, module_namespace: Kubectl, programs: Path) -> Iterator[Lab]:
    """A namespace with both charts: experiments that are applied there are reported. Spark's image may still be on its way."""
    kubectl, release = module_namespace, module_namespace.namespace
    spark = charts.image(image("analytics"))
    small = {"requests": {"cpu": "100m", "memory": "512Mi"}, "limits": {"memory": "2Gi"}}
    values: dict[str, Any] = {"image": spark, "desk": {"enabled": True}, "runs": {"size": "500Mi"}, "resources": small}
    charts.install(programs, kubectl, "analytics", "minikafka-analytics", values)
    report = {"enabled": True, "image": spark, "desk": DESK, "resources": small}
    values = {"image": charts.image(image("chaos")), "runs": {"claim": CLAIM}, "report": report}
    charts.install(programs, kubectl, release, "minikafka-chaos", values)
    _wait_rolled_out(kubectl, release)
    yield Lab(kubectl)
    for name in kubectl("get", "mkx", "--output", "name").split():
        kubectl("annotate", name, "minikafka.dev/force-delete=true", "--overwrite")
    kubectl("delete", "mkx", "--all", "--timeout=280s")
    charts.uninstall(programs, kubectl, release)  # its ValidatingAdmissionPolicy is the whole cluster's


def _wait_rolled_out(kubectl: Kubectl, deployment: str) -> None:
    patience = f"--timeout={START_SECONDS_MAX}s"
    kubectl("rollout", "status", f"deployment/{deployment}", patience, timeout=START_SECONDS_MAX + 10)


@dataclass(frozen=True)
class ReportedStory:
    """The status of the story once there is a report of it, and the executors that were seen meanwhile."""

    status: Object
    executors: set[str]


@pytest.fixture(scope="module")
def reported_story(reporting_lab: Lab) -> ReportedStory:
    """The story, applied, carried out and reported. It is read by all tests here."""
    kubectl = reporting_lab.kubectl
    began = time.monotonic()
    story = yaml.safe_load(FILE.read_text(encoding="utf-8"))
    story["metadata"]["name"] = STORY
    kubectl.apply(story)
    executors: set[str] = set()
    ended_after: list[float] = []

    def look() -> Object:
        status = reporting_lab.status(STORY)
        if status.get("phase") in ENDED and not ended_after:
            ended_after.append(time.monotonic() - began)
        executors.update(each["metadata"]["name"] for each in kubectl.objects.list("pod", "spark-role=executor"))
        return status

    def reported(status: Object) -> bool:
        if status.get("phase") in ENDED and status["phase"] != "Completed":
            return True  # and there is nothing to wait for
        return condition({"status": status}, "Reported").get("status") in ("True", "False")

    status = eventually(
        look, reported, seconds=RUN_SECONDS_MAX + REPORT_SECONDS_MAX, what=f"there is a report of {STORY}"
    )
    took = time.monotonic() - began
    say(f"{ended_after[0]:6.1f} s  kubectl apply of {STORY} to its verdict; {took:.1f} s to its report by {executors}")
    say(kubectl("get", "mkx"))
    return ReportedStory(status, executors)


def test_kip_101_a_fails_and_names_the_lost_record(reporting_lab: Lab, reported_story: ReportedStory) -> None:
    found = reported_story.status
    described = reporting_lab.wait_reported(STORY, found["phase"])
    ended = (found["phase"], found["verdict"], found["lost"], found["acknowledged"])
    assert ended == ("Completed", "Failed", 1, 2), described
    assert anomalies(found) == {"unseen": 1}
    assert found["asExpected"] == "as expected"
    lost = "1 acknowledged record lost: 'm1' was acknowledged at offset 1, and is gone"
    assert found["summary"].startswith(lost)
    assert conditions(found)["Complete"][1:] == ("Verdict", f"Failed: {found['summary']}")
    assert ("Verdict", f"Failed: {found['summary']}") in reporting_lab.events(STORY)
    row = reporting_lab.kubectl("get", "mkx", STORY).splitlines()[1].split()
    assert row[:4] == [STORY, "Completed", "Failed", "1"]
    assert all(fault["state"] == "Recovered" for fault in found["faults"])


def test_spark_reports_the_same_by_an_executor(reporting_lab: Lab, reported_story: ReportedStory) -> None:
    kubectl, status = reporting_lab.kubectl, reported_story.status
    made = condition({"status": status}, "Reported")
    assert (made.get("status"), made.get("reason")) == ("True", "ReportMade"), (made, _log(kubectl))
    assert reported_story.executors, "no executor pod was seen"
    report = status["report"]
    assert (report["claim"], report["verdict"]) == (CLAIM, status["verdict"])
    assert report["path"] == f"{status['run']}/report.html"
    assert report["path"] in kubectl("get", "mkx", STORY)
    eventually(  # an Event follows the status that it is about
        lambda: {reason for reason, _ in reporting_lab.events(STORY)},
        lambda reasons: "ReportMade" in reasons,
        seconds=TOLD_SECONDS_MAX,
        what="the report's Event",
    )
    _wait_rolled_out(kubectl, DESK)
    folder = diagnostics.folder_for("experiment-report")
    _copy_out(kubectl, report["copy"], folder)
    assert "</html>" in (folder / "report.html").read_text()
    data = kubectl("exec", f"deploy/{DESK}", "--", "cat", f"/runs/{status['run']}/report.json")
    (run,) = json.loads(data)["runs"]
    assert (run["verdict"]["verdict"], run["verdict"]["agree"]) == (status["verdict"], True)
    assert (run["counts"]["acknowledged"], run["counts"]["lost"]) == (status["acknowledged"], status["lost"])
    say(f"faults in the report: {[fault['kinds'] for fault in run['faults']]}")
    assert any(each["led"] for fault in run["faults"] for each in fault["partitions"])
    say(f"the report was copied to {folder / 'report.html'}")


def _log(kubectl: Kubectl) -> str:
    """What the Job said, if there is one."""
    found = kubectl.objects.list("job", "app.kubernetes.io/component=report")
    return "\n".join(kubectl("logs", f"job/{each['metadata']['name']}") for each in found)


def _copy_out(kubectl: Kubectl, command: str, folder: Path) -> None:
    """What the status says a person should type, with this cluster's kubectl."""
    words = shlex.split(command.removeprefix("kubectl "))
    target = words.pop()
    assert words.pop() == ">"
    with (folder / target).open("w") as page:
        subprocess.run(kubectl.command(*words), stdout=page, check=True, timeout=300)


@pytest.mark.full
def test_a_claim_that_is_not_there_is_refused(reporting_lab: Lab) -> None:
    kubectl = reporting_lab.kubectl
    spec: dict[str, Any] = {
        "cluster": {"brokers": 3, "config": [{"name": "min.insync.replicas", "value": "2"}]},
        **A_LEADER_DIES,
        "runs": {"claim": "nowhere"},
    }
    kubectl.apply(document("homeless", spec))
    found = eventually(
        lambda: kubectl.objects.there("mkx", "homeless"),
        lambda seen: condition(seen, "Accepted").get("reason") == "ClaimNotFound",
        seconds=TOLD_SECONDS_MAX,
        what="it is refused",
    )
    assert found["status"]["phase"] == "Refused"
    assert kubectl.objects.get("job", "homeless-run") is None


SECURED: dict[str, Any] = {
    "brokers": {"replicas": 3, "resources": SMALL},
    "replication": {"defaultFactor": 3, "minInsyncReplicas": 2},
    "config": {"group.initial.rebalance.delay.ms": "0"},
    "storage": {"size": "500Mi", "deleteClaim": True},
    "chaos": {"allowed": True},
    "listeners": {"internal": {"tls": True, "authentication": {"type": "scram-sha-512"}}},
    "authorization": {"type": "simple"},
    "clusterCa": {"graceSeconds": 60},
}


@pytest.mark.full
def test_an_experiment_on_a_secured_cluster(reporting_lab: Lab, node: Node) -> None:
    """Its clients log in as a user of its own, which may do no more than they need, and whose password nobody else is told.

    The cluster CA is renewed meanwhile, or would be: what its clients trust goes on signing until the experiment has ended.
    """
    kubectl, name = reporting_lab.kubectl, "secured"
    cluster = BrokerCluster(kubectl, node, name)
    cluster.up(SECURED)
    workload = {**A_LEADER_DIES["workload"], "groupMembers": 2}
    reporting_lab.apply(name, {"clusterRef": {"name": name}, **A_LEADER_DIES, "workload": workload})
    user = f"{name}-run"
    job = eventually(
        lambda: kubectl.objects.get("job", user), seconds=RUN_SECONDS_MAX, what="the experiment's Job is there"
    )
    kubectl("annotate", "mkc", name, "minikafka.dev/renew-cluster-ca=1")
    password = b64decode(kubectl.objects.there("secret", user)["data"]["password"]).decode()
    acls = kubectl.objects.there("mku", user)["spec"]["authorization"]["acls"]
    group = f"readers-{kubectl.objects.there('mkx', name)['metadata']['uid']}"
    assert {acl["resource"]["name"] for acl in acls} == {"bank", group}
    reporting_lab.wait_for(name, lambda found: found.get("verdict"), RUN_SECONDS_MAX, "there is a verdict")
    log = kubectl("logs", f"job/{user}")
    (status,) = reporting_lab.wait_for_end(name)
    described = reporting_lab.wait_reported(name, status["phase"])
    assert (status["phase"], status["verdict"], status.get("lost")) == ("Completed", "Passed", 0), described
    assert status["acknowledged"] > 600
    done = eventually(
        lambda: {"status": reporting_lab.status(name)},
        lambda seen: condition(seen, "Reported").get("status") in ("True", "False"),
        seconds=REPORT_SECONDS_MAX,
        what="there is a report of it",
    )
    assert condition(done, "Reported")["reason"] == "ReportMade", (condition(done, "Reported"), _log(kubectl))
    _wait_rolled_out(kubectl, DESK)
    run = f"/runs/{status['run']}"
    kept = kubectl("exec", f"deploy/{DESK}", "--", "sh", "-c", f"grep -rlF -e '{password}' {run} || test $? = 1")
    assert not kept.strip(), "the password is in files of the run"
    for where, text in (
        ("log", log),
        ("status and Events", described),
        ("Job", json.dumps(job)),
        ("report", _log(kubectl)),
    ):
        assert password not in text, f"the password is in the {where}"
    eventually(lambda: kubectl.objects.get("mku", user) is None, seconds=TOLD_SECONDS_MAX, what="the user is gone")
    assert kubectl.objects.get("secret", user) is None
