"""The network agents of a test, in a namespace of their own, and what a person with the right to may ask them."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tests.e2e import charts
from tests.e2e.kubectl import Kubectl, eventually

RELEASE = "network"
CHART = "minikafka-chaos-network"
READY_SECONDS_MAX = 280
NOWHERE = {"minikafka.dev/e2e-nowhere": "true"}
"""A label that no node has."""


@dataclass(frozen=True)
class NetworkAgents:
    """kubectl on the agents' namespace. `home` is the one whose brokers they may touch."""

    kubectl: Kubectl
    home: str

    def pods(self) -> list[str]:
        """The agents that are there, one for each node."""
        found = self.kubectl.objects.list("pod", labels=f"app.kubernetes.io/name={CHART}")
        return [each["metadata"]["name"] for each in found]

    def ask(self, verb: str, pod: dict[str, Any], *words: str) -> dict[str, Any]:
        """What the agent answers about a pod; for clusters of one node. Raises KubectlError."""
        (agent,) = self.pods()
        metadata = pod["metadata"]
        command = ["minikafka-network", verb, self.home, "--pod", metadata["name"], "--uid", metadata["uid"], *words]
        answer: dict[str, Any] = json.loads(self.kubectl("exec", agent, "-c", "network-agent", "--", *command))
        return answer

    def wait_ready(self) -> None:
        """Wait until there is one on each node."""
        self.kubectl("rollout", "status", f"daemonset/{RELEASE}", f"--timeout={READY_SECONDS_MAX}s")

    @contextmanager
    def away(self) -> Iterator[None]:
        """No agent is there, on no node."""
        self._place(NOWHERE)
        eventually(self.pods, lambda found: not found, seconds=READY_SECONDS_MAX, what="the network agents are gone")
        try:
            yield
        finally:
            self._place(dict.fromkeys(NOWHERE))
            eventually(self.pods, seconds=READY_SECONDS_MAX, what="there is a network agent again")
            self.wait_ready()

    def _place(self, selector: dict[str, Any]) -> None:
        spec = {"template": {"spec": {"nodeSelector": selector}}}
        self.kubectl.patch("daemonset", RELEASE, {"spec": spec})


@contextmanager
def installed(
    kubectl: Kubectl, programs: Path, image: str, home: str, controllers: Sequence[str]
) -> Iterator[NetworkAgents]:
    """The chart in a namespace of its own; it goes with it. `controllers` are service accounts in `home`."""
    within = kubectl.within(f"{home}-network")
    labels = {"pod-security.kubernetes.io/enforce": "privileged", "minikafka.dev/e2e": "true"}
    within.apply({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": within.namespace, "labels": labels}})
    try:
        me = json.loads(kubectl("auth", "whoami", "--output", "json"))["status"]["userInfo"]["username"]
        values: dict[str, Any] = {
            "image": charts.image(image),
            "namespaces": [home],
            "controllers": [{"namespace": home, "serviceAccountName": account} for account in controllers],
            "users": [me],
        }
        charts.install(programs, within, RELEASE, CHART, values)
        made = NetworkAgents(within, home)
        made.wait_ready()
        yield made
    finally:
        charts.uninstall(programs, within, RELEASE)
        within.delete("namespace", within.namespace, wait=False)
