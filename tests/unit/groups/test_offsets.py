"""Committed offsets: who may commit, when a commit is answered and seen, how long it is kept."""

from __future__ import annotations

from itertools import pairwise

import pytest
from minikafka.groups import cleaning, commits
from minikafka.groups.records import CommittedOffset, OffsetKey, read_key
from minikafka.groups.requests import CommitRequest, GroupProtocol
from minikafka.protocol.errors import ErrorCode
from minikafka.protocol.types import TopicPartition

from .dialogue import GROUP, LEDGER, Lab, Waiting, subscription

AUDIT = TopicPartition("audit", 3)
DAY = 86_400.0
FAR_MS = 2_000_000_000_000


def test_round_trip() -> None:
    """Offset, leader epoch (KIP-320) and metadata come back as they were given."""
    lab = Lab()
    alice = lab.stable_one()
    assert lab.commit(42, alice, epoch=7, metadata="checkpoint 9").answer is ErrorCode.NONE
    found = lab.coordinator.fetch_offsets(GROUP, [LEDGER, AUDIT]).offsets
    assert found[LEDGER] == CommittedOffset(42, 7, "checkpoint 9", lab.now.unix_ms, -1, lab.topics["ledger"])
    assert found[AUDIT] is None
    lab.commit(1, alice, AUDIT)
    assert set(lab.coordinator.fetch_offsets(GROUP, None).offsets) == {LEDGER, AUDIT}


def test_a_commit_is_answered_and_seen_only_when_it_is_replicated() -> None:
    """acks=all: before the high watermark passes the record a failover could take it back."""
    lab = Lab(confirming=False)
    waiting = lab.commit(5)
    assert waiting.waits
    assert lab.committed() is None
    lab.confirm()
    assert waiting.answer is ErrorCode.NONE
    assert lab.committed() == 5


@pytest.mark.parametrize(
    ("append_error", "answer"),
    [
        (ErrorCode.NOT_ENOUGH_REPLICAS, ErrorCode.COORDINATOR_NOT_AVAILABLE),
        (ErrorCode.NOT_ENOUGH_REPLICAS_AFTER_APPEND, ErrorCode.COORDINATOR_NOT_AVAILABLE),
        (ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, ErrorCode.COORDINATOR_NOT_AVAILABLE),
        (ErrorCode.REQUEST_TIMED_OUT, ErrorCode.COORDINATOR_NOT_AVAILABLE),
        (ErrorCode.NOT_LEADER_OR_FOLLOWER, ErrorCode.NOT_COORDINATOR),
        (ErrorCode.KAFKA_STORAGE_ERROR, ErrorCode.NOT_COORDINATOR),
        (ErrorCode.MESSAGE_TOO_LARGE, ErrorCode.INVALID_COMMIT_OFFSET_SIZE),
        (ErrorCode.RECORD_LIST_TOO_LARGE, ErrorCode.INVALID_COMMIT_OFFSET_SIZE),
        (ErrorCode.INVALID_FETCH_SIZE, ErrorCode.INVALID_COMMIT_OFFSET_SIZE),
        (ErrorCode.CORRUPT_MESSAGE, ErrorCode.CORRUPT_MESSAGE),
    ],
)
def test_append_errors_in_the_words_of_group_clients(append_error: ErrorCode, answer: ErrorCode) -> None:
    """Kafka's handleOperationException; nothing becomes visible."""
    lab = Lab(confirming=False)
    waiting = lab.commit(5)
    lab.confirm(append_error)
    assert waiting.answer is answer
    assert lab.committed() is None


def test_answers_out_of_order_do_not_turn_offsets_back() -> None:
    """The order of the log counts, not the order of the confirmations."""
    lab = Lab(confirming=False)
    lab.commit(5)
    lab.commit(6)
    first, second = lab.under_way
    second(ErrorCode.NONE, lab.now)
    first(ErrorCode.NONE, lab.now)
    assert lab.committed() == 6


def test_a_commit_that_timed_out_and_was_replicated_after_all_is_seen() -> None:
    """offsets.commit.timeout.ms answers the client; the log decides what is true."""
    lab = Lab(confirming=False)
    waiting = lab.commit(5)
    lab.wait(5.1)
    assert waiting.answer is ErrorCode.COORDINATOR_NOT_AVAILABLE
    assert lab.committed() is None
    lab.confirm()
    assert lab.committed() == 5
    assert lab.successor().committed() == 5


