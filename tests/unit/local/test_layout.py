"""The configuration of local brokers, and the ports they take."""

from __future__ import annotations

import socket
from dataclasses import replace
from pathlib import Path

import pytest
from minikafka.config import BrokerConfig
from minikafka.local.cluster import LocalCluster
from minikafka.local.errors import BadRequest
from minikafka.local.layout import (
    BROKERS_MAX,
    ClusterInfo,
    ClusterRecord,
    broker_info,
    check,
    new_cluster_id,
    properties,
    properties_path,
    write_properties,
    write_record,
)
from minikafka.local.ports import HOST, INTER_BROKER_PORT_OFFSET, free_base_port, ports_of, proxy_ports_of


def record(brokers: int = 3, **settings: str) -> ClusterRecord:
    return ClusterRecord(new_cluster_id(), brokers, 19092, config={k.replace("_", "."): v for k, v in settings.items()})


def test_listeners_may_have_protocols_of_their_own(tmp_path: Path) -> None:
    """31 item 1: those that nobody names stay PLAINTEXT."""
    chosen = record(
        listener_security_protocol_map="replication:SSL", ssl_keystore_type="PEM", ssl_keystore_location="/keys.pem"
    )
    check(chosen)
    config = BrokerConfig.from_properties(properties(tmp_path, chosen, 1))
    assert [config.security(name).protocol for name in ("PLAINTEXT", "REPLICATION")] == ["PLAINTEXT", "SSL"]


def test_clients_and_brokers_have_a_listener_each(tmp_path: Path) -> None:
    """Where clients are, nobody is believed to be a broker."""
    for broker in record().ids:
        config = BrokerConfig.from_properties(properties(tmp_path, record(), broker))
        clients, brokers = config.listeners
        assert (clients.name, clients.host, clients.port) == ("PLAINTEXT", HOST, 19092 + broker - 1)
        assert config.inter_broker_listener == brokers.name == "REPLICATION"
        assert (clients.port, brokers.port, config.minikafka_metrics_port) == ports_of(clients.port)
        assert config.advertised_listeners == config.listeners


def test_ports_can_be_chosen(tmp_path: Path) -> None:
    made = replace(record(), replication_base_port=30000, metrics_base_port=31000)
    check(made)
    config = BrokerConfig.from_properties(properties(tmp_path, made, 2))
    assert [each.port for each in config.listeners] == [19093, 30001]
    assert config.minikafka_metrics_port == 31001
    assert made.ports(2) == (19093, 30001, 31001)
    brokers = [broker_info(tmp_path, made, 2, None)]
    told = ClusterInfo(made.bootstrap, made.cluster_id, brokers, "PLAINTEXT", None).as_json()["brokers"][0]
    assert (told["port"], told["replication_port"], told["metrics_port"]) == made.ports(2)


def test_clients_elsewhere_are_told_a_host_and_brokers_are_not(tmp_path: Path) -> None:
    """Issue 30 Build 2: a cluster in a container."""
    made = replace(record(), advertised_host="lab.example", proxied=["REPLICATION"])
    check(made)
    config = BrokerConfig.from_properties(properties(tmp_path, made, 2))
    assert [(each.host, each.port) for each in config.listeners] == [("0.0.0.0", 19093), (HOST, 19593)]
    assert [each.host for each in config.advertised_listeners] == ["lab.example", HOST]
    assert made.bootstrap == "lab.example:19092,lab.example:19093,lab.example:19094"


@pytest.mark.parametrize("host", ["", "a b", "lab:9092", "0.0.0.0", "-x", "a,b", "::1"])
def test_hosts_that_nobody_can_be_told(host: str) -> None:
    with pytest.raises(BadRequest, match="advertised host: '"):
        check(replace(record(), advertised_host=host))


