"""A cluster in this process: every verb, what cannot be done, and verdicts on what was acknowledged."""

from __future__ import annotations

import gc
import json
import multiprocessing
import socket
import time
import warnings
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from confluent_kafka import Consumer, KafkaException, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic
from minikafka.cli.main import main
from minikafka.local.layout import HOOKS
from minikafka.log.filesystem import MemoryFileSystem
from minikafka.metadata.store import StoreError
from minikafka.protocol.types import TopicPartition as KafkaPartition
from minikafka.testing import MiniKafkaCluster, Outcome, ToolTrouble, VerbRefused
from minikafka.testing.broker_thread import LivingDisk, SharedDatabase, ThreadStore
from minikafka_chaos.load.clients import PartitionView
from minikafka_chaos.session import session
from minikafka_chaos.session.partitions import committed_batches

QUIET = {"log_level": 0, "linger.ms": 0, "topic.metadata.refresh.fast.interval.ms": 20, "retry.backoff.ms": 20}
SECONDS = 60.0
SECONDS_LATE = 1.5
"""No request is under way for so long; before each verb had a deadline of its own, one took two seconds at least."""


@pytest.fixture(scope="module")
def shared() -> Iterator[MiniKafkaCluster]:
    with MiniKafkaCluster(in_process=True) as cluster:
        yield cluster


@pytest.fixture
def cluster(shared: MiniKafkaCluster) -> Iterator[MiniKafkaCluster]:
    yield shared
    shared.heal()
    shared.delete_topics()


def send(cluster: MiniKafkaCluster, topic: str, *values: str, **config: object) -> list[str | None]:
    """Send to partition 0, each of its own; the error's name of each, None where it was acknowledged."""
    producer = Producer({"bootstrap.servers": cluster.bootstrap, "acks": "all", **QUIET, **config})
    errors: list[str | None] = []
    for value in values:
        producer.produce(topic, value, partition=0, on_delivery=lambda e, _: errors.append(e.name() if e else None))
        assert producer.flush(SECONDS) == 0
    return errors


def values(cluster: MiniKafkaCluster, topic: str) -> list[str]:
    return [(record.value or b"").decode() for record in cluster.records(topic)]


@pytest.mark.slow
def test_a_killed_leader_loses_nothing_that_all_replicas_had(cluster: MiniKafkaCluster) -> None:
    topic = cluster.create_topic(partitions=2)
    assert send(cluster, topic, "a", "b") == [None, None]
    killed = cluster.kill_leader(topic, 0)
    assert cluster.leader(topic, 0, other_than=killed) != killed
    assert send(cluster, topic, "c") == [None]
    assert values(cluster, topic) == ["a", "b", "c"]
    verdict = cluster.verdict([topic, topic])
    assert (verdict.outcome, verdict.counts["acknowledged"]) == (Outcome.PASSED, 3)


