"""Apache Kafka's own command-line tools (the Java client, 4.3.1): console, topics, groups, configs, offsets, perf.

Each tool is a JVM of its own and takes a second or two to start, so a test does with few of them.
"""

from __future__ import annotations

import json
import re
import signal
import subprocess
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from confluent_kafka.admin import AdminClient, NewTopic

from tests.forms import in_full
from tests.interop.journey import CODECS, PARTITIONS, REPLICATION_FACTOR, codecs_in_log
from tests.interop.kafka_jars import run_tool, short_lived, tool_command
from tests.waiting import until_now

pytestmark = [pytest.mark.usefixtures("kafka_tools"), pytest.mark.timeout(900)]

TOOLS = "org.apache.kafka.tools"
TOPICS = f"{TOOLS}.TopicCommand"
PRODUCER = f"{TOOLS}.ConsoleProducer"
CONSUMER = f"{TOOLS}.consumer.ConsoleConsumer"
GROUPS = f"{TOOLS}.consumer.group.ConsumerGroupCommand"
OFFSETS = f"{TOOLS}.GetOffsetShell"
CONFIGS = "kafka.admin.ConfigCommand"
CREATED_SECONDS_MAX = 90
POLL_MS = "90000"
"""How long a console consumer waits for the next record before it gives up; it ends at once when it has all it was to read."""
CHATTER = ("Processed a total of", "The consumer rebalance protocol (KIP-848)")
"""What a console consumer says on standard error beside the records."""


class Cluster:
    """Kafka's tools, each aimed at one cluster."""

    def __init__(self, bootstrap: str) -> None:
        self.bootstrap = bootstrap

    def run(self, tool: str, *arguments: str, stdin: str | None = None, check: bool = True) -> str:
        return run_tool(tool, "--bootstrap-server", self.bootstrap, *arguments, stdin=stdin, check=check)

    def topics(self) -> set[str]:
        """The names of all, without a tool."""
        return set(AdminClient({"bootstrap.servers": self.bootstrap}).list_topics(timeout=CREATED_SECONDS_MAX).topics)

    def create(self, topic: str, partitions: int = PARTITIONS, **config: str) -> None:
        """Make a topic without a tool, which would be another JVM."""
        admin = AdminClient({"bootstrap.servers": self.bootstrap})
        (made,) = admin.create_topics([NewTopic(topic, partitions, REPLICATION_FACTOR, config=config)]).values()
        made.result(CREATED_SECONDS_MAX)

    def produce(self, topic: str, lines: list[str], *arguments: str) -> None:
        self.run(PRODUCER, "--topic", topic, *arguments, stdin="".join(f"{line}\n" for line in lines))

    def consume(self, topic: str, count: int, *arguments: str) -> list[str]:
        limits = ("--max-messages", str(count), "--timeout-ms", POLL_MS)
        printed = self.run(CONSUMER, "--topic", topic, *limits, *arguments)
        assert f"Processed a total of {count} messages" in printed, printed
        return [line for line in printed.splitlines() if not line.startswith(CHATTER)]

    def end_offsets(self, topic: str, *arguments: str) -> list[int]:
        printed = self.run(OFFSETS, "--topic", topic, *arguments)
        return [int(line.split(":")[2] or 0) for line in printed.splitlines() if line.startswith(f"{topic}:")]


@pytest.fixture
def cluster(bootstrap: str) -> Cluster:
    return Cluster(bootstrap)


@pytest.mark.parametrize("codec", ["zstd", *in_full(codec for codec in CODECS if codec != "zstd")])
def test_create_produce_consume_commit_resume(
    cluster: Cluster, bootstrap: str, topic: str, group: str, codec: str
) -> None:
    cluster.create(topic)
    lines = [f"line {n} " + "minikafka " * 20 for n in range(90)]
    cluster.produce(topic, lines, "--compression-codec", codec)
    assert codecs_in_log(bootstrap, topic) == {codec}
    first = cluster.consume(topic, 30, "--group", group, "--from-beginning")
    second = cluster.consume(topic, 60, "--group", group, "--from-beginning")  # committed offsets win
    assert sorted(first + second) == sorted(lines)