def test_who_may_commit() -> None:
    """A living group's offsets belong to its members, an empty group's to anybody without a generation."""
    lab = Lab()
    assert lab.commit(1).answer is ErrorCode.NONE  # a simple consumer founds the group
    assert lab.commit(1, generation=3, member_id="x").answer is ErrorCode.UNKNOWN_MEMBER_ID
    assert lab.commit(1, group="other", generation=3, member_id="x").answer is ErrorCode.ILLEGAL_GENERATION
    alice = lab.stable_one()
    assert lab.commit(2, alice).answer is ErrorCode.NONE
    assert lab.commit(3).answer is ErrorCode.UNKNOWN_MEMBER_ID
    assert lab.commit(3, alice, generation=0).answer is ErrorCode.ILLEGAL_GENERATION
    assert lab.commit(3, alice, member_id="x").answer is ErrorCode.UNKNOWN_MEMBER_ID
    assert lab.committed() == 2


def test_commits_around_a_rebalance() -> None:
    """PreparingRebalance takes the old generation's last word; CompletingRebalance refuses."""
    lab = Lab()
    alice = lab.stable_one()
    lab.enter("bob")
    assert lab.commit(10, alice).answer is ErrorCode.NONE
    new = lab.join(alice.member_id).joined
    assert lab.commit(11, new).answer is ErrorCode.REBALANCE_IN_PROGRESS
    assert lab.commit(11, alice).answer is ErrorCode.ILLEGAL_GENERATION
    assert lab.committed() == 10


def test_a_commit_is_a_sign_of_life() -> None:
    """It starts the session anew, as a heartbeat does."""
    lab = Lab()
    alice = lab.stable_one()
    lab.wait(30, meanwhile=lambda: lab.commit(1, alice), every=8)
    assert lab.beat(alice) is ErrorCode.NONE


def test_metadata_has_a_limit() -> None:
    """offset.metadata.max.bytes, per partition: the others of the request are committed."""
    lab = Lab(offset_metadata_max_bytes=4)
    waiting = Waiting()
    offsets = {LEDGER: CommittedOffset(1, metadata="12345"), AUDIT: CommittedOffset(2, metadata="1234")}
    lab.coordinator.commit_offsets(CommitRequest(GROUP, offsets), waiting, lab.now)
    assert waiting.answer == {LEDGER: ErrorCode.OFFSET_METADATA_TOO_LARGE, AUDIT: ErrorCode.NONE}
    assert lab.commit(1, metadata="12345").answer is ErrorCode.OFFSET_METADATA_TOO_LARGE
    assert lab.committed() is None
    assert lab.committed(AUDIT) == 2


def test_metadata_too_long_for_the_record() -> None:
    """A limit above what the format can hold does not break the coordinator."""
    lab = Lab(offset_metadata_max_bytes=100_000)
    assert lab.commit(1, metadata="x" * 40_000).answer is ErrorCode.INVALID_COMMIT_OFFSET_SIZE
    assert lab.commit(1).answer is ErrorCode.NONE


def test_offsets_of_simple_consumers_expire_after_their_commit() -> None:
    """KIP-211: no members ever, so retention counts from each commit."""
    lab = Lab(offsets_retention_minutes=1440)
    lab.commit(1)
    lab.wait(DAY / 2, every=DAY)
    lab.commit(2, at=AUDIT)
    lab.wait(DAY / 2 + 700, every=DAY)
    assert lab.committed() is None
    assert lab.committed(AUDIT) == 2
    lab.wait(DAY / 2, every=DAY)
    assert lab.deleted == [(GROUP, "expired")]
    assert lab.state() == "Dead"


def test_offsets_of_a_group_expire_after_it_became_empty() -> None:
    """KIP-211: not while it has members, however old the commit."""
    lab = Lab(offsets_retention_minutes=1440)
    alice = lab.stable_one(session=1_800_000)
    lab.commit(1, alice)
    lab.wait(3 * DAY, meanwhile=lambda: lab.beat(alice), every=1000)
    assert lab.committed() == 1
    lab.leave(alice.member_id)
    lab.wait(DAY - 700, every=DAY)
    assert lab.committed() == 1
    lab.wait(1400, every=DAY)
    assert lab.committed() is None
    assert lab.state() == "Dead"
    assert lab.successor().state() == "Dead"  # the tombstones are in the log


