"""Listeners and what the keys about them say of each other (KIP-103)."""

import pytest
from minikafka.config import BrokerConfig, ConfigError, Endpoint

GOOD = {"node.id": "1", "minikafka.metadata.store": "memory"}
MAP = "listener.security.protocol.map"


def config_of(**settings: str) -> BrokerConfig:
    return BrokerConfig.from_properties({**GOOD, **{key.replace("_", "."): value for key, value in settings.items()}})


def refused(**settings: str) -> str:
    with pytest.raises(ConfigError) as caught:
        config_of(**settings)
    (line,) = caught.value.problems
    return line


def test_the_default() -> None:
    config = config_of()
    assert config.listeners == (Endpoint("PLAINTEXT", "", 9092),)
    (advertised,) = config.advertised_listeners
    assert advertised.host
    assert advertised.port == 9092
    assert config.inter_broker_listener == "PLAINTEXT"


def test_several_listeners() -> None:
    config = config_of(
        listeners="plaintext://127.0.0.1:0, INTERNAL://[::1]:9093",
        advertised_listeners="PLAINTEXT://broker-1.example:19092,INTERNAL://[fe80::1]:9093",
        inter_broker_listener_name="internal",
        listener_security_protocol_map="PLAINTEXT:PLAINTEXT,INTERNAL:PLAINTEXT,OTHER:SASL_SSL",
    )
    assert config.listeners == (Endpoint("PLAINTEXT", "127.0.0.1", 0), Endpoint("INTERNAL", "::1", 9093))
    assert config.inter_broker_listener == "INTERNAL"
    assert str(config.advertised_listeners[1]) == "INTERNAL://[fe80::1]:9093"


@pytest.mark.parametrize(
    ("value", "said"),
    [
        ("PLAINTEXT://h:1,PLAINTEXT://h:2", "two listeners are named PLAINTEXT"),
        ("PLAINTEXT://h:1,X://h:1", "two listeners use port 1"),
        ("PLAINTEXT://h:70000", "port 70000 is above 65535"),
        ("PLAINTEXT://h", "'PLAINTEXT://h' is no listener"),
        ("PLAINTEXT://h:1,", "an empty entry is no listener"),
        ("h:1", "'h:1' is no listener"),
        ("PLAINTEXT://h:-1", "is no listener"),
        ("PLAINTEXT://h h:1", "is no listener"),
    ],
)
def test_a_bad_listener(value: str, said: str) -> None:
    assert said in refused(listeners=value).replace("'an empty entry'", "an empty entry")


def test_one_port_on_both_address_families_is_allowed() -> None:
    listeners = "PLAINTEXT://127.0.0.1:9092,V6://[::1]:9092"
    config = config_of(listeners=listeners, listener_security_protocol_map="PLAINTEXT:PLAINTEXT,V6:PLAINTEXT")
    assert len(config.listeners) == 2


def test_a_listener_needs_a_protocol() -> None:
    assert refused(listeners="X://h:1") == f"{MAP}: no protocol for listener X; allowed: an entry X:PLAINTEXT"


def test_a_bad_protocol_map() -> None:
    assert refused(listener_security_protocol_map="A:B").startswith(f"{MAP}=A:B: 'A:B' is no NAME:PROTOCOL pair;")
    assert "listener A has two protocols" in refused(listener_security_protocol_map="A:SSL,A:PLAINTEXT")


def test_what_is_advertised_must_exist_and_be_reachable() -> None:
    assert "no such listener; allowed names: PLAINTEXT" in refused(advertised_listeners="X://h:1")
    assert "clients cannot connect to this host" in refused(advertised_listeners="PLAINTEXT://0.0.0.0:1")
    assert "clients cannot connect to this host" in refused(advertised_listeners="PLAINTEXT://:1")
    assert "clients cannot connect to this host" in refused(listeners="PLAINTEXT://0.0.0.0:9092")


def test_the_inter_broker_listener_must_be_advertised() -> None:
    line = refused(inter_broker_listener_name="OTHER")
    assert line == "inter.broker.listener.name=OTHER: not among the advertised listeners; allowed: PLAINTEXT"


def test_the_only_listener_is_the_inter_broker_listener() -> None:
    config = config_of(listeners="X://127.0.0.1:1", listener_security_protocol_map="X:PLAINTEXT")
    assert config.inter_broker_listener == "X"
