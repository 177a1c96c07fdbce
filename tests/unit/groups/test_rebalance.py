"""The rebalance protocol with dynamic members."""

from __future__ import annotations

import pytest
from minikafka.groups.requests import GroupProtocol, MemberIdentity
from minikafka.groups.states import TRANSITIONS, GroupState
from minikafka.protocol.errors import ErrorCode

from .dialogue import GROUP, RANGE, Lab, subscription

ROUND_ROBIN = GroupProtocol("roundrobin", subscription("ledger"))


def test_two_members_join_and_share_the_work() -> None:
    """The whole dance: id, join, second member, rejoin, sync."""
    lab = Lab()
    first = lab.join()
    assert first.error is ErrorCode.MEMBER_ID_REQUIRED
    assert first.answer.member_id == "alice-#1"
    again = lab.join("alice-#1")
    lab.tick()
    alice = again.joined
    assert (alice.generation, alice.leader, alice.protocol_name) == (1, "alice-#1", "range")
    assert [m.member_id for m in alice.members] == ["alice-#1"]
    assert lab.state() == "CompletingRebalance"
    assert lab.sync(alice, {alice.member_id: b"all"}).synced.assignment == b"all"
    assert lab.beat(alice) is ErrorCode.NONE

    second = lab.enter("bob")
    assert second.waits
    assert lab.beat(alice) is ErrorCode.REBALANCE_IN_PROGRESS
    alice = lab.join(alice.member_id).joined
    bob = second.joined
    assert alice.generation == bob.generation == 2
    assert {m.member_id for m in alice.members} == {"alice-#1", "bob-#2"}
    assert bob.members == ()  # only the leader assigns
    waiting = lab.sync(bob)
    assert waiting.waits
    assert lab.sync(alice, {alice.member_id: b"A", bob.member_id: b"B"}).synced.assignment == b"A"
    assert waiting.synced.assignment == b"B"
    assert lab.rebalances == [(GROUP, 1, 1, "a member joined"), (GROUP, 2, 2, "a member joined")]


def test_old_clients_join_without_being_given_an_id_first() -> None:
    """KIP-394 is for JoinGroup 4 and up."""
    lab = Lab()
    waiting = lab.join(version=3)
    lab.tick()
    assert waiting.joined.member_id == "alice-#1"


def test_initial_rebalance_waits_for_more_members() -> None:
    """KIP-134: group.initial.rebalance.delay.ms, prolonged by each newcomer, never past the rebalance timeout."""
    lab = Lab(group_initial_rebalance_delay_ms=3000)
    first = lab.enter("alice", rebalance=7_000)
    lab.wait(2)
    second = lab.enter("bob", rebalance=7_000)
    lab.wait(2)
    assert first.waits
    third = lab.enter("carol", rebalance=7_000)
    lab.wait(2.5)
    assert first.waits
    lab.wait(0.6)  # seven seconds after the first one
    assert first.joined.generation == second.joined.generation == third.joined.generation == 1
    assert len(first.joined.members) == 3


def test_initial_rebalance_ends_after_one_quiet_delay() -> None:
    """KIP-134."""
    lab = Lab(group_initial_rebalance_delay_ms=3000)
    first = lab.enter()
    lab.wait(2.9)
    assert first.waits
    lab.wait(0.2)
    assert first.joined.generation == 1


def test_the_member_that_does_not_come_back_is_left_out() -> None:
    """The rebalance timeout, not the session, limits how long everybody waits."""
    lab = Lab()
    alice, bob = lab.stable_pair()
    third = lab.enter("carol", session=30_000)
    lab.join(alice.member_id)
    lab.wait(59, meanwhile=lambda: lab.beat(bob))  # bob lives, but does not join
    assert third.waits
    lab.wait(1.1)
    assert third.joined.generation == 3
    assert lab.beat(bob) is ErrorCode.UNKNOWN_MEMBER_ID
    assert lab.join(bob.member_id).error is ErrorCode.UNKNOWN_MEMBER_ID