@pytest.mark.parametrize(
    ("ports", "said"),
    [
        (
            {"replication_base_port": 19094},
            "ports: 19094 would be the replication port of broker 1 and the client port of",
        ),
        ({"metrics_base_port": 65534}, "metrics base port: 65534 is not between 1 and 65533"),
        ({"replication_base_port": 0}, "replication base port: 0 is not between 1 and 65533"),
        ({"base_port": 64600}, r"base port: 64600 is not between 1 and 64533 \(the metrics ports are 1000 above\)"),
        (
            {"base_port": 65100, "metrics_base_port": 9000},
            r"base port: 65100 .* 1 and 65033 \(the replication ports are 500",
        ),
    ],
)
def test_ports_that_cannot_be(ports: dict[str, int], said: str) -> None:
    with pytest.raises(BadRequest, match=said):
        check(replace(record(), **ports))


def test_a_cluster_may_be_told_the_ports_it_has(tmp_path: Path) -> None:
    cluster = LocalCluster(tmp_path)
    write_record(tmp_path, record())
    assert cluster._agreed({"metrics_base_port": 20092, "replication_base_port": 19592}, {}) == cluster._agreed({}, {})
    with pytest.raises(BadRequest, match=f"metrics base port: {tmp_path} was made with 20092, not 9000"):
        cluster._agreed({"metrics_base_port": 9000}, {})


def test_a_proxied_listener_is_advertised_where_its_proxy_is(tmp_path: Path) -> None:
    before_clients, before_brokers = proxy_ports_of(19092)
    for proxied, wanted in (
        (["REPLICATION"], (19092, before_brokers)),
        (["PLAINTEXT"], (before_clients, 19092 + INTER_BROKER_PORT_OFFSET)),
    ):
        made = replace(record(), proxied=proxied)
        config = BrokerConfig.from_properties(properties(tmp_path, made, 1))
        assert tuple(each.port for each in config.advertised_listeners) == wanted
        assert [each.port for each in config.listeners] == list(ports_of(19092)[:2])
    with pytest.raises(BadRequest, match="proxied listeners: SSL; allowed: PLAINTEXT, REPLICATION"):
        check(replace(record(), proxied=["SSL"]))


def test_injected_faults_have_a_file_for_each_broker_that_wants_them(tmp_path: Path) -> None:
    assert "minikafka.test.faults.path" not in properties(tmp_path, record(), 1)
    told = properties(tmp_path, replace(record(), faults=True), 2)["minikafka.test.faults.path"]
    assert told == str(tmp_path / "broker-2" / "faults")


def test_brokers_are_counted_from_0_or_1(tmp_path: Path) -> None:
    zero = replace(record(), first_id=0, racks=["a", "b"])
    assert list(zero.ids) == [0, 1, 2]
    assert [zero.port(broker) for broker in zero.ids] == [19092, 19093, 19094]
    assert [zero.rack(broker) for broker in zero.ids] == ["a", "b", "a"]
    assert properties(tmp_path, zero, 0)["node.id"] == "0"
    with pytest.raises(BadRequest, match="first broker id: 2 is neither 0 nor 1"):
        check(replace(record(), first_id=2))


def test_no_two_brokers_of_the_largest_cluster_take_one_port() -> None:
    taken = [
        port for broker in range(BROKERS_MAX) for port in (*ports_of(19092 + broker), *proxy_ports_of(19092 + broker))
    ]
    assert len(set(taken)) == len(taken)


@pytest.mark.parametrize("key", ["listeners", "inter_broker_listener_name"])
def test_listeners_are_not_to_be_set(key: str) -> None:
    with pytest.raises(BadRequest, match=key.replace("_", ".")):
        check(record(**{key: "X"}))


def test_a_free_base_port_is_free_for_all_that_a_cluster_needs() -> None:
    base = free_base_port(2)
    for port in (*ports_of(base), *ports_of(base + 1)):
        with socket.socket() as probe:
            probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            probe.bind((HOST, port))


def test_nobody_else_reads_settings(tmp_path: Path) -> None:
    """There may be passwords in them."""
    write_record(tmp_path, record())
    properties_path(tmp_path, 1).parent.mkdir()
    written = (write_properties(tmp_path, record(), 1), tmp_path / "cluster.json")
    assert [path.stat().st_mode & 0o077 for path in written] == [0, 0]
