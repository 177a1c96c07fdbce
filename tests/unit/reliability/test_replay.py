"""`minikafka dlq`: what is shown, and that a replay sends each dead letter once, wherever an earlier one has died."""

from __future__ import annotations

import json
from typing import Any

import pytest
from confluent_kafka import Producer
from confluent_kafka.admin import AdminClient
from minikafka.cli import main as entry
from minikafka.protocol.types import TopicPartition
from minikafka.reliability import ConsumedRecord
from minikafka.reliability.confluent_reading import PartitionReader
from minikafka.reliability.dead_letters import REPLAYED, DeadLetter
from minikafka.reliability.replay import DeadLetterReplay, PartitionReplay
from minikafka.reliability.replay_group import ReplayRefused
from minikafka.testing import MiniKafkaCluster

from tests.waiting import until_now


class Letters:
    """A topic of two partitions, and its dead letters."""

    def __init__(self, cluster: MiniKafkaCluster) -> None:
        self.cluster = cluster
        self.connection: dict[str, Any] = {"bootstrap.servers": cluster.bootstrap, "log_level": 0}
        self.topic = cluster.create_topic(partitions=2, replication_factor=1)
        self.dlq = cluster.create_topic(f"{self.topic}.dlq", partitions=2, replication_factor=1)
        self.producer = Producer({**self.connection, "linger.ms": 0})

    def send(self, topic: str, partition: int, **record: Any) -> None:
        self.producer.produce(topic, partition=partition, **record)
        assert self.producer.flush(60) == 0

    def die(self, partition: int, *values: str) -> None:
        """Records that became dead letters."""
        for value in values:
            offset = len(self.at(self.topic, partition))
            self.send(self.topic, partition, value=value)
            origin = TopicPartition(self.topic, partition)
            record = ConsumedRecord(origin, offset, 1_700_000_000_123, b"key", value.encode(), (("trace", b"\xff"),))
            letter = DeadLetter(record, "billing", f"ValueError: {value}", 5)
            self.send(self.dlq, partition, key=record.key, value=record.value, headers=letter.headers())

    def at(self, topic: str, partition: int) -> list[ConsumedRecord]:
        reader = PartitionReader(self.connection)
        place = TopicPartition(topic, partition)
        records = list(reader.records(place, *reader.bounds(place)))
        reader.close()
        return records

    def replayed(self, partition: int) -> list[bytes | None]:
        return [each.value for each in self.at(self.topic, partition) if REPLAYED in dict(each.headers)]

    def cli(self, action: str, *arguments: str) -> int:
        return entry.main(["dlq", action, *arguments, "--bootstrap", self.cluster.bootstrap, "--json"])


@pytest.fixture
def letters(cluster: MiniKafkaCluster) -> Letters:
    return Letters(cluster)


@pytest.mark.slow
def test_dead_letters_are_listed_shown_and_replayed_once(letters: Letters, capsys: pytest.CaptureFixture[str]) -> None:
    letters.die(0, "a", "b")
    letters.die(1, "c")
    letters.send(letters.dlq, 1, value="of somebody else")

    def answer(*arguments: str) -> Any:
        assert letters.cli(*arguments) == 0
        return [json.loads(line) for line in capsys.readouterr().out.splitlines()]

    waiting = {"topic": letters.dlq, "partitions": 2, "dead_letters": 4, "not_replayed": 4}
    assert waiting in answer("list")[0]
    first, *_, strange = answer("show", letters.topic)
    assert first == {
        "partition": 0, "offset": 0, "group": "billing", "attempts": 5, "error": "ValueError: a",
        "origin": {"topic": letters.topic, "partition": 0, "offset": 0, "timestamp": 1_700_000_000_123},
        "key": "key", "value": "a", "headers": [{"key": "trace", "value": None, "value_base64": "/w=="}],
    }  # fmt: skip
    assert strange["error"].startswith("no dead letter: its last headers are not dlq.topic")

    def counted(*arguments: str) -> list[tuple[int, ...]]:
        (told,) = answer("replay", letters.topic, *arguments)
        names = ("dead_letters", "already_there", "no_dead_letters", "sent")
        return [tuple(each[name] for name in names) for each in told["partitions"]]

    assert counted() == [(2, 0, 0, 0), (1, 0, 1, 0)]
    assert letters.replayed(0) == []
    assert counted("--execute") == [(2, 0, 0, 2), (1, 0, 1, 1)]
    assert (letters.replayed(0), letters.replayed(1)) == ([b"a", b"b"], [b"c"])
    back = letters.at(letters.topic, 0)[-1]
    assert (back.key, back.headers[:-1]) == (b"key", (("trace", b"\xff"),))
    written_ms = letters.at(letters.dlq, 0)[1].timestamp_ms
    assert back.headers[-1] == (REPLAYED, f"{letters.dlq}/0/1/1/{written_ms}".encode())
    assert counted("--execute") == [(0, 0, 0, 0)] * 2
    assert waiting | {"not_replayed": 0} in answer("list")[0]
    letters.die(0, "d")
    assert counted("--partition", "0", "--execute") == [(1, 0, 0, 1)]
    assert letters.replayed(0) == [b"a", b"b", b"d"]