def test_a_silent_member_is_removed_and_the_others_rebalance() -> None:
    """session.timeout.ms."""
    lab = Lab()
    alice, bob = lab.stable_pair()
    seen: set[ErrorCode] = set()
    lab.wait(11, meanwhile=lambda: seen.add(lab.beat(alice)))
    assert seen == {ErrorCode.NONE, ErrorCode.REBALANCE_IN_PROGRESS}
    again = lab.join(alice.member_id)
    assert [m.member_id for m in again.joined.members] == [alice.member_id]
    assert lab.beat(bob) is ErrorCode.UNKNOWN_MEMBER_ID
    assert lab.rebalances[-1] == (GROUP, 3, 1, "a member went silent")


def test_waiting_for_others_is_not_silence() -> None:
    """A member whose join or sync waits here cannot heartbeat, and must not be expired for it."""
    lab = Lab()
    alice, bob = lab.stable_pair()
    third = lab.enter("carol")
    waiting = lab.join(alice.member_id, session=10_000)
    lab.wait(25, meanwhile=lambda: lab.beat(bob))
    assert waiting.waits
    bob = lab.join(bob.member_id, client="bob").joined
    assert waiting.joined.generation == 3
    synced = lab.sync(bob)
    lab.wait(9)
    assert lab.beat(waiting.joined) is ErrorCode.NONE
    assert lab.beat(third.joined) is ErrorCode.NONE
    lab.wait(9)
    assert synced.waits
    lab.sync(waiting.joined, {bob.member_id: b"B"})
    assert synced.synced.assignment == b"B"


def test_a_new_member_that_gave_up_does_not_hold_the_rebalance_for_ever() -> None:
    """Kafka's NewMemberJoinTimeoutMs: five minutes."""
    lab = Lab()
    lone = lab.stable_one(session=1_800_000, rebalance=1_800_000)
    newcomer = lab.enter("bob", rebalance=1_800_000)
    lab.wait(299, meanwhile=lambda: lab.beat(lone), every=5)
    assert newcomer.waits
    lab.wait(2)
    assert newcomer.error is ErrorCode.UNKNOWN_MEMBER_ID


def test_an_id_that_nobody_came_back_with_expires() -> None:
    """KIP-394: pending members hold the rebalance up until their session timeout."""
    lab = Lab()
    alice = lab.stable_one()
    lab.join(client="ghost")  # MEMBER_ID_REQUIRED, never seen again
    waiting = lab.join(alice.member_id)  # the leader forces a rebalance
    assert waiting.waits
    lab.wait(10.1)
    assert waiting.joined.generation == 2


def test_the_leader_may_rejoin_to_force_a_rebalance_and_a_follower_may_not() -> None:
    """Leaders rejoin when the partitions of a topic change; a follower's retry gets the current generation."""
    lab = Lab()
    alice, bob = lab.stable_pair()
    assert lab.join(bob.member_id, client="bob").joined.generation == 2
    assert lab.state() == "Stable"
    waiting = lab.join(alice.member_id)
    assert waiting.waits
    assert lab.state() == "PreparingRebalance"
    lab.join(bob.member_id, client="bob")
    assert waiting.joined.generation == 3
    assert lab.rebalances[-1][3] == "the leader joined again"


def test_a_follower_with_new_metadata_forces_a_rebalance() -> None:
    """A changed subscription."""
    lab = Lab()
    _, bob = lab.stable_pair()
    changed = (GroupProtocol("range", subscription("ledger", "audit")),)
    assert lab.join(bob.member_id, client="bob", protocols=changed).waits
    assert lab.state() == "PreparingRebalance"


def test_lost_join_answer_is_given_again() -> None:
    """CompletingRebalance and unchanged metadata: the same answer, no new rebalance."""
    lab = Lab()
    waiting = lab.enter()
    lab.tick()
    again = lab.join(waiting.joined.member_id)
    assert again.joined == waiting.joined


def test_a_join_during_completion_starts_over() -> None:
    """Who waits for the assignment is told to join again."""
    lab = Lab()
    first = lab.enter()
    lab.tick()
    alice = first.joined
    second = lab.enter("bob")
    alice = lab.join(alice.member_id).joined
    bob = second.joined
    waiting = lab.sync(bob)
    lab.enter("carol")
    assert waiting.error is ErrorCode.REBALANCE_IN_PROGRESS
    assert lab.sync(alice, {}).error is ErrorCode.REBALANCE_IN_PROGRESS


