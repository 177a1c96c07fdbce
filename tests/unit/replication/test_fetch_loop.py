"""What a broker asks one leader for, when, and what comes of the answers (R2, R6), without any connection."""

from __future__ import annotations

from dataclasses import dataclass, field
from types import SimpleNamespace
from typing import Any

import pytest
from minikafka.log.errors import CorruptBatch, LogDirFailure, LogError
from minikafka.protocol.errors import ErrorCode
from minikafka.protocol.fetch import FollowerData, decode_fetch, encode_follower_fetch
from minikafka.protocol.types import TopicPartition
from minikafka.protocol.wire import read_header
from minikafka.replication import fetch_loop
from minikafka.replication.fetch_loop import BACKOFF_SECONDS_FIRST, FetcherPool, FetchLoop, Key, Taken
from minikafka.replication.follower import FetchOutcome, FetchPosition

LEADER, TOPIC_ID = 2, b"i" * 16
BACKOFF_MAX = 1.0
REFUSED = ErrorCode.NOT_LEADER_OR_FOLLOWER


@dataclass
class Follower:
    """Answers as it is told to."""

    offset: int = 10
    leader_id: int = LEADER
    failed: bool = False
    owes_flush: bool = False
    next: FetchOutcome | Exception = FetchOutcome.EMPTY
    heard: list[tuple[int, int]] = field(default_factory=list)

    def position(self) -> FetchPosition:
        return FetchPosition(3, self.offset, 3, 0)

    def may_ask(self) -> bool:
        return not self.owes_flush

    def answered(self, *_: object) -> FetchOutcome:
        return self._next()

    def leader_offsets(self, asked: FetchPosition, earliest: int, latest: int) -> FetchOutcome:
        assert asked == self.position()
        self.heard.append((earliest, latest))
        return self._next()

    def _next(self) -> FetchOutcome:
        if isinstance(self.next, Exception):
            raise self.next
        return self.next


class Lab:
    """A loop over partitions 0, 1, .. of one topic, at a time that the test decides."""

    def __init__(self, partitions: int = 1) -> None:
        self.now = 100.0
        self.lacked_room = 0
        self.loop: FetchLoop[Any] = FetchLoop(LEADER, BACKOFF_MAX, self._no_room)
        self.followers = [Follower() for _ in range(partitions)]
        log = SimpleNamespace(log_end_offset=10, log_start_offset=0, unflushed_volume=None)
        self.partitions: list[Any] = [
            SimpleNamespace(topic_id=TOPIC_ID, topic_partition=TopicPartition("t", n), follower=follower, log=log)
            for n, follower in enumerate(self.followers)
        ]
        for partition in self.partitions:
            self.loop.follow(partition)

    def _no_room(self) -> None:
        self.lacked_room += 1

    def asks(self, overtake: bool = False) -> list[int]:
        """Which partitions are asked for now."""
        self.asked = self.loop.next_fetch(self.now, overtake)
        return [index for _, index in self.asked]

    def answer(
        self, asked: dict[Key, FetchPosition], error: ErrorCode = ErrorCode.NONE, top: int = 0
    ) -> list[Taken[Any]]:
        answers = [FollowerData(TOPIC_ID, n, error, 10, 0, None, memoryview(b"r" * (n + 1))) for _, n in asked]
        return self.loop.answered(asked, top, [] if top else answers, self.now)

    def round(self, what: FetchOutcome | Exception, error: ErrorCode = ErrorCode.NONE) -> Taken[Any]:
        """One fetch of the first partition, as soon as it may be asked for."""
        self.followers[0].next = what
        if not self.asks():
            assert self.loop.wake_at is not None and self.loop.wake_at > self.now
            self.now = self.loop.wake_at
            assert self.asks(overtake=True) == [0]
        (taken,) = self.answer(self.asked, error)
        return taken


