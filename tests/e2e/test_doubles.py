"""Brokers that lie are found out: the same experiment on clusters whose brokers have one fault planted each.

Nothing is broken by chaos here: what is wrong is in the brokers' answers and logs alone. A fifth cluster of the same image tells
no lies, and there the same load and the same claims pass.
"""

from __future__ import annotations

from typing import Any

import pytest

from tests.e2e import machine
from tests.e2e.broker_cluster import SMALL, BrokerCluster
from tests.e2e.chaos_lab import Lab, anomalies, conditions
from tests.e2e.node import Node
from tests.e2e.objects import Object

pytestmark = pytest.mark.full

READY_SECONDS_MAX = 480
"""Five clusters start at one moment."""

FOUND = {
    "loses": {"lost-write", "inconsistent-offsets", "nonmonotonic-send"},
    "duplicates": {"duplicate"},
    "reorders": {"nonmonotonic-send"},
    "diverges": {"divergent-replicas"},
    "honest": set(),
}
"""All that is found, by the name of the double (see doubles/double.py). What was lost was told offsets that others have then, so
there are two records for one offset, and the next send is told no larger one."""
SAYS = {
    "loses": "acknowledged records lost: 'p1-",
    "duplicates": "is at two or more offsets",
    "reorders": "not held: order is kept: producer 1 sent 'p1-",
    "diverges": "bank-0: brokers 0 and 1 differ at offset",
    "honest": "no acknowledged record lost",
}


def brokers(name: str) -> int:
    return 2 if name == "diverges" else 1


def cluster_spec(name: str, image: str) -> dict[str, Any]:
    return {
        "image": image,
        "imagePullPolicy": "Never",
        "brokers": {"replicas": brokers(name), "resources": SMALL},
        "replication": {"defaultFactor": brokers(name), "minInsyncReplicas": 1},
        "storage": {"size": "200Mi"},
        "chaos": {"allowed": True},
    }


def experiment_spec(name: str) -> dict[str, Any]:
    """No fault at all. `safety`: to read a log its broker is shut down, and some of these have no other."""
    return {
        "clusterRef": {"name": name},
        "safety": {"loss": "Meant"},
        "topics": [{"name": "bank", "replicationFactor": brokers(name)}],
        "workload": {
            "topic": "bank",
            "producers": 1,
            "ratePerSecond": 200,
            "lingerMillis": 50,
            "maxInFlight": 5,
            "durationSeconds": 8,
            "tailReaders": "None",
        },
        "claims": [
            {"name": "kept", "type": "NoAcknowledgedRecordLost"},
            {"name": "once", "type": "NoDuplicates"},
            {"name": "in-order", "type": "NoReordering"},
            {"name": "alike", "type": "NoDivergence"},
        ],
    }


@pytest.fixture(scope="module")
def verdicts(lab: Lab, node: Node) -> dict[str, Object]:
    """The statuses of the experiments, a few of which go on at one moment."""
    image = machine.image("double")
    clusters = {name: BrokerCluster(lab.kubectl, node, name) for name in FOUND}
    for name, cluster in clusters.items():
        lab.kubectl.apply(cluster.manifest(cluster_spec(name, image)))
    for cluster in clusters.values():
        cluster.wait_ready(READY_SECONDS_MAX)
    found = lab.run({f"it-{name}": experiment_spec(name) for name in FOUND}, at_once=2)
    for name in clusters:
        lab.kubectl.delete("mkc", name, wait=False)
    return {name: found[f"it-{name}"] for name in FOUND}


@pytest.mark.parametrize("name", FOUND)
def test_what_is_found(verdicts: dict[str, Object], name: str) -> None:
    found = verdicts[name]
    assert (found["phase"], found["verdict"]) == ("Completed", "Failed" if FOUND[name] else "Passed"), found
    assert set(anomalies(found)) == set(FOUND[name])
    assert SAYS[name] in found["summary"]
    assert found["summary"] in conditions(found)["Complete"][2]
    assert (found["lost"] > 0) == (name == "loses")
    assert found["acknowledged"] > 500