def test_the_protocol_is_voted_for() -> None:
    """Each member votes for the first of its protocols that everybody knows."""
    lab = Lab(group_initial_rebalance_delay_ms=1000)
    sticky, range_ = GroupProtocol("sticky", b"s"), RANGE[0]
    one = lab.enter("a", protocols=(sticky, range_, ROUND_ROBIN))
    two = lab.enter("b", protocols=(ROUND_ROBIN, range_))
    three = lab.enter("c", protocols=(range_, ROUND_ROBIN))
    lab.wait(3)
    assert one.joined.protocol_name == "range"  # sticky is not known to all; range: a and c, roundrobin: b
    assert two.joined.generation == three.joined.generation == 1


def test_protocols_that_fit_nobody_are_refused() -> None:
    """INCONSISTENT_GROUP_PROTOCOL."""
    lab = Lab()
    lab.stable_one()
    assert lab.join(protocols=(GroupProtocol("sticky", b""),)).error is ErrorCode.INCONSISTENT_GROUP_PROTOCOL
    assert lab.join(protocol_type="connect").error is ErrorCode.INCONSISTENT_GROUP_PROTOCOL
    assert lab.join(group="other", protocols=()).error is ErrorCode.INCONSISTENT_GROUP_PROTOCOL
    assert lab.join(group="other", protocol_type="").error is ErrorCode.INCONSISTENT_GROUP_PROTOCOL


def test_sync_checks_generation_and_protocol() -> None:
    """ILLEGAL_GENERATION, UNKNOWN_MEMBER_ID, INCONSISTENT_GROUP_PROTOCOL (KIP-559)."""
    lab = Lab()
    alice = lab.stable_one()
    assert lab.sync(alice, generation=7).error is ErrorCode.ILLEGAL_GENERATION
    assert lab.sync(alice, member_id="nobody").error is ErrorCode.UNKNOWN_MEMBER_ID
    assert lab.sync(alice, protocol_name="sticky").error is ErrorCode.INCONSISTENT_GROUP_PROTOCOL
    assert lab.sync(alice, protocol_type="connect").error is ErrorCode.INCONSISTENT_GROUP_PROTOCOL
    assert lab.sync(alice, group="other").error is ErrorCode.UNKNOWN_MEMBER_ID
    assert lab.sync(alice, protocol_type=None, protocol_name=None).synced.assignment == b"all"


def test_heartbeat_checks() -> None:
    """UNKNOWN_MEMBER_ID and ILLEGAL_GENERATION."""
    lab = Lab()
    alice = lab.stable_one()
    assert lab.beat(alice, generation=alice.generation + 1) is ErrorCode.ILLEGAL_GENERATION
    assert lab.beat(alice._replace(member_id="nobody")) is ErrorCode.UNKNOWN_MEMBER_ID
    assert lab.coordinator.heartbeat("other", "x", None, 1, lab.now) is ErrorCode.UNKNOWN_MEMBER_ID


def test_members_that_never_fetch_their_assignment_are_removed() -> None:
    """KAFKA-12890: a member that joined and does not sync within the rebalance timeout is out, though it heartbeats."""
    lab = Lab()
    alice, bob = lab.stable_pair()
    lab.join(alice.member_id)
    bob = lab.join(bob.member_id, client="bob").joined
    lab.wait(59, meanwhile=lambda: (lab.beat(bob), lab.beat(alice, generation=bob.generation)))
    assert lab.beat(bob) is ErrorCode.NONE
    lab.wait(1.5)
    assert lab.beat(bob) is ErrorCode.UNKNOWN_MEMBER_ID
    assert lab.state() == "Empty"


def test_a_follower_that_does_not_sync_is_removed_from_a_stable_group() -> None:
    """KAFKA-12890, after the leader has assigned."""
    lab = Lab()
    alice, bob = lab.stable_pair()
    waiting = lab.join(alice.member_id)
    bob = lab.join(bob.member_id, client="bob").joined
    lab.sync(waiting.joined, {})
    lab.wait(61, meanwhile=lambda: (lab.beat(bob), lab.beat(waiting.joined)))
    assert lab.beat(bob) is ErrorCode.UNKNOWN_MEMBER_ID
    assert lab.beat(waiting.joined) is ErrorCode.REBALANCE_IN_PROGRESS