class TestRequests:
    def test_all_that_is_followed_is_asked_for_at_once_and_once(self) -> None:
        """Simulator bug fetch-drops-others."""
        lab = Lab(3)
        assert lab.asks() == [0, 1, 2]
        assert lab.asked[TOPIC_ID, 1] == lab.followers[1].position()
        assert lab.asks() == [], "one is in flight"

    def test_the_next_leaves_when_the_answer_is_taken_in(self) -> None:
        lab = Lab(2)
        lab.asks()
        lab.answer(lab.asked)
        assert lab.loop.in_flight == 0 and lab.asks() == [0, 1]

    def test_one_overtakes_what_is_parked_and_not_two(self) -> None:
        lab = Lab()
        assert [lab.asks(), lab.asks(overtake=True), lab.asks(overtake=True)] == [[0], [0], []]

    def test_whoever_got_records_is_asked_for_last(self) -> None:
        """Audit t8: a leader fills its answers in the order of the request."""
        lab = Lab(3)
        lab.asks()
        lab.followers[0].next = FetchOutcome.APPENDED
        data = FollowerData(TOPIC_ID, 0, 0, 10, 0, None, memoryview(b"r"))
        lab.loop.answered(lab.asked, 0, [data], lab.now)
        assert lab.asks() == [1, 2, 0]

    def test_more_than_a_request_may_have_take_turns(self, monkeypatch: pytest.MonkeyPatch) -> None:
        """A leader closed the connection at every fetch of 12,500 topics, and all of them left the ISR."""
        monkeypatch.setattr(fetch_loop, "PARTITIONS_MAX", 2)
        lab = Lab(3)
        asked = []
        for _ in range(3):
            asked.append((lab.asks(), lab.loop.has_more))
            lab.loop.answered(lab.asked, 0, [], lab.now)  # no records, which would send them to the end
        assert asked == [([0, 1], True), ([2, 0], True), ([1, 2], True)]
        lab.loop.unfollow(lab.partitions[0])
        assert lab.asks() == [1, 2] and not lab.loop.has_more

    def test_as_many_as_go_into_one_request_are_taken(self) -> None:
        """Each of another topic."""
        topics = [(bytes([n >> 8, n & 0xFF]) * 8, [(0, 1, 2, 3, 0, 1)]) for n in range(fetch_loop.PARTITIONS_MAX)]
        frame = memoryview(encode_follower_fetch(1, "fetcher", 2, 7, 500, 1, 1 << 20, topics))[4:]
        header = read_header(frame)
        assert len(decode_fetch(frame, header.end, header.api_version).topics) == fetch_loop.PARTITIONS_MAX

    def test_a_lack_of_room_is_reported_at_once(self) -> None:
        lab = Lab()
        lab.partitions[0].log.unflushed_volume = SimpleNamespace(fitting=lambda records: records[:-1])
        lab.asks()
        lab.answer(lab.asked)
        assert lab.lacked_room == 1 and lab.asks() == []

    @pytest.mark.parametrize("unfit", [{"failed": True}, {"leader_id": 3}])
    def test_who_waits_for_metadata_or_follows_another_is_left_out(self, unfit: dict[str, Any]) -> None:
        lab = Lab(2)
        for name, value in unfit.items():
            setattr(lab.followers[0], name, value)
        assert lab.asks() == [1]

    def test_nothing_is_in_flight_on_a_connection_that_is_gone(self) -> None:
        """Simulator bug fetch-waits-for-lost."""
        lab = Lab()
        lab.asks()
        lab.asks(overtake=True)
        lab.loop.disconnected()
        assert lab.asks() == [0]

    def test_a_fetch_of_nothing_is_none(self) -> None:
        lab = Lab()
        lab.loop.unfollow(lab.partitions[0])
        assert lab.asks() == [] and lab.loop.in_flight == 0 and lab.loop.is_idle


class TestFlushes:
    """R17: where flush.messages wants a flush, the next fetch would tell of records too early."""

    def test_who_owes_a_flush_is_held_back_until_it_is_done(self) -> None:
        lab = Lab(2)
        lab.followers[0].owes_flush = True
        assert lab.asks() == [1] and lab.loop.owe_flush() == [lab.partitions[0]]
        assert lab.loop.owe_flush() == [], "told once"
        lab.followers[0].owes_flush = False
        assert lab.loop.flushed(lab.partitions[0]) and not lab.loop.flushed(lab.partitions[1])
        assert lab.asks(overtake=True) == [0, 1]

    def test_records_may_make_it_owe_one(self) -> None:
        lab = Lab()
        lab.asks()
        lab.followers[0].next, lab.followers[0].owes_flush = FetchOutcome.APPENDED, True
        lab.answer(lab.asked)
        assert lab.loop.owe_flush() == lab.partitions and lab.loop.may_fetch_on and lab.asks() == []

    def test_what_is_wanted_while_all_fetches_are_under_way_is_asked_for_with_the_next_answer(self) -> None:
        lab = Lab()
        lab.asks()
        first = lab.asked
        lab.asks(overtake=True)
        assert not lab.loop.may_fetch_on and lab.asks(overtake=True) == []
        lab.answer(first)
        assert lab.loop.in_flight == 1 and lab.loop.may_fetch_on
        assert lab.asks(overtake=True) == [0] and not lab.loop.may_fetch_on