@pytest.mark.full
def test_keys_headers_timestamps_and_offsets(cluster: Cluster, topic: str) -> None:
    cluster.create(topic, 1)
    reader = ("--reader-property", "parse.key=true", "--reader-property", "parse.headers=true")
    cluster.produce(topic, [f"trace:t{n},from:console\tkey{n}\tvalue{n}" for n in range(5)], *reader)
    shown = [
        arg
        for what in ("timestamp", "partition", "offset", "headers", "key")
        for arg in ("--formatter-property", f"print.{what}=true")
    ]
    rows = cluster.consume(topic, 3, "--partition", "0", "--offset", "2", *shown)
    assert [re.sub(r"^CreateTime:\d{13}\t", "", row) for row in rows] == [
        f"Partition:0\tOffset:{n}\ttrace:t{n},from:console\tkey{n}\tvalue{n}" for n in (2, 3, 4)
    ]


@pytest.mark.full
@pytest.mark.parametrize("acks", ["0", "1", "-1"])
def test_acks(cluster: Cluster, topic: str, acks: str) -> None:
    cluster.create(topic, 1)
    lines = [str(n) for n in range(50)]
    idempotent_only_with_all = ("--command-property", f"enable.idempotence={'true' if acks == '-1' else 'false'}")
    cluster.produce(topic, lines, "--request-required-acks", acks, *idempotent_only_with_all)
    assert cluster.consume(topic, 50, "--from-beginning") == lines


@pytest.mark.full
def test_large_messages_near_the_limit_and_over_it(cluster: Cluster, topic: str) -> None:
    cluster.create(topic, 1)
    big = ("--command-property", "max.request.size=3000000", "--max-partition-memory-bytes", "3000000")
    near, over = "n" * 1_048_300, "o" * 1_048_600
    printed = cluster.run(PRODUCER, "--topic", topic, *big, stdin=f"{near}\n", check=False)
    assert "RecordTooLarge" not in printed
    printed = cluster.run(PRODUCER, "--topic", topic, *big, stdin=f"{over}\n", check=False)
    assert "RecordTooLargeException" in printed
    assert cluster.end_offsets(topic) == [1]
    assert cluster.consume(topic, 1, "--from-beginning") == [near]


@pytest.mark.full
def test_a_topic_is_made_when_it_is_first_written_to(cluster: Cluster, topic: str) -> None:
    cluster.produce(topic, ["first"])
    assert cluster.consume(topic, 1, "--from-beginning") == ["first"]
    assert len(cluster.end_offsets(topic)) == PARTITIONS


SHAPE = ("--partitions", "2", "--replication-factor", str(REPLICATION_FACTOR), "--config", "retention.ms=3600000")


def rows_of(cluster: Cluster, topic: str, partitions: int) -> list[tuple[str, ...]]:
    """Leader, replicas and in-sync replicas of each partition, once all of them have a leader."""
    rows: list[tuple[str, ...]] = []

    def all_lead() -> bool:
        described = cluster.run(TOPICS, "--describe", "--topic", topic)
        assert re.search(rf"Topic: {topic}\s+TopicId: \S+\s+PartitionCount: \d\s+ReplicationFactor: 3", described), (
            described
        )
        assert "retention.ms=3600000" in described
        found = re.findall(r"Partition: (\d)\s+Leader: (\d+)\s+Replicas: ([\d,]+)\s+Isr: ([\d,]+)", described)
        rows[:] = [row[1:] for row in found]
        numbers = [row[0] for row in found]
        return f"PartitionCount: {partitions}" in described and numbers == [str(n) for n in range(partitions)]

    until_now(all_lead, what=f"{partitions} partitions with leaders")
    return rows


def test_a_topic_is_made_described_and_deleted(cluster: Cluster, topic: str) -> None:
    assert f"Created topic {topic}." in cluster.run(TOPICS, "--create", "--topic", topic, *SHAPE)
    for leader, replicas, in_sync in rows_of(cluster, topic, 2):
        assert leader == replicas.split(",")[0]
        assert sorted(replicas.split(",")) == sorted(in_sync.split(","))
        assert len(replicas.split(",")) == 3
    cluster.run(TOPICS, "--delete", "--topic", topic)
    until_now(lambda: topic not in cluster.topics(), what="the topic is gone")


@pytest.mark.full
def test_a_topic_is_made_once_and_grows(cluster: Cluster, topic: str) -> None:
    cluster.run(TOPICS, "--create", "--topic", topic, *SHAPE)
    shape = ("--partitions", "1", "--replication-factor", "1")
    assert "already exists" in cluster.run(TOPICS, "--create", "--topic", topic, *shape, check=False)
    cluster.run(TOPICS, "--alter", "--topic", topic, "--partitions", "4")
    assert len(rows_of(cluster, topic, 4)) == 4
    assert topic in cluster.run(TOPICS, "--list").split()


