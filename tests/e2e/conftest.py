"""A kind cluster with the operator in it, for tests that do what a user does.

The cluster, the programs and the images are made by the scripts in cluster/ and images/ where they are not there; the
cluster stays for the next run (`tools/e2e` removes it). A test that fails leaves a folder with all there is to know.

Tests marked `full` are of the full form, and run with MINIKAFKA_TEST_FULL=1 (or --full) only.
"""

from __future__ import annotations

import fcntl
import os
import re
import time
import uuid
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.e2e import chaos_lab, diagnostics, machine
from tests.e2e.broker_cluster import SMALL, UP_SECONDS_MAX, BrokerCluster
from tests.e2e.chaos_lab import Lab
from tests.e2e.kubectl import Kubectl, KubectlError, eventually
from tests.e2e.machine import say
from tests.e2e.network_agents import NetworkAgents, installed
from tests.e2e.node import Node

OPERATOR_NAMESPACE = "minikafka-operator"
RELEASE = "minikafka-operator"
OPERATOR_SECONDS_MAX = 480
DIAGNOSTICS = "diagnostics"
FULL = "MINIKAFKA_TEST_FULL"
EXAMPLE = Path(__file__).parents[2] / "docs/guide/examples/cluster.yaml"
_used: list[tuple[Kubectl, Node, str]] = []


def pytest_addoption(parser: pytest.Parser) -> None:
    says = "scenarios by kubectl apply: all that Kubernetes supports, or these (test_scenarios.py); without it a chosen few"
    parser.addoption("--scenarios", metavar="all|NAME,...", help=says)


def pytest_configure(config: pytest.Config) -> None:
    for marker in (
        "full: of the full form: rare, slow, or shown by a cheaper test, too (`make e2e-full`)",
        "journeys: uses the shared cluster of brokers; these run in one process",
        "nodes: needs a cluster of three nodes (`make e2e-nodes`); nothing else runs there",
        "alone: disturbs all of Kubernetes: no other test runs meanwhile",
    ):
        config.addinivalue_line("markers", marker)


@pytest.hookimpl(tryfirst=True)  # before -m selects
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Leave out what is of the full form only, and keep together (`--dist loadgroup`) what shares a cluster or a lab."""
    if not config.getoption("--full", default=bool(os.environ.get(FULL))):
        left_out = [item for item in items if item.get_closest_marker("full")]
        config.hook.pytest_deselected(items=left_out)
        items[:] = [item for item in items if item not in left_out]
    for item in items:
        if not item.get_closest_marker("xdist_group"):
            item.add_marker(pytest.mark.xdist_group(_group(item)))


def _group(item: pytest.Item) -> str:
    used = set(getattr(item, "fixturenames", ()))
    for fixture in ("shared_cluster", "lab_namespace"):
        if fixture in used:
            return fixture
    return item.path.stem


@contextmanager
def turn(kubectl: Kubectl, name: str, *, exclusive: bool) -> Iterator[None]:
    """A lock between the processes that run tests side by side on one cluster."""
    with (kubectl.kubeconfig.parent / f"{name}.lock").open("w") as file:
        fcntl.flock(file, fcntl.LOCK_EX if exclusive else fcntl.LOCK_SH)
        yield


@pytest.fixture(autouse=True)
def no_disturbance(kubectl: Kubectl, request: pytest.FixtureRequest) -> Iterator[None]:
    """Tests go side by side, apart from those marked `alone`."""
    with turn(kubectl, "test", exclusive=request.node.get_closest_marker("alone") is not None):
        yield


@pytest.fixture(scope="session")
def programs() -> Path:
    """The folder with kubectl and helm."""
    return machine.programs()


@pytest.fixture(scope="session")
def kubectl(programs: Path) -> Kubectl:
    """kubectl on a running cluster."""
    return Kubectl(programs / "kubectl", machine.kubeconfig())


@pytest.fixture(scope="session")
def node(kubectl: Kubectl) -> Iterator[Node]:
    """The cluster's one node. An API server that a test has left stopped is started again."""
    found = Node(f"{machine.CLUSTER}-control-plane")
    yield found
    found.start_api_server()


@pytest.fixture(scope="session")
def operator(kubectl: Kubectl, node: Node) -> Kubectl:
    """The operator, installed by its Helm chart; kubectl on its namespace."""
    within = kubectl.within(OPERATOR_NAMESPACE)
    _used.append((kubectl, node, OPERATOR_NAMESPACE))
    assert machine.operator() == OPERATOR_NAMESPACE
    return within


def rollout(operator: Kubectl, seconds: float) -> None:
    """Wait until the operator's Deployment is what it should be."""
    operator("rollout", "status", f"deployment/{RELEASE}", f"--timeout={seconds:g}s", timeout=seconds + 10)


@pytest.fixture
def namespace(kubectl: Kubectl, node: Node, request: pytest.FixtureRequest) -> Iterator[Kubectl]:
    """kubectl on a namespace of the test's own, gone when the test is."""
    with new_namespace(kubectl, node, request.node.name) as within:
        yield within


@pytest.fixture(scope="module")
def module_namespace(kubectl: Kubectl, node: Node, request: pytest.FixtureRequest) -> Iterator[Kubectl]:
    """kubectl on a namespace that a module's tests share."""
    with new_namespace(kubectl, node, Path(request.node.name).stem) as within:
        yield within