@pytest.mark.slow
def test_one_that_has_just_been_killed_leads_no_more(
    cluster: MiniKafkaCluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whatever the others still tell: a second kill was refused, and a leader moved to where the lead had gone by itself."""
    topic = cluster.create_topic()
    before, view = cluster.partitions(topic), cluster._view
    late: list[dict[KafkaPartition, PartitionView]] = []
    told = SimpleNamespace(partitions=lambda *asked: late.pop() if late else view.partitions(*asked))
    monkeypatch.setattr(cluster, "_view", told)
    killed = cluster.kill_leader(topic)
    late.append(before)
    second = cluster.leader(topic)
    late.append(before)
    third = cluster.move_leader(topic)
    assert {killed, second, third} == {1, 2, 3}


@pytest.mark.slow
def test_a_record_that_only_its_leader_had_is_lost_and_said_to_be(cluster: MiniKafkaCluster) -> None:
    topic = cluster.create_topic(config={"min.insync.replicas": "1"})
    assert send(cluster, topic, "kept") == [None]
    leader = cluster.leader(topic)
    cluster.cut(leader)
    assert send(cluster, topic, "gone", acks=1) == [None]
    cluster.kill(leader)
    cluster.leader(topic, other_than=leader)  # until then what was under way may still arrive
    cluster.heal()
    assert values(cluster, topic) == ["kept"]
    verdict = cluster.verdict()
    assert verdict.outcome is Outcome.FAILED
    assert verdict.counts["lost"] == 1


@pytest.mark.slow
def test_a_power_loss_of_all_takes_what_nobody_had_flushed(cluster: MiniKafkaCluster) -> None:
    topic = cluster.create_topic()
    flushed = cluster.create_topic(config={"flush.messages": "1"})
    assert send(cluster, topic, "gone") == send(cluster, flushed, "kept") == [None]
    for broker in cluster.ground.brokers:
        cluster.pause(broker)
    for broker in cluster.ground.brokers:
        cluster.power_loss(broker)
    cluster.heal()
    assert (values(cluster, topic), values(cluster, flushed)) == ([], ["kept"])
    assert cluster.verdict().counts["lost"] == 1


def test_a_paused_broker_answers_when_it_is_resumed(cluster: MiniKafkaCluster) -> None:
    topic = cluster.create_topic(replication_factor=1)
    leader = cluster.leader(topic)
    cluster.pause(leader)
    assert [each.condition for each in cluster.status() if each.id == leader] == ["paused"]
    producer = Producer({"bootstrap.servers": cluster.bootstrap, **QUIET})
    producer.produce(topic, "waits")
    assert producer.flush(0.2) == 1
    cluster.resume(leader)
    assert producer.flush(SECONDS) == 0


def test_records_are_read_of_the_next_leader_when_the_last_one_hangs(cluster: MiniKafkaCluster) -> None:
    """A client that has heard of the leader just before, and to which it does not answer."""
    topic = cluster.create_topic()
    assert send(cluster, topic, "a") == [None]
    cluster.pause(cluster.leader(topic))
    assert values(cluster, topic) == ["a"]


@pytest.mark.slow
def test_leadership_moves_and_a_restart_comes_back(cluster: MiniKafkaCluster) -> None:
    topic = cluster.create_topic()
    before = cluster.leader(topic)
    after = cluster.move_leader(topic)
    assert after != before
    assert cluster.move_leader(topic, 0, before) == before
    cluster.restart(before)
    cluster.wait_full_isr(topic)
    assert send(cluster, topic, "a") == [None]


@pytest.mark.slow
def test_an_injected_error_is_retried_by_the_client_and_counted(cluster: MiniKafkaCluster) -> None:
    topic = cluster.create_topic()
    asked = cluster.observe("Produce")
    cluster.inject_error("Produce", "NOT_ENOUGH_REPLICAS", topic, 0, count=1)
    assert send(cluster, topic, "a") == [None]
    assert [each["partitions"] for each in asked.requests] == [[f"{topic}-0"]] * 2
    assert values(cluster, topic) == ["a"]


@pytest.mark.slow
def test_an_injected_error_that_lasts_reaches_who_sends_until_it_is_healed(cluster: MiniKafkaCluster) -> None:
    topic, other = cluster.create_topic(), cluster.create_topic()
    cluster.inject_error("Produce", 29, topic)
    assert send(cluster, topic, "a") == ["TOPIC_AUTHORIZATION_FAILED"]
    assert send(cluster, other, "a") == [None]
    cluster.heal()
    assert send(cluster, topic, "b") == [None]
    assert values(cluster, topic) == ["b"]


@pytest.mark.slow
def test_errors_of_fetch_and_delayed_answers_reach_a_consumer(cluster: MiniKafkaCluster) -> None:
    topic = cluster.create_topic(partitions=2)
    assert send(cluster, topic, "a") == [None]
    asked = cluster.observe("Fetch")
    cluster.inject_error("Fetch", "NOT_LEADER_OR_FOLLOWER", topic, 0, count=1)
    cluster.inject_error("Metadata", "UNKNOWN_SERVER_ERROR", topic, count=1)
    cluster.delay("ListOffsets", 30)
    assert (values(cluster, topic), cluster.leader(topic) in cluster.ground.brokers) == (["a"], True)
    assert asked.count == 0, "verbs neither get what they inject nor are they counted"
    consumer = Consumer(
        {"bootstrap.servers": cluster.bootstrap, "group.id": "g", "auto.offset.reset": "earliest", **QUIET}
    )
    consumer.assign([TopicPartition(topic, 0, 0)])
    (message,) = consumer.consume(1, SECONDS)
    consumer.close()
    assert message.value() == b"a"
    assert asked.count >= 2
    cluster.inject_error("Metadata", "UNKNOWN_SERVER_ERROR", topic)
    listed = AdminClient({"bootstrap.servers": cluster.bootstrap, **QUIET}).list_topics(topic, SECONDS)
    assert len(listed.brokers) == 3, "a client stands still once it knows no broker"
    assert listed.topics[topic].error is not None


@pytest.mark.slow
def test_groups_tell_what_they_committed(cluster: MiniKafkaCluster) -> None:
    topic = cluster.create_topic()
    assert send(cluster, topic, "a", "b") == [None, None]
    consumer = Consumer({"bootstrap.servers": cluster.bootstrap, "group.id": "billing", "log_level": 0})
    consumer.commit(offsets=[TopicPartition(topic, 0, 2)], asynchronous=False)
    consumer.close()
    group = cluster.groups()["billing"]
    assert (group.state, group.members, dict(group.offsets)) == ("empty", (), {(topic, 0): 2})


@pytest.mark.slow
def test_a_service_that_is_started_after_the_first_kill_has_its_group() -> None:
    """The topic of groups takes three living brokers to be made."""
    with MiniKafkaCluster(in_process=True) as cluster:
        topic = cluster.create_topic()
        cluster.kill_leader(topic)
        consumer = Consumer({"bootstrap.servers": cluster.bootstrap, "group.id": "late", "log_level": 0})
        consumer.commit(offsets=[TopicPartition(topic, 0, 0)], asynchronous=False)
        consumer.close()
        assert dict(cluster.groups()["late"].offsets) == {(topic, 0): 0}


@pytest.mark.slow
def test_what_cannot_be_done_is_refused_and_leaves_no_line(
    cluster: MiniKafkaCluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("minikafka_chaos.session.session.UNKNOWN_TOPIC_S", 0.2)
    topic = cluster.create_topic()
    cluster.kill(3)
    before = cluster.journal.path.read_bytes()
    for refused, words in (
        (lambda: cluster.kill(9), "broker 9 does not exist: this cluster has brokers 1 to 3"),
        (lambda: cluster.kill(3), "broker 3 is dead: it has to be running or paused for that"),
        (lambda: cluster.pause(3), "broker 3 is dead"),
        (lambda: cluster.resume(1), "broker 1 is running: it has to be paused"),
        (lambda: cluster.power_loss(1, "some"), "mode: 'some' is not one of all, torn, garbage"),
        (lambda: cluster.cut(1, 1), "peers: broker 1 cannot be cut from itself"),
        (lambda: cluster.cut(1, 2, 2), "peers: broker 2 is named twice"),
        (lambda: cluster.cut(3), "broker 3 is dead: it has to be running or paused"),
        (lambda: cluster.cut(1, 3), "broker 3 is dead: it has to be running or paused"),
        (lambda: cluster.cut(1, 7), "broker 7 does not exist"),
        (lambda: cluster.cut(1, 2, direction="up"), "direction: 'up' is not one of"),
        (lambda: cluster.kill_leader(topic, 5), "has no partition 5"),
        (
            lambda: cluster.leader("ordres"),
            f"topic ordres is not there; topics of this cluster: {topic}",
        ),
        (lambda: cluster.move_leader(topic, 0, 3), "broker 3 is dead: it has to be running"),
        (lambda: cluster.create_topic(topic), "is there already"),
        (cluster.create_topic, "replication_factor: 3 needs as many brokers that live, and .* dead: 3"),
        (lambda: cluster.create_topic(replication_factor=4), "replication_factor: 4 is not between 1 and 3"),
        (lambda: cluster.create_topic(partitions="2"), "partitions: '2' is not a whole number"),  # type: ignore[arg-type]
        (lambda: cluster.create_topic("a b", 1, 2), "topic a b could not be created"),
        (lambda: cluster.create_topic("", 1, 2), "could not be created"),
        (lambda: cluster.create_topic(None, 1, 2, {"no.such.key": "1"}), "no.such.key"),
        (lambda: cluster.kill("1"), "broker '1' does not exist"),  # type: ignore[arg-type]
        (lambda: cluster.kill(True), "broker True does not exist"),
        (lambda: cluster.leader(topic, deadline_s=-1), "deadline_s: -1 is not a number of seconds from 0 to 86400"),
        (lambda: cluster.heal(deadline_s="9"), "deadline_s: '9' is not a number"),  # type: ignore[arg-type]
        (lambda: cluster.create_topic(partitions=0), "partitions: 0 is not between 1 and 100000"),
        (lambda: cluster.create_topic(partitions=10**30), "partitions: 10+ is not between 1 and 100000"),
        (lambda: cluster.create_topic(None, 1, 2, {"retention.ms": "1\n2"}), r"retention.ms=1\\n2: not a whole number"),
        (lambda: cluster.create_topic("a\nb"), r"name: 'a\\nb' is not text that can be printed"),
        (lambda: cluster.create_topic("x" * 40_000), "name: a name of 40000 characters; 249 at most"),
        (lambda: cluster.records("a\nb"), r"topic: 'a\\nb' is not text that can be printed"),
        (lambda: cluster.leader(topic, other_than=9), "broker 9 does not exist"),
        (lambda: cluster.leader(topic, other_than="1"), "broker '1' does not exist"),  # type: ignore[arg-type]
        (lambda: cluster.create_topic("\ud800"), "name: .* is not text that can be printed"),
        (lambda: cluster.create_topic(config={"\ud800": 1}), "config: .* is not text that can be printed"),
        (lambda: cluster.create_topic(config={"retention.ms": "1\0"}), r"retention.ms: '1\\x00' is not text that"),
        (lambda: cluster.verdict("orders"), "topics: 'orders' is not a list of names"),
        (lambda: cluster.verdict([5]), "topics: .5. is not a list of names"),  # type: ignore[list-item]
        (lambda: cluster.verdict(["nope"]), "topic nope is not there"),
        (lambda: cluster.leader([topic]), "topic: .* is not text"),  # type: ignore[arg-type]
        (lambda: cluster.kill_leader(topic, "0"), "has no partition '0'"),  # type: ignore[arg-type]
        (lambda: cluster.power_loss(1, []), "mode: .. is not one of all"),  # type: ignore[arg-type]
        (lambda: cluster.cut(1, direction=[]), "direction: .. is not one of both"),  # type: ignore[arg-type]
        (lambda: cluster.requests([]), "api: nobody has observed"),  # type: ignore[arg-type]
        (lambda: cluster.inject_error("Produce", 999), "code: 999 is not the number"),
        (
            lambda: cluster.inject_error("Produce", 29, "ordres"),
            f"topic ordres is not there; topics of this cluster: {topic}",
        ),
        (lambda: cluster.inject_error("Produce", 29, topic, 5), "has no partition 5, but 0 to 0"),
        (lambda: cluster.inject_error("Produce", 29, partition=5), "topic: partition 5 needs it"),
    ):
        with pytest.raises(VerbRefused, match=words) as told:
            refused()
        assert "\n" not in str(told.value)
    assert cluster.journal.path.read_bytes() == before
    with pytest.raises(VerbRefused, match="code: 'True' is not the name"):
        cluster.inject_error("Produce", True)
    with pytest.raises(VerbRefused, match="api: 'Produse' is not one of"):
        cluster.inject_error("Produse", "NOT_COORDINATOR")


def in_time(verb: Callable[[], object]) -> bool:
    began = time.monotonic()
    with pytest.raises((VerbRefused, ToolTrouble)):
        verb()
    return time.monotonic() - began < SECONDS_LATE


@pytest.mark.slow
def test_a_verb_that_nobody_can_answer_ends_with_its_deadline() -> None:
    """And what reaches nobody is refused at once; so are all verbs of a cluster that is closed."""
    with MiniKafkaCluster(2, in_process=True) as cluster:
        topic = cluster.create_topic(replication_factor=2)
        for broker in cluster.ground.brokers:
            cluster.pause(broker)
        hooks: Sequence[Callable[[], object]] = (
            lambda: cluster.inject_error("Fetch", 6),
            lambda: cluster.delay("Fetch", 9),
            lambda: cluster.observe("Fetch"),
        )
        verbs: Sequence[Callable[[], object]] = (
            lambda: cluster.kill_leader(topic, deadline_s=0.1),
            lambda: cluster.move_leader(topic, deadline_s=0.1),
            lambda: cluster.create_topic(replication_factor=2, deadline_s=0.1),
            lambda: cluster.wait_full_isr(deadline_s=0.1),
            lambda: cluster.records(topic, deadline_s=0.1),
            lambda: cluster.groups(deadline_s=0.1),
            lambda: cluster.delete_topics(deadline_s=0.1),
        )
        assert [
            each for each in verbs if not any(in_time(each) for _ in range(3))
        ] == []  # the machine may be busy once
        for hook in hooks:
            with pytest.raises(VerbRefused, match="no broker runs"):
                hook()
        assert cluster.topics == [topic]
    for verb in (*verbs, *hooks):
        with pytest.raises(VerbRefused, match="the cluster is closed"):
            verb()


@pytest.mark.slow
def test_topics_go_with_their_dead_letters_and_no_others(cluster: MiniKafkaCluster) -> None:
    topic = cluster.create_topic()
    admin = AdminClient(cluster.client_config())
    made = admin.create_topics([NewTopic(name, 1, 1) for name in (f"{topic}.dlq", f"{topic}-2")])
    for each in made.values():
        each.result(SECONDS)
    cluster.delete_topics()
    assert admin.list_topics().topics.keys() & {topic, *made} == {f"{topic}-2"}
    admin.delete_topics([f"{topic}-2"])[f"{topic}-2"].result(SECONDS)


@pytest.mark.slow
def test_a_child_by_fork_keeps_no_socket_of_a_broker_that_dies(cluster: MiniKafkaCluster) -> None:
    topic = cluster.create_topic()
    context = multiprocessing.get_context("fork")
    begun, goes_on = context.Event(), context.Event()

    def closes_what_is_not_its_own() -> None:
        begun.set()  # all that a fork brings about has been done by now
        cluster.close()
        goes_on.wait()

    child = context.Process(target=closes_what_is_not_its_own)
    child.start()
    try:
        assert begun.wait(SECONDS)
        host, _, port = cluster.ground.broker_address(cluster.kill_leader(topic)).partition(":")
        with pytest.raises(ConnectionRefusedError):
            socket.create_connection((host, int(port)))
        cluster.heal()
        assert send(cluster, topic, "a") == [None]
    finally:
        goes_on.set()
        child.join()
    assert child.exitcode == 0


@pytest.mark.slow
def test_what_is_acknowledged_while_a_verdict_reads_is_not_lost(
    cluster: MiniKafkaCluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    topic = cluster.create_topic()
    assert send(cluster, topic, "a") == [None]

    def read_before_more_is_sent(*where: Any) -> Any:
        found = committed_batches(*where)
        assert send(cluster, topic, "b") == [None]
        return found

    monkeypatch.setattr(session, "committed_batches", read_before_more_is_sent)
    verdict = cluster.verdict([topic])
    assert (verdict.outcome, verdict.counts["acknowledged"]) == (Outcome.PASSED, 1)


@pytest.mark.slow
def test_a_log_start_that_moves_while_a_verdict_reads_is_explained(
    cluster: MiniKafkaCluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    topic = cluster.create_topic()
    assert send(cluster, topic, "a", "b") == [None, None]
    read, where, admin = cluster.ground.replica_log, TopicPartition(topic, 0, 1), AdminClient(cluster.client_config())

    def read_after_a_deletion(*replica: Any) -> Any:
        admin.delete_records([where])[where].result(SECONDS)
        return read(*replica)

    monkeypatch.setattr(cluster.ground, "replica_log", read_after_a_deletion)
    assert cluster.verdict([topic]).outcome is Outcome.PASSED


@pytest.mark.slow
def test_a_restart_that_is_not_over_in_time_says_so_and_is_healed() -> None:
    with MiniKafkaCluster(1, in_process=True) as cluster:
        with pytest.raises(ToolTrouble, match="broker 1 still runs 0 s after it was asked to stop"):
            cluster.restart(1, deadline_s=0)
        cluster.heal()
        topic = cluster.create_topic()
        assert send(cluster, topic, "a") == [None]


@pytest.mark.parametrize(
    ("brokers", "settings", "words"),
    [
        (0, {}, "brokers: 0 is not a whole number from 1 to 100"),
        ("3", {}, "brokers: '3' is not a whole number"),
        (True, {}, "brokers: True is not a whole number"),
        (1, {"node.id": 7}, "config: node.id: a cluster in this process sets it"),
        (1, {"log.dirs": "/x"}, "config: log.dirs: a cluster in this process sets it"),
        (1, {"listeners": "A://:1"}, "config: listeners: a cluster in this process sets it"),
        (
            1,
            {"listener.security.protocol.map": "PLAINTEXT:SSL"},
            "config: listener.security.protocol.map: PLAINTEXT is the listener for clients",
        ),
        (1, {"minikafka.metadata.store": "memory"}, "config: minikafka.metadata.store: a cluster in this process"),
        (1, {"num.partitions": 1.5}, "settings: num.partitions: 1.5 is not text, a whole number, True or False"),
        (1, {7: "1"}, "settings: 7 is not the name of a setting"),
        (1, ["a=b"], r"settings: \['a=b'\] is not a dictionary"),
        (1, {"no.such.key": "1"}, "no.such.key"),
        (1, {"minikafka.test.hooks": "false"}, "always have hooks"),
    ],
)
def test_a_cluster_that_cannot_be(brokers: int, settings: dict[str, str], words: str, tmp_path: Path) -> None:
    with pytest.raises(VerbRefused, match=words):
        MiniKafkaCluster(brokers, settings, in_process=True, folder=tmp_path)
    assert list(tmp_path.iterdir()) == []
    if "metadata.store" not in words and "hooks" not in words:
        with pytest.raises(VerbRefused, match=words.partition(": a cluster")[0]):
            MiniKafkaCluster(brokers, settings, folder=tmp_path)  # processes, of which none is started
        assert list(tmp_path.iterdir()) == []


def test_a_folder_has_the_data_of_brokers_in_this_process_once_they_have_ended(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    with MiniKafkaCluster(1, in_process=True, folder=tmp_path) as cluster:
        topic = cluster.create_topic(replication_factor=1)
        assert send(cluster, topic, "kept") == [None]
    cluster.close()
    data = tmp_path / "cluster/broker-1/data"
    assert main(["dump-log", str(data / f"{topic}-0"), "--records"]) == 0
    assert "kept" in capsys.readouterr().out
    assert "node.id=1" in (data / "meta.properties").read_text()


@pytest.mark.parametrize(
    ("given", "words"),
    [
        ({"in_process": "no"}, "in_process: 'no' is not True or False"),
        ({"folder": 5}, "folder: 5 is not a path"),
        ({"folder": "/dev/null"}, "folder: /dev/null: File exists"),
        ({"folder": "/dev/null/x"}, "folder: /dev/null/x: Not a directory"),
    ],
)
def test_a_place_that_cannot_be(given: dict[str, Any], words: str) -> None:
    with pytest.raises(VerbRefused, match=words):
        MiniKafkaCluster(1, **{"in_process": True, **given})


def test_a_folder_that_has_a_cluster_is_left_alone(tmp_path: Path) -> None:
    (tmp_path / "cluster").mkdir()
    with pytest.raises(VerbRefused, match=f"folder: {tmp_path} has a cluster already"):
        MiniKafkaCluster(in_process=True, folder=tmp_path)


@pytest.mark.slow
def test_each_verb_is_a_line_of_the_journal_written_ahead(cluster: MiniKafkaCluster) -> None:
    cluster.create_topic()
    cluster.cut(1, 2)
    cluster.pause(3)
    cluster.heal()
    lines = [json.loads(line) for line in cluster.journal.path.read_text().splitlines()]
    told = [(line.get("fault"), line.get("phase")) for line in lines if line["kind"] == "action"]
    assert told[-6:] == [(fault, phase) for fault in ("Cut", "Pause", "Heal") for phase in ("begin", "end")]
    assert cluster.broken == []


def test_a_full_cluster_of_one_broker() -> None:
    """Whose settings are as Python has them."""
    with MiniKafkaCluster(1, {"num.partitions": 2, HOOKS: True}, in_process=True) as cluster:
        topic = cluster.create_topic(
            replication_factor=1, config={"retention.ms": 60000, "unclean.leader.election.enable": False}
        )
        assert send(cluster, topic, "a") == [None]
        with pytest.raises(VerbRefused, match="has no peers"):
            cluster.cut(1)
        cluster.topics.clear()
        cluster.kill(1)
        assert cluster.verdict().counts["acknowledged"] == 1  # of all topics, which only a healed broker can tell
    admin = AdminClient({"bootstrap.servers": cluster.bootstrap, "log_level": 0})
    with pytest.raises(KafkaException):
        admin.list_topics(timeout=0.1)


@pytest.mark.slow
def test_a_cluster_that_has_ended_leaves_nothing_open() -> None:
    """unittest, unlike pytest, shows such warnings to whoever tests with it."""
    gc.collect()
    with warnings.catch_warnings(record=True) as told:
        warnings.simplefilter("always")
        with MiniKafkaCluster(2, in_process=True) as cluster:
            cluster.kill(1)
        del cluster
        gc.collect()
    unclosed = [str(each.message) for each in told if issubclass(each.category, ResourceWarning)]
    assert [each for each in unclosed if "event loop" in each or "TCPServer" in each] == []


def test_what_a_dead_broker_still_does_reaches_nothing() -> None:
    """Threads that flush are in the middle of it when its loop ends."""
    disk = MemoryFileSystem()
    view = LivingDisk(disk)
    view.makedirs("/data")
    view.dead = True
    with pytest.raises(OSError, match="this broker is dead"):
        view.write_atomic("/data/clean", b"yes")
    store = ThreadStore(SharedDatabase())
    store.open_now(None)
    store.view.dead = True
    with pytest.raises(StoreError, match="this broker is dead"):
        store.acquire_now(1, "h", 1, 0)