def test_leaving_at_once_starts_a_rebalance() -> None:
    """LeaveGroup; several at a time since KIP-345."""
    lab = Lab()
    alice, bob = lab.stable_pair()
    assert lab.leave(bob.member_id, "nobody") == [ErrorCode.NONE, ErrorCode.UNKNOWN_MEMBER_ID]
    assert lab.beat(alice) is ErrorCode.REBALANCE_IN_PROGRESS
    assert lab.leave(alice.member_id) == [ErrorCode.NONE]
    assert lab.state() == "Empty"
    assert lab.rebalances[-1] == (GROUP, 3, 0, "a member left")


def test_a_pending_member_can_leave() -> None:
    """KIP-394: nobody waits for it then."""
    lab = Lab()
    alice = lab.stable_one()
    pending = lab.join(client="bob").answer.member_id
    waiting = lab.join(alice.member_id)
    assert waiting.waits
    assert lab.leave(pending) == [ErrorCode.NONE]
    assert waiting.joined.generation == 2


def test_the_leader_leaves_while_its_assignment_is_written() -> None:
    """The generation is over; the late confirmation changes nothing."""
    lab = Lab(confirming=False)
    first = lab.enter()
    lab.tick()
    alice = first.joined
    waiting = lab.sync(alice, {alice.member_id: b"all"})
    assert waiting.waits
    second = lab.enter("bob")
    assert waiting.error is ErrorCode.REBALANCE_IN_PROGRESS
    lab.leave(alice.member_id)
    assert second.joined.leader == second.joined.member_id
    lab.confirm()
    assert lab.state() == "CompletingRebalance"


@pytest.mark.parametrize(
    ("append_error", "answer"),
    [
        (ErrorCode.NOT_ENOUGH_REPLICAS, ErrorCode.COORDINATOR_NOT_AVAILABLE),
        (ErrorCode.NOT_ENOUGH_REPLICAS_AFTER_APPEND, ErrorCode.COORDINATOR_NOT_AVAILABLE),
        (ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, ErrorCode.COORDINATOR_NOT_AVAILABLE),
        (ErrorCode.NOT_LEADER_OR_FOLLOWER, ErrorCode.NOT_COORDINATOR),
        (ErrorCode.KAFKA_STORAGE_ERROR, ErrorCode.NOT_COORDINATOR),
        (ErrorCode.REQUEST_TIMED_OUT, ErrorCode.REBALANCE_IN_PROGRESS),
        (ErrorCode.MESSAGE_TOO_LARGE, ErrorCode.UNKNOWN_SERVER_ERROR),
    ],
)
def test_an_assignment_that_cannot_be_stored_is_not_handed_out(append_error: ErrorCode, answer: ErrorCode) -> None:
    """Kafka's appendGroupMetadataErrorToResponseError; then everybody joins again."""
    lab = Lab(confirming=False)
    first = lab.enter()
    lab.tick()
    waiting = lab.sync(first.joined, {first.joined.member_id: b"all"})
    lab.confirm(append_error)
    assert waiting.error is answer
    assert lab.state() == "PreparingRebalance"


def test_a_write_that_hangs_is_given_up() -> None:
    """offsets.commit.timeout.ms."""
    lab = Lab(confirming=False)
    first = lab.enter()
    lab.tick()
    waiting = lab.sync(first.joined, {})
    lab.wait(4.9)
    assert waiting.waits
    lab.wait(0.2)
    assert waiting.error is ErrorCode.REBALANCE_IN_PROGRESS
    lab.confirm()  # late; that generation is over
    assert lab.state() == "PreparingRebalance"


def test_group_max_size() -> None:
    """KIP-389."""
    lab = Lab(group_max_size=2)
    alice, bob = lab.stable_pair()
    assert lab.join(client="carol").error is ErrorCode.GROUP_MAX_SIZE_REACHED
    assert lab.beat(alice) is ErrorCode.NONE
    lab.leave(bob.member_id)
    assert lab.enter("carol").waits