def reset(cluster: Cluster, topic: str, group: str, *where: str) -> None:
    cluster.run(GROUPS, "--reset-offsets", "--group", group, "--topic", topic, "--execute", *where)


def offsets(cluster: Cluster, topic: str, group: str) -> list[str]:
    """Where the group stands in partition 0, its end, and the lag."""
    described = cluster.run(GROUPS, "--describe", "--group", group)
    row = re.search(rf"{group}\s+{topic}\s+0\s+(?:-\s+)?(\d+)\s+(\d+)\s+(\d+)", described)
    assert row, described
    return list(row.groups())


@pytest.mark.full
def test_a_group_is_rewound_and_deleted(cluster: Cluster, topic: str, group: str) -> None:
    cluster.create(topic, 1)
    cluster.produce(topic, [str(n) for n in range(20)])
    cluster.consume(topic, 12, "--group", group, "--from-beginning")
    assert group in cluster.run(GROUPS, "--list").split()
    reset(cluster, topic, group, "--to-offset", "5")
    assert offsets(cluster, topic, group) == ["5", "20", "15"]
    assert "successful" in cluster.run(GROUPS, "--delete", "--group", group)


@pytest.mark.full
def test_where_a_group_may_be_rewound_to(cluster: Cluster, topic: str, group: str) -> None:
    cluster.create(topic, 1)
    cluster.produce(topic, [str(n) for n in range(20)])
    cluster.consume(topic, 12, "--group", group, "--from-beginning")
    assert offsets(cluster, topic, group) == ["12", "20", "8"]
    reset(cluster, topic, group, "--to-offset", "5")
    assert cluster.consume(topic, 15, "--group", group)[0] == "5"
    reset(cluster, topic, group, "--to-datetime", "2020-01-01T00:00:00.000")
    assert offsets(cluster, topic, group) == ["0", "20", "20"]
    reset(cluster, topic, group, "--to-latest")
    assert offsets(cluster, topic, group) == ["20", "20", "0"]
    assert "successful" in cluster.run(GROUPS, "--delete", "--group", group)
    assert group not in cluster.run(GROUPS, "--list").split()


@pytest.mark.full
def test_two_members_share_the_partitions(cluster: Cluster, topic: str, group: str) -> None:
    cluster.create(topic, 4)
    with running_consumer(cluster, topic, group) as first, running_consumer(cluster, topic, group) as second:

        def shared() -> bool:
            described = cluster.run(GROUPS, "--describe", "--group", group, "--members", check=False)
            return re.findall(rf"{group}\s+console-consumer\S*\s+\S+\s+\S+\s+(\d)", described) == ["2", "2"]

        until_now(shared, what="two members with two partitions each", seconds=180)
        lines = [f"k{n}:{n}" for n in range(40)]
        key = ("--reader-property", "parse.key=true", "--reader-property", "key.separator=:")
        cluster.produce(topic, lines, *key)
        until_now(lambda: len(first) + len(second) == 40, what="both together have it all", seconds=180)
        assert first
        assert second
        assert not set(first) & set(second)


@contextmanager
def running_consumer(cluster: Cluster, topic: str, group: str) -> Iterator[list[str]]:
    """A console consumer that runs until the block ends; the lines it has printed so far."""
    arguments = ("--bootstrap-server", cluster.bootstrap, "--topic", topic, "--group", group, "--from-beginning")
    with (
        short_lived(CONSUMER) as jvm,
        subprocess.Popen(
            tool_command(CONSUMER, *arguments, jvm=jvm), stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True
        ) as process,
    ):
        assert process.stdout is not None
        lines: list[str] = []
        stream = process.stdout
        reader = threading.Thread(target=lambda: lines.extend(line.rstrip("\n") for line in stream), daemon=True)
        reader.start()
        try:
            yield lines
        finally:
            process.send_signal(signal.SIGTERM)
            process.wait(120)
            reader.join(60)


@pytest.mark.full
def test_configs(cluster: Cluster, topic: str) -> None:
    cluster.create(topic, 1, **{"segment.bytes": "1048576"})
    described = cluster.run(CONFIGS, "--describe", "--all", "--entity-type", "topics", "--entity-name", topic)
    assert re.search(r"segment.bytes=1048576 sensitive=false", described)
    assert re.search(r"min.insync.replicas=2 sensitive=false", described)
    assert re.search(r"retention.ms=604800000 sensitive=false", described)
    described = cluster.run(CONFIGS, "--describe", "--all", "--entity-type", "brokers", "--entity-name", "1")
    assert re.search(r"num.partitions=3 sensitive=false", described)


