"""Rules that only a running cluster can show: who serves, fetches that wait, a new controller, producers that retry."""

from __future__ import annotations

import json
import time
from collections.abc import Callable
from pathlib import Path
from threading import Timer
from typing import Any

import pytest
from confluent_kafka import Consumer, Producer, TopicPartition
from confluent_kafka.admin import AdminClient
from minikafka.controller.brokers import CUT_OFF
from minikafka.local.cluster import LocalCluster

from tests.interop.raw_client import (
    ClusterInfo,
    FetchAnswer,
    ProducerState,
    RawConnection,
    fetch_request,
    metadata,
    produce_request,
    read_fetch_answer,
    read_produce_answer,
    record_batch,
)

UNKNOWN_TOPIC_OR_PARTITION, NOT_LEADER_OR_FOLLOWER = 3, 6
FENCED_LEADER_EPOCH, UNKNOWN_LEADER_EPOCH = 74, 75
Until = Callable[..., Any]
READY_SECONDS_MAX = 120.0


@pytest.fixture
def topic(cluster: LocalCluster, call_cli: Callable[..., Any], request: pytest.FixtureRequest) -> str:
    """A topic of one partition with three replicas, named for its test."""
    name = str(request.node.name).removeprefix("test_")[:60]
    bootstrap = cluster.info().bootstrap
    made = call_cli("topic", "create", name, "--partitions", 1, "--replication-factor", 3, "--bootstrap", bootstrap)
    assert made.returncode == 0, made.stderr
    return name


def seen(cluster: LocalCluster, *topics: str) -> ClusterInfo:
    """What any broker that answers says of the cluster."""
    for address in cluster.info().bootstrap.split(","):
        try:
            with RawConnection(address, 30.0) as connection:
                return metadata(connection, topics)
        except OSError:
            continue
    raise AssertionError("no broker answers")


def led(cluster: LocalCluster, topic: str, until: Until) -> ClusterInfo:
    """The cluster once the topic has three members in sync and a leader that serves: others may know of it before it does."""
    found = until(
        lambda: seen(cluster, topic),
        lambda info: (p := info.topics[topic].get(0)) and p.leader >= 0 and len(p.in_sync) == 3,
    )
    assert isinstance(found, ClusterInfo)
    leader = found.leader_address(topic, 0)
    until(lambda: read(leader, topic, 0).error_code, lambda code: code == 0)
    return found


def ask(address: str, request: bytes) -> bytearray:
    with RawConnection(address) as connection:
        return connection.call(request)


def read(address: str, topic: str, offset: int, **options: int) -> FetchAnswer:
    return read_fetch_answer(ask(address, fetch_request(topic, 0, offset, **options)))


def knows_the_topic(error_code: int) -> bool:
    return error_code != UNKNOWN_TOPIC_OR_PARTITION


def test_only_the_leader_serves(cluster: LocalCluster, topic: str, until: Until) -> None:
    """R2: a follower answers NOT_LEADER_OR_FOLLOWER to produce and fetch. R12, KIP-320: other epochs are refused."""
    info = led(cluster, topic, until)
    partition = info.topics[topic][0]
    for follower in set(partition.replicas) - {partition.leader}:
        address = info.brokers[follower]
        read_there = until(lambda at=address: read(at, topic, 0).error_code, knows_the_topic)
        produced = read_produce_answer(ask(address, produce_request(topic, 0, record_batch([b"x"]))))
        assert read_there == produced.error_code == NOT_LEADER_OR_FOLLOWER
    leader = info.leader_address(topic, 0)
    assert read(leader, topic, 0, leader_epoch=partition.leader_epoch).error_code == 0
    assert read(leader, topic, 0, leader_epoch=partition.leader_epoch + 1).error_code == UNKNOWN_LEADER_EPOCH


def test_a_fetch_waits_for_data(cluster: LocalCluster, topic: str, until: Until) -> None:
    """R7: parked for its max wait when there is nothing, completed early by a produce; R3: it sees committed records."""
    leader = led(cluster, topic, until).leader_address(topic, 0)
    began = time.monotonic()
    empty = read(leader, topic, 0, max_wait_ms=300)
    assert (empty.error_code, empty.size) == (0, 0)
    assert time.monotonic() - began >= 0.29

    later = Timer(0.2, ask, (leader, produce_request(topic, 0, record_batch([b"m0"]))))
    began = time.monotonic()
    with RawConnection(leader, 40.0) as connection:
        later.start()
        found = read_fetch_answer(connection.call(fetch_request(topic, 0, 0, max_wait_ms=30_000)))
    later.join()
    assert found.size > 0 and found.high_watermark == 1
    assert 0.15 < time.monotonic() - began < 20