class Death(BaseException):
    """The process dies here."""


class DyingReplay(DeadLetterReplay):
    """Dies before or after it sends or commits."""

    dies_at = ("", 0)
    dead = False
    times = 0

    def reach(self, point: str) -> None:
        self.times += point == self.dies_at[0]
        self.dead = self.dead or (point, self.times) == self.dies_at
        if self.dead:
            raise Death

    def _send(self, letter: ConsumedRecord, dead: DeadLetter) -> None:
        self.reach("to send")
        super()._send(letter, dead)
        self.reach("sent")

    def _commit(self, partition: TopicPartition, offset: int) -> None:
        self.reach("to commit")
        super()._commit(partition, offset)
        self.reach("committed")


def replay(kind: type[DeadLetterReplay], letters: Letters) -> list[PartitionReplay]:
    made = kind(letters.connection, letters.dlq)
    try:
        made.join()
        plan = made.plan()
        made.send(plan)
        return plan
    finally:
        made.close()


@pytest.mark.slow
@pytest.mark.parametrize("dies_at", [("to send", 2), ("sent", 1), ("sent", 3), ("to commit", 1), ("committed", 1)])
def test_a_replay_that_died_has_sent_nothing_that_the_next_sends_again(
    letters: Letters, dies_at: tuple[str, int]
) -> None:
    letters.die(0, "a", "b")
    letters.die(1, "c")
    with pytest.raises(Death):
        replay(type("ThisOne", (DyingReplay,), {"dies_at": dies_at}), letters)
    before = len(letters.replayed(0)) + len(letters.replayed(1))
    plan = replay(DeadLetterReplay, letters)
    assert (letters.replayed(0), letters.replayed(1)) == ([b"a", b"b"], [b"c"])
    assert sum(each.sent for each in plan) == 3 - before


@pytest.mark.slow
def test_who_has_lost_the_place_sends_nothing_again(letters: Letters) -> None:
    """A group's offsets expire."""
    letters.die(0, "a", "b")
    replay(DeadLetterReplay, letters)
    letters.die(0, "c")
    assert entry.main(["groups", "delete", f"{letters.dlq}.replay", "--bootstrap", letters.cluster.bootstrap]) == 0
    plan = replay(DeadLetterReplay, letters)
    assert [(each.letters, each.there) for each in plan] == [(1, 2), (0, 0)]
    assert letters.replayed(0) == [b"a", b"b", b"c"]


@pytest.mark.slow
def test_letters_of_a_topic_that_was_made_anew_are_others(letters: Letters) -> None:
    letters.die(0, "a", "b")
    replay(DeadLetterReplay, letters)
    letters.cluster.delete_topics()
    letters.cluster.create_topic(letters.topic, partitions=2, replication_factor=1)
    letters.cluster.create_topic(letters.dlq, partitions=2, replication_factor=1)
    letters.die(0, "c")
    replay(DeadLetterReplay, letters)
    assert letters.replayed(0) == [b"c"]


@pytest.mark.slow
def test_nothing_comes_twice_to_a_topic_that_was_made_anew(letters: Letters) -> None:
    """What is replayed gets a lower offset there than the record had."""
    origin = TopicPartition(letters.topic, 0)
    letter = DeadLetter(ConsumedRecord(origin, 5, 0, None, b"old"), "billing", "ValueError", 5)
    letters.send(letters.dlq, 0, value=b"old", headers=letter.headers())
    replay(DeadLetterReplay, letters)
    assert entry.main(["groups", "delete", f"{letters.dlq}.replay", "--bootstrap", letters.cluster.bootstrap]) == 0
    for more in range(7):  # so many that it has the record's offset, too
        letters.producer.produce(letters.topic, str(more), partition=0)
    letters.producer.flush()
    replay(DeadLetterReplay, letters)
    assert letters.replayed(0) == [b"old"]