@pytest.mark.full
def test_quotas(cluster: Cluster) -> None:
    """Set, shown and removed, of a client id that nobody has; the broker that is asked passes them on."""
    entity = ("--entity-type", "clients", "--entity-name", "quotas-of-nobody")
    rates = "producer_byte_rate=1048576,request_percentage=12.5"
    assert "Completed updating config" in cluster.run(CONFIGS, "--alter", "--add-config", rates, *entity)
    described = cluster.run(CONFIGS, "--describe", *entity)
    assert "producer_byte_rate=1048576.0" in described and "request_percentage=12.5" in described
    removed = cluster.run(CONFIGS, "--alter", "--delete-config", "producer_byte_rate,request_percentage", *entity)
    assert "Completed updating config" in removed


def test_versions(cluster: Cluster) -> None:
    versions = cluster.run(f"{TOOLS}.BrokerApiVersionsCommand")
    assert len(re.findall(r"^127\.0\.0\.1:\d+ \(id: \d+ ", versions, re.MULTILINE)) == 3
    assert "ERROR" not in versions


@pytest.mark.full
def test_offsets_by_time(cluster: Cluster, topic: str) -> None:
    cluster.create(topic, 1)
    cluster.produce(topic, [str(n) for n in range(7)])
    assert cluster.end_offsets(topic) == [7]
    assert cluster.end_offsets(topic, "--time", "earliest") == [0]
    assert cluster.end_offsets(topic, "--time", "1000") == [0]
    assert cluster.end_offsets(topic, "--time", "max-timestamp")[0] in range(7)


@pytest.mark.full
def test_deleted_records_are_gone(cluster: Cluster, topic: str, tmp_path: Path) -> None:
    cluster.create(topic, 1)
    cluster.produce(topic, [str(n) for n in range(10)])
    wanted = {"partitions": [{"topic": topic, "partition": 0, "offset": 4}], "version": 1}
    (tmp_path / "offsets.json").write_text(json.dumps(wanted))
    printed = cluster.run(f"{TOOLS}.DeleteRecordsCommand", "--offset-json-file", str(tmp_path / "offsets.json"))
    assert "low_watermark: 4" in printed
    assert cluster.end_offsets(topic, "--time", "earliest") == [4]
    assert cluster.consume(topic, 6, "--from-beginning")[0] == "4"


@pytest.mark.full
def test_performance_tools(cluster: Cluster, topic: str) -> None:
    cluster.create(topic)
    settings = (f"bootstrap.servers={cluster.bootstrap}", "acks=all", "linger.ms=5", "compression.type=lz4")
    load = ("--num-records", "20000", "--record-size", "200", "--throughput", "-1")
    printed = run_tool(f"{TOOLS}.ProducerPerformance", "--topic", topic, *load, "--producer-props", *settings)
    assert re.search(r"20000 records sent, [\d.]+ records/sec", printed), printed
    assert sum(cluster.end_offsets(topic)) == 20000
    printed = cluster.run(f"{TOOLS}.ConsumerPerformance", "--topic", topic, "--num-records", "20000")
    row = [line for line in printed.splitlines() if re.match(r"\d{4}-", line)][-1].split(",")
    assert int(row[4]) >= 20000


@pytest.mark.full
def test_end_to_end_latency(cluster: Cluster, topic: str) -> None:
    cluster.create(topic, 1)
    settings = ("--num-records", "200", "--producer-acks", "all", "--record-size", "128")
    printed = cluster.run(f"{TOOLS}.EndToEndLatency", "--topic", topic, *settings)
    assert re.search(r"Percentiles: 50th = \d+", printed), printed


@pytest.mark.full
def test_a_verifiable_producer_is_acknowledged_in_full(cluster: Cluster, topic: str) -> None:
    cluster.create(topic)
    printed = cluster.run(f"{TOOLS}.VerifiableProducer", "--topic", topic, "--max-messages", "1000", "--acks", "-1")
    events = [json.loads(line) for line in printed.splitlines() if line.startswith("{")]
    done = next(event for event in events if event["name"] == "tool_data")
    assert (done["sent"], done["acked"]) == (1000, 1000)
    acknowledged = {
        (event["partition"], event["offset"]) for event in events if event["name"] == "producer_send_success"
    }
    assert len(acknowledged) == 1000
