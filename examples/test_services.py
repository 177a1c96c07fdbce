"""Each service as it was, whose bug its test notices, and mended."""

from __future__ import annotations

import sqlite3
import time
from collections.abc import Callable
from pathlib import Path

import pytest
from confluent_kafka import KafkaException, Producer
from minikafka.testing import MiniKafkaCluster
from services.accounts import Accounts, MendedAccounts
from services.balance import Balance, MendedBalance
from services.ledger import Ledger, MendedLedger
from services.orders import MendedOrders, Orders
from services.readings import MendedReadings, Readings

PATIENCE_S = 60.0
NOTICED = pytest.mark.xfail(raises=AssertionError, strict=True, reason="its bug")


def sent(cluster: MiniKafkaCluster, *values: str) -> str:
    """A topic with these records."""
    topic = cluster.create_topic()
    producer = Producer({"bootstrap.servers": cluster.bootstrap, "linger.ms": 0, "log_level": 0})
    for value in values:
        producer.produce(topic, value, partition=0)
    producer.flush()
    return topic


def at_end(cluster: MiniKafkaCluster, topic: str, group: str) -> Callable[[], bool]:
    """Whether the group has committed all of the topic, or the patience is over."""
    records, deadline = len(cluster.records(topic)), time.monotonic() + PATIENCE_S

    def over() -> bool:
        found = cluster.groups().get(group)
        committed = 0 if found is None else sum(found.offsets.values())
        return committed >= records or time.monotonic() > deadline

    return over


@pytest.mark.parametrize("service", [pytest.param(Ledger, marks=NOTICED), MendedLedger])
def test_a_payment_whose_writing_fails_is_not_forgotten(
    minikafka_cluster: MiniKafkaCluster, service: type[Ledger]
) -> None:
    topic = sent(minikafka_cluster, "a", "b", "c")
    written: list[str] = []
    failures = ["b"]

    def write(payment: str) -> None:
        if payment in failures:
            failures.remove(payment)
            raise ConnectionError("the store is away")
        written.append(payment)

    over = at_end(minikafka_cluster, topic, f"ledger-of-{topic}")
    with pytest.raises(ConnectionError):
        service(minikafka_cluster.bootstrap, topic, write).run(over)
    service(minikafka_cluster.bootstrap, topic, write).run(over)
    assert written == ["a", "b", "c"]


@pytest.mark.parametrize("service", [pytest.param(Orders, marks=NOTICED), MendedOrders])
def test_an_order_that_was_taken_outlives_its_leader(
    minikafka_cluster: MiniKafkaCluster, service: type[Orders]
) -> None:
    topic = minikafka_cluster.create_topic(config={"min.insync.replicas": "2"})
    orders = service(minikafka_cluster.bootstrap, topic)
    taken = [order for order in ("a", "b") if orders.take(order)]
    leader = minikafka_cluster.leader(topic)
    minikafka_cluster.cut(leader)
    taken += [order for order in ("c",) if orders.take(order)]
    minikafka_cluster.kill(leader)
    minikafka_cluster.leader(topic, other_than=leader)
    minikafka_cluster.heal()
    kept = [(record.value or b"").decode() for record in minikafka_cluster.records(topic)]
    assert set(taken) <= set(kept)


@pytest.mark.parametrize("service", [pytest.param(Readings, marks=NOTICED), MendedReadings])
def test_readings_keep_their_order_when_a_request_fails(
    minikafka_cluster: MiniKafkaCluster, service: type[Readings]
) -> None:
    topic = sent(minikafka_cluster)
    readings = service(minikafka_cluster.bootstrap, topic)
    readings.send(["0"])
    minikafka_cluster.delay("Produce", 100)
    minikafka_cluster.inject_error("Produce", "NOT_ENOUGH_REPLICAS", topic, 0, count=1, after=1)
    expected = [str(number) for number in range(1, 7)]
    readings.send(expected)
    minikafka_cluster.heal()
    assert [(record.value or b"").decode() for record in minikafka_cluster.records(topic)] == ["0", *expected]


@pytest.mark.parametrize("service", [pytest.param(Balance, marks=NOTICED), MendedBalance])
def test_an_amount_that_comes_again_counts_once(minikafka_cluster: MiniKafkaCluster, service: type[Balance]) -> None:
    topic = sent(minikafka_cluster, "5", "7")
    store: dict[str, int] = {}
    over = at_end(minikafka_cluster, topic, f"balance-of-{topic}")
    minikafka_cluster.inject_error("OffsetCommit", "UNKNOWN_SERVER_ERROR", topic, 0, count=1)
    with pytest.raises(KafkaException):
        service(minikafka_cluster.bootstrap, topic, store).run(over)
    service(minikafka_cluster.bootstrap, topic, store).run(over)
    assert store["balance"] == 12


@pytest.mark.parametrize("service", [pytest.param(Accounts, marks=NOTICED), MendedAccounts])
def test_a_payment_is_booked_once_although_its_offset_could_not_be_committed(
    minikafka_cluster: MiniKafkaCluster, service: type[Accounts], tmp_path: Path
) -> None:
    topic, path = sent(minikafka_cluster, "5", "7"), str(tmp_path / "ledger.db")
    over = at_end(minikafka_cluster, topic, f"accounts-of-{topic}")
    minikafka_cluster.inject_error("OffsetCommit", "UNKNOWN_SERVER_ERROR", topic, 0, count=1)
    with pytest.raises(KafkaException):
        service(minikafka_cluster.bootstrap, topic, path).run(over)
    service(minikafka_cluster.bootstrap, topic, path).run(over)
    with sqlite3.connect(path) as ledger:
        assert ledger.execute("SELECT sum(amount) FROM booked").fetchone() == (12,)
