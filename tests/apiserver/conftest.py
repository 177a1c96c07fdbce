"""A real kube-apiserver for a whole test session, a namespace of its own for each test."""

from __future__ import annotations

import uuid
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from minikafka.kubernetes import Access, KubernetesApi, KubernetesStore

from tests.apiserver.brokers import Brokers
from tests.apiserver.control_plane import ADMIN_TOKEN, ControlPlane, program_folder
from tests.apiserver.faulty_proxy import FaultyProxy
from tests.apiserver.operator_process import Cluster, Operator, apply, manifest, token_of
from tests.waiting import until_now

pytest.register_assert_rewrite("tests.unit.metadata.store_conformance")

CRDS = Path(__file__).parents[2] / "crds"
CLUSTER = "c"


def apply_crds(plane: ControlPlane) -> None:
    """Apply the project's CRDs and wait until the server serves them."""
    applied = plane.kubectl("apply", "--server-side", "-f", str(CRDS))
    assert applied.returncode == 0, applied.stderr
    waited = plane.kubectl("wait", "--for=condition=Established", "--timeout=180s", "-f", str(CRDS))
    assert waited.returncode == 0, waited.stderr


@pytest.fixture(scope="session")
def plane(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ControlPlane]:
    """The control plane of all these tests. Who stops or pauses its server takes ``stoppable_plane``."""
    plane = ControlPlane(tmp_path_factory.mktemp("control-plane"), program_folder())
    try:
        plane.start()
        apply_crds(plane)
        yield plane
    finally:
        plane.stop()


@pytest.fixture
def stoppable_plane(plane: ControlPlane) -> Iterator[ControlPlane]:
    """The same, put right again after the test."""
    try:
        yield plane
    finally:
        plane.resume_server()
        plane.start_server()


def make_namespace(plane: ControlPlane) -> str:
    name = f"t-{uuid.uuid4().hex[:8]}"
    plane.request("POST", "/api/v1/namespaces", {"metadata": {"name": name}})
    return name


@pytest.fixture
def namespace(plane: ControlPlane) -> str:
    """A new namespace."""
    return make_namespace(plane)


@pytest.fixture
async def proxy(plane: ControlPlane) -> AsyncIterator[FaultyProxy]:
    """A faulty proxy in front of the shared API server."""
    proxy = FaultyProxy("127.0.0.1", plane.port, plane.tls)
    await proxy.start()
    yield proxy
    await proxy.stop()


@pytest.fixture(scope="module")
def operator(plane: ControlPlane, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Operator]:
    """An operator for all namespaces, with what ``kubectl apply -k deploy/all-namespaces`` allows it.

    It looks again every second, so that a test sees several looks at a settled cluster.
    """
    apply(plane, manifest())
    token = token_of(plane, "minikafka-operator", "minikafka-operator")
    operator = Operator(plane, tmp_path_factory.mktemp("operator"), token, "--resync-seconds=1")
    try:
        operator.wait_until_watching()
        yield operator
        last = Cluster(plane, make_namespace(plane))  # a module's tests leave none, and then nothing is looked at
        last.create()
        until_now(lambda: last.find("statefulsets", "c-broker"))
        operator.comes_to_rest()
        last.abandon()
        log = operator.log.read_text()
        assert "Traceback" not in log, log
        assert "orbidden" not in log, log
    finally:
        operator.stop()


@pytest.fixture
def cluster(operator: Operator, plane: ControlPlane, namespace: str) -> Iterator[Cluster]:
    """A cluster's name in a namespace of its own; not created yet."""
    del operator  # it is there before the cluster is
    cluster = Cluster(plane, namespace)
    yield cluster
    cluster.abandon()


OpenStore = Callable[..., Awaitable[KubernetesStore]]


@pytest.fixture
async def open_store(plane: ControlPlane, namespace: str) -> AsyncIterator[OpenStore]:
    """``await open_store(server=proxy.url, token=..., patience=...)``: one broker's connection to the store.

    It is more patient than a broker's own; who waits for it to give up says for how long.
    """
    opened: list[KubernetesStore] = []

    async def make(
        server: str | None = None, token: str = ADMIN_TOKEN, patience: float = 30.0, cluster_id: str | None = None
    ) -> KubernetesStore:
        access = Access(server or plane.url, plane.tls, token=token)
        store = KubernetesStore(KubernetesApi(access, namespace), CLUSTER, patience=patience)
        opened.append(store)
        await store.open(cluster_id)
        return store

    yield make
    for store in opened:
        await store.close()


MakeBrokers = Callable[..., Brokers]
_running: list[Brokers] = []


@contextmanager
def brokers_of(plane: ControlPlane, folder: Path) -> Iterator[MakeBrokers]:
    """A factory of clusters of broker processes that are brought down at the end, whatever happens."""
    mine: list[Brokers] = []

    def make(namespace: str, cluster: str = CLUSTER, count: int = 3, **more: object) -> Brokers:
        kubeconfig = Path(str(more.pop("kubeconfig", plane.folder / "kubeconfig")))
        settings = {key.replace("_", "."): str(value) for key, value in more.items()}
        brokers = Brokers(folder / f"{namespace}-{cluster}", kubeconfig, namespace, cluster, count, settings)
        mine.append(brokers)
        _running.append(brokers)
        brokers.start()
        return brokers

    try:
        yield make
    finally:
        for brokers in mine:
            _running.remove(brokers)
            brokers.stop()


@pytest.fixture
def make_brokers(plane: ControlPlane, tmp_path: Path) -> Iterator[MakeBrokers]:
    """``make_brokers(namespace, cluster="c", count=3, num_partitions=2, ...)`` on the shared API server."""
    with brokers_of(plane, tmp_path) as make:
        yield make


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(item: pytest.Item, call: pytest.CallInfo[None]) -> Any:
    """Add the ends of the brokers' logs to the report of a failed test."""
    report = yield
    if report.failed:
        report.sections += [("brokers", brokers.logs()) for brokers in _running]
    return report
