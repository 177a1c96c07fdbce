"""Every declared metric moves and every declared event happens on a live cluster.

One cluster goes through everything that a broker counts or tells; what its pages and event files said meanwhile is kept.
A metric or an event that is declared from now on fails here until it happens, too.
"""

from __future__ import annotations

import contextlib
import json
import os
import sqlite3
import struct
import threading
import urllib.request
from collections import defaultdict
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import Consumer, ElectionType, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, AlterConfigOpType, ConfigEntry, ConfigResource, NewPartitions, NewTopic
from minikafka.client.connection import BrokerConnection
from minikafka.local.cluster import LocalCluster
from minikafka.local.ports import HOST, INTER_BROKER_PORT_OFFSET
from minikafka.metadata.image import BROKER
from minikafka.protocol.api_keys import ApiKey
from minikafka.telemetry.events import EVENTS, problem
from minikafka.telemetry.metric import COUNTER, GAUGE, HISTOGRAM, Metric
from minikafka.telemetry.metrics import BUILD_INFO, COMPONENT_FAILED, ELECTIONS, LOG_DIR_SIZE, METRICS
from minikafka_chaos.record.observe import parse_metrics

from tests.interop.raw_client import (
    PartitionInfo,
    RawConnection,
    fetch_request,
    metadata,
    produce_request,
    read_fetch_answer,
    read_produce_answer,
    record_batch,
    request,
)

pytestmark = pytest.mark.timeout(1800)

Until = Callable[..., Any]
Labels = tuple[tuple[str, str], ...]
OFFSETS_TOPIC = "__consumer_offsets"
DEADLINE = 90
FORGED_EACH_TIME = 40
SESSION_MS_MIN = 6000
"""Of a member of a group, by default."""
SEGMENT_BYTES = 1100
CLUSTER_CONFIG = {
    "broker.session.timeout.ms": "6000",  # no broker is fenced but on purpose, however busy the machine
    "broker.heartbeat.interval.ms": "500",
    "offsets.topic.num.partitions": "1",
    "log.flush.offset.checkpoint.interval.ms": "500",
    "replica.high.watermark.checkpoint.interval.ms": "200",
}


class Witness:
    """All values that the pages of a cluster's brokers showed, by sample, broker and labels."""

    def __init__(self, cluster: LocalCluster) -> None:
        self.cluster = cluster
        self.values: dict[str, dict[tuple[int, Labels], list[float]]] = defaultdict(lambda: defaultdict(list))
        self.event_files: list[Path] = []

    def look(self, *only: int) -> None:
        """Take in the page of every broker that answers, or of some: those are waited for, and none of them is paused."""
        for broker in self.cluster.info().brokers:
            if only and broker.id not in only:
                continue
            try:
                url = f"http://{HOST}:{broker.metrics_port}/metrics"
                with urllib.request.urlopen(url, timeout=20 if only else 2) as answer:
                    page = answer.read().decode()
            except OSError:  # down, or paused
                continue
            for name, labels, value in parse_metrics(page):
                self.values[name][broker.id, tuple(sorted(labels.items()))].append(value)

    def latest(self, name: str, broker: int, **labels: str) -> float:
        """The value of now; 0 for what a page does not have yet."""
        self.look(broker)
        seen = self.values[name].get((broker, tuple(sorted(labels.items()))))
        return seen[-1] if seen else 0.0

    def moved(self, metric: Metric) -> bool:
        """Whether one series of it was counted up, or (a gauge) had two values."""
        if metric.kind == HISTOGRAM:
            return any(max(seen) > 0 for seen in self.values[f"{metric.name}_count"].values())
        series = self.values[metric.name]
        if metric is COMPONENT_FAILED:  # absent when all is well
            return any(seen == [1.0] * len(seen) for seen in series.values())
        if metric.kind == COUNTER:
            return any(max(seen) > 0 for seen in series.values())
        return any(len(set(seen)) > 1 for seen in series.values())

    def events(self) -> list[dict[str, Any]]:
        """What all brokers told."""
        found = []
        for path in {*self.event_files, *self.cluster.data.glob("broker-*/events.jsonl")}:
            if path.is_file():
                found += [json.loads(line) for line in path.read_text().splitlines()]
        return found

    def events_of(self, event: str, **fields: Any) -> list[dict[str, Any]]:
        """The events of that name with these fields, or topic."""
        return [
            e
            for e in self.events()
            if e["event"] == event and all(v == e["fields"].get(k, e.get(k)) for k, v in fields.items())
        ]


