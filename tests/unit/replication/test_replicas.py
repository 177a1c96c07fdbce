"""Produce and Fetch over the partitions of a broker, and who waits for what, at a time that the test decides."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from minikafka.log.config import LogConfig
from minikafka.log.log import Log
from minikafka.log.results import FetchSlice
from minikafka.log.simulated_disk import MemoryFileSystem
from minikafka.metadata.image import PartitionState
from minikafka.protocol.errors import ErrorCode
from minikafka.protocol.fetch import CONSUMER, FetchPartition, FetchRequest, PartitionData
from minikafka.protocol.produce import PartitionResult, ProduceRequest
from minikafka.protocol.types import TopicPartition
from minikafka.replication import purgatory, replicas
from minikafka.replication.clock import Clock
from minikafka.replication.hosted import HostedPartition
from minikafka.replication.isr import AlterPartitionAnswer, IsrProposal
from minikafka.replication.partition import ReplicationConfig
from minikafka.replication.purgatory import FetchTopics
from minikafka.replication.replicas import SWEEP_SECONDS

from tests.unit.replication.cluster import NOW_MS, AllAlive, batch
from tests.unit.replication.unwired import replica_manager

TOPIC_ID = b"i" * 16
EPOCH = 3
MINUTE_MS = 60_000


class Client:
    """Somebody who has a turn when the test says so."""

    def __init__(self, asked_by: str = "alice") -> None:
        self.asked_by = asked_by
        self.turns: list[Callable[[], None]] = []

    def in_turn(self, go_on: Callable[[], None]) -> None:
        self.turns.append(go_on)


class Lab:
    """Broker 1 leads partitions 0 and 1 of a topic; broker 2 is in their ISR."""

    def __init__(self, isr: tuple[int, ...] = (1, 2)) -> None:
        self.now = 100.0
        self.timers: list[tuple[float, Callable[[], None]]] = []
        self.proposals: list[IsrProposal] = []
        clock = Clock(lambda: self.now, lambda: NOW_MS, lambda s, event: self.timers.append((self.now + s, event)))
        self.replicas = replica_manager(clock, self.proposals.append)
        self.disk = MemoryFileSystem()
        self.partitions = [self._partition(index, isr) for index in (0, 1)]

    def _partition(self, index: int, isr: tuple[int, ...]) -> HostedPartition:
        tp = TopicPartition("t", index)
        log = Log.open(
            f"/d/{tp}", tp, LogConfig(), self.disk, clean=True, recovery_point=0, now_ms=NOW_MS, checkpoints=None
        )
        config = ReplicationConfig(1, 10.0)
        partition = HostedPartition(
            tp, TOPIC_ID, 1, log, config, AllAlive(), 0, topic_config=None, moved=self.replicas.moved
        )
        partition.apply_state(PartitionState((1, 2), isr, 1, leader_epoch=EPOCH), self.now)
        self.replicas.add(partition)
        return partition

    def later(self, seconds: float) -> None:
        """Time passes, and with it the timers that are due."""
        self.now += seconds
        due = [event for when, event in self.timers if when <= self.now]
        self.timers = [(when, event) for when, event in self.timers if when > self.now]
        for event in due:
            event()

    def produce(
        self, *indexes: int, acks: int = -1, records: bytes | None = None, timeout_ms: int = MINUTE_MS
    ) -> list[Any]:
        """The list that the answer comes into: (error, base offset) of each partition."""
        came: list[Any] = []

        def respond(results: list[tuple[str, list[PartitionResult]]]) -> None:
            came.append([(result.error, result.base_offset) for _, row in results for result in row])

        parts = [(index, memoryview(bytearray(records or batch("x")))) for index in indexes or (0,)]
        self.replicas.produce(ProduceRequest(None, acks, timeout_ms, [("t", parts)]), respond)
        return came

    def fetch(
        self,
        offset: int,
        replica: int = CONSUMER,
        epoch: int = EPOCH,
        wait_ms: int = 0,
        last_epoch: int = -1,
        client: Client | None = None,
    ) -> tuple[list[PartitionData], Any]:
        """(where the answer for partition 0 comes into, what is parked)."""
        came: list[PartitionData] = []

        def respond(topics: FetchTopics, size: int) -> None:
            assert size == sum(part.size for _, row in topics for part in row)
            came.extend(part for _, row in topics for part in row)

        asked = FetchPartition(0, epoch, offset, last_epoch, 0, 1 << 20)
        request = FetchRequest(replica, wait_ms, 1, 1 << 20, 0, 0, -1, [(TOPIC_ID, [asked])])
        request.replica_epoch = 1 if replica >= 0 else -1
        return came, self.replicas.fetch(request, respond, client)

    def follower_has(self, offset: int) -> PartitionData:
        """Broker 2 fetches partition 0 at this offset."""
        came, _ = self.fetch(offset, replica=2)
        self.replicas.flush_ready()
        return came[0]


def records(part: PartitionData) -> bytes:
    return FetchSlice(list(part.ranges), part.size).read()


class TestProduce:
    def test_acks_all_waits_for_the_high_watermark_and_not_one_record_less(self) -> None:
        """R4, R16, simulator bug acknowledge-early."""
        lab = Lab()
        lab.follower_has(0)
        first, second = lab.produce(records=bytes(batch("a", 2))), lab.produce()
        lab.follower_has(1)
        assert (first, second) == ([], [])
        lab.follower_has(2)
        assert (first, second) == ([[(0, 0)]], [])
        lab.follower_has(3)
        assert second == [[(0, 2)]]

    def test_acks_of_the_leader_alone_do_not(self) -> None:
        assert Lab().produce(acks=1) == [[(0, 0)]]

    def test_a_repeated_batch_waits_as_the_first_one_did(self) -> None:
        """R16, R18, simulator bug acknowledge-duplicates."""
        lab = Lab()
        once = bytes(batch("a", producer=(7, 0, 0)))
        first, again = lab.produce(records=once), lab.produce(records=once)
        assert (first, again) == ([], [])
        lab.follower_has(1)
        assert first == again == [[(0, 0)]]

    def test_a_repeated_batch_that_finds_the_high_watermark_free_answers_who_waits(self) -> None:
        """Broker 2 is no more waited for once it lags; the append that notices it may be one that writes nothing.

        Found by simulation (schedule 101553): the high watermark moved, and nobody was told until it moved again.
        """
        lab = Lab(isr=(1,))
        lab.follower_has(0)
        lab.replicas.isr_answered(lab.proposals[0], AlterPartitionAnswer(ErrorCode.INELIGIBLE_REPLICA))
        once = bytes(batch("a", producer=(7, 0, 0)))
        first = lab.produce(records=once)
        assert first == []
        lab.now += 10.1
        again = lab.produce(records=once)
        assert first == again == [[(0, 0)]]

    def test_a_request_is_answered_with_its_last_partition_and_once(self) -> None:
        """Simulator bug forget-acknowledgement: what the high watermark has passed is answered, whatever else waits."""
        lab = Lab()
        came = lab.produce(0, 1)
        lab.follower_has(1)
        assert came == [] and lab.replicas.waiting_produces == 1
        lab.partitions[1].fail_producers(ErrorCode.NOT_LEADER_OR_FOLLOWER)
        assert came == [[(0, 0), (ErrorCode.NOT_LEADER_OR_FOLLOWER, -1)]] and lab.replicas.waiting_produces == 0

    def test_a_time_out_is_no_success(self) -> None:
        """R16, simulator bug expired-is-done: the record may still be committed, which is not known."""
        lab = Lab()
        short, long = lab.produce(timeout_ms=100), lab.produce()
        lab.later(SWEEP_SECONDS)
        assert (short, long) == ([], [])
        lab.later(0.1)
        assert short == [[(ErrorCode.REQUEST_TIMED_OUT, -1)]] and long == []
        lab.follower_has(2)
        assert len(short) == 1 and long == [[(0, 1)]]
        lab.later(SWEEP_SECONDS)
        assert lab.timers == [], "nobody waits, so nobody looks"

    def test_nobody_writes_to_what_is_not_led(self) -> None:
        lab = Lab()
        lab.partitions[0].resign()
        lab.replicas.hint = lambda _key, _index: (2, 4)
        assert lab.produce(acks=1) == [[(ErrorCode.NOT_LEADER_OR_FOLLOWER, -1)]]
        lab.replicas.remove(lab.partitions[0])
        assert lab.produce(acks=1) == [[(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, -1)]]


class TestFetch:
    def test_a_consumer_sees_what_is_committed_a_follower_all(self) -> None:
        """R3, simulator bug read-to-log-end."""
        lab = Lab()
        lab.produce(records=bytes(batch("a")))
        lab.produce(records=bytes(batch("b")))
        lab.follower_has(1)
        (seen,), _ = lab.fetch(0)
        (copied,), _ = lab.fetch(1, replica=2)
        assert b"a" in records(seen) and b"b" not in records(seen) and seen.high_watermark == 1
        assert b"b" in records(copied) and lab.partitions[0].high_watermark == 1

    def test_of_another_term_it_is_refused_and_acknowledges_nothing(self) -> None:
        """R12, KIP-320, simulator bug serve-any-term."""
        lab = Lab()
        came = lab.produce()
        for replica in (CONSUMER, 2):
            for epoch, error in (
                (EPOCH - 1, ErrorCode.FENCED_LEADER_EPOCH),
                (EPOCH + 1, ErrorCode.UNKNOWN_LEADER_EPOCH),
            ):
                (part,), parked = lab.fetch(1, replica=replica, epoch=epoch, wait_ms=500)
                assert part.error is error and part.size == 0 and parked is None
        assert came == []

    def test_one_with_nothing_to_return_waits_and_a_record_ends_that(self) -> None:
        """R7, simulator bug forget-parked-fetch."""
        lab = Lab()
        came, parked = lab.fetch(0, replica=2, wait_ms=500)
        assert came == [] and parked.deadline == lab.now + 0.5
        lab.produce()
        lab.produce()
        assert came == [], "once for all that happens in a round of events"
        lab.replicas.flush_ready()
        assert len(came) == 1 and records(came[0]) and parked.is_over
        lab.replicas.flush_ready()
        assert len(came) == 1

    def test_those_of_many_rows_are_retried_in_turn(self, monkeypatch: pytest.MonkeyPatch) -> None:
        """2,000 that waited, of 200 rows each, had all rows read again for each record (found by an attack)."""
        monkeypatch.setattr(purgatory, "FEW_ROWS", 0)
        monkeypatch.setattr(replicas, "MANY_ROWS", 1)
        lab, client = Lab(), Client()
        waiting = [lab.fetch(0, wait_ms=500, client=client)[0] for _ in range(3)]
        lab.produce()
        lab.follower_has(1)
        lab.replicas.flush_ready()
        assert [len(came) for came in waiting] == [1, 0, 0]
        for go_on in client.turns:
            go_on()
        assert [len(came) for came in waiting] == [1, 1, 1]

    def test_none_is_forgotten_behind_one_that_is_over(self, monkeypatch: pytest.MonkeyPatch) -> None:
        """Those behind a Fetch whose connection had sent another one, or was gone, were not answered (found by an attack)."""
        monkeypatch.setattr(purgatory, "FEW_ROWS", 0)
        monkeypatch.setattr(replicas, "MANY_ROWS", 0)
        lab, client = Lab(), Client()
        (_, over), (came, _) = [lab.fetch(0, wait_ms=500, client=client) for _ in range(2)]
        lab.produce()
        lab.fetch(1, replica=2)
        over.give_up()
        lab.replicas.flush_ready()
        client.turns[-1]()
        assert len(came) == 1

    def test_none_is_forgotten_behind_one_that_fails(self) -> None:
        lab = Lab()
        (_, failing), (came, _) = [lab.fetch(0, wait_ms=500) for _ in range(2)]
        failing.respond = len  # which takes one argument
        lab.produce()
        with pytest.raises(TypeError):
            lab.follower_has(1)
        assert len(came) == 1

    def test_those_of_many_rows_end_in_turn(self, monkeypatch: pytest.MonkeyPatch) -> None:
        """300 of 1,000 rows that ended at one time kept others waiting for 0.6 s (found by an attack)."""
        monkeypatch.setattr(purgatory, "FEW_ROWS", 0)
        lab, client = Lab(), Client()
        came, parked = lab.fetch(0, wait_ms=500, client=client)
        parked.end()
        lab.produce()
        lab.follower_has(1)
        assert came == [] and len(client.turns) == 1, "it is not woken while it waits for a turn"
        client.turns[0]()
        assert len(came) == 1
        came, parked = lab.fetch(1, wait_ms=500, client=client)
        parked.end()
        client.turns[1]()
        assert len(came) == 1 and came[0].size == 0

    def test_rows_of_a_user_that_wait_are_bounded(self, monkeypatch: pytest.MonkeyPatch) -> None:
        """Each takes 170 bytes: 2,000 connections that wait for 3,000 each had 1 GB (found by an attack)."""
        monkeypatch.setattr(purgatory, "FEW_ROWS", 0)
        monkeypatch.setattr(replicas, "WAITING_ROWS_MAX", 2)
        lab, client = Lab(), Client()
        waiting = [lab.fetch(0, wait_ms=500, client=client)[1] for _ in range(3)]
        assert waiting[2] is None
        assert lab.fetch(0, wait_ms=500, client=Client("bob"))[1] is not None
        waiting[0].give_up()
        assert lab.fetch(0, wait_ms=500, client=client)[1] is not None

    def test_a_consumer_is_woken_by_the_high_watermark_not_by_the_append(self) -> None:
        lab = Lab()
        came, _ = lab.fetch(0, wait_ms=500)
        lab.produce()
        lab.replicas.flush_ready()
        assert came == []
        lab.follower_has(1)
        assert len(came) == 1 and records(came[0])

    def test_its_time_is_up(self) -> None:
        lab = Lab()
        came, parked = lab.fetch(0, wait_ms=500)
        parked.retry(True)
        assert len(came) == 1 and came[0].size == 0 and came[0].error == 0
        assert lab.partitions[0].consumers == {}

    def test_one_that_is_given_up_is_not_answered(self) -> None:
        lab = Lab()
        came, parked = lab.fetch(0, replica=2, wait_ms=500)
        parked.give_up()
        lab.produce()
        lab.replicas.flush_ready()
        parked.retry(True)
        assert came == [] and lab.partitions[0].followers == {}

    def test_where_the_logs_part_is_said_at_once(self) -> None:
        """R13, KIP-595, simulator bug fetch-names-no-epoch: it can be said only to a follower that names its last epoch."""
        lab = Lab()
        lab.produce()
        (part,), parked = lab.fetch(3, replica=2, wait_ms=500, last_epoch=EPOCH)
        assert part.diverging == (EPOCH, 1) and parked is None

    def test_out_of_range(self) -> None:
        (part,), _ = Lab().fetch(5)
        assert part.error is ErrorCode.OFFSET_OUT_OF_RANGE


class TestIsrChanges:
    def asked(self, lab: Lab) -> IsrProposal:
        """Broker 2 has not fetched for so long that it is to leave."""
        lab.follower_has(0)
        lab.produce(acks=1)
        lab.now += 11
        lab.replicas.isr_tick()
        proposal = next(p for p in lab.proposals if p.topic_partition.partition == 0)
        assert [member for member, _ in proposal.isr] == [1]
        return proposal

    def test_the_answer_moves_the_high_watermark_and_answers_who_waits(self) -> None:
        lab = Lab()
        proposal = self.asked(lab)
        came = lab.produce()
        answer = AlterPartitionAnswer(ErrorCode.NONE, EPOCH, 1, (1,))
        taken = lab.replicas.isr_answered(proposal, answer)
        assert taken is not None and (taken.isr_before, taken.isr, taken.again) == ((1, 2), (1,), False)
        assert came == [[(0, 1)]]

    def test_an_unknown_outcome_keeps_the_larger_set_and_is_asked_again(self) -> None:
        """R10, KAFKA-12684, simulator bug refused-when-unknown."""
        lab = Lab()
        proposal = self.asked(lab)
        taken = lab.replicas.isr_answered(proposal, None)
        assert taken is not None and taken.again and taken.isr == (1, 2)
        assert lab.partitions[0].leader is not None and lab.partitions[0].leader.isr.pending is proposal

    def test_what_replaces_it_is_asked_for(self) -> None:
        lab = Lab()
        lab.replicas.isr_answered(self.asked(lab), AlterPartitionAnswer(ErrorCode.NONE, EPOCH, 1, (1,)))
        lab.follower_has(1)
        joins = lab.proposals[-1]
        assert [member for member, _ in joins.isr] == [1, 2]
        assert lab.replicas.isr_answered(joins, None) is not None
        taken = lab.replicas.isr_answered(joins, AlterPartitionAnswer(ErrorCode.INELIGIBLE_REPLICA))
        assert taken is not None and (taken.isr, taken.again) == ((1,), False)
        assert lab.proposals[-1].isr == ((1, -1),)
        leader = lab.partitions[0].leader
        assert leader is not None and leader.isr.pending is lab.proposals[-1]

    def test_nobody_waits_for_it_any_more(self) -> None:
        lab = Lab()
        proposal = self.asked(lab)
        lab.partitions[0].resign()
        assert lab.replicas.isr_answered(proposal, None) is None
