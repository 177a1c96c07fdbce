"""The coordinator moves: what the next one knows, and what everybody is told meanwhile."""

from __future__ import annotations

from hypothesis import given, settings
from hypothesis import strategies as st
from minikafka.groups.placement import java_string_hash, partition_for
from minikafka.protocol.errors import ErrorCode
from minikafka.protocol.types import TopicPartition

from .dialogue import GROUP, LEDGER, Lab, subscription


def test_members_go_on_with_the_next_coordinator() -> None:
    """Same members, generation and assignment; heartbeats and commits go on, nobody rebalances."""
    lab = Lab()
    alice, bob = lab.stable_pair()
    lab.commit(5, alice)
    heir = lab.successor()
    assert heir.state() == "Stable"
    assert heir.beat(alice) is heir.beat(bob) is ErrorCode.NONE
    assert heir.committed() == 5
    assert heir.commit(6, bob).answer is ErrorCode.NONE
    group = heir.coordinator.describe_group(GROUP)
    assert [(m.client_id, m.client_host, m.assignment) for m in group.members] == [
        ("alice", "/127.0.0.1", b"A"),
        ("bob", "/127.0.0.1", b"B"),
    ]
    assert group.members[0].metadata == subscription("ledger")


def test_members_that_died_with_the_old_coordinator_expire_at_the_new_one() -> None:
    """Loading starts their sessions."""
    lab = Lab()
    alice, bob = lab.stable_pair()
    heir = lab.successor()
    heir.wait(11, meanwhile=lambda: heir.beat(alice))
    assert heir.beat(bob) is ErrorCode.UNKNOWN_MEMBER_ID
    assert heir.beat(alice) is ErrorCode.REBALANCE_IN_PROGRESS


def test_an_unfinished_rebalance_is_forgotten() -> None:
    """Only assigned generations are in the log: members of the new one have to start over."""
    lab = Lab()
    alice = lab.stable_one()
    lab.enter("bob")
    alice2 = lab.join(alice.member_id).joined
    heir = lab.successor()
    assert heir.beat(alice2) is ErrorCode.ILLEGAL_GENERATION
    assert heir.beat(alice) is ErrorCode.NONE
    assert heir.sync(alice2).error is ErrorCode.ILLEGAL_GENERATION


def test_while_loading() -> None:
    """COORDINATOR_LOAD_IN_PROGRESS; heartbeats are humoured, syncs are told to join again."""
    lab = Lab()
    alice = lab.stable_one()
    heir = Lab(load=False)
    replay = heir.coordinator.start_loading(0)
    assert heir.join().error is ErrorCode.COORDINATOR_LOAD_IN_PROGRESS
    assert heir.beat(alice) is ErrorCode.NONE
    assert heir.sync(alice).error is ErrorCode.REBALANCE_IN_PROGRESS
    assert heir.commit(5, alice).answer is ErrorCode.COORDINATOR_LOAD_IN_PROGRESS
    assert heir.coordinator.fetch_offsets(GROUP, None).error is ErrorCode.COORDINATOR_LOAD_IN_PROGRESS
    assert heir.coordinator.leave(GROUP, [], heir.now).error is ErrorCode.COORDINATOR_LOAD_IN_PROGRESS
    assert heir.coordinator.describe_group(GROUP).error is ErrorCode.COORDINATOR_LOAD_IN_PROGRESS
    assert heir.coordinator.list_groups()[0] is ErrorCode.COORDINATOR_LOAD_IN_PROGRESS
    for record in lab.records():
        replay.add(*record)
    heir.coordinator.finish_loading(0, replay, heir.now)
    assert heir.state() == "Stable"


def test_groups_of_other_partitions_are_somebody_elses() -> None:
    """NOT_COORDINATOR."""
    lab = Lab(load=False, partitions=50)
    lab.coordinator.load(partition_for("mine", 50), (), lab.now)
    other = next(f"g{n}" for n in range(100) if partition_for(f"g{n}", 50) != partition_for("mine", 50))
    assert lab.join(group="mine").error is ErrorCode.MEMBER_ID_REQUIRED
    assert lab.join(group=other).error is ErrorCode.NOT_COORDINATOR
    assert lab.commit(1, group=other).answer is ErrorCode.NOT_COORDINATOR
    assert lab.coordinator.fetch_offsets(other, [LEDGER]).error is ErrorCode.NOT_COORDINATOR
    gone = lab.delete_group(other)
    assert gone.answer is ErrorCode.NOT_COORDINATOR


def test_losing_leadership_answers_everybody_who_waits() -> None:
    """Joins, syncs and commits alike: NOT_COORDINATOR, find the new one."""
    lab = Lab(confirming=False)
    first = lab.enter()
    lab.tick()
    synced = lab.sync(first.joined, {})
    commit = lab.commit(1, group="simple")
    joining = lab.enter(group="second")
    lab.coordinator.unload(0, lab.now)
    assert synced.error is ErrorCode.NOT_COORDINATOR
    assert joining.error is ErrorCode.NOT_COORDINATOR
    assert commit.answer is ErrorCode.NOT_COORDINATOR
    assert lab.beat(first.joined) is ErrorCode.NOT_COORDINATOR
    lab.confirm()  # the old log's late word
    lab.confirm(ErrorCode.NOT_LEADER_OR_FOLLOWER)
    lab.wait(4000, every=5000)  # and no timer is left to stumble over
    assert lab.coordinator.list_groups() == (ErrorCode.NONE, [])


