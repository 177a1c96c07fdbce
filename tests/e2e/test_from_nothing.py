"""From nothing to Ready, and then what a user does first: look, and send records from inside the cluster.

The cluster is the shared one, which was made of docs/guide/examples/cluster.yaml; the seconds are printed where that happens.
"""

from __future__ import annotations

import json

import pytest

from tests.e2e.broker_cluster import BrokerCluster
from tests.e2e.kubectl import Kubectl
from tests.e2e.machine import image, say
from tests.e2e.manifest import manifest

pytestmark = pytest.mark.journeys

TOPIC = "bank"
"""That of the example."""


def test_the_example_is_ready_and_serves_a_client_inside(journeys: BrokerCluster) -> None:
    kubectl = journeys.kubectl
    kubectl("wait", "--for=condition=Ready", f"minikafkatopic/{TOPIC}", "--timeout=280s")
    glance = kubectl("get", "mkc,mkt")
    say(glance)
    for column in ("READY", "BROKERS", "CONTROLLER", "URP", "LEADERS", "ISR"):
        assert column in glance
    assert journeys.status["brokersReady"] == "3/3"
    _no_more_rights_than_needed(journeys)

    kubectl.apply(manifest("client.yaml", image=image("chaos")))
    kubectl("wait", "--for=condition=Ready", "pod/client", "--timeout=240s")
    verdict = _verified_inside(kubectl, journeys.status["bootstrap"]["internal"])
    kubectl.delete("pod", "client", "--grace-period=1", wait=False)
    assert verdict["verdict"] == "Passed", verdict
    say(f"librdkafka inside the cluster: {verdict['summary']}")


def _verified_inside(kubectl: Kubectl, bootstrap: str) -> dict[str, object]:
    command = ["minikafka", "verify", "--bootstrap", bootstrap, "--seconds", "3", "--rate", "300", "--json"]
    verdict: dict[str, object] = json.loads(kubectl("exec", "client", "--", *command))
    return verdict


def _no_more_rights_than_needed(cluster: BrokerCluster) -> None:
    """The namespace enforces the restricted standard; beyond it, roots are read-only."""
    for pod in cluster.kubectl.objects.list("pod", cluster.selector):
        for container in pod["spec"]["containers"]:
            assert container["securityContext"]["readOnlyRootFilesystem"] is True
    script = "id -u; touch /usr/x 2>&1 || true; which pip gcc || echo none"
    told = cluster.kubectl("exec", cluster.pod_name(0), "--", "sh", "-c", script)
    assert told.split("\n")[0] == "65532"
    assert "Read-only" in told
    assert told.strip().endswith("none")
