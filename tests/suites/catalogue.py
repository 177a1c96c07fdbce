"""The test suites of other people's clients that `make suites` runs, and what each needs of the brokers."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import NamedTuple

from tests.suites.brokers import ALICE, Brokers

FIRST_PORT = 9092
"""Where the suites look for brokers unless they are told otherwise."""


def _none(_brokers: Brokers) -> Mapping[str, str]:
    return {}


class Suite(NamedTuple):
    """One suite against one kind of listener."""

    name: str
    module: str
    """In Go's module proxy, or on PyPI."""
    version: str
    packages: tuple[str, ...]
    """Those whose tests speak to a broker; of Python, folders."""
    listener: str
    """What its tests connect to, in words for the table."""
    brokers: int = 3
    environment: Callable[[Brokers], Mapping[str, str]] = _none
    settings: Mapping[str, str] = MappingProxyType({})
    """Of every broker, with its id for ``{broker}``."""
    only: str = ""
    """A pattern of names: other tests are left out, for they speak to no broker, or are run by another suite of this table."""
    left_out: tuple[str, ...] = ()
    """Tests and subtests that are not run, for they end the whole binary or wait for what never comes; `declared.py` says why."""
    minutes: int = 8
    """After which the suite is ended."""
    build: tuple[str, ...] = ()
    """More arguments of `go test -c`."""
    plugin: str = ""
    """Of pytest, which shows the tests their brokers; without one the tests are Go's."""
    proxied: bool = False
    """Whether its tests cut connections at a toxiproxy, which stands before the brokers then."""


FRANZ_GO = ("github.com/twmb/franz-go", "v1.22.3")
SARAMA = ("github.com/IBM/sarama", "v1.61.1")
TOXIPROXY = "github.com/Shopify/toxiproxy/v2/cmd/server@v2.12.0"
TOXIPROXY_PORT = 8474
KAFKA_GO = ("github.com/segmentio/kafka-go", "v0.4.51")
KAFKA_PYTHON = ("kafka-python", "3.0.12")
LIKE_KAFKA = "4.3.1"
"""Version of Apache Kafka whose answers tests may expect."""
RECORDS = "5000"
"""Of each of franz-go's pipelines, whose default are 500,000."""
SPEAKS_TO_A_BROKER = (
    "^Test(UnknownGroupOffsetFetchPinned|ProcessHooks|Ping|Issue[0-9].*|SCRAMAuth.*|Consume.*|DirectPartitionPurge|"
    "AddRemovePartitions|Pause.*|Pooling|GroupSimple|GroupETL|Client_Produce.*)$"
)


def _franz_go(brokers: Brokers) -> dict[str, str]:
    return {
        "KGO_TEST_RECORDS": RECORDS,
        "KGO_TEST_RF": "3",
        "KGO_LOG_LEVEL": "none",
        "KGO_TEST_SCRAM": f"{ALICE}:{ALICE}-256",
    }


def _franz_go_plaintext(brokers: Brokers) -> Mapping[str, str]:
    scram = {"KGO_TEST_SCRAM_SEEDS": brokers.at("SASL")}
    return _franz_go(brokers) | scram | {"KGO_SEEDS": brokers.at("PLAINTEXT")}


def _franz_go_tls(brokers: Brokers) -> Mapping[str, str]:
    files = brokers.files
    stores = f"ca:{files.truststore},cert:{files.client},key:{files.client}"
    return _franz_go(brokers) | {"KGO_SEEDS": brokers.at("MUTUAL"), "KGO_TEST_TLS": stores}


def _kafka_python(brokers: Brokers) -> Mapping[str, str]:
    listeners = {"PLAINTEXT": "PLAINTEXT", "SASL_PLAINTEXT": "SASL", "SSL": "TLS"}
    return {
        "KAFKA_VERSION": LIKE_KAFKA,
        "KAFKA_ROOT": str(brokers.folder),  # a folder that is there is all that is asked of it
        "SUITE_PORTS": json.dumps({name: int(brokers.at(at).rpartition(":")[2]) for name, at in listeners.items()}),
        "SUITE_CA": str(brokers.files.truststore),
    }


SUITES = (
    Suite(
        "kafka-go",
        *KAFKA_GO,
        (".", "./compress", "./sasl", "./topics"),
        "PLAINTEXT, SASL_PLAINTEXT (PLAIN, SCRAM), ACLs",
        brokers=1,
        environment=lambda _brokers: {"KAFKA_VERSION": "3.7.0"},
        settings={"message.max.bytes": "200000000", "socket.request.max.bytes": "200100000"},
        left_out=("TestReaderConsumerGroup/consumer_group_commits_on_close",),
    ),
    Suite(
        "franz-go",
        *FRANZ_GO,
        ("./pkg/kgo",),
        "PLAINTEXT, SASL_PLAINTEXT (SCRAM)",
        environment=_franz_go_plaintext,
        left_out=("TestTxnEtl",),
    ),
    Suite(
        "franz-go-tls",
        *FRANZ_GO,
        ("./pkg/kgo",),
        "SSL, certificates on both sides",
        environment=_franz_go_tls,
        only=SPEAKS_TO_A_BROKER,
        left_out=("TestIssue769",),
    ),
    Suite(
        "sarama",
        *SARAMA,
        (".",),
        "PLAINTEXT through toxiproxy",
        brokers=5,
        environment=lambda _brokers: {
            "TOXIPROXY_ADDR": f"http://127.0.0.1:{TOXIPROXY_PORT}",
            "KAFKA_VERSION": LIKE_KAFKA,
        },
        settings={"auto.create.topics.enable": "false", "broker.rack": "{broker}"},
        only="^Test(Func|ConsumerFetchFollower|ConsumerHighWater|ConsumerPartial|VersionMatrix|ConsumerGroupDeadlock|"
        "Interceptors|AsyncProducerRemoteBrokerClosed|JavaProducer|JavaConsumer|JavaMurmur2|ReadOnlyAndAll)",
        build=("-tags", "functional"),
        minutes=15,
        proxied=True,
    ),
    Suite(
        "kafka-python",
        *KAFKA_PYTHON,
        ("test/integration",),
        "PLAINTEXT, SASL_PLAINTEXT (PLAIN, SCRAM), SSL",
        brokers=1,
        environment=_kafka_python,
        settings={"node.id": "0", "group.min.session.timeout.ms": "3000"},  # which the tests name
        plugin="tests.suites.kafka_python",
    ),
)