def test_offsets_of_topics_nobody_reads_any_more_expire_in_a_living_group() -> None:
    """KIP-211 with subscriptions known: `audit` is not in alice's."""
    lab = Lab(offsets_retention_minutes=1440)
    alice = lab.stable_one(session=1_800_000)
    lab.commit(1, alice)
    lab.commit(2, alice, AUDIT)
    lab.wait(2 * DAY, meanwhile=lambda: lab.beat(alice), every=1000)
    assert lab.committed() == 1
    assert lab.committed(AUDIT) is None


def test_an_unreadable_subscription_keeps_every_offset() -> None:
    """The coordinator cannot know what is read, so nothing expires."""
    lab = Lab(offsets_retention_minutes=1440)
    alice = lab.stable_one(session=1_800_000, protocols=(GroupProtocol("range", b"\0"),))
    lab.commit(2, alice, AUDIT)
    lab.wait(2 * DAY, meanwhile=lambda: lab.beat(alice), every=1000)
    assert lab.committed(AUDIT) == 2


def test_a_commit_may_bring_its_own_retention() -> None:
    """OffsetCommit 2 to 4."""
    lab = Lab()
    lab.commit(1, expires=lab.now.unix_ms + 3_600_000)
    heir = lab.successor()
    lab.wait(3_000, every=DAY)
    assert lab.committed() == 1
    lab.wait(1_300, every=DAY)
    assert lab.committed() is None
    heir.wait(4_300, every=DAY)
    assert heir.committed() is None


def test_delete_offsets_of_topics_that_are_not_read() -> None:
    """OffsetDelete (KIP-496)."""
    lab = Lab()
    alice = lab.stable_one()
    lab.commit(1, alice)
    lab.commit(2, alice, AUDIT)
    waiting = Waiting()
    lab.coordinator.delete_offsets(GROUP, [LEDGER, AUDIT], waiting, lab.now)
    assert waiting.answer == (
        ErrorCode.NONE,
        {LEDGER: ErrorCode.GROUP_SUBSCRIBED_TO_TOPIC, AUDIT: ErrorCode.NONE},
    )
    assert lab.committed() == 1
    assert lab.committed(AUDIT) is None
    assert lab.successor().committed(AUDIT) is None


def test_delete_offsets_is_answered_when_the_tombstone_is_replicated() -> None:
    """Until then the offset is still there; a failed append keeps it."""
    lab = Lab()
    lab.commit(1)
    lab.commit(1, at=AUDIT)
    lab.confirming = False
    waiting = Waiting()
    lab.coordinator.delete_offsets(GROUP, [LEDGER], waiting, lab.now)
    assert waiting.waits
    assert lab.committed() == 1
    lab.confirm(ErrorCode.NOT_ENOUGH_REPLICAS)
    assert waiting.answer == (ErrorCode.NONE, {LEDGER: ErrorCode.COORDINATOR_NOT_AVAILABLE})
    assert lab.committed() == 1


def test_delete_offsets_refusals() -> None:
    """GROUP_ID_NOT_FOUND; NON_EMPTY_GROUP when members are no consumers and so no subscription is known."""
    lab = Lab()
    waiting = Waiting()
    lab.coordinator.delete_offsets("nobody", [LEDGER], waiting, lab.now)
    assert waiting.answer == (ErrorCode.GROUP_ID_NOT_FOUND, {})
    waiting = Waiting()
    lab.coordinator.delete_offsets("", [LEDGER], waiting, lab.now)
    assert waiting.answer == (ErrorCode.INVALID_GROUP_ID, {})
    lab.stable_one(protocol_type="connect")
    waiting = Waiting()
    lab.coordinator.delete_offsets(GROUP, [LEDGER], waiting, lab.now)
    assert waiting.answer == (ErrorCode.NON_EMPTY_GROUP, {})


