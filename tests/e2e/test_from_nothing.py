"""From nothing to Ready, and then what a user does first: look, and send records from inside the cluster."""

from __future__ import annotations

import json
import time
from collections.abc import Callable
from pathlib import Path

import pytest
import yaml

from tests.e2e.broker_cluster import READY_SECONDS_MAX, BrokerCluster
from tests.e2e.kubectl import Kubectl
from tests.e2e.machine import say
from tests.e2e.manifest import manifest

EXAMPLE = Path(__file__).parents[2] / "docs" / "examples" / "cluster.yaml"


@pytest.mark.alone  # a time is told, so nothing else has the processors meanwhile
def test_apply_the_example_and_it_is_ready(
    broker_cluster: Callable[[str], BrokerCluster], namespace: Kubectl, images: dict[str, str]
) -> None:
    documents = list(yaml.safe_load_all(EXAMPLE.read_text()))
    name = next(each["metadata"]["name"] for each in documents if each["kind"] == "MiniKafkaCluster")
    topics = [each["metadata"]["name"] for each in documents if each["kind"] == "MiniKafkaTopic"]
    cluster = broker_cluster(name)

    began = time.monotonic()
    namespace("apply", "--filename", str(EXAMPLE))
    namespace("wait", "--for=condition=Ready", f"minikafkacluster/{name}", f"--timeout={READY_SECONDS_MAX}s")
    took = time.monotonic() - began
    say(f"kubectl apply to Ready: {took:.1f} s (at most a minute is meant; 9 s are usual)")
    for topic in topics:
        namespace("wait", "--for=condition=Ready", f"minikafkatopic/{topic}", "--timeout=120s")

    glance = namespace("get", "mkc,mkt")
    say(glance)
    for column in ("READY", "BROKERS", "CONTROLLER", "URP", "LEADERS", "ISR"):
        assert column in glance
    assert cluster.status["brokersReady"] == "3/3"
    _no_more_rights_than_needed(namespace)

    namespace.apply(manifest("client.yaml", image=images["chaos"]))
    namespace("wait", "--for=condition=Ready", "pod/client", "--timeout=180s")
    verify = ["minikafka", "verify", "--bootstrap", cluster.status["bootstrap"]["internal"], "--seconds", "5"]
    verdict = json.loads(namespace("exec", "client", "--", *verify, "--rate", "300", "--json"))
    assert verdict["verdict"] == "Passed", verdict
    say(f"librdkafka inside the cluster: {verdict['summary']}")


def _no_more_rights_than_needed(namespace: Kubectl) -> None:
    """The namespace enforces the restricted standard; beyond it, roots are read-only."""
    for pod in namespace.objects.list("pod", "app.kubernetes.io/component=broker"):
        for container in pod["spec"]["containers"]:
            assert container["securityContext"]["readOnlyRootFilesystem"] is True
    told = namespace(
        "exec", "demo-broker-0", "--", "sh", "-c", "id -u; touch /usr/x 2>&1 || true; which pip gcc || echo none"
    )
    assert told.split("\n")[0] == "65532"
    assert "Read-only" in told
    assert told.strip().endswith("none")
