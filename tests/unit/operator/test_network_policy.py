"""Which ports of the brokers are for whom (audit, issue 9, B8)."""

from __future__ import annotations

from typing import Any

import pytest

from .world import NAMES, settled


def rules(**spec: Any) -> dict[tuple[int, ...], Any]:
    """Who may come in, by ports; None: everybody."""
    world = settled(**spec)
    found = world.objects["NetworkPolicy", "demo-broker"]["spec"]
    assert found["podSelector"] == {"matchLabels": NAMES.selector()}
    assert found["policyTypes"] == ["Ingress"]
    return {tuple(port["port"] for port in rule["ports"]): rule.get("from") for rule in found["ingress"]}


def test_by_default() -> None:
    """Clients from everywhere; replication from brokers of this cluster only; metrics from this namespace or Prometheus."""
    found = rules()
    assert set(found) == {(9092,), (9091,), (9404,)}
    assert found[9092,] is None
    assert found[9091,] == [{"podSelector": {"matchLabels": NAMES.selector()}}]
    prometheus = {"namespaceSelector": {}, "podSelector": {"matchLabels": {"app.kubernetes.io/name": "prometheus"}}}
    assert found[9404,] == [{"podSelector": {}}, prometheus]


def test_the_external_listener_is_for_everybody() -> None:
    assert rules(listeners={"external": {"type": "NodePort"}})[9092, 9094] is None


@pytest.mark.parametrize(
    "peers", [[{"ipBlock": {"cidr": "10.0.0.0/8"}}], [{"podSelector": {"matchLabels": {"a": "b"}}}]]
)
def test_who_may_read_metrics(peers: list[dict[str, Any]]) -> None:
    assert rules(networkPolicy={"metricsFrom": peers})[9404,] == peers


def test_nobody_may_read_metrics() -> None:
    """An empty list of peers lets everybody in, to a NetworkPolicy; so the rule goes as a whole."""
    assert set(rules(networkPolicy={"metricsFrom": []})) == {(9092,), (9091,)}


def test_it_can_be_switched_off_and_on() -> None:
    world = settled()
    world.edit(networkPolicy={"enabled": False})
    world.settle()
    assert ("NetworkPolicy", "demo-broker") not in world.objects
    world.edit(networkPolicy={"enabled": True})
    world.settle()
    assert ("NetworkPolicy", "demo-broker") in world.objects