@pytest.mark.parametrize("anew", [False, True])
def test_offsets_go_with_their_topic(anew: bool) -> None:
    """Else a topic of the same name, made later, would be read from the middle."""
    lab = Lab()
    lab.commit(1)
    lab.commit(2, at=AUDIT)
    lab.delete_topic("ledger", anew=anew)
    assert lab.committed() is None
    assert lab.committed(AUDIT) == 2
    heir = lab.successor()
    assert heir.committed() is None
    keys = [read_key(key) for _, key, value in lab.log if value is None]
    assert keys == [OffsetKey(GROUP, LEDGER)]


@pytest.mark.parametrize("version", [3, 4])
@pytest.mark.parametrize("expires", [-1, FAR_MS])
def test_offsets_of_a_topic_that_was_made_anew_elsewhere(expires: int, version: int) -> None:
    """Its coordinator did not hear of it in time: the next one goes by the topic's id (found by an attack, records were skipped).

    A record of an earlier version has none: it counts for the topic that has the name when it is read.
    """
    lab = Lab()
    has_id, of_ledger = version == 4, lab.topics["ledger"]
    if not has_id:
        del lab.topics["ledger"]
    lab.commit(1, expires=expires)
    lab.commit(2, at=AUDIT)
    lab.topics["ledger"] = b"1" * 16 if has_id else of_ledger
    assert lab.committed() == (None if has_id else 1)
    heir = lab.successor()
    assert heir.committed() == (None if has_id else 1)
    assert heir.coordinator.fetch_offsets(GROUP, None).offsets.keys() >= {AUDIT}
    heir.coordinator.tick(heir.now)
    assert [read_key(key) for _, key, _ in heir.log] == [OffsetKey(GROUP, LEDGER)] * has_id
    heir.topics["ledger"] = b"2" * 16
    assert heir.committed() is None


def test_a_commit_under_way_outlives_the_topic_before() -> None:
    """The tombstone of what was committed in that would come after it."""
    lab = Lab()
    lab.commit(5)
    lab.confirming = False
    del lab.topics["ledger"]
    lab.topics["ledger"] = b"1" * 16
    waiting = lab.commit(1)
    lab.coordinator.topics_deleted(lab.now)
    lab.coordinator.tick(lab.now)
    while lab.under_way:
        lab.confirm()
    assert waiting.answer is ErrorCode.NONE
    assert lab.committed() == 1 == lab.successor().committed()
    waiting = lab.commit(7)
    lab.topics["ledger"] = b"2" * 16
    lab.confirm()
    assert waiting.answer is ErrorCode.NONE
    assert lab.committed() is None is lab.successor().committed()


def test_many_offsets_are_looked_over_some_at_a_time(monkeypatch: pytest.MonkeyPatch) -> None:
    """Others are served in between, and topics that are deleted meanwhile have all looked over once more."""
    monkeypatch.setattr(cleaning, "OFFSETS_MAX", 3)
    lab = Lab()
    where = [TopicPartition("ledger", index) for index in range(4)]
    for group in "abc":
        for at in where:
            lab.commit(1, at=at, group=group)

    def gone() -> list[object]:
        return [read_key(key) for _, key, value in lab.log if value is None]

    lab.delete_topic("ledger")
    seen = [len(gone())]
    lab.topics["audit"] = b"1" * 16
    lab.commit(1, at=AUDIT, group="a")
    lab.delete_topic("audit")
    seen.append(len(gone()))
    while (deadline := lab.coordinator.next_deadline()) is not None and deadline <= lab.seconds:
        lab.coordinator.tick(lab.now)
        seen.append(len(gone()))
    assert seen[0] == 3
    assert all(later - before <= 3 for before, later in pairwise(seen))
    assert {*gone()} == {OffsetKey(group, at) for group in "abc" for at in where} | {OffsetKey("a", AUDIT)}
    assert len(gone()) == 13