class TestBackOff:
    def test_a_refused_partition_is_left_out_for_longer_and_longer_the_others_are_not(self) -> None:
        """Simulator bug fetch-backs-off-forever."""
        lab = Lab(2)
        pauses = []
        for _ in range(8):
            lab.followers[0].next = FetchOutcome.BACK_OFF
            assert sorted(lab.asks()) == [0, 1]
            lab.answer({key: at for key, at in lab.asked.items() if key[1] == 0}, REFUSED)
            assert lab.asks() == [1]
            assert lab.loop.wake_at is not None
            pauses.append(lab.loop.wake_at - lab.now)
            lab.loop.disconnected()
            lab.now = lab.loop.wake_at
        assert pauses[0] == pytest.approx(BACKOFF_SECONDS_FIRST)
        assert pauses[1] == pytest.approx(2 * BACKOFF_SECONDS_FIRST)
        assert pauses[-1] == pytest.approx(BACKOFF_MAX)

    def test_records_end_it(self) -> None:
        lab = Lab()
        for _ in range(4):
            lab.round(FetchOutcome.BACK_OFF, REFUSED)
        lab.round(FetchOutcome.APPENDED)
        lab.round(FetchOutcome.BACK_OFF, REFUSED)
        assert lab.asks() == [] and lab.loop.wake_at == pytest.approx(lab.now + BACKOFF_SECONDS_FIRST)

    def test_a_refusal_of_the_whole_request_is_one_of_each_partition(self) -> None:
        lab = Lab(2)
        lab.asks()
        assert lab.answer(lab.asked, top=int(ErrorCode.NOT_CONTROLLER)) == []
        assert lab.asks() == [] and lab.loop.wake_at is not None

    def test_whoever_backs_off_shortest_is_waited_for(self) -> None:
        """One that is refused for long keeps no other from being asked for again."""
        lab = Lab(2)
        for _ in range(3):
            lab.followers[0].next = FetchOutcome.BACK_OFF
            lab.asks()
            lab.answer({key: at for key, at in lab.asked.items() if key[1] == 0}, REFUSED)
            lab.now += BACKOFF_MAX
        assert sorted(lab.asks()) == [0, 1]
        lab.followers[1].next = FetchOutcome.BACK_OFF
        lab.answer(lab.asked, REFUSED)
        assert lab.asks() == [] and lab.loop.wake_at == pytest.approx(lab.now + BACKOFF_SECONDS_FIRST)

    def test_a_new_term_does_not_wait(self) -> None:
        lab = Lab()
        lab.round(FetchOutcome.BACK_OFF, REFUSED)
        assert lab.asks() == []
        lab.loop.follow(lab.partitions[0])
        assert lab.asks() == [0]


class TestAnswers:
    def test_what_is_not_followed_any_more_hears_nothing(self) -> None:
        lab = Lab()
        lab.asks()
        lab.loop.unfollow(lab.partitions[0])
        lab.followers[0].next = AssertionError("it was told")
        assert lab.answer(lab.asked) == []

    def test_what_was_not_asked_for_is_no_answer(self) -> None:
        lab = Lab(2)
        lab.asks()
        del lab.asked[TOPIC_ID, 1]
        lab.followers[1].next = AssertionError("it was told")
        data = [FollowerData(TOPIC_ID, n, 0, 10, 0, None, memoryview(b"")) for n in (0, 1)]
        assert [t.partition for t in lab.loop.answered(lab.asked, 0, data, lab.now)] == [lab.partitions[0]]

    def test_what_breaks_one_partition_leaves_the_others_theirs(self) -> None:
        lab = Lab(3)
        problem = KeyError("nobody expected this")
        lab.followers[0].next = problem
        lab.followers[1].next = lab.followers[2].next = FetchOutcome.APPENDED
        lab.asks()
        broken, *well = lab.answer(lab.asked)
        assert broken.broke is problem and [t.size for t in well] == [2, 3]
        assert lab.asks() == [1, 2], "the broken one backs off"
        lab.answer(lab.asked)
        for partition in lab.partitions[1:]:
            lab.loop.unfollow(partition)
        assert lab.round(FetchOutcome.APPENDED).recovered
        assert not lab.round(FetchOutcome.APPENDED).recovered, "told once"

    def test_one_that_broke_says_so_when_it_leaves(self) -> None:
        lab = Lab()
        lab.round(KeyError())
        assert lab.loop.unfollow(lab.partitions[0])
        assert not lab.loop.unfollow(lab.partitions[0])

    def test_a_refusal_is_told_once_it_lasts(self) -> None:
        lab = Lab()
        assert lab.round(FetchOutcome.BACK_OFF, REFUSED).to_report is None, (
            "at a failover most are over at the next try"
        )
        told = [t for _ in range(5) if (t := lab.round(FetchOutcome.BACK_OFF, REFUSED).to_report)]
        assert told == [(REFUSED.name, 10, False)]
        lab.round(FetchOutcome.APPENDED)
        again = [t for _ in range(3) if (t := lab.round(FetchOutcome.BACK_OFF, REFUSED).to_report)]
        assert again == told, "after it went well, the same is news again"

    @pytest.mark.parametrize(
        ("failure", "is_corrupt"), [(CorruptBatch("CRC"), True), (LogDirFailure("disk", permanent=False), False)]
    )
    def test_what_the_own_log_refuses_is_told(self, failure: LogError, is_corrupt: bool) -> None:
        lab = Lab()
        took = [lab.round(failure) for _ in range(4)]
        assert all(t.failure is failure and t.outcome is FetchOutcome.BACK_OFF for t in took)
        assert [t.to_report for t in took if t.to_report] == [(str(failure), 10, is_corrupt)]
        lab.followers[0].offset = 11
        told = [t for _ in range(4) if (t := lab.round(failure).to_report)]
        assert told == [(str(failure), 11, is_corrupt)], "another offset is another trouble"