class new_namespace:
    """A namespace with the strictest Pod Security Standard, and its removal with all custom resources in it first."""

    def __init__(self, kubectl: Kubectl, node: Node, test: str) -> None:
        word = re.sub(r"[^a-z0-9]+", "-", test.removeprefix("test_").lower()).strip("-")[:30].rstrip("-")
        self.within = kubectl.within(f"{word}-{uuid.uuid4().hex[:5]}")
        self.node = node

    def __enter__(self) -> Kubectl:
        name = self.within.namespace
        labels = {"pod-security.kubernetes.io/enforce": "restricted", "minikafka.dev/e2e": "true"}
        self.within.apply({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name, "labels": labels}})
        _used.append((self.within, self.node, name))
        return self.within

    def __exit__(self, *_exc: object) -> None:
        self.node.start_api_server()
        eventually(lambda: self.within("get", "--raw", "/readyz"), seconds=480, what="the API server answers")
        try:
            # While the operator is there to do what the finalizers are for.
            self.within(
                "delete", "minikafkausers,minikafkaclusters,minikafkatopics", "--all", "--timeout=280s", timeout=290
            )
        except KubectlError as error:
            say(f"clean-up of {self.within.namespace}: {error}")
        self.within.delete("namespace", self.within.namespace, wait=False)
        _used[:] = [used for used in _used if used[2] != self.within.namespace]


@pytest.fixture
def broker_cluster(operator: Kubectl, namespace: Kubectl, node: Node) -> Callable[[str], BrokerCluster]:
    """``broker_cluster("name")``: a handle on a cluster of that name in the test's namespace."""
    return lambda name: BrokerCluster(namespace, node, name)


@pytest.fixture(scope="session")
def lab_namespace(operator: Kubectl, kubectl: Kubectl, node: Node) -> Iterator[Kubectl]:
    """A namespace with the restricted Pod Security Standard, for experiments."""
    with new_namespace(kubectl, node, "chaos") as within:
        yield within


@pytest.fixture(scope="session")
def network_agents(lab_namespace: Kubectl, kubectl: Kubectl, programs: Path) -> Iterator[NetworkAgents]:
    """Network agents that may touch the brokers of the lab, in a namespace beside it."""
    home, accounts = lab_namespace.namespace, [chaos_lab.RELEASE]
    with installed(kubectl, programs, machine.image("network-agent"), home, accounts) as made:
        _used.append((made.kubectl, _used[0][1], made.kubectl.namespace))
        yield made


@pytest.fixture(scope="session")
def lab(lab_namespace: Kubectl, network_agents: NetworkAgents, programs: Path) -> Iterator[Lab]:
    """The chaos controller in the lab's namespace, and network agents that it knows of. Names are the tests' own."""
    network = network_agents.kubectl.namespace
    with chaos_lab.installed(lab_namespace, programs, machine.image("chaos"), network) as made:
        yield made


JOURNEYS: dict[str, Any] = {
    "brokers": {"replicas": 3, "resources": SMALL},
    "replication": {"defaultFactor": 3, "minInsyncReplicas": 2},
    "storage": {"size": "1Gi"},
    "unflushedVolume": {"sizeLimit": "128Mi"},
    "flightRecorder": {"type": "PersistentClaim", "size": "200Mi"},
    "listeners": {"external": {"type": "NodePort"}},
    # So that nothing is written by itself minutes after a test.
    "config": {"auto.leader.rebalance.enable": "false"},
}
"""The shared cluster: what docs/guide/examples/cluster.yaml asks for, and what the tests need beside it."""


@pytest.fixture(scope="session")
def shared_cluster(operator: Kubectl, kubectl: Kubectl, node: Node) -> Iterator[BrokerCluster]:
    """A cluster that many tests use, each with topics of its own; see `journeys`. It comes from the example that users apply."""
    with new_namespace(kubectl, node, "journeys") as within:
        documents = list(yaml.safe_load_all(EXAMPLE.read_text()))
        (example,) = [each for each in documents if each["kind"] == "MiniKafkaCluster"]
        cluster = BrokerCluster(within, node, example["metadata"]["name"])
        for part in ("replication", "storage"):
            assert JOURNEYS[part] == example["spec"][part], "what the tests count on is what the example says"
        example["spec"] = {**example["spec"], **JOURNEYS}
        began = time.monotonic()
        within.apply(*documents)
        cluster.wait_ready(UP_SECONDS_MAX)
        say(f"{time.monotonic() - began:6.1f} s  kubectl apply to Ready of the shared cluster")
        yield cluster


@pytest.fixture
def journeys(shared_cluster: BrokerCluster) -> Iterator[BrokerCluster]:
    """The shared cluster: whole when a test begins, and whole again soon after it has ended."""
    shared_cluster.wait_ready()
    yield shared_cluster
    shared_cluster.node.start_api_server()
    shared_cluster.wait_ready()


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(item: pytest.Item, call: pytest.CallInfo[None]) -> Any:
    """When a test fails, save what there is to know while it is still there."""
    report = yield
    if report.failed and _used:
        folder = diagnostics.folder_for(item.name)
        kubectl, node, _ = _used[0]
        diagnostics.collect(folder, kubectl, node, [namespace for _, _, namespace in _used])
        report.sections.append((DIAGNOSTICS, str(folder)))
    return report


def pytest_terminal_summary(terminalreporter: Any) -> None:
    """Name the folders at the very end, where they are looked for."""
    for outcome in ("failed", "error"):
        for report in terminalreporter.stats.get(outcome, []):
            for folder in (text for title, text in report.sections if title == DIAGNOSTICS):
                terminalreporter.write_line(f"diagnostics of {report.nodeid}: {folder}")
