"""Static membership (KIP-345): an instance that comes back takes its old place."""

from __future__ import annotations

from minikafka.groups.requests import GroupProtocol, JoinResult, MemberIdentity
from minikafka.protocol.errors import ErrorCode

from .dialogue import RANGE, Lab, Waiting, subscription


def static_pair(lab: Lab, **said: object) -> tuple[JoinResult, JoinResult]:
    """Instances `one` (leader) and `two`, stable."""
    first = lab.join(instance="one", **said)  # type: ignore[arg-type]
    lab.tick()
    second = lab.join(instance="two", **said)  # type: ignore[arg-type]
    again = lab.join(first.joined.member_id, instance="one", **said)  # type: ignore[arg-type]
    one, two = again.joined, second.joined
    lab.sync(two, instance="two")
    lab.sync(one, {one.member_id: b"1", two.member_id: b"2"}, instance="one")
    assert lab.state() == "Stable"
    return one, two


def test_a_static_member_gets_its_id_at_once() -> None:
    """No MEMBER_ID_REQUIRED for static members."""
    lab = Lab()
    waiting = lab.join(instance="one")
    lab.tick()
    assert waiting.joined.member_id == "one-#1"
    assert waiting.joined.members[0].group_instance_id == "one"


def test_a_restart_causes_no_rebalance() -> None:
    """Same protocols, group Stable: a new member id for the old assignment."""
    lab = Lab()
    _, two = static_pair(lab)
    back = lab.join(instance="two").joined
    assert back.member_id != two.member_id
    assert back.generation == two.generation
    assert lab.state() == "Stable"
    assert lab.sync(back, instance="two").synced.assignment == b"2"


def test_the_former_self_is_fenced() -> None:
    """FENCED_INSTANCE_ID for whatever the old process still sends."""
    lab = Lab()
    _, two = static_pair(lab)
    lab.join(instance="two")
    assert lab.beat(two, instance="two") is ErrorCode.FENCED_INSTANCE_ID
    assert lab.beat(two) is ErrorCode.UNKNOWN_MEMBER_ID
    assert lab.sync(two, instance="two").error is ErrorCode.FENCED_INSTANCE_ID
    assert lab.commit(5, two, instance="two").answer is ErrorCode.FENCED_INSTANCE_ID
    assert lab.join(two.member_id, instance="two").error is ErrorCode.FENCED_INSTANCE_ID
    assert lab.leave(MemberIdentity(two.member_id, "two")) == [ErrorCode.FENCED_INSTANCE_ID]


def test_a_duplicate_instance_fences_the_one_that_waits() -> None:
    """Two processes with one instance id during a rebalance: the later one stays."""
    lab = Lab()
    one, _ = static_pair(lab)
    waiting = lab.join(one.member_id, instance="one")
    assert waiting.waits
    usurper = lab.join(instance="one")
    assert waiting.error is ErrorCode.FENCED_INSTANCE_ID
    assert usurper.waits


def test_a_returned_leader_skips_the_assignment() -> None:
    """KIP-814, JoinGroup 9: it leads, knows the members, and does not assign."""
    lab = Lab()
    one, _ = static_pair(lab)
    back = lab.join(instance="one").joined
    assert back.leader == back.member_id != one.member_id
    assert back.skip_assignment
    assert len(back.members) == 2


def test_before_version_9_a_returned_leader_is_kept_from_assigning() -> None:
    """It is shown its former id as the leader, so it takes itself for a follower."""
    lab = Lab()
    one, _ = static_pair(lab)
    back = lab.join(instance="one", version=8).joined
    assert back.leader == one.member_id
    assert not back.skip_assignment
    assert back.members == ()


def test_a_return_with_other_protocols_rebalances() -> None:
    """When the chosen protocol would change."""
    lab = Lab()
    both = (GroupProtocol("range", subscription("ledger")), GroupProtocol("sticky", subscription("ledger")))
    static_pair(lab, protocols=both)
    sticky_only = (both[1],)
    assert lab.join(instance="two", protocols=sticky_only).waits
    assert lab.state() == "PreparingRebalance"


def test_a_return_while_the_leader_assigns_rebalances() -> None:
    """The assignment would go to the old member id."""
    lab = Lab()
    one, two = static_pair(lab)
    waiting = lab.join(one.member_id, instance="one")
    lab.join(two.member_id, instance="two")
    assert lab.state() == "CompletingRebalance"
    assert waiting.joined.generation == 3
    back = lab.join(instance="two")
    assert lab.state() == "PreparingRebalance"
    assert lab.join(one.member_id, instance="one").joined.generation == back.joined.generation == 4


def test_static_members_outlive_the_rebalance_timeout() -> None:
    """They are not removed for missing a rebalance, only for the session timeout; another member leads meanwhile."""
    lab = Lab()
    one, two = static_pair(lab, session=300_000, rebalance=10_000)
    waiting = lab.enter("dynamic", session=300_000, rebalance=10_000)
    lab.join(two.member_id, instance="two", session=300_000, rebalance=10_000)
    lab.wait(10.1)
    assert waiting.joined.leader == two.member_id
    assert lab.beat(one, instance="one", generation=waiting.joined.generation) is ErrorCode.NONE