def test_a_partition_given_up_while_loading_stays_given_up() -> None:
    """The end of the load comes after the end of the term."""
    lab = Lab()
    lab.commit(1)
    heir = Lab(load=False)
    replay = heir.coordinator.start_loading(0)
    heir.coordinator.unload(0, heir.now)
    heir.coordinator.finish_loading(0, replay, heir.now)
    assert heir.join().error is ErrorCode.NOT_COORDINATOR


def test_there_and_back_again() -> None:
    """Leader, follower, leader: the log is the only memory."""
    lab = Lab()
    alice = lab.stable_one()
    lab.commit(1, alice)
    log = lab.records()
    lab.coordinator.unload(0, lab.now)
    lab.coordinator.load(0, log, lab.now)
    assert lab.beat(alice) is ErrorCode.NONE
    assert lab.committed() == 1


def test_a_loaded_group_above_the_limit_rebalances() -> None:
    """KIP-389: group.max.size was lowered; the last to come back are left out."""
    lab = Lab()
    alice, bob = lab.stable_pair()
    heir = lab.successor(group_max_size=1)
    assert heir.beat(alice) is ErrorCode.REBALANCE_IN_PROGRESS
    assert heir.join(alice.member_id).waits
    assert heir.join(bob.member_id, client="bob").error is ErrorCode.GROUP_MAX_SIZE_REACHED
    assert heir.state() == "CompletingRebalance"


def test_records_that_cannot_be_read_are_passed_over_and_reported() -> None:
    """One bad record does not cost the others; records of newer protocols (KIP-848 keys) are not ours."""
    lab = Lab()
    lab.commit(1)
    (_, key, value), *_ = lab.records()
    heir = Lab(load=False)
    rows = [(0, None, b"x"), (1, key, b"\0\x63"), (2, b"\0\1\0", b""), (3, b"\0\7\0\0", b"new"), (4, key, value)]
    replay = heir.coordinator.load(0, rows, heir.now)
    assert [offset for offset, _ in replay.malformed] == [0, 1, 2]
    assert heir.committed() == 1


def test_partition_of_a_group_is_javas() -> None:
    """String.hashCode over UTF-16 units, Utils.abs; numbers printed by Java 17."""
    assert java_string_hash("") == 0
    assert java_string_hash("bank") == 3_016_252
    assert java_string_hash("gruppe-ü") == 673_522_922
    assert java_string_hash("\U0001f600") == 1_772_899
    assert java_string_hash("test-consumer-group") == -1_793_216_381
    assert partition_for("test-consumer-group", 50) == 31
    assert java_string_hash("polygenelubricants") == -(1 << 31)
    assert partition_for("polygenelubricants", 50) == 0


committing = st.lists(
    st.tuples(
        st.sampled_from(["one", "two", "drei"]),
        st.sampled_from(["ledger", "audit"]),
        st.integers(0, 2),
        st.one_of(st.none(), st.integers(0, 2**62)),
        st.integers(-1, 2**31 - 1),
        st.text(max_size=20),
        st.sampled_from(["confirm", "fail", "later"]),
    ),
    max_size=25,
)


@settings(max_examples=100, deadline=None)
@given(committing)
def test_committed_offsets_survive_reload(steps: list[tuple[str, str, int, int | None, int, str, str]]) -> None:
    """Whatever is committed, deleted, refused or confirmed late: the next coordinator sees what this one shows.

    A refused append left nothing in the log here; one whose outcome is open is confirmed at the end.
    """
    lab = Lab(confirming=False)
    refused: list[int] = []
    for group, topic, index, offset, epoch, metadata, fate in steps:
        at = TopicPartition(topic, index)
        before = len(lab.log)
        if offset is None:
            lab.coordinator.delete_offsets(group, [at], lambda *_: None, lab.now)
        else:
            lab.commit(offset, at=at, group=group, epoch=epoch, metadata=metadata)
        if len(lab.log) == before or fate == "later":
            continue
        done = lab.under_way.pop()
        if fate == "fail":
            refused += range(before, len(lab.log))
            done(ErrorCode.NOT_ENOUGH_REPLICAS, lab.now)
        else:
            done(ErrorCode.NONE, lab.now)
    for done in reversed(lab.under_way):
        done(ErrorCode.NONE, lab.now)
    lab.log = [row for number, row in enumerate(lab.log) if number not in refused]
    heir = lab.successor()
    for group in ("one", "two", "drei"):
        mine = lab.coordinator.fetch_offsets(group, None).offsets
        assert heir.coordinator.fetch_offsets(group, None).offsets == mine