@pytest.mark.slow
def test_letters_that_were_made_anew_are_others_though_they_look_alike(letters: Letters) -> None:
    letters.die(0, "a")
    letter = letters.at(letters.dlq, 0)[0]
    replay(DeadLetterReplay, letters)
    admin = AdminClient(letters.connection)
    admin.delete_topics([letters.dlq])[letters.dlq].result(60)
    until_now(lambda: letters.dlq not in admin.list_topics().topics)
    letters.cluster.create_topic(letters.dlq, partitions=2, replication_factor=1)
    letters.send(letters.dlq, 0, key=letter.key, value=letter.value, headers=list(letter.headers))
    entry.main(["groups", "delete", f"{letters.dlq}.replay", "--bootstrap", letters.cluster.bootstrap])
    replay(DeadLetterReplay, letters)
    assert letters.replayed(0) == [b"a", b"a"]


def test_a_replay_whose_place_another_has_taken_sends_nothing(letters: Letters) -> None:
    """Stopped between plan and sending for longer than its session lasts, as a laptop that slept."""
    letters.die(0, "a")
    first = DeadLetterReplay(letters.connection, letters.dlq)
    first.join()
    plan = first.plan()
    first._group._revoked = True
    with pytest.raises(ReplayRefused, match=r"another replay of .* runs"):
        first.send(plan)
    first.close()
    assert letters.replayed(0) == []


@pytest.mark.slow
def test_what_others_wrote_into_headers_neither_stops_nor_colours_a_terminal(
    letters: Letters, capsys: pytest.CaptureFixture[str]
) -> None:
    strange = ConsumedRecord(TopicPartition(letters.topic, 0), 0, 10**30, None, b"x")
    letters.send(letters.dlq, 0, value=b"x", headers=DeadLetter(strange, "g\x1b[31m", "two\nlines", 1).headers())
    assert entry.main(["dlq", "show", letters.topic, "--bootstrap", letters.cluster.bootstrap]) == 0
    shown = capsys.readouterr().out
    assert str(10**30) in shown and r"two\nlines" in shown and "\x1b" not in shown


@pytest.mark.slow
def test_the_first_of_many_dead_letters_are_shown(
    letters: Letters, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """What is left unread makes no trouble at the end either."""
    ignored: list[object] = []
    monkeypatch.setattr("sys.unraisablehook", ignored.append)
    letters.die(0, *"abc")
    assert letters.cli("show", letters.topic, "--max-messages", "2", "--json") == 0
    assert len(capsys.readouterr().out.splitlines()) == 2
    assert ignored == []


@pytest.mark.slow
def test_two_replays_do_not_run_at_once(letters: Letters, capsys: pytest.CaptureFixture[str]) -> None:
    letters.die(0, "a")
    first = DeadLetterReplay(letters.connection, letters.dlq)
    first.join()
    assert letters.cli("replay", letters.topic, "--execute") == 1
    assert f"another replay of {letters.dlq} runs" in capsys.readouterr().err
    first.send(first.plan())
    first.close()
    assert letters.replayed(0) == [b"a"], "the first was not disturbed"


@pytest.mark.slow
def test_what_cannot_be_is_one_line_and_sends_nothing(letters: Letters, capsys: pytest.CaptureFixture[str]) -> None:
    letters.die(0, "a")
    letters.die(1, "b")
    gone = DeadLetter(ConsumedRecord(TopicPartition(letters.topic, 7), 0, -1, None, None), "billing", "", 1)
    letters.send(letters.dlq, 1, value=None, headers=gone.headers())
    for arguments, code, words in (
        (("replay", letters.topic, "--execute"), 1, f"{letters.topic}-7 is not there any more"),
        (("replay", letters.topic, "--partition", "2"), 1, "has partitions 0 to 1, not 2"),
        (("show", letters.topic, "--partition", "2"), 2, "has partitions 0 to 1, not 2"),
        (("replay", "nothing"), 1, "no such topic: nothing.dlq"),
        (("show", "nothing"), 1, "no such topic: nothing.dlq"),
        (("replay",), 2, "which topic?"),
    ):
        assert letters.cli(*arguments) == code
        told = capsys.readouterr()
        assert (told.out, told.err.count("\n")) == ("", 1)
        assert words in told.err
    assert (letters.replayed(0), letters.replayed(1)) == ([], [])