@pytest.mark.parametrize("how", ["OffsetDelete", "its topic is deleted"])
def test_a_group_outlives_its_last_offset(how: str) -> None:
    """Until offsets are looked over for their expiry: who cleans up step by step deletes the group next, and is told NONE."""
    lab = Lab()
    for deleted_by_hand in (True, False):
        lab.commit(1)
        if how == "OffsetDelete":
            waiting = Waiting()
            lab.coordinator.delete_offsets(GROUP, [LEDGER], waiting, lab.now)
            assert waiting.answer == (ErrorCode.NONE, {LEDGER: ErrorCode.NONE})
        else:
            lab.delete_topic("ledger")
            lab.topics["ledger"] = b"1" * 16
        assert lab.committed() is None
        assert lab.coordinator.describe_group(GROUP).exists
        if deleted_by_hand:
            answer = lab.delete_group()
            assert answer.answer is ErrorCode.NONE
        else:
            lab.wait(1_000)
        assert not lab.coordinator.describe_group(GROUP).exists


def test_a_group_of_many_offsets_goes_in_several_batches(monkeypatch: pytest.MonkeyPatch) -> None:
    """One of all was too large for a message, so that the group was there for ever (found by an attack)."""
    monkeypatch.setattr(commits, "REMOVED_BYTES_MAX", 700)
    lab = Lab()
    lab.leave(lab.stable_one().member_id)
    where = [TopicPartition("ledger", index) for index in range(6)]
    for at in where:
        lab.commit(1, at=at)
    lab.confirming = False
    answer = lab.delete_group()
    assert len(lab.under_way) == 1, "others are served between two of them"
    lab.confirm()
    lab.commit(2, at=where[5])
    lab.coordinator.tick(lab.now)
    lab.confirm()
    lab.confirm(ErrorCode.NOT_ENOUGH_REPLICAS)
    assert answer.answer is ErrorCode.COORDINATOR_NOT_AVAILABLE
    assert {at: lab.committed(at) for at in where if lab.committed(at)} == {**dict.fromkeys(where[2:5], 1), where[5]: 2}
    lab.confirming = True
    answer = lab.delete_group()
    lab.coordinator.tick(lab.now)
    assert answer.answer is ErrorCode.NONE
    assert lab.successor().state() == "Dead" == lab.state()


