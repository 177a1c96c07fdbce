"""A cluster of three brokers for other people's clients: MiniKafka, or whatever MINIKAFKA_INTEROP_BOOTSTRAP names.

The same tests pass against Apache Kafka; README.md says how to run them there.
"""

from __future__ import annotations

import os
import uuid
from collections.abc import Callable, Iterator
from functools import partial

import pytest

from tests.interop.kafka_jars import KafkaJarsMissing, kafka_classpath
from tests.interop.raw_client import RawConnection, metadata
from tests.waiting import until_now

BROKER_SETTINGS = {
    "auto.create.topics.enable": "true",
    "num.partitions": "3",
    "default.replication.factor": "3",
    "min.insync.replicas": "2",
    "offsets.topic.replication.factor": "3",
    "group.initial.rebalance.delay.ms": "0",  # a group of one need not wait for others
}
"""What these tests ask of a cluster; the same for Apache Kafka (README.md)."""


@pytest.fixture(scope="session")
def bootstrap(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """Bootstrap servers of a running cluster of three brokers."""
    given = os.environ.get("MINIKAFKA_INTEROP_BOOTSTRAP")
    if given:
        yield given
        return
    from minikafka.local.ports import free_base_port

    from tests.clusters import tied_cluster

    cluster = tied_cluster(tmp_path_factory.mktemp("interop-cluster"))
    try:
        yield cluster.up(3, free_base_port(3), BROKER_SETTINGS, timeout=120).bootstrap
    finally:
        cluster.down()


@pytest.fixture(autouse=True)
def the_brokers_live_on(request: pytest.FixtureRequest) -> Iterator[None]:
    """After every test that uses the cluster each broker still answers, and knows all of the others."""
    if "bootstrap" not in request.fixturenames:
        yield
        return
    bootstrap = request.getfixturevalue("bootstrap")
    with RawConnection(bootstrap) as connection:
        before = metadata(connection).brokers
    yield
    for address in before.values():
        until_now(partial(_knows, address, before), what=f"{address} knows of {before}")


def _knows(address: str, brokers: dict[int, str]) -> bool:
    with RawConnection(address) as connection:
        return metadata(connection).brokers == brokers


@pytest.fixture
def topic() -> str:
    """A name that no other test uses; the test creates the topic itself."""
    return f"interop-{uuid.uuid4().hex[:12]}"


@pytest.fixture
def group() -> str:
    """A consumer group that no other test uses."""
    return f"group-{uuid.uuid4().hex[:12]}"


@pytest.fixture(scope="session")
def kafka_tools() -> None:
    """Apache Kafka's jars and a Java to run them are here; under CI their absence is a failure, elsewhere a skip."""
    need_kafka_jars(kafka_classpath)


def need_kafka_jars(fetch: Callable[[], object]) -> None:
    """Skip (or, under CI=true, fail) with the command that brings what is missing."""
    try:
        fetch()
    except KafkaJarsMissing as missing:
        if os.environ.get("CI") == "true":
            pytest.fail(str(missing), pytrace=False)
        pytest.skip(str(missing))