def test_a_retried_batch_is_written_once(cluster: LocalCluster, topic: str, until: Until) -> None:
    """R18, KIP-98: the answer got lost and the producer sends again: the first offset, and one record. Also after a
    failover, for followers know the producer from the log."""
    info = led(cluster, topic, until)
    batch = record_batch([b"once"], producer=ProducerState(producer_id=77_000, epoch=0, base_sequence=0))
    for _ in range(2):
        assert read_produce_answer(ask(info.leader_address(topic, 0), produce_request(topic, 0, batch))) == (0, 0)
    old = info.topics[topic][0].leader
    cluster.kill(old)
    try:
        info = until(lambda: seen(cluster, topic), lambda i: i.topics[topic][0].leader not in (-1, old))
        leader = info.leader_address(topic, 0)
        again = until(
            lambda: read_produce_answer(ask(leader, produce_request(topic, 0, batch))),
            lambda answer: answer.error_code != NOT_LEADER_OR_FOLLOWER,  # it may be the last to know that it leads
        )
        assert again == (0, 0)
        assert until(lambda: read(leader, topic, 0), lambda f: f.high_watermark >= 1).high_watermark == 1
    finally:
        cluster.start(old)
        cluster.wait_ready(READY_SECONDS_MAX)


def test_order_survives_retries_over_a_failover(cluster: LocalCluster, topic: str, until: Until) -> None:
    """R18: retries with five requests in flight: idempotence keeps the order and leaves no duplicate."""
    old = led(cluster, topic, until).topics[topic][0].leader
    bootstrap = cluster.info().bootstrap
    failed: list[object] = []
    producer = Producer(
        {"bootstrap.servers": bootstrap, "enable.idempotence": True, "linger.ms": 0, "batch.num.messages": 10,
         "max.in.flight.requests.per.connection": 5, "message.timeout.ms": 120_000}
    )  # fmt: skip
    count = 600
    try:
        for number in range(count):
            producer.produce(
                topic, str(number).encode(), on_delivery=lambda error, _: failed.append(error) if error else None
            )
            producer.poll(0.002)
            if number == count // 2:
                cluster.kill(old)
        assert producer.flush(130) == 0
        assert failed == []
    finally:
        cluster.start(old)
        cluster.wait_ready(READY_SECONDS_MAX)

    consumer = Consumer({"bootstrap.servers": bootstrap, "group.id": topic, "enable.auto.commit": False})
    try:
        consumer.assign([TopicPartition(topic, 0, 0)])
        values: list[int] = []
        deadline = time.monotonic() + 120
        while len(values) < count and time.monotonic() < deadline:
            values += [int(m.value() or b"") for m in consumer.consume(count, 0.5) if m.error() is None]
    finally:
        consumer.close()
    assert values == list(range(count))


def test_the_controller_is_elected_again(cluster: LocalCluster, call_cli: Callable[..., Any], until: Until) -> None:
    """R15: it dies, another broker takes the lease, and the cluster can be administered again. R14: with new leaders."""
    old = seen(cluster).controller
    cluster.kill(old)
    try:
        new = until(lambda: seen(cluster).controller, lambda controller: controller not in (-1, old))
        bootstrap = ",".join(a for b, a in seen(cluster).brokers.items() if b != old)
        made = call_cli(
            "topic", "create", "after", "--partitions", 2, "--replication-factor", 2, "--bootstrap", bootstrap
        )
        assert made.returncode == 0, made.stderr
        leaders = until(
            lambda: [p.leader for p in seen(cluster, "after").topics["after"].values()],
            lambda found: len(found) == 2 and -1 not in found,
        )
        assert set(leaders) <= {1, 2, 3} - {old}
        assert new != old
    finally:
        cluster.start(old)
        cluster.wait_ready(READY_SECONDS_MAX)