def test_what_is_committed_while_a_group_is_being_deleted_stays(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(commits, "REMOVED_BYTES_MAX", 700)
    lab = Lab()
    where = [TopicPartition("ledger", index) for index in range(5)]
    for at in where:
        lab.commit(1, at=at)
    lab.confirming = False
    answer = lab.delete_group()
    lab.confirm()
    lab.commit(2, at=where[2])
    lab.confirm()
    lab.commit(2, at=where[4])
    lab.confirming = True
    lab.coordinator.tick(lab.now)
    lab.coordinator.tick(lab.now)
    assert answer.answer is ErrorCode.NONE
    lab.confirm()
    heir = lab.successor()
    assert {at: heir.committed(at) for at in where} == {at: lab.committed(at) for at in where}
    assert [lab.committed(at) for at in where] == [None, None, 2, None, 2]


def test_who_deletes_again_is_told_when_it_is_replicated() -> None:
    lab = Lab()
    lab.commit(1)
    lab.confirming = False
    answers = [Waiting(), Waiting()]
    for answer in answers:
        lab.coordinator.delete_offsets(GROUP, [LEDGER], answer, lab.now)
    assert not answers[1].answers
    lab.confirm(ErrorCode.NOT_ENOUGH_REPLICAS)
    lab.confirm()
    assert [answer.answer[1][LEDGER] for answer in answers] == [ErrorCode.COORDINATOR_NOT_AVAILABLE, ErrorCode.NONE]


def test_a_removal_that_is_begun_ends_with_the_term(monkeypatch: pytest.MonkeyPatch) -> None:
    """Another coordinator may have taken other commits since."""
    monkeypatch.setattr(commits, "REMOVED_BYTES_MAX", 700)
    lab = Lab()
    for index in range(3):
        lab.commit(1, at=TopicPartition("ledger", index))
    answer = lab.delete_group()
    lab.coordinator.unload(0, lab.now)
    written = len(lab.log)
    lab.coordinator.tick(lab.now)
    assert answer.answer is ErrorCode.NOT_COORDINATOR and len(lab.log) == written


def test_delete_group() -> None:
    """DeleteGroups: Empty groups only, and really gone, also for the next coordinator."""
    lab = Lab()
    alice = lab.stable_one()
    lab.commit(1, alice)
    refused = lab.delete_group()
    assert refused.answer is ErrorCode.NON_EMPTY_GROUP
    lab.leave(alice.member_id)
    gone = lab.delete_group()
    assert gone.answer is ErrorCode.NONE
    assert lab.state() == "Dead"
    assert lab.coordinator.list_groups() == (ErrorCode.NONE, [])
    heir = lab.successor()
    assert heir.state() == "Dead"
    assert heir.committed() is None
    again = lab.delete_group()
    assert again.answer is ErrorCode.GROUP_ID_NOT_FOUND


def test_a_group_that_comes_alive_while_it_is_deleted_stays() -> None:
    """What is written after the tombstone counts."""
    lab = Lab()
    lab.commit(1)
    lab.confirming = False
    gone = lab.delete_group()
    lab.commit(7, at=AUDIT)
    lab.confirm()
    assert gone.answer is ErrorCode.NONE
    lab.confirm()
    assert lab.committed() is None
    assert lab.committed(AUDIT) == 7
    assert lab.successor().committed(AUDIT) == 7


def test_list_and_describe() -> None:
    """ListGroups by state (KIP-518) and type (KIP-848); DescribeGroups shows assignments of Stable groups only."""
    lab = Lab()
    alice = lab.stable_one()
    lab.commit(1, group="simple")
    assert [(g.group_id, g.protocol_type, g.state) for g in lab.coordinator.list_groups()[1]] == [
        (GROUP, "consumer", "Stable"),
        ("simple", "", "Empty"),
    ]
    assert [g.group_id for g in lab.coordinator.list_groups(states=["empty"])[1]] == ["simple"]
    assert len(lab.coordinator.list_groups(types=["CLASSIC"])[1]) == 2
    assert lab.coordinator.list_groups(types=["consumer"])[1] == []
    group = lab.coordinator.describe_group(GROUP)
    assert (group.state, group.protocol) == ("Stable", "range")
    assert group.members[0].assignment == b"all"
    assert group.members[0].metadata == subscription("ledger")
    lab.join(alice.member_id)
    lab.enter("bob")
    group = lab.coordinator.describe_group(GROUP)
    assert group.protocol == ""
    assert group.members[0].assignment == b""


def test_an_offset_that_is_being_written_does_not_expire() -> None:
    """Its tombstone could come after the commit in the log, and take it away."""
    lab = Lab(offsets_retention_minutes=1, offsets_retention_check_interval_ms=30_000, offsets_commit_timeout_ms=10**9)
    lab.commit(1)
    lab.confirming = False
    waiting = lab.commit(2)
    lab.wait(300, every=1000)
    assert len(lab.under_way) == 1
    lab.confirm()
    assert waiting.answer is ErrorCode.NONE
    assert lab.committed() == 2


def test_a_confirmed_write_leaves_no_timer_behind() -> None:
    """Only the search for expired offsets goes on."""
    lab = Lab()
    before = lab.coordinator.next_deadline()
    lab.commit(1)
    assert lab.coordinator.next_deadline() == before


def test_of_many_groups_some_are_shown_and_the_rest_is_a_number() -> None:
    """Clients make groups at will: 300,000 committed offsets, of 7 s of commits, made a page of 84 MB."""
    lab = Lab()
    alice = lab.stable_one()
    lab.commit(1, alice)
    for number in range(3):
        lab.commit(number, group=f"other-{number}")
        lab.commit(number, at=AUDIT, group=f"other-{number}")
    everything, offsets, left_out = lab.coordinator.series(100)
    assert everything == {GROUP: 1, "other-0": 0, "other-1": 0, "other-2": 0}
    assert (len(offsets), left_out) == (7, 0)
    assert ("other-1", *AUDIT, 1) in offsets
    for most in range(11):
        members, offsets, left_out = lab.coordinator.series(most)
        assert len(members) + len(offsets) == most == 11 - left_out, "a member's group is shown before its offsets"


def test_a_group_with_a_long_name_counts_as_often_as_it_is_long() -> None:
    lab = Lab()
    long = "x" * 32_767
    lab.commit(1, group=long)
    lab.commit(1)
    assert lab.coordinator.series(100) == ({GROUP: 0}, [(GROUP, *LEDGER, 1)], 2)
    assert lab.coordinator.series(1_000)[2] == 0