class Story:
    """The life of the cluster, in the order of the methods."""

    def __init__(self, cluster: LocalCluster, until: Until) -> None:
        self.cluster, self.until = cluster, until
        self.witness = Witness(cluster)
        self.bootstrap = cluster.bootstrap
        self.admin = AdminClient({"bootstrap.servers": self.bootstrap})

    def address(self, broker: int) -> str:
        return f"{HOST}:{self.cluster.broker(broker).port}"

    def ask(self, broker: int, request: bytes) -> bytearray:
        with RawConnection(self.address(broker), 60) as connection:
            return connection.call(request)

    def partition(self, topic: str, index: int = 0) -> PartitionInfo:
        for broker in (1, 2, 3):
            try:
                with RawConnection(self.address(broker), 30) as connection:
                    return metadata(connection, [topic]).topics[topic][index]
            except OSError:
                continue
        raise AssertionError("no broker answers")

    def led(self, topic: str, index: int = 0) -> PartitionInfo:
        """Once anybody leads it: its log may just come back."""
        found = self.until(lambda: self.partition(topic, index), lambda p: p.leader > 0, seconds=DEADLINE)
        assert isinstance(found, PartitionInfo)
        return found

    def led_by(self, broker: int, topic: str, index: int = 0) -> PartitionInfo:
        """Wait until it leads; its preferred leader is asked for, for a broker may have been fenced on a slow machine."""

        def seen() -> PartitionInfo:
            found = self.partition(topic, index)
            if found.leader not in (-1, broker):
                self.admin.elect_leaders(ElectionType.PREFERRED, [TopicPartition(topic, index)]).result(DEADLINE)
            return found

        found = self.until(seen, lambda p: p.leader == broker, seconds=DEADLINE)
        assert isinstance(found, PartitionInfo)
        return found

    def produce(self, topic: str, index: int, *values: bytes, acks: int = 1) -> None:
        """One batch, to whoever leads."""

        def sent() -> int:
            request = produce_request(topic, index, record_batch(values), acks=acks)
            return read_produce_answer(self.ask(self.led(topic, index).leader, request)).error_code

        self.until(sent, lambda code: code == 0, seconds=DEADLINE)

    def controller(self) -> int:
        def seen() -> int:
            with RawConnection(self.address(1), 30) as connection:
                return metadata(connection).controller

        return int(self.until(seen, lambda found: found > 0, seconds=DEADLINE))

    # -- a day at work

    def topics(self) -> None:
        one = {"min.insync.replicas": "1"}
        wanted = [
            NewTopic("main", 1, replica_assignment=[[1, 2, 3]], config={"flush.messages": "1"}),
            NewTopic("damaged", 2, replica_assignment=[[1, 2], [1, 2]], config=one),
            NewTopic(
                "diverging", 1, replica_assignment=[[2, 3]], config=one | {"unclean.leader.election.enable": "true"}
            ),
            NewTopic("short", 1, replica_assignment=[[1, 3]], config=one),
            NewTopic("alone", 1, replica_assignment=[[3]], config=one),
            NewTopic("rolling", 1, replica_assignment=[[3]], config=one | {"segment.bytes": str(SEGMENT_BYTES)}),
        ]
        for done in self.admin.create_topics(wanted).values():
            done.result(DEADLINE)
        for topic in wanted:
            for index in range(len(topic.replica_assignment)):
                self.produce(topic.topic, index, b"first", acks=-1)
        entry = ConfigEntry("retention.ms", "3600000", incremental_operation=AlterConfigOpType.SET)
        resource = ConfigResource(ConfigResource.Type.TOPIC, "main", incremental_configs=[entry])
        for done in self.admin.incremental_alter_configs([resource]).values():
            done.result(DEADLINE)
        for done in self.admin.create_partitions([NewPartitions("alone", 2, [[3]])]).values():
            done.result(DEADLINE)

    def groups(self) -> None:
        producer = Producer({"bootstrap.servers": self.bootstrap, "enable.idempotence": True})
        for n in range(20):
            producer.produce("main", f"record {n}".encode())
        assert producer.flush(DEADLINE) == 0
        for group in ("stays", "goes"):
            consumer = Consumer(
                {"bootstrap.servers": self.bootstrap, "group.id": group, "auto.offset.reset": "earliest"}
            )
            consumer.subscribe(["main"])
            self.until(lambda: consumer.poll(1.0), lambda m: m is not None and m.error() is None, seconds=DEADLINE)  # noqa: B023
            consumer.commit(asynchronous=False)
            coordinator = self.led(OFFSETS_TOPIC).leader
            assert self.witness.latest("minikafka_group_members", coordinator, group=group) == 1
            committed = {"group": group, "topic": "main", "partition": "0"}
            assert self.witness.latest("minikafka_group_committed_offset", coordinator, **committed) >= 1
            self.until(lambda: consumer.poll(1.0), lambda m: m is not None and m.error() is None, seconds=DEADLINE)  # noqa: B023
            consumer.commit(asynchronous=False)
            consumer.close()

        def deleted() -> BaseException | None:
            (done,) = self.admin.delete_consumer_groups(["goes"]).values()
            return done.exception(DEADLINE)

        self.until(deleted, lambda trouble: trouble is None, seconds=DEADLINE)

    def refusals(self) -> None:
        """What is refused is counted once a request, with its bytes and its errors."""

        def counted(error: str, api: str) -> tuple[float, ...]:
            names = (f"minikafka_failed_{api.lower()}_requests_total", "minikafka_rejected_bytes_total")
            errors = self.witness.latest("minikafka_request_errors_total", 1, api=api, error=error)
            return (*(self.witness.latest(name, 1) for name in names), errors)

        whole = record_batch([b"nobody wants this"])
        broken = whole[:-1] + b"?"
        for index, batch, error in ((99, whole, "UNKNOWN_TOPIC_OR_PARTITION"), (0, broken, "CORRUPT_MESSAGE")):
            failed, rejected, errors = counted(error, "Produce")
            assert read_produce_answer(self.ask(1, produce_request("main", index, batch))).error_code
            assert counted(error, "Produce") == (failed + 1, rejected + len(batch), errors + 1)
        topic = {"topic": "main"}
        assert self.witness.latest("minikafka_topic_failed_produce_requests_total", 1, **topic) == 2
        assert self.witness.latest("minikafka_topic_rejected_bytes_total", 1, **topic) == len(whole) + len(broken)
        failed, rejected, errors = counted("OFFSET_OUT_OF_RANGE", "Fetch")
        assert read_fetch_answer(self.ask(1, fetch_request("main", 0, 1_000))).error_code
        assert counted("OFFSET_OUT_OF_RANGE", "Fetch") == (failed + 1, rejected, errors + 1)

    def a_request_waits_for_another(self) -> None:
        """Two join a group one after the other: the second waits for the first, and a request behind it for the second."""

        def joining() -> bytes:
            group, nobody, kind, protocol = b"\0\5queue", b"\0\0", b"\0\x08consumer", b"\0\0\0\1\0\5range\0\0\0\0"
            body = group + struct.pack(">ii", SESSION_MS_MIN, 60_000) + nobody + kind + protocol
            return bytes(request(ApiKey.JOIN_GROUP, 3, body, flexible=False))

        coordinator = self.led(OFFSETS_TOPIC).leader

        def queued() -> float:
            return self.witness.latest("minikafka_request_queue_size", coordinator)

        with (
            RawConnection(self.address(coordinator), 60) as first,
            RawConnection(self.address(coordinator), 60) as second,
        ):
            assert first.call(joining())
            second.send(joining() + request(ApiKey.API_VERSIONS, 0, b"", flexible=False))
            self.until(queued, lambda n: n == 1, seconds=DEADLINE)
            second.receive()
            second.receive()
        self.until(queued, lambda n: n == 0, seconds=DEADLINE)

    def a_read_from_the_disk(self) -> None:
        """What the page cache gives is not read from the disk; so it has to forget."""

        def read() -> float:
            for path in (Path(self.cluster.broker(1).data_dir) / "main-0").glob("*.log"):
                with path.open("rb") as file:
                    os.fsync(file.fileno())
                    os.posix_fadvise(file.fileno(), 0, 0, os.POSIX_FADV_DONTNEED)
            assert not read_fetch_answer(self.ask(1, fetch_request("main", 0, 0))).error_code
            return self.witness.latest("minikafka_disk_read_bytes_total", 1)

        self.until(read, seconds=DEADLINE)

    def waiting(self) -> None:
        """Fetches wait for data; a produce waits for followers that are paused."""
        fetches = [RawConnection(self.address(1), 60) for _ in range(3)]
        for connection in fetches:
            connection.send(fetch_request("main", 0, 21, max_wait_ms=60_000))
        self.until(lambda: self.witness.latest("minikafka_waiting_fetches", 1), lambda n: n >= 3, seconds=DEADLINE)
        for connection in fetches:
            connection.socket.close()
        self.until(lambda: self.witness.latest("minikafka_waiting_fetches", 1), lambda n: n < 3, seconds=DEADLINE)
        for follower in (2, 3):
            self.cluster.pause(follower)
        sent = threading.Thread(target=self.ask, args=(1, produce_request("main", 0, record_batch([b"waits"]))))
        try:
            sent.start()
            self.until(lambda: self.witness.latest("minikafka_waiting_produces", 1), lambda n: n == 1, seconds=DEADLINE)
        finally:
            for follower in (2, 3):
                self.cluster.resume(follower)
        sent.join(DEADLINE)
        self.until(lambda: self.witness.latest("minikafka_waiting_produces", 1), lambda n: n == 0, seconds=DEADLINE)
        self.until(lambda: len(self.partition("main").in_sync), lambda n: n == 3, seconds=DEADLINE)

    # -- faults

    def two_brokers_die(self) -> None:
        """3 dies first, so that 2 has records which 3 never saw; of those that 1 writes meanwhile some are damaged."""
        for topic in ("diverging", "short"):
            self.until(lambda: len(self.partition(topic).in_sync), lambda n: n == 2, seconds=DEADLINE)  # noqa: B023
        self.led_by(1, "damaged")
        self.led_by(1, "damaged", 1)
        self.led_by(1, "short")
        self.led_by(2, "diverging")
        self.cluster.kill(3)
        self.until(lambda: self.partition("diverging").in_sync, lambda isr: isr == (2,), seconds=DEADLINE)
        self.produce("diverging", 0, b"only 2 has this", b"and this")
        self.cluster.kill(2)
        for name in ("offline_partitions", "under_replicated_partitions", "under_min_isr_partitions"):
            self.until(lambda: self.witness.latest(f"minikafka_{name}", 1), lambda n: n >= 1, seconds=DEADLINE)  # noqa: B023
        for index, (offset, change) in enumerate(((70, b"X"), (0, struct.pack(">q", 7)))):
            self.produce("damaged", index, b"intact when it was written")
            self._damage(f"damaged-{index}", offset, change)
        self.led_by(1, "short")
        self.produce("short", 0, *[b"deleted soon"] * 5)
        (deleted,) = self.admin.delete_records([TopicPartition("short", 0, 6)]).values()
        assert deleted.result(DEADLINE).low_watermark == 6

    def _damage(self, partition: str, offset: int, change: bytes) -> None:
        """Overwrite bytes of the last batch in broker 1's log, which nobody has fetched yet."""
        folder = Path(str(self.cluster.broker(1).unflushed_dir)) / partition
        tails = sorted(folder.iterdir(), key=lambda path: int(path.name.rpartition(".")[2]))
        with tails[-1].open("r+b") as file:
            data, position, last = file.read(), 0, 0
            while position < len(data):
                last, position = position, position + 12 + struct.unpack_from(">i", data, position + 8)[0]
            file.seek(last + offset)
            file.write(change)

    def they_come_back(self) -> None:
        """3 after a power loss, and while the only other broker hangs, so that nobody lets it in."""
        self.cluster.wipe_unflushed(3)
        self.cluster.pause(1)
        try:
            self.cluster.start(3)
            self.until(lambda: self.witness.latest("minikafka_broker_fenced", 3), lambda n: n == 1, seconds=DEADLINE)
        finally:
            self.cluster.resume(1)
        self.cluster.wait_ready(DEADLINE, [3])
        self.led_by(3, "diverging")
        self.produce("diverging", 0, b"3 goes on from there")
        self.cluster.start(2)
        self.cluster.wait_ready(DEADLINE)
        for event in ("log_truncated", "corrupt_batch", "replica_fetch_failed", "log_restarted"):
            self.until(lambda: self.witness.events_of(event), seconds=DEADLINE)  # noqa: B023
        self.until(lambda: len(self.partition("main").in_sync), lambda n: n == 3, seconds=DEADLINE)
        self.witness.look()

    def the_controller_stops(self) -> None:
        broker = self.controller()
        self.cluster.terminate(broker, DEADLINE)
        self.cluster.start(broker)
        self.cluster.wait_ready(DEADLINE)
        self.until(lambda: self.witness.events_of("group_loaded"), seconds=DEADLINE)
        self.until(lambda: len(self.partition("main").in_sync), lambda n: n == 3, seconds=DEADLINE)
        self.witness.look()

    def a_part_fails(self) -> None:
        """Broker 1 cannot write a checkpoint for a while."""
        obstacle = Path(self.cluster.broker(1).data_dir) / "replication-offset-checkpoint.tmp"

        def failed() -> bool:
            try:
                obstacle.mkdir(exist_ok=True)
            except FileExistsError:  # just being written
                return False
            self.witness.look()
            return bool(self.witness.values["minikafka_component_failed"])

        self.until(failed, seconds=DEADLINE)
        obstacle.rmdir()
        self.until(lambda: self.witness.events_of("component_recovered"), seconds=DEADLINE)

    def a_disk_refuses(self) -> None:
        """Broker 3 cannot begin a new segment: its log goes offline, and comes back once it can."""
        self.led_by(3, "rolling")
        self.produce("rolling", 0, b"x" * (SEGMENT_BYTES - 200))
        end = int(self.witness.latest("minikafka_log_end_offset", 3, topic="rolling", partition="0"))
        record = record_batch([b"x" * (SEGMENT_BYTES - 200)])
        obstacle = Path(self.cluster.broker(3).data_dir) / "rolling-0" / f"{end:020d}.log"
        obstacle.mkdir()

        def offline() -> float:
            leader = self.partition("rolling").leader
            self.ask(leader if leader > 0 else 1, produce_request("rolling", 0, record, acks=1))
            return self.witness.latest("minikafka_offline_logs", 3)

        self.until(offline, seconds=DEADLINE)
        obstacle.rmdir()
        self.until(lambda: self.witness.events_of("log_online"), seconds=DEADLINE)
        self.until(lambda: self.witness.latest("minikafka_offline_logs", 3), lambda n: n == 0, seconds=DEADLINE)
        self.produce("rolling", 0, b"goes on")
        self.until(lambda: len(self.partition("main").in_sync), lambda n: n == 3, seconds=DEADLINE)

    def the_metadata_is_old(self) -> None:
        """Broker 3 comes back with a log of a later term than the metadata knows, as after a backup of the store was put back."""
        self.cluster.terminate(3, DEADLINE)
        epochs = Path(self.cluster.broker(3).data_dir) / "rolling-0" / "leader-epoch-checkpoint"
        lines = epochs.read_text().splitlines()
        lines[-1] = f"1000 {lines[-1].split()[1]}"
        epochs.write_text("\n".join([*lines, ""]))
        self.cluster.start(3)
        self.cluster.wait_ready(DEADLINE)
        self.until(lambda: self.witness.events_of("metadata_behind_log", topic="rolling"), seconds=DEADLINE)
        ahead = "minikafka_partitions_ahead_of_metadata"
        self.until(lambda: self.witness.latest(ahead, 3), lambda n: n == 1, seconds=DEADLINE)
        (deleted,) = self.admin.delete_topics(["rolling"]).values()
        deleted.result(DEADLINE)
        self.until(lambda: self.witness.latest(ahead, 3), lambda n: n == 0, seconds=DEADLINE)
        self.until(lambda: len(self.partition("main").in_sync), lambda n: n == 3, seconds=DEADLINE)

    def old_epochs(self) -> None:
        """A client that believes in a leader of the past; a leader whose ISR changes are overtaken."""
        leader = self.led("main").leader
        assert read_fetch_answer(self.ask(leader, fetch_request("main", 0, 0, leader_epoch=0))).error_code == 74
        self.witness.look()
        self.until(self._forge_isr_changes, seconds=DEADLINE)

    def _forge_isr_changes(self) -> bool:
        """In the leader's name, so fast that its own are out of date when they come. True once one was refused.

        A record before each has the followers fetch, which is when the leader asks for those that were taken out.
        """
        ours = self.led("main")
        with contextlib.closing(sqlite3.connect(self.cluster.data / "metadata.sqlite")) as store:
            (record,) = store.execute("SELECT value FROM records WHERE key = ?", (f"{BROKER}{ours.leader}",)).fetchone()
            broker_epoch = json.loads(record)["epoch"]
        port = self.cluster.broker(self.controller()).port
        with (
            BrokerConnection(HOST, port, 30) as client,
            BrokerConnection(HOST, port + INTER_BROKER_PORT_OFFSET, 30) as connection,
            RawConnection(self.address(ours.leader), 30) as leader,
        ):
            answer = client.request(
                ApiKey.DESCRIBE_TOPIC_PARTITIONS,
                0,
                {"topics": [{"name": "main"}], "response_partition_limit": 10, "cursor": None},
            )
            topic_id = answer.topics[0].topic_id
            partition_epoch = int(
                self.witness.latest("minikafka_partition_epoch", ours.leader, topic="main", partition="0")
            )
            followers = [replica for replica in ours.replicas if replica != ours.leader]
            for n in range(FORGED_EACH_TIME):
                part = {
                    "partition_index": 0,
                    "leader_epoch": ours.leader_epoch,
                    "new_isr": (ours.leader, followers[n % 2]),
                    "leader_recovery_state": 0,
                    "partition_epoch": partition_epoch,
                }
                values = {
                    "broker_id": ours.leader,
                    "broker_epoch": broker_epoch,
                    "topics": [{"topic_id": topic_id, "partitions": [part]}],
                }
                leader.call(produce_request("main", 0, record_batch([b"fetch this"]), acks=1))
                row = connection.request(ApiKey.ALTER_PARTITION, 2, values).topics[0].partitions[0]
                if int(row.error_code):
                    break
                partition_epoch = row.partition_epoch
        self.until(lambda: len(self.partition("main").in_sync), lambda n: n == 3, seconds=DEADLINE)
        self.witness.look()
        return bool(self.witness.events_of("alter_partition_refused", topic="main"))

    def the_end(self) -> None:
        """A replica moves away, a topic goes, and one broker's event log is on a full disk."""
        with BrokerConnection(HOST, self.cluster.broker(self.controller()).port, 30) as connection:
            part = {"partition_index": 0, "replicas": (1, 2)}
            answer = connection.request(
                ApiKey.ALTER_PARTITION_REASSIGNMENTS,
                0,
                {"timeout": 30_000, "topics": [{"name": "main", "partitions": [part]}]},
            )
            assert int(answer.error_code) == int(answer.responses[0].partitions[0].error_code) == 0
        self.until(lambda: self.partition("main").replicas, lambda r: sorted(r) == [1, 2], seconds=DEADLINE)
        (deleted,) = self.admin.delete_topics(["short"]).values()
        deleted.result(DEADLINE)
        self.witness.look()
        self.cluster.terminate(3, DEADLINE)
        events = Path(self.cluster.broker(3).events_path)
        self.witness.event_files.append(events.rename(events.with_name("events-before.jsonl")))
        events.symlink_to("/dev/full")
        self.cluster.start(3)
        self.cluster.wait_ready(DEADLINE)
        self.witness.look()