class TestOutOfRange:
    """KAFKA-7414: the leader is asked what it holds."""

    def test_it_backs_off_until_the_leader_has_said_what_it_holds(self) -> None:
        lab = Lab()
        taken = lab.round(FetchOutcome.OUT_OF_RANGE)
        assert taken.outcome is FetchOutcome.OUT_OF_RANGE and lab.asks() == []
        lab.followers[0].next = FetchOutcome.TRUNCATED
        answer = lab.loop.leader_range(lab.partitions[0], taken.position, 4, 7, lab.now)
        assert answer is not None and answer.outcome is FetchOutcome.TRUNCATED
        assert lab.followers[0].heard == [(4, 7)] and lab.asks() == [0]

    def test_nobody_wants_to_know_any_more(self) -> None:
        lab = Lab()
        taken = lab.round(FetchOutcome.OUT_OF_RANGE)
        lab.loop.unfollow(lab.partitions[0])
        assert lab.loop.leader_range(lab.partitions[0], taken.position, 4, 7, lab.now) is None
        assert lab.followers[0].heard == []

    def test_the_log_refuses_it(self) -> None:
        lab = Lab()
        taken = lab.round(FetchOutcome.OUT_OF_RANGE)
        lab.followers[0].next = failure = LogDirFailure("disk", permanent=False)
        answer = lab.loop.leader_range(lab.partitions[0], taken.position, 4, 7, lab.now)
        assert answer is not None and answer.failure is failure


class Driver:
    """Notes what it is told."""

    def __init__(self, told: list[Any], leader_id: int) -> None:
        self.told, self.leader_id = told, leader_id
        self.partitions: list[Any] = []

    @property
    def is_idle(self) -> bool:
        return not self.partitions

    def add(self, partition: Any) -> None:
        self.partitions.append(partition)
        self.told.append(("add", self.leader_id, partition))

    def remove(self, partition: Any) -> None:
        self.partitions.remove(partition)
        self.told.append(("remove", self.leader_id, partition))

    def flushed(self, partition: Any) -> None:
        self.told.append(("flushed", self.leader_id, partition))

    def stop(self) -> None:
        self.told.append(("stop", self.leader_id))


def test_one_fetcher_for_each_leader_and_none_that_is_idle() -> None:
    told: list[Any] = []
    pool = FetcherPool[Any](lambda leader: Driver(told, leader))
    pool.follow("a", 1)
    pool.follow("b", 1)
    pool.follow("a", 2)
    assert told == [("add", 1, "a"), ("add", 1, "b"), ("remove", 1, "a"), ("add", 2, "a")]
    assert (pool.leader_of("a"), pool.leader_of("b"), pool.leader_of("c")) == (2, 1, None)
    told.clear()
    pool.follow("b", 1)
    assert told == [("remove", 1, "b"), ("stop", 1), ("add", 1, "b")], (
        "out of the old one first, also of the same leader"
    )
    pool.unfollow("c")
    pool.flushed("b")
    pool.flushed("c")
    assert told[-1] == ("flushed", 1, "b")
    told.clear()
    pool.stop()
    assert sorted(told) == [("stop", 1), ("stop", 2)] and pool.leader_of("a") is None
