"""The operator and an API server that goes away and comes back."""

from __future__ import annotations

import signal
from pathlib import Path

import pytest

from tests.apiserver.control_plane import ADMIN_TOKEN, ControlPlane
from tests.apiserver.operator_process import ACTS_SECONDS_MAX, Cluster, Operator
from tests.waiting import until_now


@pytest.mark.full
def test_the_api_server_goes_and_comes_back(stoppable_plane: ControlPlane, namespace: str, tmp_path: Path) -> None:
    """Killed in the middle: the operator goes on when it is back, with what happened meanwhile."""
    operator = Operator(stoppable_plane, tmp_path, ADMIN_TOKEN, "--resync-seconds=2", f"--namespace={namespace}")
    cluster = Cluster(stoppable_plane, namespace)
    try:
        operator.wait_until_watching()
        cluster.create()
        cluster.run()
        stoppable_plane.stop_server(signal.SIGKILL)
        until_now(
            lambda: operator.metric("minikafka_operator_reconciliations_total", outcome="failed"),
            seconds=ACTS_SECONDS_MAX,
        )
        stoppable_plane.start_server()
        stoppable_plane.request("DELETE", cluster.url("services", "c-bootstrap"))
        cluster.edit(brokers={"replicas": 4})
        until_now(lambda: cluster.find("services", "c-bootstrap"), seconds=ACTS_SECONDS_MAX)
        until_now(
            lambda: cluster.find("statefulsets", "c-broker")["spec"]["replicas"],
            lambda count: count == 4,
            seconds=ACTS_SECONDS_MAX,
        )
    finally:
        assert operator.stop() == 0
    assert "Traceback" not in operator.log.read_text()