@pytest.fixture(scope="module")
def witness(cluster: LocalCluster, until: Until) -> Witness:
    """What was seen of a cluster to which everything has happened."""
    story = Story(cluster, until)
    story.witness.look()
    story.topics()
    story.groups()
    story.refusals()
    story.a_request_waits_for_another()
    story.a_read_from_the_disk()
    story.waiting()
    story.two_brokers_die()
    story.they_come_back()
    story.the_controller_stops()
    story.a_part_fails()
    story.a_disk_refuses()
    story.the_metadata_is_old()
    story.old_epochs()
    story.the_end()
    return story.witness


METRICS_OF_OTHERS = {
    "minikafka_unflushed_limit_bytes",  # tests/unit/server/test_unflushed_volume.py, and the next
    "minikafka_appends_wait_for_room",
    "minikafka_failed_authentications_total",  # tests/unit/server/test_authentication.py
    "minikafka_authorizations_denied_total",  # tests/unit/server/test_authorization.py
    "minikafka_group_series_left_out",  # tests/unit/groups/test_offsets.py
    "minikafka_request_memory_bytes",  # tests/unit/server/test_overload.py
    "minikafka_connections_limited_total",  # tests/unit/server/test_connections.py
    "minikafka_throttled_requests_total",  # tests/unit/server/test_quotas.py, and the next
    "minikafka_throttle_seconds_total",
}
"""Metrics that move in tests of milliseconds."""


