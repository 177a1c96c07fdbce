"""A namespace where experiments are carried out: the chart of the chaos controller in it, and what a person does there."""

from __future__ import annotations

import subprocess
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tests.e2e.kubectl import Kubectl, eventually
from tests.e2e.machine import say
from tests.e2e.objects import Object

ROOT = Path(__file__).parents[2]
CHART = ROOT / "charts/minikafka-chaos"
RELEASE = "lab"
"""Of the chart, and so the name of the controller's service account."""
ENDED = ("Completed", "Refused", "Aborted", "Error")
RUN_SECONDS_MAX = 1200
"""A story of minutes on a busy machine, the cluster that is made for it counted."""
GONE_SECONDS_MAX = 360
TOLD_SECONDS_MAX = 360
"""For an Event, which the controller writes after the status that it is about."""
A_LEADER_DIES: dict[str, Any] = {
    "topics": [{"name": "bank", "partitions": 2, "replicationFactor": 3}],
    "workload": {"topic": "bank", "ratePerSecond": 100},
    "steps": [
        {"name": "warm-up", "wait": {"conditions": [{"type": "Acked", "atLeast": 300}], "deadlineSeconds": 120}},
        {"name": "kill", "fault": {"verb": "Kill", "target": {"type": "Leader", "topic": "bank"}}},
        {
            "name": "goes-on",
            "wait": {"conditions": [{"type": "Acked", "atLeast": 300, "since": "kill"}], "deadlineSeconds": 120},
        },
        {
            "name": "back",
            "fault": {"verb": "Start", "target": {"type": "SameAs", "step": "kill"}, "deadlineSeconds": 240},
        },
        {"name": "whole", "wait": {"conditions": [{"type": "FullIsr", "topic": "bank"}], "deadlineSeconds": 240}},
    ],
}
"""Of an experiment's spec, without its cluster: a short story for tests that are about what is made of it."""


@dataclass(frozen=True)
class Lab:
    """kubectl on a namespace in which the controller looks after experiments."""

    kubectl: Kubectl

    def apply(self, name: str, spec: dict[str, Any], kind: str = "ChaosExperiment") -> None:
        """Apply an experiment, or a schedule."""
        self.kubectl.apply(document(name, spec, kind))

    def status(self, name: str) -> Object:
        """What is told of an experiment; empty while nothing is."""
        found: Object = (self.kubectl.objects.get("mkx", name) or {}).get("status") or {}
        return found

    def wait_for(self, name: str, satisfied: Callable[[Object], object], seconds: float, what: str) -> Object:
        """Wait for something in the status of an experiment."""
        return eventually(lambda: self.status(name), satisfied, seconds=seconds, what=what)

    def wait_for_end(self, *names: str, seconds: float = RUN_SECONDS_MAX) -> list[Object]:
        """Wait until these have ended; their statuses."""
        began = time.monotonic()

        def over(found: Object) -> bool:
            return found.get("phase") in ENDED

        made = []
        for name in names:
            left = max(1.0, seconds - (time.monotonic() - began))
            made.append(self.wait_for(name, over, left, f"mkx/{name} has ended"))
        say(self.kubectl("get", "mkx"))
        return made

    def run(
        self, experiments: Mapping[str, dict[str, Any]], at_once: int, seconds: float = RUN_SECONDS_MAX
    ) -> dict[str, Object]:
        """Apply experiments by their names and specs, so many at a time, and wait for the end of each; their statuses.

        The Job of each asks for a fifth of a core, a cluster that it brings along for a third; others need room as well.
        """
        found: dict[str, Object] = {}
        names = list(experiments)
        for begin in range(0, len(names), at_once):
            together = names[begin : begin + at_once]
            for name in together:
                self.apply(name, experiments[name])
            found |= dict(zip(together, self.wait_for_end(*together, seconds=seconds), strict=True))
        return found

    def events(self, name: str) -> list[tuple[str, str]]:
        """Reason and message of the Events about an experiment, in the order in which `kubectl describe` tells them."""
        about = f"involvedObject.kind=ChaosExperiment,involvedObject.name={name}"
        found = self.kubectl.objects.list("event", fields=about)
        found.sort(key=lambda each: str(each.get("lastTimestamp") or ""))
        return [(each["reason"], each["message"]) for each in found]

    def wait_reported(self, name: str, reason: str) -> str:
        """Wait for an Event with this reason, which follows what it is about; what `kubectl describe` says then."""
        eventually(
            lambda: {told for told, _ in self.events(name)},
            lambda told: reason in told,
            seconds=TOLD_SECONDS_MAX,
            what=f"mkx/{name} has the Event {reason}",
        )
        return self.kubectl("describe", "mkx", name)

    def must_be_gone(self, cluster: str) -> None:
        """A cluster that was made for an experiment goes with it."""
        eventually(
            lambda: self.kubectl.objects.get("mkc", cluster),
            lambda found: found is None,
            seconds=GONE_SECONDS_MAX,
            what=f"mkc/{cluster}, which was made for an experiment, is gone",
        )


def document(name: str, spec: dict[str, Any], kind: str = "ChaosExperiment") -> Object:
    """An experiment or a schedule as it is applied."""
    return {"apiVersion": "minikafka.dev/v1alpha1", "kind": kind, "metadata": {"name": name}, "spec": spec}


def conditions(status: Object) -> dict[str, tuple[str, str, str]]:
    """Status, reason and message of each condition."""
    return {each["type"]: (each["status"], each["reason"], each["message"]) for each in status.get("conditions") or ()}


def anomalies(status: Object) -> dict[str, int]:
    """How many of each kind were found."""
    return {each["kind"]: each["count"] for each in status.get("anomalies") or ()}


@contextmanager
def installed(kubectl: Kubectl, programs: Path, image: str, network: str) -> Iterator[Lab]:
    """The chart in a namespace, with this image, and with the namespace of its network agents; removed at the end, and all
    experiments before it."""
    repository, _, tag = image.rpartition(":")
    release = RELEASE
    kubectl("apply", "--server-side", "--filename", str(CHART / "files/crds"))
    helm = [str(programs / "helm"), "--kubeconfig", str(kubectl.kubeconfig), "--namespace", kubectl.namespace]
    values = [f"image.repository={repository}", f"image.tag={tag}", "image.pullPolicy=Never", "crds.install=false"]
    values.append(f"network.namespace={network}")
    _run(
        [
            *helm,
            "install",
            release,
            str(CHART),
            *(word for value in values for word in ("--set-string" if "tag" in value else "--set", value)),
        ]
    )
    try:
        kubectl("rollout", "status", f"deployment/{release}", "--timeout=240s")
        yield Lab(kubectl)
    finally:
        kubectl("delete", "mkxs", "--all", "--timeout=280s")
        for name in kubectl("get", "mkx", "--output", "name").split():
            kubectl("annotate", name, "minikafka.dev/force-delete=true", "--overwrite")
        kubectl("delete", "mkx", "--all", "--timeout=280s")
        subprocess.run([*helm, "uninstall", release], capture_output=True, check=False)


def _run(command: Sequence[str]) -> None:
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