def test_the_controllers_death_is_felt_at_once(make_cluster: Callable[..., LocalCluster], until: Until) -> None:
    """R15: its closed connections tell of it, long before the next heartbeat is due or its session is over."""
    cluster = make_cluster(config={"broker.heartbeat.interval.ms": "120000", "broker.session.timeout.ms": "270000"})
    old = until(lambda: seen(cluster).controller, lambda controller: controller != -1)
    cluster.kill(old)
    new = until(lambda: seen(cluster).controller, lambda controller: controller not in (-1, old), seconds=60)
    assert new != old


def test_deleted_records_are_told_by_every_replica(cluster: LocalCluster, topic: str, until: Until) -> None:
    """KIP-107: the log start moves at the leader and then at the followers; a reader of event logs can tell it from a loss."""
    bootstrap = cluster.info().bootstrap
    producer = Producer({"bootstrap.servers": bootstrap})
    for _ in range(10):
        producer.produce(topic, b"v", partition=0)
    assert producer.flush(60) == 0
    admin = AdminClient({"bootstrap.servers": bootstrap})
    (deleted,) = admin.delete_records([TopicPartition(topic, 0, 6)]).values()
    assert deleted.result(60).low_watermark == 6

    def moved_logs() -> dict[int, str]:
        found = {}
        for path in cluster.data.rglob("events.jsonl"):
            for event in map(json.loads, path.read_text().splitlines()):
                if event["event"] == "log_start_advanced" and event["topic"] == topic:
                    assert (event["fields"]["from_offset"], event["fields"]["to_offset"]) == (0, 6)
                    found[event["broker"]] = event["fields"]["reason"]
        return found

    found = until(moved_logs, lambda seen: len(seen) == 3)
    assert sorted(found.values())[0] == "DeleteRecords"


def test_files_of_a_deleted_topic_go_after_their_delay(
    cluster: LocalCluster, call_cli: Callable[..., Any], until: Until
) -> None:
    """``file.delete.delay.ms``: not with the next look at retention, which is minutes away."""
    where = ("--bootstrap", cluster.info().bootstrap)
    options = ("--partitions", 2, "--replication-factor", 3, "--config", "file.delete.delay.ms=0")
    assert call_cli("topic", "create", "doomed", *options, *where).returncode == 0

    def folders() -> list[Path]:
        return list(cluster.data.glob("broker-*/data/doomed-*"))

    until(folders, lambda found: len(found) == 6)
    assert call_cli("topic", "delete", "doomed", *where).returncode == 0
    until(folders, lambda found: not found)


@pytest.mark.full
def test_a_controller_that_hears_nobody_stands_back_first(
    make_cluster: Callable[..., LocalCluster], until: Until
) -> None:
    """KAFKA-15489: perhaps it is the one that is cut off. When nobody takes its lease, it acts on what it hears."""
    cluster = make_cluster(config={"broker.heartbeat.interval.ms": "500", "broker.session.timeout.ms": "6000"})
    controller = until(lambda: seen(cluster).controller, lambda found: found != -1)
    others = sorted({1, 2, 3} - {controller})
    before = len(events(cluster, controller))  # on a slow machine somebody may have been fenced as the cluster came up
    for broker in others:
        cluster.pause(broker)
    try:
        moved_logs = until(
            lambda: events(cluster, controller)[before:],
            lambda found: ("broker_fenced", others[1]) in found,
            seconds=120,
        )
        names = [name for name, _ in moved_logs]
        resigned, fenced = names.index("controller_resigned"), names.index("broker_fenced")
        assert moved_logs[resigned][1] == CUT_OFF
        assert resigned < fenced, "it accused nobody before"
        assert names[resigned:fenced].count("controller_elected") == 1, "nobody else took the lease"
    finally:
        for broker in others:
            cluster.resume(broker)
    until(lambda: len(seen(cluster).brokers), lambda number: number == 3)


def events(cluster: LocalCluster, broker: int) -> list[tuple[str, Any]]:
    """What a broker as the controller told, each with what matters here: whom it concerns, or why."""
    lines = (cluster.data / f"broker-{broker}" / "events.jsonl").read_text().splitlines()
    return [(e["event"], e["fields"].get("target", e["fields"].get("reason"))) for e in map(json.loads, lines)]