@pytest.mark.parametrize(
    "metric", [metric for metric in METRICS if metric.name not in METRICS_OF_OTHERS], ids=lambda metric: metric.name
)
def test_every_declared_metric_moves(witness: Witness, metric: Metric) -> None:
    if metric is BUILD_INFO:
        assert {value for seen in witness.values[metric.name].values() for value in seen} == {1.0}
        return
    if metric is LOG_DIR_SIZE:  # a disk does not grow
        assert min(value for seen in witness.values[metric.name].values() for value in seen) > 0
        return
    assert metric.kind in (COUNTER, GAUGE, HISTOGRAM)
    assert witness.moved(metric), dict(witness.values[metric.name])
    if metric is ELECTIONS:
        assert {
            dict(labels)["clean"] for (_, labels), seen in witness.values[metric.name].items() if max(seen) > 0
        } == {
            "true",
            "false",
        }


SHOWN_BY_OTHERS = {
    "broker_unregistered",  # tests/unit/controller/test_unregistration.py
    "unflushed_volume_full",  # tests/unit/server/test_unflushed_volume.py, and the next
    "unflushed_volume_has_room",
    "event_file_begun_anew",  # tests/unit/telemetry/test_events.py
    "hook_set",  # tests/unit/server/test_hooks.py, and the next two
    "error_injected",
    "hooks_cleared",
    "produce_acknowledged",  # tests/unit/testing/test_cluster.py, by whose verdict it is read
    "authentication_failed",  # tests/unit/server/test_authentication.py
    "certificates_renewed",  # tests/unit/server/test_tls_listeners.py, and the next
    "certificates_unusable",
    "token_keys_renewed",  # tests/unit/server/test_token_keys.py, and the next
    "token_keys_unusable",
    "metrics_tokens_renewed",  # tests/unit/server/test_metrics_door.py, and the next
    "metrics_tokens_unusable",
    "credential_set",  # tests/unit/server/test_authentication.py, and the next
    "credential_removed",
    "authorization_denied",  # tests/unit/server/test_authorization.py, and the next two
    "acl_created",
    "acl_deleted",
    "quota_set",  # tests/unit/controller/test_quotas.py, and the next
    "quota_removed",
    "client_throttled",  # tests/unit/server/test_quotas.py
    "connection_refused",  # tests/unit/server/test_connections.py
    "connection_cut",  # tests/unit/server/test_overload.py
}
"""Events that tests of milliseconds bring about."""


@pytest.mark.parametrize("event", [event for event in EVENTS if event not in SHOWN_BY_OTHERS])
def test_every_declared_event_happens(witness: Witness, event: str) -> None:
    found = witness.events_of(event)
    assert found, sorted({e["event"] for e in witness.events()})
    assert [problem(record) for record in found] == [None] * len(found)


def test_a_power_loss_is_told(witness: Witness) -> None:
    """With the offset where the log ends now: what was above is gone."""
    (lost,) = witness.events_of("unflushed_lost", topic="alone", partition=0)
    assert (lost["broker"], lost["fields"]) == (3, {"log_end_offset": 0, "high_watermark": 1})