def test_when_no_static_member_comes_back_the_rebalance_waits_for_their_sessions() -> None:
    """`maybeElectNewJoinedLeader`: without anybody there is no next generation."""
    lab = Lab()
    one, two = static_pair(lab, session=25_000, rebalance=10_000)
    dynamic = lab.enter("dynamic", rebalance=10_000)
    assert dynamic.waits
    lab.leave("dynamic-#3")
    assert lab.state() == "PreparingRebalance"
    lab.wait(24)
    assert lab.state() == "PreparingRebalance"
    lab.wait(2)
    assert lab.state() == "Empty"
    assert lab.beat(one, instance="one") is ErrorCode.UNKNOWN_MEMBER_ID
    assert lab.beat(two, instance="two") is ErrorCode.UNKNOWN_MEMBER_ID


def test_a_tool_removes_a_static_member_by_its_name() -> None:
    """LeaveGroup 3 and up with the instance id alone."""
    lab = Lab()
    one, two = static_pair(lab)
    assert lab.leave(MemberIdentity("", "two"), MemberIdentity("", "three")) == [
        ErrorCode.NONE,
        ErrorCode.UNKNOWN_MEMBER_ID,
    ]
    assert lab.beat(two, instance="two") is ErrorCode.UNKNOWN_MEMBER_ID
    assert lab.beat(one, instance="one") is ErrorCode.REBALANCE_IN_PROGRESS


def test_a_return_that_cannot_be_stored_is_undone() -> None:
    """The old member id stays valid, the new one was never told."""
    lab = Lab()
    _, two = static_pair(lab)
    lab.confirming = False
    back = lab.join(instance="two")
    assert back.waits
    lab.confirm(ErrorCode.NOT_ENOUGH_REPLICAS)
    assert back.error is ErrorCode.COORDINATOR_NOT_AVAILABLE
    assert lab.beat(two, instance="two") is ErrorCode.NONE


def test_a_return_that_is_overtaken_by_a_rebalance_waits_for_it() -> None:
    """Its join counts for the new generation."""
    lab = Lab()
    one, _ = static_pair(lab)
    lab.confirming = False
    back = lab.join(instance="two")
    newcomer = lab.enter("dynamic")
    lab.confirm()
    assert back.waits
    lab.join(one.member_id, instance="one")
    assert back.joined.generation == newcomer.joined.generation == 3


def test_a_returned_member_that_falls_silent_is_removed() -> None:
    """Its session starts anew when it is let back in."""
    lab = Lab()
    one, _ = static_pair(lab)
    back = lab.join(instance="two").joined
    lab.wait(9, meanwhile=lambda: lab.beat(one, instance="one"))
    assert lab.beat(one, instance="one") is ErrorCode.NONE
    lab.wait(2, meanwhile=lambda: lab.beat(one, instance="one"))
    assert lab.beat(back, instance="two") is ErrorCode.UNKNOWN_MEMBER_ID


def test_static_members_survive_the_coordinator() -> None:
    """The instance id is in the record (GroupMetadataValue v3)."""
    lab = Lab()
    _, two = static_pair(lab)
    heir = lab.successor()
    assert heir.beat(two, instance="two") is ErrorCode.NONE
    back: Waiting = heir.join(instance="two", protocols=RANGE)
    assert heir.sync(back.joined, instance="two").synced.assignment == b"2"


def test_a_second_return_is_not_undone_with_the_first() -> None:
    """The first return could not be stored, but its instance has come back once more since."""
    lab = Lab()
    _, two = static_pair(lab)
    lab.confirming = False
    first = lab.join(instance="two")
    second = lab.join(instance="two")
    assert first.error is ErrorCode.FENCED_INSTANCE_ID
    lab.confirm(ErrorCode.NOT_ENOUGH_REPLICAS)
    assert second.waits
    lab.confirm()
    assert lab.beat(second.joined, instance="two") is ErrorCode.NONE
    assert lab.beat(two, instance="two") is ErrorCode.FENCED_INSTANCE_ID


def test_a_return_that_takes_longer_than_the_session() -> None:
    """Its session starts when it is answered."""
    lab = Lab(offsets_commit_timeout_ms=60_000)
    one, _ = static_pair(lab)
    lab.confirming = False
    back = lab.join(instance="two")
    lab.wait(20, meanwhile=lambda: lab.beat(one, instance="one"))
    lab.confirm()
    assert lab.beat(one, instance="one") is ErrorCode.NONE
    assert back.joined
    lab.wait(11, meanwhile=lambda: lab.beat(one, instance="one"))
    assert lab.beat(one, instance="one") is ErrorCode.REBALANCE_IN_PROGRESS


def test_a_returned_member_still_owes_its_sync() -> None:
    """KAFKA-12890 under a new member id."""
    lab = Lab()
    one, two = static_pair(lab)
    waiting = lab.join(one.member_id, instance="one")
    lab.join(two.member_id, instance="two")
    one = waiting.joined
    lab.sync(one, {}, instance="one")
    back = lab.join(instance="two").joined
    assert lab.state() == "Stable"
    lab.wait(61, meanwhile=lambda: (lab.beat(one, instance="one"), lab.beat(back, instance="two")))
    assert lab.beat(back, instance="two") is ErrorCode.UNKNOWN_MEMBER_ID
