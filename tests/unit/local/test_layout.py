"""The configuration of local brokers, and the ports they take."""

from __future__ import annotations

import socket
from pathlib import Path

import pytest
from minikafka.config import BrokerConfig
from minikafka.local.errors import BadRequest
from minikafka.local.layout import BROKERS_MAX, ClusterRecord, check, new_cluster_id, properties
from minikafka.local.ports import HOST, free_base_port, ports_of


def record(brokers: int = 3, **settings: str) -> ClusterRecord:
    return ClusterRecord(new_cluster_id(), brokers, 19092, config={k.replace("_", "."): v for k, v in settings.items()})


def test_clients_and_brokers_have_a_listener_each(tmp_path: Path) -> None:
    """Where clients are, nobody is believed to be a broker."""
    for broker in record().ids:
        config = BrokerConfig.from_properties(properties(tmp_path, record(), broker))
        clients, brokers = config.listeners
        assert (clients.name, clients.host, clients.port) == ("PLAINTEXT", HOST, 19092 + broker - 1)
        assert config.inter_broker_listener == brokers.name == "REPLICATION"
        assert (clients.port, brokers.port, config.minikafka_metrics_port) == ports_of(clients.port)
        assert config.advertised_listeners == config.listeners


def test_no_two_brokers_of_the_largest_cluster_take_one_port() -> None:
    taken = [port for broker in range(BROKERS_MAX) for port in ports_of(19092 + broker)]
    assert len(set(taken)) == len(taken)


@pytest.mark.parametrize("key", ["listeners", "inter_broker_listener_name", "listener_security_protocol_map"])
def test_listeners_are_not_to_be_set(key: str) -> None:
    with pytest.raises(BadRequest, match=key.replace("_", ".")):
        check(record(**{key: "X"}))


def test_a_free_base_port_is_free_for_all_that_a_cluster_needs() -> None:
    base = free_base_port(2)
    for port in (*ports_of(base), *ports_of(base + 1)):
        with socket.socket() as probe:
            probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            probe.bind((HOST, port))