def test_what_cannot_join() -> None:
    """group.min.session.timeout.ms, group.max.session.timeout.ms; groups need a name to have members.

    A long name closed the connection of whoever listed groups by a version that has no room for it.
    """
    lab = Lab()
    assert lab.join(session=5_999).error is ErrorCode.INVALID_SESSION_TIMEOUT
    assert lab.join(session=1_800_001).error is ErrorCode.INVALID_SESSION_TIMEOUT
    assert lab.join(group="").error is ErrorCode.INVALID_GROUP_ID
    long = "x" * 40_000
    assert lab.join(group=long).error is ErrorCode.INVALID_GROUP_ID
    assert lab.join(protocol_type=long).error is ErrorCode.INVALID_REQUEST
    assert lab.join(instance=long).error is ErrorCode.INVALID_REQUEST
    assert lab.join(protocols=(GroupProtocol(long, b""),)).error is ErrorCode.INVALID_REQUEST


def test_what_members_say_is_bounded() -> None:
    """20 MB of each of 21 groups were kept for half an hour, though its client had gone (found by an attack)."""
    lab = Lab()
    half = bytes(600_000)
    large = (GroupProtocol("range", half), GroupProtocol("roundrobin", half))
    assert lab.join(protocols=large).error is ErrorCode.INVALID_REQUEST
    named = tuple(GroupProtocol(f"{number:030000}", b"") for number in range(40))
    assert lab.join(protocols=named).error is ErrorCode.INVALID_REQUEST
    assert not len(lab.coordinator)
    assert lab.join(protocols=large[:1]).error is ErrorCode.MEMBER_ID_REQUIRED
    assert lab.join("somebody").error is ErrorCode.UNKNOWN_MEMBER_ID


def test_a_client_that_asks_again_is_answered_once_each() -> None:
    """A request that a newer one of the same member replaces is answered, not forgotten."""
    lab = Lab()
    alice, _ = lab.stable_pair()
    first = lab.join(alice.member_id)
    second = lab.join(alice.member_id)
    assert first.error is ErrorCode.REBALANCE_IN_PROGRESS
    assert second.waits


def test_transitions_are_a_closed_table() -> None:
    """Every state has its row; nothing follows Dead."""
    assert set(TRANSITIONS) == set(GroupState)
    assert not TRANSITIONS[GroupState.DEAD]


def test_leave_by_an_unknown_instance_id() -> None:
    """KIP-345: administrative removal names static members only."""
    lab = Lab()
    lab.stable_one()
    assert lab.leave(MemberIdentity("", "nobody")) == [ErrorCode.UNKNOWN_MEMBER_ID]
    assert lab.leave(MemberIdentity("")) == [ErrorCode.UNKNOWN_MEMBER_ID]


def test_a_follower_whose_session_ended_while_it_waited_gets_a_new_one() -> None:
    """The assignment starts it: a member that falls silent right after is found out."""
    lab = Lab()
    alice, bob = lab.stable_pair()
    waiting = lab.join(alice.member_id)
    bob = lab.join(bob.member_id, client="bob").joined
    alice = waiting.joined
    synced = lab.sync(bob)
    lab.wait(15, meanwhile=lambda: lab.beat(alice))
    lab.sync(alice, {})
    assert synced.synced.assignment == b""
    lab.wait(9, meanwhile=lambda: lab.beat(alice))
    assert lab.beat(alice) is ErrorCode.NONE
    lab.wait(2, meanwhile=lambda: lab.beat(alice))
    assert lab.beat(alice) is ErrorCode.REBALANCE_IN_PROGRESS


def test_a_leader_that_repeats_its_assignment_writes_it_once() -> None:
    """The first word of a generation counts."""
    lab = Lab(confirming=False)
    first = lab.enter()
    lab.tick()
    alice = first.joined
    lost = lab.sync(alice, {alice.member_id: b"first"})
    again = lab.sync(alice, {alice.member_id: b"second"})
    assert len(lab.log) == 1
    assert lost.error is ErrorCode.REBALANCE_IN_PROGRESS
    lab.confirm()
    assert again.synced.assignment == b"first"
