"""Two operators at once: one acts, the other takes over, and one that was stopped for a while does nothing (B12)."""

from __future__ import annotations

import signal
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from minikafka_kube.leadership import LEASE_SECONDS

from tests.apiserver.control_plane import ADMIN_TOKEN, ControlPlane
from tests.apiserver.operator_process import ACTS_SECONDS_MAX, LOOKS_SECONDS_MAX, Cluster, Operator
from tests.waiting import until_now

TAKEOVER_SECONDS_MAX = LEASE_SECONDS + ACTS_SECONDS_MAX

Pair = Callable[[], tuple[Operator, Operator]]


@pytest.fixture
def operators(plane: ControlPlane, namespace: str, tmp_path: Path) -> Iterator[list[Operator]]:
    """Two operators for one namespace, the first of which leads."""
    options = [f"--namespace={namespace}", "--resync-seconds=1", f"--lease-namespace={namespace}"]
    made: list[Operator] = []
    try:
        for name in ("one", "two"):
            operator = Operator(plane, tmp_path / name, ADMIN_TOKEN, *options)
            made.append(operator)
            operator.wait_until_watching()
            if len(made) == 1:
                until_now(lambda: made[0].metric("minikafka_operator_leader") == 1)
        yield made
    finally:
        for operator in made:
            if operator.process.poll() is None:
                operator.process.send_signal(signal.SIGCONT)
                operator.stop()


@pytest.fixture
def cluster(operators: list[Operator], plane: ControlPlane, namespace: str) -> Iterator[Cluster]:
    cluster = Cluster(plane, namespace)
    yield cluster
    cluster.abandon()


def writes(operator: Operator) -> float:
    """All writes but those of the operator's own Lease."""
    return operator.metric("minikafka_operator_writes_total") - operator.metric(
        "minikafka_operator_writes_total", kind="Lease"
    )


def writes_at_rest(operator: Operator, cluster: Cluster) -> float:
    """Its writes, once some looks at the cluster have added none: an Event may come late."""
    deadline = time.monotonic() + LOOKS_SECONDS_MAX
    before = writes(operator)
    while True:
        operator.look_at(cluster)
        if (after := writes(operator)) == before:
            return after
        assert time.monotonic() < deadline, f"{after - before} more writes"
        before = after


def lease(cluster: Cluster) -> dict[str, Any]:
    found: dict[str, Any] = cluster.find("leases", "minikafka-operator")["spec"]
    return found


def test_exactly_one_acts(cluster: Cluster, operators: list[Operator]) -> None:
    leader, other = operators
    cluster.create()
    cluster.run()
    cluster.start(seconds_ago=100)
    cluster.edit(config={"num.partitions": "7"})
    until_now(lambda: "deletionTimestamp" in cluster.find("pods", "c-broker-0")["metadata"])
    assert writes(leader) > 0
    assert writes(other) == 0
    assert (leader.metric("minikafka_operator_leader"), other.metric("minikafka_operator_leader")) == (1, 0)
    assert other._get("/readyz") == "ok\n", "who stands by is ready, or a rollout of the operator would never end"


@pytest.mark.full
def test_one_that_is_asked_to_go_leaves_at_once(cluster: Cluster, operators: list[Operator]) -> None:
    leader, other = operators
    cluster.create()
    held = lease(cluster)["holderIdentity"]
    assert leader.stop() == 0
    assert lease(cluster)["holderIdentity"] != held, "given back, and perhaps taken since"
    until_now(lambda: other.metric("minikafka_operator_leader") == 1)
    cluster.run()
    until_now(lambda: writes(other) > 0)  # counted after the answer, when others may have seen what was written


def test_one_that_is_killed_is_followed(cluster: Cluster, operators: list[Operator]) -> None:
    leader, other = operators
    cluster.create()
    until_now(lambda: cluster.find("statefulsets", "c-broker"))
    leader.process.kill()
    cluster.edit(brokers={"replicas": 4})
    until_now(
        lambda: cluster.find("statefulsets", "c-broker")["spec"]["replicas"],
        lambda count: count == 4,
        seconds=TAKEOVER_SECONDS_MAX,
    )
    assert lease(cluster)["leaseTransitions"] == 2
    until_now(lambda: writes(other) > 0)


@pytest.mark.full
def test_one_that_was_stopped_past_its_lease_does_nothing(cluster: Cluster, operators: list[Operator]) -> None:
    """SIGSTOP takes it out in the middle of anything; after SIGCONT another leads, and it must notice before it acts."""
    leader, other = operators
    cluster.create()
    cluster.run()
    cluster.start(seconds_ago=100)
    before = writes_at_rest(leader, cluster)
    leader.process.send_signal(signal.SIGSTOP)
    until_now(lambda: other.metric("minikafka_operator_leader") == 1, seconds=TAKEOVER_SECONDS_MAX)
    other.process.send_signal(signal.SIGSTOP)  # so that there is something to do for the first when it wakes up
    cluster.edit(config={"num.partitions": "7"})
    holder = lease(cluster)["holderIdentity"]
    began = time.monotonic()
    leader.process.send_signal(signal.SIGCONT)

    def seen() -> tuple[float, str, bool]:
        terminating = "deletionTimestamp" in cluster.find("pods", "c-broker-0")["metadata"]
        return writes(leader), lease(cluster)["holderIdentity"], terminating

    while time.monotonic() < began + LEASE_SECONDS / 2:
        found = seen()
        if time.monotonic() > began + LEASE_SECONDS:
            break  # it took so long to look that the first may lead again, and rightly
        assert found == (before, holder, False)
        time.sleep(0.2)
    other.process.send_signal(signal.SIGCONT)
    until_now(
        lambda: "deletionTimestamp" in cluster.find("pods", "c-broker-0")["metadata"], seconds=TAKEOVER_SECONDS_MAX
    )
    until_now(
        lambda: [one.metric("minikafka_operator_leader") for one in operators],
        lambda told: sum(told) == 1,
        seconds=ACTS_SECONDS_MAX,
    )
