"""Story A by high watermark, applied as in its file, and Spark's report of it: a run on a claim, a Job with an executor.

By high watermark, as before KIP-101, an acknowledged record is lost. The verdict is computed, and found where people look. The
namespace has the restricted Pod Security Standard, and the chaos controller rights in it and nowhere else.
"""

from __future__ import annotations

import json
import shlex
import subprocess
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.e2e import charts, diagnostics
from tests.e2e.chaos_lab import A_LEADER_DIES, ENDED, ROOT, Lab, anomalies, conditions, document
from tests.e2e.kubectl import Kubectl, condition, eventually
from tests.e2e.machine import image, say
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
